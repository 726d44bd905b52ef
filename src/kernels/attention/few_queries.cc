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
    std::array<FloatVector, kTogether> sums;
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

/// out[q] = out[q]·rescale[q] + Σ weight·value.
template <Index kQueries, typename T>
HWY_NOINLINE void AddValues(const T* values, Index head_size, Index count, const Query* queries,
                            const float* rescale, float* out) {
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
      const T* row = values + key * head_size + c;
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
               static_cast<float>(values[key * head_size + c]);
      }
      float& to = out[q * head_size + c];
      to = to * rescale[q] + sum;
    }
  }
}

/// Turns scores into weights relative to the highest so far; what earlier sums are multiplied with.
float Weigh(Query& query, Index count, const std::uint8_t* visible) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const Index lanes = static_cast<Index>(hn::Lanes(Float()));
  float* scores = query.weights.data();
  float top = kNone;
  for (Index key = 0; key < count; ++key) {
    if (visible != nullptr && visible[key] == 0) scores[key] = kNone;
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
            Index count, const std::uint8_t* visible, Query* states, float* out) {
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
  for (Index q = 0; q < queries; ++q) rescale[q] = Weigh(states[q], count, visible);
  switch (queries) {
    case 1:
      AddValues<1>(values, head_size, count, states, rescale.data(), out);
      break;
    case 2:
      AddValues<2>(values, head_size, count, states, rescale.data(), out);
      break;
    case 3:
      AddValues<3>(values, head_size, count, states, rescale.data(), out);
      break;
    default:
      AddValues<4>(values, head_size, count, states, rescale.data(), out);
      break;
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
  for (Index first = 0; first < source.key_count; first += kStepKeys) {
    const Index count = std::min(kStepKeys, source.key_count - first);
    const std::uint8_t* visible = source.visible == nullptr ? nullptr : source.visible + first;
    for (Index q = 0; q < source.query_count; q += kTogether) {
      StepOf(std::min(kTogether, source.query_count - q), scaled.data() + q * head_size,
             keys + first * head_size, values + first * head_size, head_size, count, visible,
             states.data() + q, sums.data() + q * head_size);
    }
  }
  for (Index q = 0; q < source.query_count; ++q) {
    const Query& state = states[static_cast<std::size_t>(q)];
    T* to = out.template data<T>() + ((source.query_begin + q) * heads + head) * head_size;
    for (Index c = 0; c < head_size; ++c) {
      const float sum = sums[static_cast<std::size_t>(q * head_size + c)];
      to[c] = static_cast<T>(state.denominator == 0 ? 0.0f : sum / state.denominator);
    }
  }
}

void AttendSourceOf(const Tensor& query, const KeySource& source, Index head, Tensor& out) {
  if (query.dtype() == DType::bf16) {
    AttendSource<BFloat16>(query, source, head, out);
  } else {
    AttendSource<float>(query, source, head, out);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace longformer::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longformer::kernels {

HWY_EXPORT(AttendSourceOf);

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
