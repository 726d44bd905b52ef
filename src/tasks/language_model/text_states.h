// Attention of a language model over a whole text, put together from what its layers show.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "longformer/language_model.h"
#include "models/stack.h"

namespace longformer::tasks {

/// Takes what an observer sees of one text of n tokens. A model with memories shows its segments
/// one after another.
class TextAttentions {
 public:
  TextAttentions(Index tokens, bool has_segments, std::function<void(TextAttention)> show)
      : tokens_(tokens), has_segments_(has_segments), show_(std::move(show)) {}

  void add(Index layer, const ops::HeadProbabilities& seen);
  /// Shows those that segments have filled in.
  void finish();

 private:
  struct Growing {
    TextAttention whole;
    Index read = 0;
    /// Compressed part of each segment: queries and their numbers.
    std::vector<std::pair<Index, std::vector<float>>> compressed = {};
  };
  void add_segment(Growing& to, const ops::HeadProbabilities& seen) const;

  Index tokens_;
  bool has_segments_;
  std::function<void(TextAttention)> show_;
  std::map<std::pair<Index, Index>, Growing> growing_;
};

/// Hidden states of pieces that were read one after another, each with those of all layers, as
/// those of the text.
std::vector<std::vector<float>> joined_states(std::span<const Tensor> pieces, std::size_t layers);

}  // namespace longformer::tasks
