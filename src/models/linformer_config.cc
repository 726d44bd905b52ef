#include "models/linformer_config.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "models/config_limits.h"

namespace longformer::models {
namespace {

using formats::ConfigReader;

constexpr std::array<std::string_view, 5> kProjections = {"linear", "mean", "max", "convolution",
                                                          "full-convolution"};
constexpr std::array<std::string_view, 4> kSharings = {"layerwise", "key-value", "headwise",
                                                       "none"};
constexpr std::array<std::string_view, 4> kStarts = {"xavier", "pooled", "gaussian", "orthogonal"};

std::vector<Index> read_lengths(const ConfigReader& config, Index layers, Index most) {
  const std::string key = "projected_length";
  const Index usual = std::max<Index>(1, std::min<Index>(most / 4, 256));
  if (!config.has(key)) return std::vector<Index>(at(layers), usual);
  const auto& value = config.at(key);
  const std::size_t count = value.is_array() ? value.size() : 1;
  require(count == 1 || count == at(layers), ConfigKey{config.name(), key},
          "expected one number, or {} for the {} layers, found {}", layers, layers,
          formats::shown(value));
  std::vector<Index> lengths;
  for (std::size_t i = 0; i < at(layers); ++i) {
    const auto& length = value.is_array() ? value[std::min(i, count - 1)] : value;
    require(length.is_number_integer() && length >= 1 && length <= most,
            ConfigKey{config.name(), key},
            "expected numbers from 1 to {}, the most tokens of a document, found {}", most,
            formats::shown(length));
    lengths.push_back(length.get<Index>());
  }
  return lengths;
}

void check(const ConfigReader& config, const LinformerConfig& linformer) {
  const std::string_view projection = kProjections[static_cast<std::size_t>(linformer.projection)];
  require(linformer.is_linear() || linformer.sharing != ProjectionSharing::none,
          ConfigKey{config.name(), "projection_sharing"},
          "expected layerwise, key-value or headwise with the projection "
          "{}, found none",
          projection);
  for (const Index length : linformer.lengths) {
    require(linformer.is_linear() || linformer.most % length == 0,
            ConfigKey{config.name(), "projected_length"},
            "expected divisors of {}, the most tokens of a document, with "
            "the projection {}, found {}",
            linformer.most, projection, length);
    const bool is_shared = linformer.sharing == ProjectionSharing::layerwise;
    require(linformer.is_linear() || !linformer.has_weights() || !is_shared ||
                length == linformer.lengths[0],
            ConfigKey{config.name(), "projected_length"},
            "expected one for all layers, which share a {}, found {} and {}", projection,
            linformer.lengths[0], length);
  }
}

Init init_of(const LinformerConfig& linformer) {
  constexpr std::array<Init::Kind, 4> kKinds = {Init::Kind::xavier, Init::Kind::pooled,
                                                Init::Kind::normal, Init::Kind::orthogonal};
  Init init = Init::projection(kKinds[static_cast<std::size_t>(linformer.start)]);
  init.is_frozen = linformer.is_frozen;
  return init;
}

/// Weights of a convolution over s rows, one for each feature or for all features together.
Tensor convolution_weights(const LinformerConfig& linformer, const Weights& weights,
                           const std::string& name, Index width, Index taps) {
  const bool is_full = linformer.projection == Projection::full_convolution;
  const Index inputs = is_full ? width : 1;
  Init init = linformer.start == ProjectionStart::pooled
                  ? Init::projection(Init::Kind::averaging)
                  : Init::normal(1 / std::sqrt(static_cast<double>(inputs * taps)));
  init.is_frozen = linformer.is_frozen;
  const Tensor weight = weights.get_fp32(name, {width, inputs, taps}, init);
  // A view with the gradient of the parameter itself.
  Tensor matrix = weight.reshaped({width, inputs * taps});
  matrix.set_gradient(weight.gradient());
  return matrix;
}

}  // namespace

LinformerConfig read_linformer(const ConfigReader& config, Index layers, Index most) {
  LinformerConfig linformer;
  linformer.most = most;
  linformer.projection =
      static_cast<Projection>(config.choice("projection", kProjections, "linear"));
  linformer.sharing = static_cast<ProjectionSharing>(config.choice(
      "projection_sharing", kSharings, linformer.is_linear() ? "layerwise" : "key-value"));
  linformer.start =
      static_cast<ProjectionStart>(config.choice("projection_initialization", kStarts, "xavier"));
  linformer.is_frozen = config.boolean("freeze_projection", false);
  linformer.lengths = read_lengths(config, layers, most);
  check(config, linformer);
  return linformer;
}

std::string description_of(const LinformerConfig& linformer) {
  const auto [least, most] = std::ranges::minmax_element(linformer.lengths);
  const std::string count =
      *least == *most ? fmt::format("{}", *least) : fmt::format("{} to {}", *least, *most);
  const std::string sharing =
      linformer.has_weights()
          ? fmt::format(", {}", kSharings[static_cast<std::size_t>(linformer.sharing)])
          : "";
  return fmt::format("{} rows for all tokens ({}{})", count,
                     kProjections[static_cast<std::size_t>(linformer.projection)], sharing);
}

void write_linformer(const LinformerConfig& linformer, nlohmann::ordered_json& json) {
  const std::vector<Index>& lengths = linformer.lengths;
  json["projection"] = kProjections[static_cast<std::size_t>(linformer.projection)];
  json["projection_sharing"] = kSharings[static_cast<std::size_t>(linformer.sharing)];
  const bool is_one = std::equal(lengths.begin() + 1, lengths.end(), lengths.begin());
  if (is_one) {
    json["projected_length"] = lengths[0];
  } else {
    json["projected_length"] = lengths;
  }
  json["projection_initialization"] = kStarts[static_cast<std::size_t>(linformer.start)];
  json["freeze_projection"] = linformer.is_frozen;
}

Tensor projection_weights(const LinformerConfig& linformer, const Weights& weights, Index layer,
                          Index heads, Index width, const std::string& part) {
  if (!linformer.has_weights()) return {};
  const bool is_shared = linformer.sharing == ProjectionSharing::layerwise;
  const std::string name =
      fmt::format("encoder.{}{}_projection.weight",
                  is_shared ? "" : fmt::format("layer.{}.attention.self.", layer),
                  linformer.has_two_sides() ? part : "key");
  if (!linformer.is_linear()) {
    return convolution_weights(linformer, weights, name, width, linformer.window(layer));
  }
  const Index k =
      is_shared ? *std::ranges::max_element(linformer.lengths) : linformer.lengths[at(layer)];
  Init init = init_of(linformer);
  if (linformer.start == ProjectionStart::gaussian) {
    init.deviation = 1 / std::sqrt(static_cast<double>(k));
  }
  const bool has_heads = linformer.sharing == ProjectionSharing::none;
  // Layers share what the file holds, whatever its dtype.
  return weights.get(name, has_heads ? Shape{heads, k, linformer.most} : Shape{k, linformer.most},
                     init);
}

}  // namespace longformer::models
