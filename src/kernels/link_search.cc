#include "kernels/link_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "core/threads.h"
#include "kernels/gemm.h"
#include "kernels/link_bounds.h"
#include "kernels/link_scan.h"
#include "kernels/link_scores.h"

namespace longformer::kernels {
namespace {

/// Keys whose bounds are in the cache at a time, with 256 spans.
constexpr Index kBoundedKeys = 512;
/// Blocks with fewer spans before them are computed whole.
constexpr Index kFewestKeys = 4 * kLinkRows;
/// A block is computed whole if more than one link of so many stays open, or if so many of them
/// have to be compared: the score of a link alone takes ten times as long as in a product of
/// matrices.
constexpr Index kOpenShare = 4, kComparedShare = 32;

/// A link whose score, without that of the later mention, is at most `value`; later that score.
struct OpenLink {
  float value;
  Index before;
};

/// Links of one span that may still be the best.
struct SpanSearch {
  /// Only links whose value is above it can be the best one.
  float limit = 0;
  std::vector<OpenLink> open;
};

/// The best of the links that were offered, in their order; none where that is not above 0.
struct BestLink {
  float score = 0;
  Index before = -1;

  void offer(float other, Index span) {
    if (!better_link(other, score)) return;
    score = other;
    before = span;
  }
};

/// Rounded down, so that a limit stays one.
float below(double value) {
  return std::nextafter(static_cast<float>(value), -std::numeric_limits<float>::infinity());
}

/// The search for a block of kLinkRows spans.
class BlockSearch {
 public:
  BlockSearch(const SpanLinks& links, const LinkBounds& bounds, Index begin)
      : links_(links), bounds_(bounds), begin_(begin), spans_(at(kLinkRows)) {}

  /// Writes the best links of the block's spans; false where bounds do not help.
  bool run(std::span<Index> best) {
    if (!bound()) return false;
    for (Index row = 0; row < kLinkRows; ++row) {
      compare(row, best[at(row)]);
      if (computed_ > kLinkRows * (end() / kComparedShare)) return false;
    }
    settle(best);
    return true;
  }
  /// Links whose score was computed.
  Index computed() const { return computed_; }

 private:
  Index end() const { return begin_ + kLinkRows; }
  const float* mentions() const { return links_.mentions.data<float>(); }

  /// Finds the open links of all spans; the nearest first, among which the best ones mostly are.
  bool bound() {
    for (Index row = 0; row < kLinkRows; ++row) {
      const Index u = begin_ + row;
      if (!std::isfinite(bounds_.margins[at(u)])) return false;
      spans_[at(row)].limit = below(-static_cast<double>(mentions()[u]) - bounds_.margins[at(u)]);
    }
    std::vector<float> upper(at(kLinkRows * kBoundedKeys));
    const Index most = kLinkRows * (end() / kOpenShare);
    Index open = 0;
    for (Index last = end(); last > 0; last -= std::min(last, kBoundedKeys)) {
      const Index first = std::max<Index>(0, last - kBoundedKeys), width = bounds_.width();
      gemm({.m = kLinkRows, .n = last - first, .k = width, .transpose_b = true},
           bounds_.queries.data<BFloat16>() + begin_ * width,
           bounds_.keys.data<BFloat16>() + first * width, upper.data());
      for (Index row = 0; row < kLinkRows; ++row) {
        const Index keys = std::min(last, begin_ + row) - first;
        if (keys <= 0) continue;
        const std::span<const float> values(upper.data() + row * (last - first), at(keys));
        const Index more = take_open(row, first, values);
        if (more < 0) return false;
        open += more;
      }
      if (open > most) return false;
    }
    return true;
  }

  /// Appends the links of `values`, upper bounds of those with spans from `first` on, that are
  /// open; returns their number, −1 for one that is not finite.
  Index take_open(Index row, Index first, std::span<const float> values) {
    SpanSearch& span = spans_[at(row)];
    places_.clear();
    places_above(values, span.limit, places_);
    const Index u = begin_ + row;
    const double margin = 2 * bounds_.margins[at(u)];
    for (const Index place : places_) {
      const float value = values[at(place)];
      if (!std::isfinite(value)) return -1;
      const double lowest =
          static_cast<double>(value) - 2 * bounds_.slack(u, first + place) - margin;
      if (lowest > static_cast<double>(span.limit)) span.limit = below(lowest);
      span.open.push_back({value, first + place});
    }
    return std::ssize(places_);
  }

