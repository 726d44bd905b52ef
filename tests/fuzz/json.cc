// JSON of any kind, and taking members out of it: the result is JSON again.
#include "formats/json.h"

#include "fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longformer;
  const std::string_view text = fuzzing::text_of(data, size);
  std::string changed;
  fuzzing::expect_result_or_error([&] {
    changed = formats::with_null_members(text, {"truncation", "padding"}, "input");
  });
  if (changed.empty()) return 0;
  auto expected = formats::parse_json(text, "input");
  for (const char* key : {"truncation", "padding"}) {
    if (expected.contains(key)) expected[key] = nullptr;
  }
  if (formats::parse_json(changed, "changed") != expected) std::abort();
  return 0;
}
