// Rates in config.json, as those of dropout.
#pragma once

#include <string>

#include "formats/json.h"

namespace longformer::models {

/// Throws Error unless the number is from 0 to below 1.
double rate_of(const formats::ConfigReader& config, const std::string& key, double otherwise);

}  // namespace longformer::models