  /// The scores of open links, the most promising first, until no other can be better.
  void compare(Index row, Index& best) {
    SpanSearch& span = spans_[at(row)];
    const Index u = begin_ + row;
    std::erase_if(span.open, [&](const OpenLink& link) { return link.value <= span.limit; });
    // A heap, since few of them are taken.
    const auto less = [](const OpenLink& a, const OpenLink& b) { return a.value < b.value; };
    std::make_heap(span.open.begin(), span.open.end(), less);
    const double rounding = bounds_.roundings[at(u)];
    const double nothing = -static_cast<double>(mentions()[u]);
    double highest = nothing - rounding;
    std::vector<OpenLink> compared;
    for (auto last = span.open.end(); last != span.open.begin();) {
      if (span.open.front().value <= span.limit) break;
      std::pop_heap(span.open.begin(), last--, less);
      if (last != span.open.begin()) prefetch(span.open.front().before);
      compared.push_back({value_of(u, last->before), last->before});
      highest = std::max(highest, static_cast<double>(compared.back().value));
      span.limit = std::max(span.limit, below(highest - rounding - bounds_.margins[at(u)]));
    }
    computed_ += std::ssize(compared);
    span.open = std::move(compared);
    // Links so near to the best, or to nothing, that rounding decides between them.
    std::erase_if(span.open, [&](const OpenLink& link) {
      return static_cast<double>(link.value) < highest - 2 * rounding;
    });
    best = -1;
    if (span.open.size() == 1 && highest > nothing + 2 * rounding) {
      best = span.open[0].before;
      span.open.clear();
    }
  }

  /// Rows that are compared next come into the cache while others are multiplied.
  void prefetch(Index v) const {
    for (const Tensor* key : {&links_.start_key, &links_.end_key}) prefetch_row(*key, v);
  }

  float value_of(Index u, Index v) const {
    return links_.scale * (row_product(links_.start_query, u, links_.start_key, v) +
                           row_product(links_.end_query, u, links_.end_key, v)) +
           mentions()[v];
  }

  /// Decides what rounding decides as unbounded_antecedents() does: by products of as many rows and
  /// columns, of which oneDNN rounds each element alike.
  void settle(std::span<Index> best) {
    std::map<Index, Index> column_of;
    for (const SpanSearch& span : spans_) {
      for (const OpenLink& link : span.open) column_of.emplace(link.before, 0);
    }
    if (column_of.empty()) return;
    std::vector<Index> keys;
    for (auto& [before, column] : column_of) {
      column = std::ssize(keys);
      keys.push_back(before);
    }
    const std::vector<float> products = products_with(keys);
    for (Index row = 0; row < kLinkRows; ++row) {
      std::vector<OpenLink>& open = spans_[at(row)].open;
      std::sort(open.begin(), open.end(),
                [](const OpenLink& a, const OpenLink& b) { return a.before < b.before; });
      BestLink found;
      for (const OpenLink& link : open) {
        const Index column = column_of.at(link.before), tile = column / kLinkRows;
        const float product =
            products[at((tile * kLinkRows + row) * kLinkRows + column % kLinkRows)];
        found.offer(product + (mentions()[begin_ + row] + mentions()[link.before]), link.before);
      }
      if (found.before >= 0) best[at(row)] = found.before;
    }
  }

  /// Tiles [kLinkRows, kLinkRows] of the products of all spans of the block with the keys of these.
  std::vector<float> products_with(std::vector<Index> keys) const {
    constexpr Index kTile = kLinkRows * kLinkRows;
    const Index tiles = (std::ssize(keys) + kLinkRows - 1) / kLinkRows;
    keys.resize(at(tiles * kLinkRows), keys.front());
    std::vector<float> products(at(tiles * kTile));
    const Tensor start = key_rows(links_.start_key, keys), end_key = key_rows(links_.end_key, keys);
    const SpanLinks few = {.mentions = links_.mentions,
                           .start_query = links_.start_query,
                           .end_query = links_.end_query,
                           .start_key = start,
                           .end_key = end_key,
                           .scale = links_.scale};
    for (Index tile = 0; tile < tiles; ++tile) {
      link_products(few, {begin_, end()}, {tile * kLinkRows, (tile + 1) * kLinkRows},
                    products.data() + tile * kTile);
    }
    return products;
  }
  static Tensor key_rows(const Tensor& keys, std::span<const Index> rows) {
    Tensor selected({std::ssize(rows), keys.columns()}, keys.dtype());
    select_rows(keys, rows, selected);
    return selected;
  }

