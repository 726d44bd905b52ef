#include "tasks/language_model/text_states.h"

#include <algorithm>

namespace longformer::tasks {

void TextAttentions::add(Index layer, const ops::HeadProbabilities& seen) {
  const TextAttention fresh = {.layer = layer, .head = seen.which.head, .tokens = tokens_};
  if (!has_segments_) {
    TextAttention whole = fresh;
    whole.values = seen.local.to_floats();
    return show_(std::move(whole));
  }
  Growing& to =
      growing_.try_emplace({layer, seen.which.head}, Growing{.whole = fresh}).first->second;
  to.whole.values.resize(static_cast<std::size_t>(tokens_ * tokens_), 0.0f);
  add_segment(to, seen);
}

/// Keys of a segment are the last rows before it and its own; rows of zeros before the text are
/// left out.
void TextAttentions::add_segment(Growing& to, const ops::HeadProbabilities& seen) const {
  const Index queries = seen.local.rows(), keys = seen.local.columns();
  const std::vector<float> values = seen.local.to_floats();
  const Index first_key = to.read + queries - keys, missing = std::max<Index>(0, -first_key);
  for (Index i = 0; i < queries; ++i) {
    const auto from = values.begin() + i * keys;
    std::copy(from + missing, from + keys,
              to.whole.values.begin() + (to.read + i) * tokens_ + first_key + missing);
  }
  to.read += queries;
  to.compressed.emplace_back(queries, seen.global.to_floats());
  to.whole.compressed_rows =
      std::max(to.whole.compressed_rows, static_cast<std::int64_t>(seen.global.size() / queries));
}

void TextAttentions::finish() {
  for (auto& [place, growing] : growing_) {
    TextAttention& whole = growing.whole;
    for (const auto& [queries, values] : growing.compressed) {
      const auto rows = static_cast<std::int64_t>(values.size()) / queries;
      for (Index i = 0; i < queries; ++i) {
        const auto from = values.begin() + i * rows;
        whole.compressed.insert(whole.compressed.end(), from, from + rows);
        whole.compressed.resize(
            whole.compressed.size() + static_cast<std::size_t>(whole.compressed_rows - rows), 0.0f);
      }
    }
    show_(std::move(whole));
  }
  growing_.clear();
}

std::vector<std::vector<float>> joined_states(std::span<const Tensor> pieces, std::size_t layers) {
  std::vector<std::vector<float>> states(layers);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::vector<float> rows = pieces[i].to_floats();
    std::vector<float>& to = states[i % layers];
    to.insert(to.end(), rows.begin(), rows.end());
  }
  return states;
}

}  // namespace longformer::tasks
