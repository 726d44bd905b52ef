#include "kernels/attention/few_queries.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <vector>

#include "core/threads.h"
#include "kernels/simd_dispatch.h"
#include "kernels/softmax_weight.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/few_queries.cc"
// clang-format off
#include <hwy/foreach_target.h>  // comes before every other header of Highway
#include <hwy/highway.h>
// clang-format on

#include "kernels/simd_float_inl.h"
#include "kernels/simd_softmax_weight_inl.h"
#include "kernels/simd_sums_inl.h"

HWY_BEFORE_NAMESPACE();
namespace longformer::kernels {
namespace HWY_NAMESPACE {

/// Keys of one step of the online softmax; their rows stay in the cache for all queries.
constexpr Index kStepKeys = 128;
/// Queries, and keys, whose sums fit into registers.
constexpr Index kTogether = 4;

/// One query of one head on its way through the keys.
struct Query {
  alignas(64) std::array<float, kStepKeys> weights;
  float highest = -std::numeric_limits<float>::infinity();
  float denominator = 0;
};

/// Keys or values of one step: `count` rows of d numbers, `stride` apart.
template <typename T>
struct StepRows {
  const T* first = nullptr;
  Index count = 0, stride = 0, head_size = 0;
};

/// sums[q][k] += query q · row k in all columns that fill vectors; the first column behind them.
template <Index kQueries, typename T>
HWY_INLINE Index AddProducts(const float* query, const T* const* rows, Index head_size,
                             FloatVector (*sums)[kTogether]) {
  const Index lanes = static_cast<Index>(hn::Lanes(Float()));
  Index c = 0;
  for (; c + lanes <= head_size; c += lanes) {
    FloatVector parts[kTogether];
    for (Index k = 0; k < kTogether; ++k) parts[k] = LoadFloats(rows[k] + c);
    for (Index q = 0; q < kQueries; ++q) {
      const auto part = hn::LoadU(Float(), query + q * head_size + c);
      for (Index k = 0; k < kTogether; ++k) sums[q][k] = hn::MulAdd(part, parts[k], sums[q][k]);
    }
  }
  return c;
}

/// scores[k] += query · row k in the columns behind the vectors.
template <typename T>
HWY_INLINE void AddRest(const float* query, const T* const* rows, Index whole, Index head_size,
                        float* scores) {
  for (Index c = whole; c < head_size; ++c) {
    for (Index k = 0; k < kTogether; ++k) scores[k] += query[c] * static_cast<float>(rows[k][c]);
  }
}

/// The row a page behind: the CPU stops fetching at the end of each page, and the sums of several
/// queries are too long to wait for it then. Four beams in fp32 took 11.9 ms a step instead
/// of 10.0; bf16 has half the bytes, and gains nothing.
template <typename T>
HWY_INLINE void FetchAhead(const T* row, Index head_size) {
  constexpr Index kPage = 4096 / sizeof(T), kLine = 64 / sizeof(T);
  for (Index c = 0; c < head_size; c += kLine) hwy::Prefetch(row + kPage + c);
}

/// Scores of the keys first … first + 3 that there are.
template <Index kQueries, typename T>
HWY_INLINE void ScoresOfFour(const float* query, const StepRows<T>& keys, Index first,
                             Query* queries) {
  const T* rows[kTogether];
  // A row that is not there is the last one again; its sum is not read.
  for (Index k = 0; k < kTogether; ++k) {
    rows[k] = keys.first + std::min(first + k, keys.count - 1) * keys.stride;
    if constexpr (kQueries > 1 && sizeof(T) == sizeof(float)) FetchAhead(rows[k], keys.head_size);
  }
  // The constructor of a std::array is compiled for the instruction set of the file.
  FloatVector sums[kQueries][kTogether];
  for (Index q = 0; q < kQueries; ++q) {
    for (Index k = 0; k < kTogether; ++k) sums[q][k] = hn::Zero(Float());
  }
  const Index whole = AddProducts<kQueries>(query, rows, keys.head_size, sums);
  for (Index q = 0; q < kQueries; ++q) {
    float* scores = queries[q].weights.data() + first;
    StoreSumsOfFour(Float(), sums[q], scores);
    AddRest(query + q * keys.head_size, rows, whole, keys.head_size, scores);
  }
}

/// Scores of the keys for `kQueries` queries; query [kQueries, d] fp32, scaled. Four keys at a time
/// share the sums over lanes, which took twice as long as the products: four beams behind 4,096
/// tokens took 7.5 ms for a step of LED-base in bf16 instead of 5.7.
template <Index kQueries, typename T>
HWY_NOINLINE void Scores(const float* query, const StepRows<T>& keys, Query* queries) {
  // AVX-512 has registers for all sums, AVX2 for half of them.
  constexpr Index kAtOnce = hn::MaxLanes(Float()) >= 16 ? kQueries : std::min<Index>(kQueries, 2);
  for (Index first = 0; first < keys.count; first += kTogether) {
    Index q = 0;
    for (; q + kAtOnce <= kQueries; q += kAtOnce) {
      ScoresOfFour<kAtOnce>(query + q * keys.head_size, keys, first, queries + q);
    }
    for (; q < kQueries; ++q) {
      ScoresOfFour<1>(query + q * keys.head_size, keys, first, queries + q);
    }
  }
}

/// out[q] = out[q]·rescale[q] + Σ weight·value, in `kVectors` vectors of columns from c on.
template <Index kQueries, Index kVectors, typename T>
HWY_INLINE void AddColumns(const StepRows<T>& values, Index c, const Query* queries,
                           const float* rescale, float* out) {
  const Index lanes = static_cast<Index>(hn::Lanes(Float()));
  FloatVector sums[kQueries][kVectors];
  for (Index q = 0; q < kQueries; ++q) {
    for (Index v = 0; v < kVectors; ++v) sums[q][v] = hn::Zero(Float());
  }
  for (Index key = 0; key < values.count; ++key) {
    const T* row = values.first + key * values.stride + c;
    FloatVector parts[kVectors];
    for (Index v = 0; v < kVectors; ++v) parts[v] = LoadFloats(row + v * lanes);
    for (Index q = 0; q < kQueries; ++q) {
      const auto weight = hn::Set(Float(), queries[q].weights[static_cast<std::size_t>(key)]);
      for (Index v = 0; v < kVectors; ++v) sums[q][v] = hn::MulAdd(weight, parts[v], sums[q][v]);
    }
  }
  for (Index q = 0; q < kQueries; ++q) {
    const auto scale = hn::Set(Float(), rescale[q]);
    for (Index v = 0; v < kVectors; ++v) {
      float* to = out + q * values.head_size + c + v * lanes;
      hn::StoreU(hn::MulAdd(hn::LoadU(Float(), to), scale, sums[q][v]), Float(), to);
    }
  }
}

/// out[q] = out[q]·rescale[q] + Σ weight·value.
template <Index kQueries, typename T>
HWY_NOINLINE void AddValues(const StepRows<T>& values, const Query* queries, const float* rescale,
                            float* out) {
  const Index lanes = static_cast<Index>(hn::Lanes(Float())), head_size = values.head_size;
  // Rows are read in the order of memory, in as many vectors as the registers hold sums.
  constexpr Index kVectors = hn::MaxLanes(Float()) >= 16 ? 4 : 2;
  Index c = 0;
  for (; c + kVectors * lanes <= head_size; c += kVectors * lanes) {
    AddColumns<kQueries, kVectors>(values, c, queries, rescale, out);
  }
  for (; c + lanes <= head_size; c += lanes) {
    AddColumns<kQueries, 1>(values, c, queries, rescale, out);
  }
  for (; c < head_size; ++c) {
    for (Index q = 0; q < kQueries; ++q) {
      float sum = 0;
      for (Index key = 0; key < values.count; ++key) {
        sum += queries[q].weights[static_cast<std::size_t>(key)] *
               static_cast<float>(values.first[key * values.stride + c]);
      }
      float& to = out[q * head_size + c];
      to = to * rescale[q] + sum;
    }
  }
}

/// Turns scores into weights relative to the highest so far; what earlier sums are multiplied with.
float Weigh(Query& query, Index count) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const Index lanes = static_cast<Index>(hn::Lanes(Float()));
  float* scores = query.weights.data();
  std::fill(scores + count, scores + (count + lanes - 1) / lanes * lanes, kNone);
  auto highest = hn::Set(Float(), kNone);
  for (Index key = 0; key < count; key += lanes) {
    highest = hn::Max(highest, hn::Load(Float(), scores + key));
  }
  // A NaN may be lost here, to the −∞ of lanes without a key too; its weight is a NaN.
  const float top = hn::GetLane(hn::MaxOfLanes(Float(), highest));
  float raised = highest_of(query.highest, top);
  const auto is_nan = [](float score) { return std::isnan(score); };
  if (raised == kNone && std::any_of(scores, scores + count, is_nan)) {
    raised = std::numeric_limits<float>::quiet_NaN();
  }
  if (raised == kNone) {
    std::fill_n(scores, count, 0.0f);
    return 1;
  }
  const float rescale = query.highest == kNone ? 0.0f : softmax_weight(query.highest - raised);
  auto sums = hn::Zero(Float());
  const auto shift = hn::Set(Float(), raised);
  for (Index key = 0; key < count; key += lanes) {
    const auto weight = SoftmaxWeight(Float(), hn::Sub(hn::Load(Float(), scores + key), shift));
    hn::Store(weight, Float(), scores + key);
    sums = hn::Add(sums, weight);
  }
  query.denominator = query.denominator * rescale + hn::GetLane(hn::SumOfLanes(Float(), sums));
  query.highest = raised;
  return rescale;
}

/// Up to kTogether queries of one step.
template <Index kQueries, typename T>
void StepOf(const float* query, const StepRows<T>& keys, const StepRows<T>& values, Query* states,
            float* out) {
  Scores<kQueries>(query, keys, states);
  std::array<float, kTogether> rescale = {};
  for (Index q = 0; q < kQueries; ++q) rescale[q] = Weigh(states[q], keys.count);
  AddValues<kQueries>(values, states, rescale.data(), out);
}

template <typename T>
void StepOf(Index queries, const float* query, const StepRows<T>& keys, const StepRows<T>& values,
            Query* states, float* out) {
  switch (queries) {
    case 1:
      return StepOf<1>(query, keys, values, states, out);
    case 2:
      return StepOf<2>(query, keys, values, states, out);
    case 3:
      return StepOf<3>(query, keys, values, states, out);
    default:
      return StepOf<4>(query, keys, values, states, out);
  }
}

template <typename T>
void WriteRow(const Query& state, const float* sums, Index head_size, T* to) {
  for (Index c = 0; c < head_size; ++c) {
    to[c] = static_cast<T>(state.denominator == 0 ? 0.0f : sums[c] / state.denominator);
  }
}

/// All queries of a source, in one head.
template <typename T>
void AttendSource(const Tensor& query, const KeySource& source, Index head, Tensor& out) {
  const Index head_size = query.dimension(2);
  const Index heads = query.dimension(0);
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_size));
  const auto rows = [head, head_size](const Tensor& tensor, Index row) {
    return tensor.template data<T>() + (head * tensor.dimension(1) + row) * head_size;
  };
  const T* given = rows(query, source.query_begin);
  const T* keys = rows(*source.keys, source.key_begin);
  const T* values = rows(*source.values, source.key_begin);
  const auto size = static_cast<std::size_t>(source.query_count * head_size);
  std::vector<float> scaled(size), sums(size, 0.0f);
  for (std::size_t i = 0; i < size; ++i) scaled[i] = scale * static_cast<float>(given[i]);
  std::vector<Query> states(static_cast<std::size_t>(source.query_count));
  // Masked keys are left out, as what they hold may be NaN.
  const auto is_seen = [&](Index key) {
    return source.visible == nullptr || source.visible[key] != 0;
  };
  for (Index first = 0, count = 0; first < source.key_count; first += std::max(count, Index{1})) {
    const Index most = std::min(kStepKeys, source.key_count - first);
    for (count = 0; count < most && is_seen(first + count);) ++count;
    if (count == 0) continue;
    const auto step_of = [&](const T* all) {
      return StepRows<T>{all + first * head_size, count, head_size, head_size};
    };
    for (Index q = 0; q < source.query_count; q += kTogether) {
      StepOf(std::min(kTogether, source.query_count - q), scaled.data() + q * head_size,
             step_of(keys), step_of(values), states.data() + q, sums.data() + q * head_size);
    }
  }
  for (Index q = 0; q < source.query_count; ++q) {
    WriteRow(states[static_cast<std::size_t>(q)], sums.data() + q * head_size, head_size,
             out.template data<T>() + ((source.query_begin + q) * heads + head) * head_size);
  }
}

