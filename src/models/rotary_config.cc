#include "models/rotary_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "core/error.h"
#include "core/fork.h"
#include "formats/unused_keys.h"
#include "models/config_limits.h"

namespace longformer::models {
namespace {

constexpr std::array<std::string_view, 5> kScalings = {"default", "linear", "dynamic", "yarn",
                                                       "ntk"};

double above_zero(const formats::ConfigReader& object, const std::string& key, double otherwise) {
  const double value = object.number(key, otherwise);
  require(value > 0 && std::isfinite(value), "{}: {}: expected a number above 0, found {}",
          object.name(), key, value);
  return value;
}

/// 0.1·weight·ln(factor) + 1.
double growth(double factor, double weight) {
  return factor <= 1 ? 1 : 0.1 * weight * std::log(factor) + 1;
}

double attention_factor(const formats::ConfigReader& object, double factor) {
  if (object.has("attention_factor")) return above_zero(object, "attention_factor", 1);
  const double mscale = object.number("mscale", 0), all = object.number("mscale_all_dim", 0);
  return mscale != 0 && all != 0 ? growth(factor, mscale) / growth(factor, all) : growth(factor, 1);
}

/// θ^(2t/d) as PyTorch has it in fp32.
float wavelength(double theta, Index t, Index head_size) {
  const float exponent = static_cast<float>(2 * t) / static_cast<float>(head_size);
  const auto base = static_cast<double>(static_cast<float>(theta));
  return static_cast<float>(std::pow(base, static_cast<double>(exponent)));
}

/// The frequencies of YaRN: those that turn often within the trained positions stay, those that
/// turn seldom are divided by the factor.
std::vector<float> yarn(const RotaryConfig& config, Index head_size) {
  const auto width = static_cast<double>(head_size);
  const auto pair_of_turns = [&](double turns) {
    return width *
           std::log(static_cast<double>(config.trained_positions) /
                    (turns * 2 * std::numbers::pi)) /
           (2 * std::log(config.theta));
  };
  double low = pair_of_turns(config.beta_fast), high = pair_of_turns(config.beta_slow);
  if (config.truncates) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, width - 1);
  if (low == high) high += 0.001;
  std::vector<float> frequencies;
  for (Index t = 0; t < head_size / 2; ++t) {
    const auto ramp =
        static_cast<float>(std::clamp((static_cast<double>(t) - low) / (high - low), 0.0, 1.0));
    const float length = wavelength(config.theta, t, head_size);
    const float divided = 1.0f / (static_cast<float>(config.factor) * length);
    frequencies.push_back(divided * ramp + 1.0f / length * (1.0f - ramp));
  }
  return frequencies;
}

}  // namespace

std::string_view name_of(RotaryScaling scaling) {
  return kScalings[static_cast<std::size_t>(scaling)];
}

double usual_attention_factor(double factor) { return growth(factor, 1); }

void require_whole_heads(const formats::ConfigReader& config) {
  const double part = config.number("partial_rotary_factor", 1);
  require(part == 1, "{}: partial_rotary_factor: expected 1, as whole heads turn, found {}",
          config.name(), part);
}

namespace {

RotaryConfig scaling_of(const formats::ConfigReader& object, const RotaryConfig& otherwise) {
  RotaryConfig config = otherwise;
  config.theta = above_zero(object, "rope_theta", otherwise.theta);
  // "type" is the name of before.
  const std::string usual = object.has("type") && !object.has("rope_type") ? "type" : "rope_type";
  config.scaling = static_cast<RotaryScaling>(object.choice(usual, kScalings, "default"));
  object.note_asked("type");
  if (config.scaling == RotaryScaling::none) return config;
  config.factor = above_zero(object, "factor", 1);
  if (config.scaling != RotaryScaling::yarn) return config;
  require(config.theta > 1, "{}: rope_theta: expected a number above 1 with yarn, found {}",
          object.name(), config.theta);
  config.trained_positions = object.integer("original_max_position_embeddings",
                                            otherwise.trained_positions, 1, kMaxPositions);
  config.beta_fast = above_zero(object, "beta_fast", 32);
  config.beta_slow = above_zero(object, "beta_slow", 1);
  config.attention_factor = attention_factor(object, config.factor);
  config.truncates = object.boolean("truncate", otherwise.truncates);
  return config;
}

}  // namespace

