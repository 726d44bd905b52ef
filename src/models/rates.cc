#include "models/rates.h"

#include "core/error.h"

namespace longformer::models {

double rate_of(const formats::ConfigReader& config, const std::string& key, double otherwise) {
  const double value = config.number(key, otherwise);
  require(value >= 0 && value < 1, "{}: {}: expected a number from 0 to below 1, found {}",
          config.name(), key, value);
  return value;
}

}  // namespace longformer::models
