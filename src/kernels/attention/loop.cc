// Diagonal by diagonal over a stored band of scores: each offset of the window is one pass over the
// document. The paper's version of least memory, and the one that needs no block structure at all.
#include <algorithm>

#include "core/threads.h"
#include "kernels/attention/backends.h"

namespace longformer::kernels {
namespace {

/// A head of one document with its band: one diagonal [nq] for every offset of the window, and one
/// for every global key.
struct Band {
  const DocumentRows& rows;
  const HeadRows& head;
  const HeadPattern& pattern;
  OffsetRange offsets;
  float* scores;

  Index diagonals() const { return offsets.count() + static_cast<Index>(rows.globals.size()); }
  float* diagonal(Index index) const { return scores + index * rows.query_count; }
};

Index band_floats(const DocumentRows& rows, const HeadPattern& pattern) {
  const Index diagonals =
      offsets_of(pattern, rows).count() + static_cast<Index>(rows.globals.size());
  return std::max(diagonals * rows.query_count, rows.key_count) + 2 * rows.query_count;
}

void score_offset(const Band& band, Index offset, float* scores) {
  const auto& [rows, head, pattern, offsets, storage] = band;
  const Index d = head.head_size;
  const QueryRange range = queries_at(offset, pattern.dilation, rows);
  const Index shift = rows.query_offset + offset * pattern.dilation;
  const float bias = head.biases.at(offset * pattern.dilation);
  // Windows of blocks do not move with the query.
  const auto in_window = [&band, offset](Index query) {
    if (band.pattern.block == 1) return true;
    const OffsetRange seen = offsets_at(band.pattern, band.rows, query);
    return seen.first <= offset && offset <= seen.last;
  };
  std::fill(scores, scores + range.begin, kMaskedScore);
  for (Index i = range.begin; i < range.end; ++i) {
    // A global key is scored once, by its own diagonal.
    const bool visible = rows.keys[i + shift] == KeyKind::ordinary && in_window(i);
    const float score = head.scale * dot(head.query + i * d, head.key + (i + shift) * d, d) + bias;
    scores[i] = visible ? score : kMaskedScore;
  }
  std::fill(scores + range.end, scores + rows.query_count, kMaskedScore);
}

void score_global(const Band& band, Index key, float* scores) {
  const auto& [rows, head, pattern, offsets, storage] = band;
  const Index d = head.head_size;
  for (Index i = 0; i < rows.query_count; ++i) {
    const float score = head.scale * dot(head.query + i * d, head.key + key * d, d);
    scores[i] = key < rows.keys_before(i) ? score : kMaskedScore;
  }
}

/// Softmax across the diagonals; `largest` and `sum` [nq] are left with the maximum and
/// denominator.
void softmax_across(const Band& band, float* largest, float* sum) {
  const Index n = band.rows.query_count;
  std::fill_n(largest, n, kMaskedScore);
  for (Index t = 0; t < band.diagonals(); ++t) {
    const float* scores = band.diagonal(t);
    for (Index i = 0; i < n; ++i) largest[i] = std::max(largest[i], scores[i]);
  }
  std::fill_n(sum, n, 0.0f);
  for (Index t = 0; t < band.diagonals(); ++t) {
    float* scores = band.diagonal(t);
    for (Index i = 0; i < n; ++i) {
      // If nothing is visible, the difference of two infinities is NaN and must not be used.
      const float weight = softmax_weight(scores[i] - largest[i]);
      scores[i] = scores[i] == kMaskedScore ? 0.0f : weight;
      sum[i] += scores[i];
    }
  }
}

/// Adds the values at `first_key`, `first_key` + key_step, … to the outputs of the queries.
void add_values(const Band& band, const float* weights, QueryRange range, Index first_key,
                Index key_step) {
  const Index d = band.head.head_size;
  for (Index i = range.begin; i < range.end; ++i) {
    // Keys that are masked have the weight 0 and must not be touched: what they hold is undefined.
    if (weights[i] == 0) continue;
    const float* value = band.head.value + (first_key + (i - range.begin) * key_step) * d;
    float* out = band.head.out + i * band.head.out_stride;
    for (Index c = 0; c < d; ++c) out[c] += weights[i] * value[c];
  }
}

void finish(const Band& band, const float* largest, const float* sum) {
  const Index d = band.head.head_size;
  for (Index i = 0; i < band.rows.query_count; ++i) {
    const float inverse = sum[i] == 0 ? 0.0f : 1 / sum[i];
    float* out = band.head.out + i * band.head.out_stride;
    for (Index c = 0; c < d; ++c) out[c] *= inverse;
    if (band.head.logsumexp != nullptr) band.head.logsumexp[i] = largest[i] + std::log(sum[i]);
  }
}

void attend_windows(const Band& band) {
  const auto& [rows, head, pattern, offsets, storage] = band;
  const Index globals_begin = offsets.count();
  const Index globals = static_cast<Index>(rows.globals.size());
  for (Index s = offsets.first; s <= offsets.last; ++s) {
    score_offset(band, s, band.diagonal(s - offsets.first));
  }
  for (Index g = 0; g < globals; ++g) {
    score_global(band, rows.globals[g], band.diagonal(globals_begin + g));
  }
  float* largest = band.diagonal(band.diagonals());
  float* sum = largest + rows.query_count;
  softmax_across(band, largest, sum);

  for (Index i = 0; i < rows.query_count; ++i) {
    std::fill_n(head.out + i * head.out_stride, head.head_size, 0.0f);
  }
  for (Index s = offsets.first; s <= offsets.last; ++s) {
    const QueryRange range = queries_at(s, pattern.dilation, rows);
    const Index first_key = range.begin + rows.query_offset + s * pattern.dilation;
    add_values(band, band.diagonal(s - offsets.first), range, first_key, 1);
  }
  for (Index g = 0; g < globals; ++g) {
    add_values(band, band.diagonal(globals_begin + g), {0, rows.query_count}, rows.globals[g], 0);
  }
  finish(band, largest, sum);
}

}  // namespace

void attention_loop(const AttentionSpec& spec, const AttentionArguments& in) {
  const Index heads = static_cast<Index>(spec.heads.size());
  for (const AttentionDocument& document : spec.rows->documents) {
    const DocumentRows rows(spec, document);
    Index floats = 0;
    for (const HeadPattern& pattern : spec.heads) {
      floats = std::max(floats, band_floats(rows, pattern));
    }
    Workspace workspace(in.threads, heads, floats);
    parallel_for(workspace.workers(), heads, [&](Index head) {
      const HeadRows head_rows(spec, in, document, head);
      const HeadPattern& pattern = spec.heads[head];
      float* scores = workspace.mine();
      attend_windows({rows, head_rows, pattern, offsets_of(pattern, rows), scores});
      attend_outside_windows(rows, head_rows, scores);
    });
  }
}

}  // namespace longformer::kernels