void AttendSourceOf(const Tensor& query, const KeySource& source, Index head, Tensor& out) {
  if (query.dtype() == DType::bf16) {
    AttendSource<BFloat16>(query, source, head, out);
  } else {
    AttendSource<float>(query, source, head, out);
  }
}

/// Rows that one query of a head sees: rows that are `stride` numbers apart, oldest first.
template <typename T>
struct Window {
  /// q + u and q + v, scaled; the latter is null without relative positions.
  const float* content = nullptr;
  const float* position = nullptr;
  const T* keys = nullptr;
  const T* values = nullptr;
  Index stride = 0, count = 0;
  /// The relative key of the oldest; that of the next lies before it.
  const T* relative = nullptr;
};

/// Scores of the keys first … first + count − 1, a key and its distance in one sum.
template <typename T>
HWY_NOINLINE void ScoresOfWindow(const Window<T>& window, Index head_size, Index first, Index count,
                                 Query& query) {
  for (Index key = 0; key < count; key += kTogether) {
    const T *rows[kTogether], *distances[kTogether];
    for (Index k = 0; k < kTogether; ++k) {
      const Index row = first + std::min(key + k, count - 1);
      rows[k] = window.keys + row * window.stride;
      distances[k] = window.position == nullptr ? nullptr : window.relative - row * head_size;
    }
    FloatVector sums[1][kTogether];
    for (Index k = 0; k < kTogether; ++k) sums[0][k] = hn::Zero(Float());
    const Index whole = AddProducts<1>(window.content, rows, head_size, sums);
    if (window.position != nullptr) AddProducts<1>(window.position, distances, head_size, sums);
    float* scores = query.weights.data() + key;
    StoreSumsOfFour(Float(), sums[0], scores);
    AddRest(window.content, rows, whole, head_size, scores);
    if (window.position != nullptr) AddRest(window.position, distances, whole, head_size, scores);
  }
}

