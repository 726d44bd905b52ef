// The rules of --global-attention.
#include "fuzzing.h"
#include "longformer/model.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longformer;
  fuzzing::expect_result_or_error([&] { GlobalAttention::parse(fuzzing::text_of(data, size)); });
  return 0;
}