RotaryConfig read_rotary(const formats::ConfigReader& object, const RotaryConfig& otherwise,
                         std::string& unused) {
  require_whole_heads(object);
  const RotaryConfig config = scaling_of(object, otherwise);
  const std::string note = formats::unused_keys_note(object, {});
  if (!note.empty() && !unused.empty()) unused += "; ";
  unused += note;
  return config;
}

std::vector<float> rotary_frequencies(const RotaryConfig& config, Index head_size, Index tokens) {
  if (config.scaling == RotaryScaling::yarn) return yarn(config, head_size);
  double theta = config.theta;
  if (config.scaling == RotaryScaling::dynamic && tokens > config.trained_positions) {
    const double longer =
        static_cast<double>(tokens) / static_cast<double>(config.trained_positions);
    const auto width = static_cast<double>(head_size);
    theta *= std::pow(config.factor * longer - (config.factor - 1), width / (width - 2));
  }
  double divisor = 1;
  if (config.scaling == RotaryScaling::linear) divisor = config.factor;
  if (config.scaling == RotaryScaling::ntk) {
    theta *= config.factor;
    divisor = std::pow(config.factor, 2.0 / static_cast<double>(head_size));
  }
  std::vector<float> frequencies;
  for (Index t = 0; t < head_size / 2; ++t) {
    frequencies.push_back(1.0f / wavelength(theta, t, head_size) / static_cast<float>(divisor));
  }
  return frequencies;
}

Tensor Rotary::common_rows(Index count) const {
  const ForkSafeLock lock(mutex_);
  if (rows_.empty() || rows_.rows() < count) {
    constexpr Index kLeast = 512;
    Index rows = kLeast;
    while (rows < count) rows *= 2;
    const ops::RotationPart all = {rotary_frequencies(config_, head_size_, 0), rows};
    rows_ = ops::rotation_table({&all, 1}, scale());
  }
  return rows_;
}

std::shared_ptr<const ops::Rotation> Rotary::of(std::span<const Index> starts,
                                                std::span<const std::int32_t> positions) const {
  auto rotation = std::make_shared<ops::Rotation>();
  rotation->pairs_neighbours = config_.pairs_neighbours;
  std::vector<std::span<const std::int32_t>> documents;
  std::vector<Index> lengths;
  Index common = 0;
  const auto has_own = [&](Index length) {
    return config_.scaling == RotaryScaling::dynamic && length > config_.trained_positions;
  };
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    documents.push_back(positions.subspan(at(starts[i]), at(starts[i + 1] - starts[i])));
    lengths.push_back(*std::ranges::max_element(documents.back()) + 1);
    if (!has_own(lengths.back())) common = std::max(common, lengths.back());
  }
  // Rows of documents with angles of their own, which come behind the common ones.
  std::vector<ops::RotationPart> parts;
  Index next = common;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    Index first = 0;
    if (has_own(lengths[i])) {
      parts.push_back({rotary_frequencies(config_, head_size_, lengths[i]), lengths[i]});
      first = std::exchange(next, next + lengths[i]);
    }
    for (const std::int32_t position : documents[i]) rotation->places.push_back(first + position);
  }
  if (parts.empty()) {
    rotation->table = common_rows(common);
    return rotation;
  }
  parts.insert(parts.begin(), {rotary_frequencies(config_, head_size_, 0), common});
  rotation->table = ops::rotation_table(parts, scale());
  return rotation;
}

}  // namespace longformer::models
