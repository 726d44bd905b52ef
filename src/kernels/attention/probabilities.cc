#include "kernels/attention/probabilities.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/threads.h"
#include "kernels/attention/backends.h"
#include "kernels/attention/distance_keys.h"
#include "kernels/gemm.h"

namespace longformer::kernels {
namespace {

/// Queries of one task.
constexpr Index kQueryBlock = 64;

/// One head of one document in fp32.
struct Head {
  const DocumentRows& rows;
  const HeadPattern& pattern;
  ProbabilityLayout layout;
  Index size;
  /// [nq, d] and [nk, d].
  const float* query;
  const float* key;
  /// [globals, d]; of the band form only.
  std::vector<float> global_keys;
  HeadBiases biases;
  const ScoreTerm& term;
  const DistanceKeys* distances = nullptr;
  /// Products of queries with keys of distances, and of keys with queries of distances, scaled,
  /// [n, P]; empty without.
  std::vector<float> query_rows = {}, key_rows = {};
  const RelativePositions* relative = nullptr;
  const RowPlaces* places = nullptr;
  Index number = 0, query_begin = 0, key_begin = 0;
  /// q + u [nq, d], and products of q + v with relative keys, scaled, [nq, m]; empty without.
  std::vector<float> content_query = {}, relative_rows = {};
  float* out;

  float scale() const { return 1 / std::sqrt(static_cast<float>(size)); }
};

float relative_term(const Head& head, Index query, Index key) {
  const Index rows = head.relative->keys.dimension(1);
  Index row = (head.rows.query_offset + query - key) / head.pattern.dilation;
  float term = 0;
  if (head.places != nullptr) {
    row = head.places->query_number(head.query_begin + query) -
          head.places->key_number(head.key_begin + key);
    const Tensor* scores = head.relative->kind_scores;
    const auto& kinds = head.places->key_kinds;
    const auto kind = kinds.empty() ? RowPlaces::kNoKind : kinds[at(head.key_begin + key)];
    if (scores != nullptr && kind != RowPlaces::kNoKind) {
      const Index of_head = head.number * scores->dimension(1) + head.query_begin + query;
      term = scores->data<float>()[of_head * scores->dimension(2) + kind];
    }
  }
  return row < 0 || row >= rows ? term : term + head.relative_rows[at(query * rows + row)];
}

/// The terms of positions in the score of a query and a key of the document.
float position_term(const Head& head, Index query, Index key) {
  const Index position = head.rows.query_offset + query;
  float term = head.biases.at(key - position);
  if (head.term) term += head.term(query, key);
  if (head.relative != nullptr) term += relative_term(head, query, key);
  if (head.distances == nullptr) return term;
  const Index row = row_at(*head.distances, position - key), count = head.distances->count();
  if (!head.query_rows.empty()) term += head.query_rows[query * count + row];
  if (!head.key_rows.empty()) term += head.key_rows[key * count + row];
  return term;
}

/// Queries first, first + stride, …: with the dilation as stride their windows share keys.
struct QueryBlock {
  Index first = 0;
  Index stride = 1;
  Index count = 0;

