// The pickle reader, on pickles alone.
#include "formats/pickle.h"

#include "formats/torch_names.h"
#include "fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longformer;
  constexpr std::string_view kNames[] = {
      formats::kOrderedDictionary, formats::kRebuildTensor2, formats::kRebuildParameter,
      formats::storage_name(DType::f32), formats::storage_name(DType::i64)};
  fuzzing::expect_result_or_error([&] {
    const formats::PickleLimits limits = {.names = kNames, .objects = 20'000};
    const formats::Pickle pickle =
        formats::read_pickle(std::as_bytes(std::span(data, size)), limits, "input");
    for (const auto& object : pickle.objects) formats::described(object);
  });
  return 0;
}