  const SpanLinks& links_;
  const LinkBounds& bounds_;
  Index begin_;
  std::vector<SpanSearch> spans_;
  std::vector<Index> places_;
  Index computed_ = 0;
};

RowRange block_of(Index number, Index count) {
  return {number * kLinkRows, std::min(count, (number + 1) * kLinkRows)};
}

/// Spans whose links with a block of others are scored together, and those others.
struct LinkTile {
  RowRange rows, keys;
};

/// The tiles of spans that begin with a block, those of each block in the order of its keys.
std::vector<LinkTile> tiles_of(RowRange rows) {
  std::vector<LinkTile> tiles;
  for (Index number = rows.begin / kLinkRows; number * kLinkRows < rows.end; ++number) {
    const RowRange block = block_of(number, rows.end);
    for (Index keys = 0; keys <= number; ++keys)
      tiles.push_back({block, block_of(keys, block.end)});
  }
  return tiles;
}

/// Writes the best link of each of the tile's spans to those before them in it.
void best_in(const SpanLinks& links, const LinkTile& tile, std::span<BestLink> best) {
  const auto* mentions = links.mentions.data<float>();
  const Index width = tile.keys.end - tile.keys.begin;
  std::vector<float> products(at((tile.rows.end - tile.rows.begin) * width));
  link_products(links, tile.rows, tile.keys, products.data());
  const float* next = products.data();
  for (Index u = tile.rows.begin; u < tile.rows.end; ++u, next += width) {
    BestLink& one = best[at(u - tile.rows.begin)];
    for (Index v = tile.keys.begin; v < std::min(tile.keys.end, u); ++v) {
      one.offer(next[v - tile.keys.begin] + (mentions[u] + mentions[v]), v);
    }
  }
}

/// The best links of spans [rows), which begin with a block, from all their scores.
void all_links(const SpanLinks& links, RowRange rows, int threads, std::span<Index> best) {
  const std::vector<LinkTile> tiles = tiles_of(rows);
  std::vector<BestLink> found(tiles.size() * at(kLinkRows));
  const auto found_in = [&](std::size_t tile) {
    return std::span(found).subspan(tile * at(kLinkRows), at(kLinkRows));
  };
  parallel_for(threads, std::ssize(tiles),
               [&](Index tile) { best_in(links, tiles[at(tile)], found_in(at(tile))); });
  std::vector<BestLink> all(best.size());
  for (std::size_t tile = 0; tile < tiles.size(); ++tile) {
    for (Index u = tiles[tile].rows.begin; u < tiles[tile].rows.end; ++u) {
      const BestLink& one = found_in(tile)[at(u - tiles[tile].rows.begin)];
      all[at(u - rows.begin)].offer(one.score, one.before);
    }
  }
  std::transform(all.begin(), all.end(), best.begin(),
                 [](const BestLink& link) { return link.before; });
}

std::span<Index> part_of(std::vector<Index>& best, RowRange rows) {
  return std::span(best).subspan(at(rows.begin), at(rows.end - rows.begin));
}

Index links_before(RowRange rows) {
  return (rows.end * (rows.end - 1) - rows.begin * (rows.begin - 1)) / 2;
}

}  // namespace

std::vector<Index> bounded_antecedents(const SpanLinks& links, Index directions, int threads,
                                       LinkCounts* counts) {
  const Index count = links.size();
  std::vector<Index> best(at(count), -1);
  const Index blocks = (count + kLinkRows - 1) / kLinkRows;
  std::vector<Index> computed(at(blocks), -1);
  if (count > kFewestKeys) {
    const LinkBounds bounds = link_bounds(links, directions, threads);
    // The last blocks take longest, so they begin first.
    parallel_for(threads, blocks, [&](Index number) {
      const RowRange rows = block_of(blocks - 1 - number, count);
      if (rows.begin < kFewestKeys || rows.end - rows.begin < kLinkRows) return;
      BlockSearch search(links, bounds, rows.begin);
      if (search.run(part_of(best, rows))) computed[at(blocks - 1 - number)] = search.computed();
    });
  }
  for (Index number = 0; number < blocks; ++number) {
    const RowRange rows = block_of(number, count);
    const bool whole = computed[at(number)] < 0;
    if (whole) all_links(links, rows, threads, part_of(best, rows));
    if (counts == nullptr) continue;
    counts->all += links_before(rows);
    counts->computed += whole ? links_before(rows) : computed[at(number)];
  }
  return best;
}

std::vector<Index> unbounded_antecedents(const SpanLinks& links, int threads) {
  const Index count = links.size();
  std::vector<Index> best(at(count), -1);
  // Threads wait for each other once for so many spans.
  constexpr Index kRows = 8 * kLinkRows;
  for (Index begin = 0; begin < count; begin += kRows) {
    const RowRange rows = {begin, std::min(count, begin + kRows)};
    all_links(links, rows, threads, part_of(best, rows));
  }
  return best;
}

}  // namespace longformer::kernels
