#include "models/attention/sparse.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "core/error.h"
#include "ops/attention.h"
#include "ops/heads.h"
#include "ops/key_ring.h"

namespace longformer::models {
namespace {

using kernels::AttentionRows;
using kernels::AttentionSpec;
using kernels::HeadPattern;
using kernels::Range;

/// Queries of a document that follow each other: their rows, and how many tokens came before.
struct Piece {
  Range rows;
  Index before = 0;
  Index count() const { return rows.end - rows.begin; }
};

std::vector<Piece> pieces_of(const SharedInput& shared) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i + 1 < shared.starts.size(); ++i) {
    pieces.push_back(
        {{shared.starts[i], shared.starts[i + 1]}, shared.read.empty() ? 0 : shared.read[i]});
  }
  return pieces;
}

/// Rows of keys of each piece, among so many rows.
struct KeyRows {
  std::vector<Range> of_piece;
  Index all = 0;
};

/// Rows of keys with the keys and values themselves.
struct Keys {
  Tensor key, value;
  KeyRows rows;
};

/// The keys that heads which are alike see.
class SparseView {
 public:
  SparseView(const SparseConfig& sparse, const SparseHeads& of) : sparse_(sparse), of_(of) {}

  bool is_fixed() const { return sparse_.pattern == SparsePattern::fixed; }
  /// Far keys are others than the near ones.
  bool has_columns() const { return of_.sees_far && is_fixed(); }
  /// Keys of tokens themselves, not of columns alone.
  bool has_tokens() const { return of_.sees_near || !is_fixed(); }
  /// Tokens before a query that are kept as such.
  Index kept_tokens() const { return of_.sees_far && !is_fixed() ? kMaxReach : sparse_.stride - 1; }

  /// Rows of the columns in a piece.
  std::vector<Index> columns_in(const Piece& piece) const {
    std::vector<Index> rows;
    for (Index i = 0; i < piece.count(); ++i) {
      const Index place = (piece.before + i) % sparse_.stride - of_.column;
      if (place >= 0 && place < sparse_.summary) rows.push_back(piece.rows.begin + i);
    }
    return rows;
  }
  HeadPattern near() const {
    return is_fixed() ? HeadPattern{.block = sparse_.stride}
                      : HeadPattern{.reach_left = sparse_.stride - 1};
  }
  HeadPattern far() const {
    return {.reach_left = kernels::kUnlimitedReach, .dilation = is_fixed() ? 1 : sparse_.stride};
  }
  AttentionRows near_rows(std::span<const Piece> pieces, const KeyRows& keys) const;
  AttentionRows far_rows(std::span<const Piece> pieces, const KeyRows& keys) const;

 private:
  /// Columns that the token at a position sees.
  Index visible(Index position) const {
    const Index before = position / sparse_.stride * sparse_.summary;
    if (of_.sees_near) return before;
    return before +
           std::clamp<Index>(position % sparse_.stride - of_.column + 1, 0, sparse_.summary);
  }
  void add_columns(const Piece& piece, Range keys, AttentionRows& rows) const;

  const SparseConfig& sparse_;
  const SparseHeads& of_;
};

/// The empty document takes the rows of keys that nobody sees.
void close(std::span<const Piece> pieces, const KeyRows& keys, AttentionRows& rows) {
  rows.documents.push_back({.query_begin = pieces.back().rows.end, .key_begin = keys.all});
}

AttentionRows SparseView::near_rows(std::span<const Piece> pieces, const KeyRows& keys) const {
  AttentionRows rows;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    const auto [begin, end] = keys.of_piece[i];
    const Index kept = end - begin - piece.count();
    // Blocks are counted from the beginning of the one in which the first query is.
    const Index skipped = is_fixed() ? kept - piece.before % sparse_.stride : 0;
    rows.documents.push_back({.query_begin = piece.rows.begin,
                              .query_count = piece.count(),
                              .key_begin = begin + skipped,
                              .key_count = end - begin - skipped,
                              .query_offset = kept - skipped});
  }
  close(pieces, keys, rows);
  return rows;
}

/// Queries that see equally many columns, or each one more than the one before it, are a document.
void SparseView::add_columns(const Piece& piece, Range keys, AttentionRows& rows) const {
  const auto seen = [&](Index query) { return visible(piece.before + query); };
  for (Index begin = 0; begin < piece.count();) {
    Index end = begin + 1;
    const Index step = end < piece.count() ? seen(end) - seen(begin) : 0;
    while (step <= 1 && end < piece.count() && seen(end) - seen(end - 1) == step) ++end;
    const Index last = seen(end - 1);
    rows.documents.push_back({.query_begin = piece.rows.begin + begin,
                              .query_count = end - begin,
                              .key_begin = keys.begin,
                              .key_count = last,
                              .query_offset = step == 1 ? seen(begin) - 1 : last});
    begin = end;
  }
}

