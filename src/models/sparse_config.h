// Factorized attention of a Sparse Transformer in config.json (arXiv 1904.10509;
// docs/spec/other-attentions.md#h2).
#pragma once

#include <string>
#include <vector>

#include "core/dtype.h"
#include "formats/json.h"

namespace longformer::models {

/// The far keys of a token: every stride-th before it, or columns of the blocks before its own; in
/// encoders also those behind.
enum class SparsePattern { strided, fixed };

/// Near and far keys: each seen by some heads, by every second layer, or both by all heads in one
/// softmax.
enum class Integration { heads, interleaved, merged };

struct SparseConfig {
  SparsePattern pattern = SparsePattern::strided;
  Integration integration = Integration::merged;
  /// ℓ: tokens of a block, or from one far key to the next.
  Index stride = 0;
  /// c: columns of a block that other blocks see (fixed).
  Index summary = 0;
  /// Heads see other columns than the heads beside them, as far as a block has others (fixed).
  bool summary_by_head = true;
};

/// Heads of a layer that see the same keys.
struct SparseHeads {
  std::vector<Index> heads;
  /// They see near keys, far ones, or both.
  bool sees_near = false, sees_far = false;
  /// First of their columns (fixed).
  Index column = 0;
};

/// All heads of a layer, each once.
std::vector<SparseHeads> sparse_heads(const SparseConfig& sparse, Index layer, Index heads);

/// Throws Error that names file, key, expected and found.
SparseConfig read_sparse(const formats::ConfigReader& config, Index heads);
void write_sparse(const SparseConfig& sparse, nlohmann::ordered_json& json);
/// "the last 16 tokens, and …", for people; of a language model, or of an encoder.
std::string description_of(const SparseConfig& sparse, bool looks_both_ways = false);

}  // namespace longformer::models
