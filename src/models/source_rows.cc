#include "models/source_rows.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "ops/embedding.h"
#include "ops/slots.h"

namespace longformer::models {
namespace {

/// One document as so many rows.
SourceStates pooled(const ops::Context& context, const Tensor& hidden,
                    std::span<const std::uint8_t> mask, Index window) {
  const std::vector<Index> starts = {0, hidden.rows()};
  const kernels::SlotWindows windows(starts, window, mask);
  return {.hidden = ops::window_slots(context, hidden, windows, kernels::SlotKind::mean),
          .starts = windows.slot_starts,
          .mask = windows.slot_mask()};
}

/// The mask of a document; rows of a batch have one as soon as a document of it has.
void append_mask(const SourceStates& one, std::vector<std::uint8_t>& mask) {
  const auto rows = static_cast<std::size_t>(one.hidden.rows());
  if (one.mask.empty()) {
    mask.insert(mask.end(), rows, 1);
  } else {
    mask.insert(mask.end(), one.mask.begin(), one.mask.end());
  }
}

}  // namespace

Index tokens_of_row(Index n, Index most) {
  return most == 0 ? 1 : std::max<Index>(1, kernels::divide_up(n, most));
}

Index rows_of_source(Index n, Index most) { return kernels::divide_up(n, tokens_of_row(n, most)); }

SourceStates few_source_rows(const ops::Context& context, SourceStates source, Index most) {
  if (most == 0) return source;
  const std::span<const std::uint8_t> mask = source.mask;
  std::vector<Tensor> parts;
  SourceStates few = {.hidden = {}, .starts = {0}};
  for (std::size_t i = 0; i + 1 < source.starts.size(); ++i) {
    const Index begin = source.starts[i], n = source.starts[i + 1] - begin;
    const bool is_alone = n == source.hidden.rows();
    std::vector<Index> rows(static_cast<std::size_t>(is_alone ? 0 : n));
    std::iota(rows.begin(), rows.end(), begin);
    const Tensor own = is_alone ? source.hidden : ops::select_rows(context, source.hidden, rows);
    const auto own_mask = mask.empty() ? mask : mask.subspan(at(begin), at(n));
    SourceStates one = pooled(context, own, own_mask, tokens_of_row(n, most));
    append_mask(one, few.mask);
    few.starts.push_back(few.starts.back() + one.hidden.rows());
    parts.push_back(std::move(one.hidden));
  }
  few.hidden = parts.size() == 1 ? parts[0] : ops::joined_rows(context, parts);
  return few;
}

std::vector<float> weights_of_tokens(std::vector<float> probabilities, Index n, Index most) {
  const Index of_row = tokens_of_row(n, most);
  if (of_row == 1) return probabilities;
  const Index rows = rows_of_source(n, most), queries = std::ssize(probabilities) / rows;
  std::vector<float> weights;
  for (Index query = 0; query < queries; ++query) {
    for (Index token = 0; token < n; ++token) {
      const Index row = token / of_row;
      const auto sharing = static_cast<float>(std::min(of_row, n - row * of_row));
      weights.push_back(probabilities[at(query * rows + row)] / sharing);
    }
  }
  return weights;
}

}  // namespace longformer::models
