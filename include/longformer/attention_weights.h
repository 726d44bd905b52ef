// The attention of the heads of a model: the probabilities of a forward pass
// (docs/spec/attention.md#a4).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace longformer {

/// One head of one layer for one document of n tokens, x of them global, laid out as `transformers`
/// does with output_attentions. Masked tokens have zeros in their rows and columns.
struct HeadAttention {
  /// Index of the document in the call; layers and heads count from 0.
  std::int64_t document = 0;
  std::int64_t layer = 0;
  std::int64_t head = 0;
  /// n
  std::int64_t tokens = 0;
  /// Columns of `local`: x + w + 1 in a layer with window w, n in a model with dense attention.
  std::int64_t columns = 0;
  /// Ascending; x of them.
  std::vector<std::int64_t> global_positions;
  /// [n, columns]. Row i says what token i attends to: first the global tokens in ascending order,
  /// then the tokens i − w/2 … i + w/2, each key once: a global token is 0 in the window. Rows of
  /// global tokens are 0. Dense attention: [n, n].
  std::vector<float> local;
  /// [n, x]: column c says what global token c attends to; empty when x is 0.
  std::vector<float> global;
};

/// Which probabilities to show, and to whom.
struct AttentionSelection {
  /// From 0; empty for all.
  std::vector<std::int64_t> layers = {};
  std::vector<std::int64_t> heads = {};
  /// Called from the calling thread layer by layer, document by document, head by head, all
  /// ascending. One head is in memory at a time: n·(x + w + 1) numbers in a layer with a window, n²
  /// in a dense one. Throwing from it ends the pass.
  std::function<void(HeadAttention)> callback = {};
};

}  // namespace longformer
