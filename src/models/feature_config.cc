#include "models/feature_config.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/error.h"
#include "models/config_limits.h"

namespace longformer::models {
namespace {

using formats::ConfigReader;
using kernels::FeatureKernel;

constexpr std::array<std::string_view, 5> kKernels = {"softmax", "hyperbolic", "trigonometric",
                                                      "relu", "elu"};
constexpr std::array<std::string_view, 2> kLengths = {"gaussian", "constant"};

}  // namespace

kernels::FeatureMap FeatureConfig::map(Index head_size) const {
  return {kernel, head_size, features, epsilon, normalizes};
}

Shape FeatureConfig::shape(Index heads, Index head_size) const {
  return per_head ? Shape{heads, features, head_size} : Shape{features, head_size};
}

FeatureConfig read_features(const ConfigReader& config, bool causal) {
  FeatureConfig features;
  features.kernel =
      static_cast<FeatureKernel>(config.choice("feature_kernel", kKernels, kKernels[0]));
  const bool is_relu = features.kernel == FeatureKernel::relu;
  const bool is_elu = features.kernel == FeatureKernel::elu;
  features.features = config.integer("features", is_elu ? 0 : 256, 0, kMaxHidden);
  require(features.features > 0 || is_relu || is_elu, ConfigKey{config.name(), "features"},
          "expected 1 or more for the kernel {}, found 0",
          kKernels[static_cast<std::size_t>(features.kernel)]);
  require(features.features == 0 || !is_elu, ConfigKey{config.name(), "features"},
          "expected 0 for the kernel elu, which has no directions, found {}", features.features);
  features.epsilon = config.number("feature_epsilon", is_relu ? 1e-3 : 0);
  require(features.epsilon >= 0 && features.epsilon <= 1,
          ConfigKey{config.name(), "feature_epsilon"}, "expected a number from 0 to 1, found {}",
          features.epsilon);
  const bool has_floor = features.map(1).has_floor();
  require(!causal || !has_floor, ConfigKey{config.name(), "feature_epsilon"},
          "expected 0 in a language model, as with another the maximum over "
          "all keys lets what follows change what was before, found {}",
          features.epsilon);
  features.normalizes = config.boolean("feature_normalization", !is_relu && !is_elu);
  features.per_head = config.boolean("features_per_head", false);
  features.draw.orthogonal = config.boolean("orthogonal_features", true);
  features.draw.constant_lengths = config.choice("feature_lengths", kLengths, kLengths[0]) == 1;
  features.redraw_interval =
      config.integer("feature_redraw_interval", 1000, 0, std::int64_t{1} << 40);
  return features;
}

std::string description_of(const FeatureConfig& features) {
  const std::string_view kernel = kKernels[static_cast<std::size_t>(features.kernel)];
  if (features.features == 0) return fmt::format("{} features of every number", kernel);
  return fmt::format("{} {}{} features", features.features,
                     features.draw.orthogonal ? "orthogonal " : "", kernel);
}

void write_features(const FeatureConfig& features, nlohmann::ordered_json& json) {
  json["features"] = features.features;
  json["feature_kernel"] = kKernels[static_cast<std::size_t>(features.kernel)];
  json["feature_epsilon"] = features.epsilon;
  json["feature_normalization"] = features.normalizes;
  json["features_per_head"] = features.per_head;
  json["orthogonal_features"] = features.draw.orthogonal;
  json["feature_lengths"] = kLengths[features.draw.constant_lengths ? 1 : 0];
  json["feature_redraw_interval"] = features.redraw_interval;
}

Tensor feature_directions(const FeatureConfig& features, const Weights& weights,
                          const std::string& name, Index heads, Index head_size) {
  if (features.features == 0) return {};
  return weights.get_fp32(name, features.shape(heads, head_size),
                          Init::features(features.draw, features.redraw_interval));
}

}  // namespace longformer::models
