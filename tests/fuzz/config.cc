// config.json, also of the first implementation of Longformer.
#include "models/config.h"

#include "formats/json.h"
#include "fuzzing.h"
#include "models/convert/original_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace longformer;
  fuzzing::expect_result_or_error([&] {
    auto json = formats::parse_json(fuzzing::text_of(data, size), "input");
    if (models::is_original_config(json, "input")) models::update_original_config(json, "input");
    const auto config = models::parse_config(formats::ConfigReader(json, "input"));
    const bool good = config.max_tokens() >= 1 && config.head_size() >= 1;
    if (!good) std::abort();
  });
  return 0;
}