template <typename T>
void AttendWindow(const AttentionSpec& spec, const AttentionArguments& in, const WindowTask& task) {
  const Index head_size = spec.head_size, queries = in.query.dimension(1);
  const auto row_of = [head = task.head, head_size](const Tensor& tensor, Index row) {
    return tensor.template data<T>() + (head * tensor.dimension(1) + row) * head_size;
  };
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_size));
  const T* given = row_of(in.query, task.row);
  std::vector<float> content(static_cast<std::size_t>(head_size)), position, sums(content);
  const auto with_bias = [&](std::vector<float>& to, const Tensor* bias) {
    to.resize(static_cast<std::size_t>(head_size));
    for (Index c = 0; c < head_size; ++c) {
      const float more =
          bias == nullptr ? 0.0f : bias->template data<float>()[task.head * head_size + c];
      to[static_cast<std::size_t>(c)] = scale * (static_cast<float>(given[c]) + more);
    }
  };
  with_bias(content, in.relative == nullptr ? nullptr : &in.relative->content_bias);
  Window<T> window = {.content = content.data(),
                      .keys = row_of(in.key, task.first_key),
                      .values = row_of(in.value, task.first_key),
                      .stride = task.dilation * head_size,
                      .count = task.count};
  if (in.relative != nullptr) {
    with_bias(position, &in.relative->position_bias);
    window.position = position.data();
    window.relative = row_of(in.relative->keys, task.first_steps);
  }
  Query state;
  for (Index first = 0; first < window.count; first += kStepKeys) {
    const Index count = std::min(kStepKeys, window.count - first);
    ScoresOfWindow(window, head_size, first, count, state);
    const float rescale = Weigh(state, count);
    const StepRows<T> values = {window.values + first * window.stride, count, window.stride,
                                head_size};
    AddValues<1>(values, &state, &rescale, sums.data());
  }
  const Index heads = in.query.dimension(0);
  WriteRow(state, sums.data(), head_size,
           in.out.template data<T>() + (task.row * heads + task.head) * head_size);
  if (in.logsumexp == nullptr) return;
  in.logsumexp->template data<float>()[task.head * queries + task.row] =
      state.denominator == 0 ? -std::numeric_limits<float>::infinity()
                             : state.highest + std::log(state.denominator);
}

