// The kinds of attention of language models: what each reads from config.json and writes there
// (docs/spec/file-formats.md#o1). A kind is one row in language_model_attentions.cc.
#pragma once

#include <span>
#include <string_view>

#include "models/language_model_config.h"

namespace longformer::models {

/// Defaults that differ between the papers.
struct LmDefaults {
  Activation activation = Activation::gelu;
  bool post_norm = false;
  bool scales_embedding = true;
  bool ties_embeddings = true;
  Initialization initialization = Initialization::normal;
  /// Attention probabilities are dropped as often as everything else.
  bool drops_attention = false;
};

struct LmAttentionTraits {
  LmAttention attention;
  std::string_view name;
  /// The possible positions, the usual ones first; and why no others are, for messages.
  std::span<const Positions> positions;
  std::string_view reason = {};
  /// Keys that the rows before do not have.
  std::span<const std::string_view> keys = {};
  /// Reads its keys, when those of all models are read. Throws Error that names file, key, expected
  /// and found.
  void (*read)(const formats::ConfigReader& config, LanguageModelConfig& model);
  void (*write)(const LanguageModelConfig& model, nlohmann::ordered_json& json);
  LmDefaults defaults = {};
};

/// All kinds, in the order of LmAttention.
std::span<const LmAttentionTraits> lm_attentions();
const LmAttentionTraits& traits_of(LmAttention attention);

}  // namespace longformer::models
