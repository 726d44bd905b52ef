// Running an encoder: a Hugging Face checkpoint folder in, hidden states out.
//
// Models: Longformer, BERT, RoBERTa (spec.md A), with or without their masked-LM head.
// Dimensions: n tokens of a document, H hidden size, V vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "longformer/attention_weights.h"

namespace longformer {

struct LoadOptions {
  /// "fp32" or "bf16": weights and activations; normalisation and softmax stay fp32.
  std::string dtype = "fp32";
  /// 0 takes what CPU affinity, the cgroup quota and OMP_NUM_THREADS allow.
  int threads = 0;
};

/// One document. Empty masks mean: attend to everything, token types 0, positions by the rule of
/// the model, no global tokens. A mask that is given has n elements.
struct DocumentInput {
  std::span<const std::int32_t> ids;
  std::span<const std::int32_t> attention_mask;
  std::span<const std::int32_t> token_type_ids;
  std::span<const std::int32_t> position_ids;
  std::span<const std::int32_t> global_attention_mask;
};

struct ForwardOptions {
  /// Also return the embedding output and the output of every layer.
  bool hidden_states = false;
  /// Shows attention probabilities while the pass runs; nothing without a callback.
  AttentionSelection attention = {};
};

/// Row-major [n, H] per matrix. Rows whose attention mask is 0 are unspecified.
struct DocumentOutput {
  std::vector<float> last_hidden_state;
  /// tanh pooler over the first token, [H]; empty when the folder has no pooler.
  std::vector<float> pooler_output;
  /// Embeddings first, then one per layer; empty unless asked for.
  std::vector<std::vector<float>> hidden_states;
};

/// What is known of a loaded model.
struct ModelInfo {
  std::string model_type;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t hidden_size = 0;
  std::int64_t vocabulary_size = 0;
  /// Total window per layer; empty for dense attention.
  std::vector<std::int64_t> windows;
  /// Longest document in tokens, special tokens included.
  std::int64_t max_tokens = 0;
  std::int64_t pad_token_id = 0;
  bool has_pooler = false;
  bool has_masked_lm_head = false;
};

/// Thread-compatible: one call at a time per Model; every call uses the threads of LoadOptions.
class Model {
 public:
  /// Throws Error for a folder that is missing, malformed, inconsistent or of an unsupported type.
  static Model load(const std::string& folder, const LoadOptions& options = {});

  /// A model of a config.json with random weights, to measure with: N(0, 0.02), fixed seed.
  static Model random(const std::string& config_file, const LoadOptions& options = {});

  const ModelInfo& info() const;

  /// Documents of different lengths cost the sum of their lengths; each result is that of the
  /// document alone. Throws Error for an empty document, ids out of range, a mask of the wrong
  /// length, and a document longer than max_tokens.
  std::vector<DocumentOutput> forward(std::span<const DocumentInput> documents,
                                      const ForwardOptions& options = {}) const;

  /// Shows attention probabilities of one document, and runs no further than that takes. Throws
  /// Error for layers or heads that the model does not have, and as forward does.
  void attention(const DocumentInput& document, const AttentionSelection& selection) const;

  /// Masked-LM logits, [positions, V], of the given token positions of one document (all when
  /// empty). Throws Error when the folder has no masked-LM head.
  std::vector<float> masked_lm_logits(const DocumentInput& document,
                                      std::span<const std::int64_t> positions = {}) const;

  /// Implementation detail that the other parts of the library share.
  struct Implementation;
  const Implementation& implementation() const { return *implementation_; }

 private:
  explicit Model(std::shared_ptr<const Implementation> implementation);
  std::shared_ptr<const Implementation> implementation_;
};

}  // namespace longformer
