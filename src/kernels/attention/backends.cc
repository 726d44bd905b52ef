#include "kernels/attention/backends.h"

#include <algorithm>

#include "core/threads.h"
#include "kernels/attention/tasks.h"

namespace longformer::kernels {
namespace {

/// Weights that are summed in fp32.
constexpr Index kSumPart = 256;

/// Those of the offsets at which a query at position `first` to `last` can meet a key.
OffsetRange within_keys(OffsetRange range, const HeadPattern& pattern, const DocumentRows& rows,
                        Range positions) {
  range.first = std::max(range.first, -floor_divide(positions.end - 1, pattern.dilation));
  range.last =
      std::min(range.last, floor_divide(rows.key_count - 1 - positions.begin, pattern.dilation));
  if (rows.causal) range.last = std::min<Index>(range.last, 0);
  return range;
}

void attend_to_all(const DocumentRows& rows, const HeadRows& head, Index query, float* scores) {
  const Index d = head.head_size;
  const Index visible = rows.keys_before(query);
  const float* q = head.query + query * d;
  for (Index j = 0; j < visible; ++j) {
    const bool masked = rows.keys[j] == KeyKind::masked;
    scores[j] = masked ? kMaskedScore : head.scale * dot(q, head.key + j * d, d);
  }
  const float logsumexp = softmax_in_place(scores, visible);
  float* out = head.out + query * head.out_stride;
  std::fill_n(out, d, 0.0f);
  for (Index j = 0; j < visible; ++j) {
    if (rows.keys[j] == KeyKind::masked) continue;
    const float* value = head.value + j * d;
    for (Index c = 0; c < d; ++c) out[c] += scores[j] * value[c];
  }
  if (head.logsumexp != nullptr) head.logsumexp[query] = logsumexp;
}

}  // namespace

DocumentRows::DocumentRows(const AttentionSpec& spec, const AttentionDocument& document)
    : query_count(document.query_count),
      key_count(document.key_count),
      query_offset(document.query_offset),
      causal(spec.causal),
      keys(static_cast<std::size_t>(key_count), KeyKind::ordinary),
      queries(static_cast<std::size_t>(query_count),
              key_count == 0 ? QueryKind::nothing : QueryKind::windowed) {
  for (Index j = 0; !spec.rows->key_mask.empty() && j < key_count; ++j) {
    if (spec.rows->key_mask[document.key_begin + j] == 0) keys[j] = KeyKind::masked;
  }
  auto global = std::lower_bound(spec.rows->global_keys.begin(), spec.rows->global_keys.end(),
                                 document.key_begin);
  for (; global != spec.rows->global_keys.end() && *global < document.key_begin + key_count;
       ++global) {
    globals.push_back(*global - document.key_begin);
    keys[globals.back()] = KeyKind::global;
  }
  const bool dense_globals = spec.global_queries == GlobalQueries::see_everything;
  for (Index i = 0; i < query_count; ++i) {
    const Index position = i + query_offset;
    if (position < 0 || position >= key_count) continue;
    if (keys[position] == KeyKind::masked && spec.rows->self_attention) {
      queries[i] = QueryKind::nothing;
    }
    if (keys[position] == KeyKind::global && dense_globals) queries[i] = QueryKind::everything;
  }
}

OffsetRange offsets_of(const HeadPattern& pattern, const DocumentRows& rows) {
  const Index first = rows.query_offset;
  return within_keys({-pattern.most_left(), pattern.most_right()}, pattern, rows,
                     {first, first + rows.query_count});
}

OffsetRange offsets_at(const HeadPattern& pattern, const DocumentRows& rows, Index query) {
  const Index position = rows.query_offset + query;
  const Index own = floor_divide(position, pattern.dilation);
  const Range seen = pattern.window(position);
  return within_keys({seen.begin - own, seen.end - 1 - own}, pattern, rows,
                     {position, position + 1});
}

QueryRange queries_at(Index offset, Index dilation, const DocumentRows& rows) {
  const Index shift = rows.query_offset + offset * dilation;
  QueryRange range;
  range.begin = std::clamp<Index>(-shift, 0, rows.query_count);
  range.end = std::clamp<Index>(rows.key_count - shift, range.begin, rows.query_count);
  return range;
}

void mark_visible(const DocumentRows& rows, const HeadPattern& pattern, Index query,
                  std::span<std::uint8_t> visible) {
  std::fill(visible.begin(), visible.end(), std::uint8_t{0});
  const Index position = rows.query_offset + query;
  const OffsetRange offsets = offsets_at(pattern, rows, query);
  for (Index s = offsets.first; s <= offsets.last; ++s) {
    const Index key = position + s * pattern.dilation;
    visible[key] = rows.keys[key] != KeyKind::masked;
  }
  const Index keys = rows.keys_before(query);
  for (const Index key : rows.globals) visible[key] = key < keys;
}

HeadRows::HeadRows(const AttentionSpec& spec, const AttentionArguments& in,
                   const AttentionDocument& document, Index head)
    : head_size(spec.head_size),
      scale(1 / std::sqrt(static_cast<float>(head_size))),
      biases(in.distance_bias, head) {
  const Index nq = in.query.dimension(1);
  const Index nk = in.key.dimension(1);
  query = in.query.data<float>() + (head * nq + document.query_begin) * head_size;
  key = in.key.data<float>() + (head * nk + document.key_begin) * head_size;
  value = in.value.data<float>() + (head * nk + document.key_begin) * head_size;
  out_stride = static_cast<Index>(spec.heads.size()) * head_size;
  out = in.out.data<float>() + document.query_begin * out_stride + head * head_size;
  logsumexp = in.logsumexp == nullptr
                  ? nullptr
                  : in.logsumexp->data<float>() + head * nq + document.query_begin;
}

void attend_outside_windows(const DocumentRows& rows, const HeadRows& head, float* scores) {
  for (Index i = 0; i < rows.query_count; ++i) {
    if (rows.queries[i] == QueryKind::everything) attend_to_all(rows, head, i, scores);
    if (rows.queries[i] != QueryKind::nothing) continue;
    std::fill_n(head.out + i * head.out_stride, head.head_size, 0.0f);
    if (head.logsumexp != nullptr) head.logsumexp[i] = kMaskedScore;
  }
}

float softmax_in_place(float* scores, Index count) {
  float largest = kMaskedScore;
#pragma omp simd reduction(max : largest)
  for (Index i = 0; i < count; ++i) largest = scores[i] > largest ? scores[i] : largest;
  // One fp32 sum of a long row is off by 1e-5 of it; sums of short parts are not.
  double sum = 0;
  for (Index first = 0; first < count; first += kSumPart) {
    const Index end = std::min(count, first + kSumPart);
    float part = 0;
#pragma omp simd reduction(+ : part)
    for (Index i = first; i < end; ++i) {
      // If nothing is visible, the difference of two infinities is NaN and must not be used.
      const float weight = softmax_weight(scores[i] - largest);
      scores[i] = scores[i] == kMaskedScore ? 0.0f : weight;
      part += scores[i];
    }
    sum += part;
  }
  const auto inverse = static_cast<float>(sum == 0 ? 0.0 : 1 / sum);
  for (Index i = 0; i < count; ++i) scores[i] *= inverse;
  return largest + static_cast<float>(std::log(sum));
}

Workspace::Workspace(int threads, Index tasks, Index floats_per_worker)
    : workers_(static_cast<int>(std::clamp<Index>(tasks, 1, std::max(threads, 1)))),
      storage_({workers_, floats_per_worker}, DType::f32) {}

float* Workspace::mine() {
  const int worker = workers_ == 1 ? 0 : thread_number();
  return storage_.data<float>() + worker * storage_.dimension(1);
}

}  // namespace longformer::kernels
