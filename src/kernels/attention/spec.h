// Attention described as data (docs/spec/design.md#attention-is-data, paper §3.1 and Figure 1): the
// rows of a batch, and the pattern in which the heads of a layer see them.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/dtype.h"
#include "core/random.h"

namespace longformer {
class Ranks;
}

namespace longformer::kernels {

/// A reach that covers every key.
inline constexpr Index kUnlimitedReach = std::numeric_limits<Index>::max() / 4;

inline Index divide_up(Index value, Index unit) { return (value + unit - 1) / unit; }
inline Index floor_divide(Index value, Index unit) {
  return value >= 0 ? value / unit : -divide_up(-value, unit);
}

/// A range of rows, places or numbers: begin to end − 1.
struct Range {
  Index begin = 0;
  Index end = 0;
};

/// Keys that one head sees: the query at position i sees the keys i + s·dilation with −reach_left ≤
/// s ≤ reach_right. Dilation 1 means adjacent keys. With blocks the reaches count these: the query
/// sees the keys of the blocks ⌊i / block⌋ + s.
struct HeadPattern {
  Index reach_left = 0;
  Index reach_right = 0;
  Index dilation = 1;
  /// Blocks need dilation 1.
  Index block = 1;

  /// Most dilation steps from a query to a key before it, and behind it.
  Index most_left() const { return in_steps(reach_left); }
  Index most_right() const { return in_steps(reach_right); }
  /// The only place that says what a window is: numbers of its keys in the residue class of the
  /// query, in which the query's own is ⌊position / dilation⌋. The ends may lie outside the
  /// document.
  Range window(Index position) const;

 private:
  Index in_steps(Index reach) const {
    return reach >= kUnlimitedReach / block ? reach : reach * block + block - 1;
  }
};

/// One document of a ragged batch. Its queries and keys are consecutive rows; nothing is attended
/// across documents. The query ranges of the documents follow each other from row 0 on.
struct AttentionDocument {
  Index query_begin = 0;
  Index query_count = 0;
  Index key_begin = 0;
  Index key_count = 0;
  /// Position of the first query on the axis on which the first key of the document is 0.
  Index query_offset = 0;
};

/// Places of rows on the axis of relative positions where they are not those of the rows
/// themselves: distances then go in both directions, and steps of queries may be larger than those
/// of keys.
struct RowPlaces {
  /// A row without a place has no term of positions. It comes before all others of its document.
  static constexpr Index kNone = -kUnlimitedReach;
  static constexpr std::uint8_t kNoKind = 255;

  /// One for each query row and key row, ascending in a document.
  std::vector<Index> queries, keys;
  /// The relative key of distance 0: that of place p of a query and place r of a key is number
  /// origin + p − r.
  Index origin = 0;
  /// Kind of each key, for RelativePositions::kind_scores; empty where keys have none.
  std::vector<std::uint8_t> key_kinds = {};

  /// Numbers whose difference is the relative key, below all or above all where one has no place.
  Index query_number(Index row) const {
    const Index place = queries[static_cast<std::size_t>(row)];
    return place == kNone ? 2 * kNone : place + origin;
  }
  Index key_number(Index row) const { return keys[static_cast<std::size_t>(row)]; }
};

/// One document divided among ranks. Windows find all of their keys in the rows of each rank, which
/// has rows of its neighbours beside its own. All ranks have all global rows.
struct Division {
  const Ranks* ranks = nullptr;
  /// Rows that count here, in what is summed over all ranks.
  Range own = {};
};

/// Rows of a batch, independent of the layer. A forward pass builds them once; all layers and their
/// backward passes share them.
struct AttentionRows {
  std::vector<AttentionDocument> documents;
  /// Queries and keys are the same rows: a masked row is masked as a query too. Every document then
  /// has equal ranges of both and no query offset.
  bool self_attention = false;
  /// Key rows that every query of the same document sees; ascending, without masked ones.
  std::vector<Index> global_keys;
  /// One byte per key row, 0 = masked; empty when nothing is masked.
  std::vector<std::uint8_t> key_mask;
  /// For relative positions; absent where rows follow each other and see what is before them.
  std::optional<RowPlaces> places = std::nullopt;
  /// The one document of the batch is divided.
  std::optional<Division> division = std::nullopt;

  Index query_count() const;
  Index key_count() const;
};

/// Rows of self-attention: document i has the rows starts[i] … starts[i + 1] − 1.
AttentionRows self_attention_rows(std::span<const Index> starts);

/// The rows as what the layers of a pass and their backward passes share.
std::shared_ptr<const AttentionRows> shared(AttentionRows rows);

/// How the queries at global positions are computed.
enum class GlobalQueries {
  /// Like every other query: own window and the global keys. (The Longformer layer overwrites these
  /// rows with the result of the global projections.)
  windowed,
  /// They see every key of their document, in every head.
  see_everything,
};

/// How the heads of one layer attend, whatever the rows are.
struct AttentionPattern {
  Index head_size = 0;
  std::vector<HeadPattern> heads;
  bool causal = false;
  GlobalQueries global_queries = GlobalQueries::windowed;
  /// Scores have a term of RelativePositions. Needs no global keys and, in every head, reach_right
  /// 0 or, where rows have places, dilation 1.
  bool relative_positions = false;
  /// Scores have biases by distance (AttentionArguments::distance_bias). Needs no global keys, and
  /// is not for relative positions.
  bool distance_bias = false;
  /// Scores have terms of DistanceKeys. Needs dilation 1, no global keys and no other term.
  bool distance_keys = false;
  /// Is added to every score: keys count e^log_weight times beside those of other parts
  /// (merge_attention).
  float log_weight = 0;
  /// Dropout of the probabilities. The mask depends on its seed, the head, the query row and the
  /// key row alone (dropout_row), so that a backward pass finds the same one.
  Dropout dropout = {};
};

/// A pattern on rows: all that a backend needs to know. A key is visible to a query when it lies in
/// its document, is not masked, and is either in the window of the head or a global key; with
/// `causal` no key after the query is visible at all. Each visible key counts once. A query that
/// sees no key, and a query whose own row is masked in self-attention, gets a row of zeros.
struct AttentionSpec : AttentionPattern {
  /// Never null in a spec that runs.
  std::shared_ptr<const AttentionRows> rows;
};

/// Whether scores are more than products of queries and keys.
inline bool has_position_term(const AttentionPattern& pattern) {
  return pattern.relative_positions || pattern.distance_bias || pattern.distance_keys;
}

/// The dropout masks of one query: its columns are key rows.
inline DropoutRow dropout_row(const Dropout& dropout, Index head, Index query_row) {
  return dropout.row((static_cast<std::uint64_t>(head) << 40) +
                     static_cast<std::uint64_t>(query_row));
}

/// Self-attention over one document of n rows where every head has the same pattern.
AttentionSpec self_attention(Index n, Index heads, Index head_size, HeadPattern pattern);

/// Throws Error unless the spec is consistent in itself (ranges, equal ones where self-attention is
/// said, sorted globals, mask size, reaches ≥ 0, dilation ≥ 1).
void check(const AttentionSpec& spec);

/// Exact number of visible query–key pairs, summed over the heads: 4·d times it is the useful work
/// of a forward pass in FLOP.
double visible_pairs(const AttentionSpec& spec);

}  // namespace longformer::kernels