AttentionRows SparseView::far_rows(std::span<const Piece> pieces, const KeyRows& keys) const {
  AttentionRows rows;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    const auto [begin, end] = keys.of_piece[i];
    if (is_fixed()) {
      add_columns(piece, keys.of_piece[i], rows);
      continue;
    }
    // Beside near keys the first far one is a stride before the query, so that none counts twice.
    const Index shift = of_.sees_near ? sparse_.stride : 0;
    rows.documents.push_back({.query_begin = piece.rows.begin,
                              .query_count = piece.count(),
                              .key_begin = begin,
                              .key_count = end - begin,
                              .query_offset = end - begin - piece.count() - shift});
  }
  close(pieces, keys, rows);
  return rows;
}

/// Rows of the columns of all pieces behind each other, and where those of each are then.
std::pair<std::vector<Index>, KeyRows> columns_of(const SparseView& view,
                                                  std::span<const Piece> pieces) {
  std::vector<Index> rows;
  KeyRows keys;
  for (const Piece& piece : pieces) {
    const std::vector<Index> own = view.columns_in(piece);
    keys.of_piece.push_back({std::ssize(rows), std::ssize(rows) + std::ssize(own)});
    rows.insert(rows.end(), own.begin(), own.end());
  }
  // A tensor of keys has a row, which nobody needs to see.
  if (rows.empty()) rows.push_back(0);
  keys.all = std::ssize(rows);
  return {std::move(rows), std::move(keys)};
}

AttentionSpec spec_of(const HeadPattern& head, Index heads, Index head_size, AttentionRows rows) {
  AttentionSpec spec;
  spec.head_size = head_size;
  spec.heads.assign(at(heads), head);
  spec.causal = true;
  spec.rows = kernels::shared(std::move(rows));
  return spec;
}

/// Keys and values that later tokens see, of heads that are alike: of tokens, and of columns.
struct KeptKeys {
  std::optional<ops::KeyRing> tokens, columns;
};

class SparsePast final : public LayerState {
 public:
  explicit SparsePast(std::vector<KeptKeys> groups) : groups(std::move(groups)) {}

  std::unique_ptr<LayerState> copy() const override {
    auto same = std::make_unique<SparsePast>(*this);
    for (KeptKeys& group : same->groups) {
      if (group.tokens) group.tokens = group.tokens->copied();
      if (group.columns) group.columns = group.columns->copied();
    }
    return same;
  }
  std::int64_t bytes() const override {
    std::int64_t sum = 0;
    for (const ops::KeyRing* ring : rings()) sum += ring->bytes();
    return sum;
  }
  void reorder(std::span<const Index> sources) override {
    for (KeptKeys& group : groups) {
      if (group.tokens) group.tokens->reorder(sources);
      if (group.columns) group.columns->reorder(sources);
    }
  }
  std::vector<Tensor> saved() const override {
    std::vector<Tensor> tensors;
    for (const ops::KeyRing* ring : rings()) {
      std::ranges::move(ring->saved(), std::back_inserter(tensors));
    }
    return tensors;
  }
  void restore(std::span<const Tensor> saved) override;

  std::vector<KeptKeys> groups;

 private:
  std::vector<const ops::KeyRing*> rings() const {
    std::vector<const ops::KeyRing*> all;
    for (const KeptKeys& group : groups) {
      if (group.tokens) all.push_back(&*group.tokens);
      if (group.columns) all.push_back(&*group.columns);
    }
    return all;
  }
};

void SparsePast::restore(std::span<const Tensor> saved) {
  std::size_t next = 0;
  const auto take = [&](std::optional<ops::KeyRing>& ring) {
    if (!ring) return;
    const auto count = at(2 * ring->streams());
    require(next + count <= saved.size(), "state: expected keys and values of all heads, found {}",
            saved.size());
    ring->restore(saved.subspan(next, count));
    next += count;
  };
  for (KeptKeys& group : groups) {
    take(group.tokens);
    take(group.columns);
  }
  require(next == saved.size(), "state: expected {} tensors, found {}", next, saved.size());
}

KeyRows rows_in(const ops::KeyRing& ring) {
  KeyRows rows;
  for (Index s = 0; s < ring.streams(); ++s) {
    rows.of_piece.push_back({ring.begin(s), ring.begin(s) + ring.count(s)});
  }
  rows.all = ring.keys().dimension(1);
  return rows;
}

/// The given rows of every head.
Tensor rows_of_heads(const ops::Context& context, const Tensor& x, std::span<const Index> rows) {
  std::vector<Index> all;
  for (Index head = 0; head < x.dimension(0); ++head) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return ops::take_head_rows(context, x,
                             std::make_shared<const std::vector<Index>>(std::move(all)));
}

/// Keys of tokens: those of the pass, behind those that are kept.
Keys token_keys(std::span<const Tensor> projected, std::span<const Piece> pieces,
                const SharedInput& shared, KeptKeys* kept) {
  if (kept != nullptr) {
    ops::KeyRing& ring = *kept->tokens;
    ring.append(projected[1], projected[2], shared.starts);
    return {ring.keys(), ring.values(), rows_in(ring)};
  }
  Keys keys = {projected[1], projected[2], {.of_piece = {}, .all = projected[1].dimension(1)}};
  for (const Piece& piece : pieces) keys.rows.of_piece.push_back(piece.rows);
  return keys;
}

