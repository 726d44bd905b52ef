#include "kernels/attention/few_queries.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>
#include <vector>

#include "core/threads.h"
#include "kernels/simd_dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/few_queries.cc"
// clang-format off
#include <hwy/foreach_target.h>  // comes before every other header of Highway
#include <hwy/highway.h>
// clang-format on

#include "kernels/simd_float_inl.h"
#include "kernels/simd_softmax_weight_inl.h"

HWY_BEFORE_NAMESPACE();
namespace longformer::kernels {
namespace HWY_NAMESPACE {

/// Keys of one step of the online softmax; their rows stay in the cache for all queries.
constexpr Index kStepKeys = 128;
/// Queries whose sums fit into registers.
constexpr Index kTogether = 4;

/// One query of one head on its way through the keys.
struct Query {
  alignas(64) std::array<float, kStepKeys> weights;
  float highest = -std::numeric_limits<float>::infinity();
  float denominator = 0;
};

/// Scores of `count` keys for `kQueries` queries; query [kQueries, d] fp32, scaled.
template <Index kQueries, typename T>
HWY_NOINLINE void Scores(const float* query, const T* keys, Index head_size, Index count,
                         Query* queries) {
  const Index lanes = static_cast<Index>(hn::Lanes(Float()));
  for (Index key = 0; key < count; ++key) {
    const T* row = keys + key * head_size;
    // The constructor of a std::array is compiled for the instruction set of the file.
    FloatVector sums[kTogether];
    for (Index q = 0; q < kQueries; ++q) sums[q] = hn::Zero(Float());
    Index c = 0;
    for (; c + lanes <= head_size; c += lanes) {
      const auto part = LoadFloats(row + c);
      for (Index q = 0; q < kQueries; ++q) {
        sums[q] = hn::MulAdd(hn::LoadU(Float(), query + q * head_size + c), part, sums[q]);
      }
    }
    for (Index q = 0; q < kQueries; ++q) {
      float sum = hn::GetLane(hn::SumOfLanes(Float(), sums[q]));
      for (Index rest = c; rest < head_size; ++rest) {
        sum += query[q * head_size + rest] * static_cast<float>(row[rest]);
      }
      queries[q].weights[static_cast<std::size_t>(key)] = sum;
    }
  }
}

/// out[q] = out[q]·rescale[q] + Σ weight·value; rows of values are `stride` numbers apart.
template <Index kQueries, typename T>
HWY_NOINLINE void AddValues(const T* values, Index head_size, Index stride, Index count,
                            const Query* queries, const float* rescale, float* out) {
  const Index lanes = static_cast<Index>(hn::Lanes(Float()));
  // Two vectors of a row at a time: rows of 64 floats are read in the order of memory.
  constexpr Index kVectors = 2;
  Index c = 0;
  for (; c + kVectors * lanes <= head_size; c += kVectors * lanes) {
    FloatVector sums[kTogether][kVectors];
    for (Index q = 0; q < kQueries; ++q) {
      for (Index v = 0; v < kVectors; ++v) sums[q][v] = hn::Zero(Float());
    }
    for (Index key = 0; key < count; ++key) {
      const T* row = values + key * stride + c;
      const auto first = LoadFloats(row), second = LoadFloats(row + lanes);
      for (Index q = 0; q < kQueries; ++q) {
        const auto weight = hn::Set(Float(), queries[q].weights[static_cast<std::size_t>(key)]);
        sums[q][0] = hn::MulAdd(weight, first, sums[q][0]);
        sums[q][1] = hn::MulAdd(weight, second, sums[q][1]);
      }
    }
    for (Index q = 0; q < kQueries; ++q) {
      const auto scale = hn::Set(Float(), rescale[q]);
      for (Index v = 0; v < kVectors; ++v) {
        float* to = out + q * head_size + c + v * lanes;
        hn::StoreU(hn::MulAdd(hn::LoadU(Float(), to), scale, sums[q][v]), Float(), to);
      }
    }
  }
  for (; c < head_size; ++c) {
    for (Index q = 0; q < kQueries; ++q) {
      float sum = 0;
      for (Index key = 0; key < count; ++key) {
        sum += queries[q].weights[static_cast<std::size_t>(key)] *
               static_cast<float>(values[key * stride + c]);
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
  float top = kNone;
  for (Index key = 0; key < count; ++key) {
    // In this order a NaN becomes the maximum and shows in the result.
    top = top >= scores[key] ? top : scores[key];
  }
  const float raised = query.highest >= top ? query.highest : top;
  if (raised == kNone) {
    std::fill_n(scores, count, 0.0f);
    return 1;
  }
  const float rescale = query.highest == kNone ? 0.0f : softmax_weight(query.highest - raised);
  std::fill(scores + count, scores + (count + lanes - 1) / lanes * lanes, kNone);
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
template <typename T>
void StepOf(Index queries, const float* query, const T* keys, const T* values, Index head_size,
            Index count, Query* states, float* out) {
  switch (queries) {
    case 1:
      Scores<1>(query, keys, head_size, count, states);
      break;
    case 2:
      Scores<2>(query, keys, head_size, count, states);
      break;
    case 3:
      Scores<3>(query, keys, head_size, count, states);
      break;
    default:
      Scores<4>(query, keys, head_size, count, states);
      break;
  }
  std::array<float, kTogether> rescale = {};
  for (Index q = 0; q < queries; ++q) rescale[q] = Weigh(states[q], count);
  switch (queries) {
    case 1:
      AddValues<1>(values, head_size, head_size, count, states, rescale.data(), out);
      break;
    case 2:
      AddValues<2>(values, head_size, head_size, count, states, rescale.data(), out);
      break;
    case 3:
      AddValues<3>(values, head_size, head_size, count, states, rescale.data(), out);
      break;
    default:
      AddValues<4>(values, head_size, head_size, count, states, rescale.data(), out);
      break;
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
    for (Index q = 0; q < source.query_count; q += kTogether) {
      StepOf(std::min(kTogether, source.query_count - q), scaled.data() + q * head_size,
             keys + first * head_size, values + first * head_size, head_size, count,
             states.data() + q, sums.data() + q * head_size);
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
  const Index lanes = static_cast<Index>(hn::Lanes(Float()));
  for (Index key = 0; key < count; ++key) {
    const T* row = window.keys + (first + key) * window.stride;
    const T* relative =
        window.position == nullptr ? row : window.relative - (first + key) * head_size;
    auto near = hn::Zero(Float()), far = hn::Zero(Float());
    Index c = 0;
    for (; c + lanes <= head_size; c += lanes) {
      near = hn::MulAdd(hn::LoadU(Float(), window.content + c), LoadFloats(row + c), near);
      if (window.position == nullptr) continue;
      far = hn::MulAdd(hn::LoadU(Float(), window.position + c), LoadFloats(relative + c), far);
    }
    float sum = hn::GetLane(hn::SumOfLanes(Float(), hn::Add(near, far)));
    for (; c < head_size; ++c) {
      sum += window.content[c] * static_cast<float>(row[c]);
      if (window.position == nullptr) continue;
      sum += window.position[c] * static_cast<float>(relative[c]);
    }
    query.weights[static_cast<std::size_t>(key)] = sum;
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
    AddValues<1>(window.values + first * window.stride, head_size, window.stride, count, &state,
                 &rescale, sums.data());
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