  Index query(Index t) const { return first + t * stride; }
};

/// Products of the queries of a block with `count` keys that are key_stride apart, into rows of
/// ldc numbers.
struct Products {
  const float* keys;
  Index count;
  Index key_stride;
  float* out;
  Index ldc;
};

void multiply(const Head& head, const QueryBlock& block, const Products& products) {
  gemm({.m = block.count,
        .n = products.count,
        .k = head.size,
        .transpose_b = true,
        .lda = block.stride * head.size,
        .ldb = products.key_stride * head.size,
        .ldc = products.ldc,
        .alpha = head.scale()},
       head.query + block.first * head.size, products.keys, products.out);
}

void mark_dense(const Head& head, Index query, std::span<std::uint8_t> visible) {
  const DocumentRows& rows = head.rows;
  if (rows.queries[query] == QueryKind::windowed) {
    return mark_visible(rows, head.pattern, query, visible);
  }
  std::fill(visible.begin(), visible.end(), std::uint8_t{0});
  if (rows.queries[query] == QueryKind::nothing) return;
  for (Index j = 0; j < rows.keys_before(query); ++j) {
    visible[j] = rows.keys[j] != KeyKind::masked;
  }
}

void fill_dense(const Head& head, const QueryBlock& block, std::span<std::uint8_t> visible) {
  const ProbabilityLayout& layout = head.layout;
  const DocumentRows& rows = head.rows;
  if (layout.columns == 0) return;
  multiply(head, block,
           {head.key, rows.key_count, 1, head.out + block.first * layout.columns, layout.columns});
  for (Index t = 0; t < block.count; ++t) {
    const Index i = block.query(t);
    float* scores = head.out + i * layout.columns;
    mark_dense(head, i, visible);
    for (Index j = 0; j < layout.columns; ++j) {
      scores[j] = visible[j] == 0 ? kMaskedScore : scores[j] + position_term(head, i, j);
    }
    softmax_in_place(scores, layout.columns);
  }
}

/// The row of one query; `window` holds its products with the keys at `offsets`.
void fill_band_row(const Head& head, Index i, OffsetRange offsets, const float* window) {
  const DocumentRows& rows = head.rows;
  float* scores = head.out + i * head.layout.columns;
  if (rows.queries[i] == QueryKind::nothing) {
    std::fill_n(scores, head.layout.columns, 0.0f);
    return;
  }
  const Index visible = rows.keys_before(i);
  for (Index g = 0; g < head.layout.globals; ++g) {
    if (rows.globals[g] >= visible) scores[g] = kMaskedScore;
  }
  float* band = scores + head.layout.globals;
  std::fill_n(band, head.layout.columns - head.layout.globals, kMaskedScore);
  const Index position = rows.query_offset + i;
  for (Index s = offsets.first; s <= offsets.last; ++s) {
    const Index key = position + s * head.pattern.dilation;
    if (rows.keys[key] != KeyKind::ordinary) continue;
    band[head.pattern.most_left() + s] = window[s - offsets.first] + position_term(head, i, key);
  }
  softmax_in_place(scores, head.layout.columns);
}

void fill_band(const Head& head, const QueryBlock& block, float* scratch) {
  const DocumentRows& rows = head.rows;
  const HeadPattern& pattern = head.pattern;
  const ProbabilityLayout& layout = head.layout;
  const OffsetRange first = offsets_at(pattern, rows, block.first);
  const OffsetRange last = offsets_at(pattern, rows, block.query(block.count - 1));
  // Query t meets at offset s the key number t + s, counted from the position of query 0; neither
  // the first key of a window nor its last one moves back.
  const Index begin = first.first;
  const Index keys = block.count - 1 + last.last - begin + 1;
  if (keys > 0) {
    const Index position = rows.query_offset + block.first + begin * pattern.dilation;
    multiply(head, block, {head.key + position * head.size, keys, pattern.dilation, scratch, keys});
  }
  if (layout.globals > 0) {
    multiply(head, block,
             {head.global_keys.data(), layout.globals, 1, head.out + block.first * layout.columns,
              block.stride * layout.columns});
  }
  for (Index t = 0; t < block.count; ++t) {
    const Index i = block.query(t);
    const OffsetRange offsets = offsets_at(pattern, rows, i);
    const bool any = keys > 0 && offsets.count() > 0;
    fill_band_row(head, i, offsets,
                  any ? scratch + t * keys + (t + offsets.first - begin) : nullptr);
  }
}

std::vector<QueryBlock> blocks_of(Index queries, Index stride) {
  std::vector<QueryBlock> blocks;
  for (Index residue = 0; residue < std::min(stride, queries); ++residue) {
    const Index count = (queries - residue + stride - 1) / stride;
    for (Index t = 0; t < count; t += kQueryBlock) {
      blocks.push_back({residue + t * stride, stride, std::min(kQueryBlock, count - t)});
    }
  }
  return blocks;
}

std::vector<float> gathered(const std::vector<Index>& rows, const float* from, Index width) {
  std::vector<float> result(rows.size() * static_cast<std::size_t>(width));
  for (std::size_t g = 0; g < rows.size(); ++g) {
    std::copy_n(from + rows[g] * width, width, result.data() + static_cast<Index>(g) * width);
  }
  return result;
}

/// The queries of a head with a bias of that head, [nq, d].
std::vector<float> biased(const Head& head, const Tensor& bias) {
  const float* own = bias.data<float>() + head.number * head.size;
  std::vector<float> sums(head.query, head.query + head.rows.query_count * head.size);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += own[i % at(head.size)];
  return sums;
}

/// The rows of one head in fp32, [n, d].
Tensor head_of(const Tensor& tensor, Index head) {
  return tensor.slice_rows(head, 1).to(DType::f32);
}

}  // namespace

ProbabilityLayout probability_layout(const AttentionSpec& spec, DocumentHead which) {
  const auto& document = spec.rows->documents[static_cast<std::size_t>(which.document)];
  const HeadPattern& pattern = spec.heads[static_cast<std::size_t>(which.head)];
  ProbabilityLayout layout;
  layout.rows = document.query_count;
  layout.dense = pattern.reach_left >= kUnlimitedReach || pattern.reach_right >= kUnlimitedReach;
  if (layout.dense) {
    layout.columns = document.key_count;
    return layout;
  }
  const auto& globals = spec.rows->global_keys;
  const Index end = document.key_begin + document.key_count;
  layout.globals = std::lower_bound(globals.begin(), globals.end(), end) -
                   std::lower_bound(globals.begin(), globals.end(), document.key_begin);
  layout.columns = layout.globals + pattern.most_left() + pattern.most_right() + 1;
  return layout;
}

void attention_probabilities(const AttentionSpec& spec, const ScoreInputs& in, DocumentHead which,
                             std::span<float> out, int threads) {
  check(spec);
  const auto& document = spec.rows->documents[static_cast<std::size_t>(which.document)];
  const DocumentRows rows(spec, document);
  const ProbabilityLayout layout = probability_layout(spec, which);
  require(static_cast<Index>(out.size()) == layout.rows * layout.columns,
          "attention probabilities: expected room for {} rows of {}, found {} numbers", layout.rows,
          layout.columns, out.size());
  const bool sees_all = spec.global_queries == GlobalQueries::see_everything;
  require(layout.dense || !sees_all || rows.globals.empty(),
          "attention probabilities: expected global queries with a window, found ones that see "
          "everything, which the band form has no columns for");
  const Tensor queries = head_of(in.query, which.head);
  const Tensor keys = head_of(in.key, which.head);
  require(layout.dense || !in.term,
          "attention probabilities: expected a head that sees everything with a term of its own, "
          "found a window");
  const Index d = spec.head_size;
  Head head = {.rows = rows,
               .pattern = spec.heads[static_cast<std::size_t>(which.head)],
               .layout = layout,
               .size = d,
               .query = queries.data<float>() + document.query_begin * d,
               .key = keys.data<float>() + document.key_begin * d,
               .global_keys = {},
               .biases = {in.distance_bias, which.head},
               .term = in.term,
               .out = out.data()};
  if (!layout.dense) head.global_keys = gathered(rows.globals, head.key, d);
  const auto products = [&](const float* of, Index count, const Tensor* with) {
    std::vector<float> found;
    if (with == nullptr) return found;
    const Tensor rows_of_head = head_of(*with, which.head);
    found.resize(static_cast<std::size_t>(count * with->dimension(1)));
    gemm({.m = count, .n = with->dimension(1), .k = d, .transpose_b = true, .alpha = head.scale()},
         of, rows_of_head.data<float>(), found.data());
    return found;
  };
  if (in.distance_keys != nullptr) {
    head.distances = in.distance_keys;
    head.query_rows = products(head.query, rows.query_count, in.distance_keys->keys);
    head.key_rows = products(head.key, rows.key_count, in.distance_keys->queries);
  }
  if (in.relative != nullptr) {
    head.relative = in.relative;
    if (spec.rows->places) head.places = &*spec.rows->places;
    head.number = which.head;
    head.query_begin = document.query_begin;
    head.key_begin = document.key_begin;
    const std::vector<float> moved = biased(head, in.relative->position_bias);
    head.relative_rows = products(moved.data(), rows.query_count, &in.relative->keys);
    head.content_query = biased(head, in.relative->content_bias);
    head.query = head.content_query.data();
  }
  const auto blocks = blocks_of(layout.rows, layout.dense ? 1 : head.pattern.dilation);
  const auto tasks = static_cast<Index>(blocks.size());
  // A dense row needs a byte per key; a block of the band its products with all keys in reach.
  const Index reach = head.pattern.most_left() + head.pattern.most_right();
  const Index room = layout.dense ? layout.columns / 4 + 1
                                  : kQueryBlock * std::min(kQueryBlock + reach, rows.key_count);
  Workspace workspace(threads, tasks, room);
  parallel_for(workspace.workers(), tasks, [&](Index task) {
    const QueryBlock& block = blocks[static_cast<std::size_t>(task)];
    if (layout.dense) {
      auto* bytes = reinterpret_cast<std::uint8_t*>(workspace.mine());
      fill_dense(head, block, {bytes, static_cast<std::size_t>(layout.columns)});
    } else {
      fill_band(head, block, workspace.mine());
    }
  });
}

}  // namespace longformer::kernels