Keys column_keys(const ops::Context& context, const SparseView& view,
                 std::span<const Tensor> projected, std::span<const Piece> pieces, KeptKeys* kept) {
  if (kept == nullptr) {
    auto [rows, keys] = columns_of(view, pieces);
    return {rows_of_heads(context, projected[1], rows), rows_of_heads(context, projected[2], rows),
            std::move(keys)};
  }
  ops::KeyRing& ring = *kept->columns;
  for (std::size_t s = 0; s < pieces.size(); ++s) {
    const std::vector<Index> rows = view.columns_in(pieces[s]);
    if (rows.empty()) continue;
    ring.append_to(static_cast<Index>(s), rows_of_heads(context, projected[1], rows),
                   rows_of_heads(context, projected[2], rows));
  }
  return {ring.keys(), ring.values(), rows_in(ring)};
}

}  // namespace

double sparse_pairs(const LanguageModelConfig& config, Index layer, Index n) {
  const std::vector<Piece> pieces = {{.rows = {0, n}}};
  const KeyRows tokens = {.of_piece = {{0, n}}, .all = n};
  double pairs = 0;
  for (const SparseHeads& group : sparse_heads(config.sparse, layer, config.heads)) {
    const SparseView view(config.sparse, group);
    const auto add = [&](const HeadPattern& head, AttentionRows rows) {
      pairs += kernels::visible_pairs(
          spec_of(head, std::ssize(group.heads), config.head_size, std::move(rows)));
    };
    if (group.sees_near) add(view.near(), view.near_rows(pieces, tokens));
    if (!group.sees_far) continue;
    const KeyRows far = view.has_columns() ? columns_of(view, pieces).second : tokens;
    add(view.far(), view.far_rows(pieces, far));
  }
  return pairs;
}

SparseAttention::SparseAttention(const LanguageModelConfig& config, Index layer,
                                 const LayerSource& source)
    : sparse_(config.sparse),
      head_size_(config.head_size),
      groups_(sparse_heads(config.sparse, layer, config.heads)),
      dropout_(config.attention_dropout),
      place_(layer_place(layer)),
      query_key_value_(config, layer, source) {}

std::unique_ptr<LayerState> SparseAttention::start(DType dtype, Index streams) const {
  std::vector<KeptKeys> kept;
  for (const SparseHeads& group : groups_) {
    const SparseView view(sparse_, group);
    const auto ring = [&](Index past) {
      return ops::KeyRing({.heads = std::ssize(group.heads),
                           .head_size = head_size_,
                           .past = past,
                           .streams = streams},
                          dtype);
    };
    KeptKeys& keys = kept.emplace_back();
    if (view.has_tokens()) keys.tokens.emplace(ring(view.kept_tokens()));
    if (view.has_columns()) keys.columns.emplace(ring(kMaxReach));
  }
  return std::make_unique<SparsePast>(std::move(kept));
}

Tensor SparseAttention::forward(const ops::Context& context, const Tensor& x,
                                const LayerInput& in) const {
  std::vector<Tensor> projected =
      query_key_value_.is_infused()
          ? query_key_value_.project(context, x, in.shared.distances(), in.shared.places)
          : query_key_value_.project(context, x);
  if (in.observer != nullptr) {
    observe_by_values(context, *this, x, in, {projected[0].dimension(0), head_size_});
  }
  if (in.values != nullptr) projected[2] = *in.values;
  const std::vector<Piece> pieces = pieces_of(in.shared);
  auto* past = static_cast<SparsePast*>(in.state);
  std::vector<Tensor> results;
  std::vector<std::vector<Index>> heads;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const SparseHeads& group = groups_[g];
    const SparseView view(sparse_, group);
    KeptKeys* kept = past == nullptr ? nullptr : &past->groups[g];
    std::vector<Tensor> own = projected;
    if (groups_.size() > 1) {
      for (Tensor& part : own) part = ops::take_heads(context, part, group.heads);
    }
    std::vector<ops::KeyGroup> parts;
    const auto add = [&](const HeadPattern& head, AttentionRows rows, const Keys& keys) {
      AttentionSpec spec = spec_of(head, std::ssize(group.heads), head_size_, std::move(rows));
      spec.dropout = context.dropout(dropout_, place_ + ((2 * g + parts.size()) << 32));
      parts.push_back({.spec = std::move(spec), .key = keys.key, .value = keys.value});
    };
    std::optional<Keys> tokens;
    if (view.has_tokens()) tokens = token_keys(own, pieces, in.shared, kept);
    if (group.sees_near) add(view.near(), view.near_rows(pieces, tokens->rows), *tokens);
    if (group.sees_far) {
      const Keys far = view.has_columns() ? column_keys(context, view, own, pieces, kept) : *tokens;
      add(view.far(), view.far_rows(pieces, far.rows), far);
    }
    results.push_back(ops::attention_over(context, own[0], parts));
    heads.push_back(group.heads);
  }
  if (results.size() == 1) return results[0];
  return ops::join_heads(context, results, heads, head_size_);
}

}  // namespace longformer::models