void AttendWindowOf(const AttentionSpec& spec, const AttentionArguments& in,
                    const WindowTask& task) {
  if (in.query.dtype() == DType::bf16) {
    AttendWindow<BFloat16>(spec, in, task);
  } else {
    AttendWindow<float>(spec, in, task);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace longformer::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longformer::kernels {

HWY_EXPORT(AttendSourceOf);
HWY_EXPORT(AttendWindowOf);

namespace {

/// Queries of a document up to which one by one is cheaper than a tile.
constexpr Index kFewQueries = 4;

WindowTask window_of(const HeadPattern& head, const AttentionDocument& document, Index query) {
  const Index place = document.query_offset + query;
  // Steps back to the oldest key that there is, and to the newest.
  const Index own = place / head.dilation;
  const Index oldest = own - std::max<Index>(head.window(place).begin, 0);
  const Index beyond = std::max<Index>(0, place - document.key_count + 1);
  const Index newest = (beyond + head.dilation - 1) / head.dilation;
  return {.head = 0,
          .row = document.query_begin + query,
          .first_key = document.key_begin + place - oldest * head.dilation,
          .dilation = head.dilation,
          .count = place < 0 ? 0 : std::max<Index>(0, oldest - newest + 1),
          .first_steps = oldest};
}

}  // namespace

bool has_few_queries(const AttentionSpec& spec, const AttentionDocument& document) {
  return document.query_count <= kFewQueries && spec.causal && !spec.dropout.active() &&
         !spec.distance_bias && !spec.distance_keys && spec.rows->global_keys.empty() &&
         spec.rows->key_mask.empty() && !spec.rows->places;
}

void attend_few_queries(const AttentionSpec& spec, const AttentionArguments& in) {
  limit_simd_targets();
  std::vector<WindowTask> tasks;
  for (const AttentionDocument& document : spec.rows->documents) {
    if (!has_few_queries(spec, document)) continue;
    for (Index query = 0; query < document.query_count; ++query) {
      for (std::size_t head = 0; head < spec.heads.size(); ++head) {
        WindowTask& task = tasks.emplace_back(window_of(spec.heads[head], document, query));
        task.head = static_cast<Index>(head);
        // No pointer into rows that are not there.
        if (task.count == 0) task.first_key = task.first_steps = 0;
      }
    }
  }
  parallel_for(in.threads, std::ssize(tasks), [&](Index i) {
    HWY_DYNAMIC_DISPATCH(AttendWindowOf)(spec, in, tasks[static_cast<std::size_t>(i)]);
  });
}

void attend_few_queries(const Tensor& query, std::span<const KeySource> sources, Tensor& out,
                        int threads) {
  limit_simd_targets();
  const Index heads = query.dimension(0);
  assert(out.rows() == query.dimension(1) && out.columns() == heads * query.dimension(2));
  parallel_for(threads, static_cast<Index>(sources.size()) * heads, [&](Index task) {
    const KeySource& source = sources[static_cast<std::size_t>(task / heads)];
    assert(source.keys->dtype() == query.dtype() && source.values->dtype() == query.dtype());
    HWY_DYNAMIC_DISPATCH(AttendSourceOf)(query, source, task % heads, out);
  });
}

}  // namespace longformer::kernels
#endif
