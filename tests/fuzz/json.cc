// JSON of any kind: a parser of the standard reads the same where it reads anything, and taking
// members out of it leaves JSON.
#include "formats/json.h"

#include "fuzzing.h"

namespace {

/// NaN is not equal to itself.
std::string shown(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longformer;
  const std::string_view text = fuzzing::text_of(data, size);
  fuzzing::expect_result_or_error([&] {
    const auto value = formats::parse_json(text, "input");
    const auto other = nlohmann::ordered_json::parse(text, nullptr, false);
    if (!other.is_discarded() && shown(other) != shown(value)) std::abort();
  });
  fuzzing::expect_result_or_error([&] { formats::parse_json_data(text, "input"); });
  std::string changed;
  fuzzing::expect_result_or_error([&] {
    changed = formats::with_null_members(text, {"truncation", "padding"}, "input");
  });
  if (changed.empty()) return 0;
  auto expected = formats::parse_json(text, "input");
  for (const char* key : {"truncation", "padding"}) {
    if (expected.contains(key)) expected[key] = nullptr;
  }
  if (shown(formats::parse_json(changed, "changed")) != shown(expected)) std::abort();
  return 0;
}
