// Keys of config.json that nothing here reads and that change no result.
#pragma once

#include <span>
#include <string_view>

#include "formats/unused_keys.h"

namespace longformer::models {

/// Keys that tools write into any config.json: where it comes from, and how it was made.
std::span<const std::string_view> bookkeeping_keys();

/// Keys of `transformers` configurations.
const formats::HarmlessKeys& harmless_config_keys();

}  // namespace longformer::models
