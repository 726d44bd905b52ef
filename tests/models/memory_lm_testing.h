// Tiny language models whose weights are the filler of the golden vectors.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/memory.h"
#include "formats/safetensors.h"
#include "golden.h"
#include "models/language_model.h"
#include "temporary_folder.h"

namespace longformer::models {

using Doubles = std::vector<double>;

using Tensors = std::vector<std::pair<std::string, Tensor>>;

/// Weights of a file that holds these tensors.
struct Stored {
  explicit Stored(const Tensors& tensors, bool trained = false)
      : weights(
            (formats::write_safetensors((folder.path() / "model.safetensors").string(), tensors),
             trained ? Weights::trained(Weights::open(folder.name(), {}), {})
                     : Weights::open(folder.name(), {}))) {}
  TemporaryFolder folder;
  Weights weights;
};

inline LanguageModelConfig tiny(LmAttention attention) {
  LanguageModelConfig config;
  config.attention = attention;
  config.alphabet = text::Alphabet::text8;
  config.vocab_size = 27;
  config.hidden_size = 8;
  config.layers = 2;
  config.heads = 2;
  config.head_size = 4;
  config.intermediate_size = 12;
  config.layer_norm_eps = 1e-5;
  config.initializer_range = 0.3;
  config.lengths = {.segment = 6, .memory = 7};
  if (attention == LmAttention::compressive) {
    config.lengths.compressed = 4;
    config.compression_rate = 2;
    config.compression_loss = CompressionLoss::attention;
  }
  if (config.has_features()) {
    config.positions = Positions::sinusoidal;
    config.features.features = 6;
  }
  return config;
}

/// Largest difference over the largest number wanted; NaN where either has one or sizes differ.
inline double difference(const Doubles& found, const Doubles& wanted) {
  if (found.size() != wanted.size()) return NAN;
  double largest = 0, scale = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double here = std::abs(found[i] - wanted[i]);
    if (!(here <= largest)) largest = here;
    scale = std::max(scale, std::abs(wanted[i]));
  }
  return largest / scale;
}
inline Doubles doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

/// Tensors in the order of docs/spec/golden.md#m8: number t is det(shape, t, 0.3), gains + 1.
inline Tensors golden_tensors(const LanguageModelConfig& config) {
  std::vector<std::pair<std::string, Shape>> names = {{"embedding.weight", {27, 8}},
                                                      {"output.bias", {27}}};
  if (!config.has_features()) {
    names.insert(names.end(), {{"relative_content", {2, 4}}, {"relative_position", {2, 4}}});
  }
  const bool compresses = config.is_compressive();
  if (compresses) names.push_back({"compressed_relative_position", {2, 4}});
  for (int layer = 0; layer < 2; ++layer) {
    const auto add = [&](const char* name, const Shape& shape) {
      names.push_back({fmt::format("layers.{}.{}", layer, name), shape});
    };
    for (const char* norm : {"attention_norm", "feed_forward_norm"}) {
      add(fmt::format("{}.weight", norm).c_str(), {8});
      add(fmt::format("{}.bias", norm).c_str(), {8});
    }
    add("query_key_value.weight", {24, 8});
    add("attention_output.weight", {8, 8});
    if (!config.has_features()) add("relative_key.weight", {8, 8});
    if (compresses) add("compressed_relative_key.weight", {8, 8});
    if (compresses) add("compression.weight", {8, 8, 2});
    if (config.has_features()) add("features", {6, 4});
    add("up.weight", {12, 8});
    add("up.bias", {12});
    add("down.weight", {8, 12});
    add("down.bias", {8});
  }
  if (!config.post_norm)
    names.insert(names.end(), {{"final_norm.weight", {8}}, {"final_norm.bias", {8}}});
  Tensors tensors;
  for (std::size_t t = 0; t < names.size(); ++t) {
    const double scale = names[t].first.ends_with("features") ? 1.5 : 0.3;
    Tensor tensor = det(names[t].second, static_cast<double>(t), scale);
    if (names[t].first.ends_with("norm.weight")) {
      std::vector<float> gains = tensor.to_floats();
      for (float& gain : gains) gain += 1;
      tensor = Tensor::from(gains, names[t].second);
    }
    tensors.emplace_back(names[t].first, tensor);
  }
  return tensors;
}

struct Whole {
  explicit Whole(const LanguageModelConfig& config, bool trained = false)
      : stored(golden_tensors(config), trained), model(config, stored.weights, DType::f32) {}

  Doubles logits(const Tensor& hidden) {
    return doubles(model.logits(context, hidden).to_floats());
  }

  Stored stored;
  LanguageModel model;
  MemoryPool memory;
  ops::Context context = {.memory = memory, .threads = 2};
};

inline std::vector<std::int32_t> fox() {
  return text::encode_characters(text::Alphabet::text8, "the quick brown fox jumps over");
}

}  // namespace longformer::models
