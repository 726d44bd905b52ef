#include "kernels/attention/edges.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "core/error.h"
#include "core/threads.h"
#include "kernels/attention/spec.h"
#include "kernels/gemm.h"
#include "kernels/simd_dispatch.h"
#include "kernels/softmax_weight.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/edges.cc"
// clang-format off
#include <hwy/foreach_target.h>  // comes before every other header of Highway
#include <hwy/highway.h>
// clang-format on

#include "kernels/simd_float_inl.h"
#include "kernels/simd_softmax_weight_inl.h"

HWY_BEFORE_NAMESPACE();
namespace longformer::kernels {
namespace HWY_NAMESPACE {

/// Queries whose products with the keys of labels are made at once.
constexpr Index kEdgeQueries = 64;

/// Consecutive queries of a head.
struct EdgeBlock {
  Index head, first, count;
};

inline EdgeBlock BlockAt(const EdgeAttention& spec, Index head, Index number) {
  const Index first = number * kEdgeQueries;
  return {head, first, std::min(kEdgeQueries, spec.rows->queries() - first)};
}

inline bool HasEdges(const EdgeRows& rows, const EdgeBlock& block) {
  return rows.begin[at(block.first)] < rows.begin[at(block.first + block.count)];
}

/// a·x and b·y of d numbers each.
template <typename T>
HWY_INLINE void TwoEdgeDots(const float* a, const T* x, const float* b, const T* y, Index d,
                            float* first, float* second) {
  const Index lanes = static_cast<Index>(hn::Lanes(Float()));
  auto one = hn::Zero(Float()), two = hn::Zero(Float());
  Index c = 0;
  for (; c + lanes <= d; c += lanes) {
    one = hn::MulAdd(hn::LoadU(Float(), a + c), LoadFloats(x + c), one);
    two = hn::MulAdd(hn::LoadU(Float(), b + c), LoadFloats(y + c), two);
  }
  *first = hn::GetLane(hn::SumOfLanes(Float(), one));
  *second = hn::GetLane(hn::SumOfLanes(Float(), two));
  for (; c < d; ++c) {
    *first += a[c] * static_cast<float>(x[c]);
    *second += b[c] * static_cast<float>(y[c]);
  }
}

template <typename T>
HWY_INLINE float EdgeDot(const float* a, const T* x, Index d) {
  const Index lanes = static_cast<Index>(hn::Lanes(Float()));
  auto sums = hn::Zero(Float());
  Index c = 0;
  for (; c + lanes <= d; c += lanes) {
    sums = hn::MulAdd(hn::LoadU(Float(), a + c), LoadFloats(x + c), sums);
  }
  float sum = hn::GetLane(hn::SumOfLanes(Float(), sums));
  for (; c < d; ++c) sum += a[c] * static_cast<float>(x[c]);
  return sum;
}

/// to += weight · x
template <typename T>
HWY_INLINE void AddEdgeRow(float weight, const T* x, Index d, float* to) {
  const Index lanes = static_cast<Index>(hn::Lanes(Float()));
  const auto factor = hn::Set(Float(), weight);
  Index c = 0;
  for (; c + lanes <= d; c += lanes) {
    hn::StoreU(hn::MulAdd(factor, LoadFloats(x + c), hn::LoadU(Float(), to + c)), Float(), to + c);
  }
  for (; c < d; ++c) to[c] += weight * static_cast<float>(x[c]);
}

template <typename T>
const T* EdgeHead(const Tensor& x, Index head) {
  return x.data<T>() + head * x.dimension(1) * x.dimension(2);
}

/// Numbers of the queries of a block that all their edges share.
struct EdgeTerms {
  /// Scaled queries [count, d].
  std::vector<float> query;
  /// Terms that each label adds to the scores of a query: [count, L].
  std::vector<float> terms;
  Index labels = 0;

  const float* row(Index i, Index d) const { return query.data() + i * d; }
  /// Null without labels.
  const float* terms_of(Index i) const { return labels == 0 ? nullptr : terms.data() + i * labels; }
};

template <typename T>
void FillTerms(const EdgeAttention& spec, const EdgeBlock& block, const Tensor& query,
               const EdgeLabels& labels, EdgeTerms& to) {
  const Index d = spec.head_size, numbers = block.count * d;
  to.labels = labels.count();
  to.query.resize(at(numbers));
  const T* from = EdgeHead<T>(query, block.head) + block.first * d;
  for (Index c = 0; c < numbers; ++c) to.query[at(c)] = spec.scale * static_cast<float>(from[c]);
  if (to.labels == 0) return;
  to.terms.assign(at(block.count * to.labels), 0.0f);
  if (labels.biases != nullptr) {
    const float* biases = labels.biases->data<float>() + block.head * to.labels;
    for (Index i = 0; i < block.count; ++i) {
      std::copy_n(biases, to.labels, to.terms.data() + i * to.labels);
    }
  }
  if (labels.keys != nullptr) {
    gemm({.m = block.count, .n = to.labels, .k = d, .transpose_b = true, .beta = 1},
         to.query.data(), EdgeHead<float>(*labels.keys, block.head), to.terms.data());
  }
}

/// The factor of an edge's probability: 0, or what makes up for those that are dropped. The upper
/// half of the columns is that of no key.
inline float KeptFactor(const Dropout& dropout, const DropoutRow& row, Index place) {
  const std::uint32_t column = 0x80000000u + static_cast<std::uint32_t>(place);
  return row.bits(column) < dropout.threshold() ? 0.0f : dropout.kept_factor();
}

/// Weights of the edges of a query relative to the highest score, and their sum.
struct Weighed {
  float highest, sum;
};

/// Turns `count` scores into weights; there is room for a vector behind them.
inline Weighed WeighEdges(Index count, float* scores) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const Index lanes = static_cast<Index>(hn::Lanes(Float()));
  float top = kNone;
  for (Index e = 0; e < count; ++e) top = highest_of(top, scores[e]);
  if (top == kNone) return {kNone, 0};
  std::fill(scores + count, scores + (count + lanes - 1) / lanes * lanes, kNone);
  const auto shift = hn::Set(Float(), top);
  auto sums = hn::Zero(Float());
  for (Index e = 0; e < count; e += lanes) {
    const auto weight = SoftmaxWeight(Float(), hn::Sub(hn::LoadU(Float(), scores + e), shift));
    hn::StoreU(weight, Float(), scores + e);
    sums = hn::Add(sums, weight);
  }
  return {top, hn::GetLane(hn::SumOfLanes(Float(), sums))};
}

template <typename T>
void ForwardBlock(const EdgeAttention& spec, const EdgeArguments& in, const EdgeBlock& block) {
  const EdgeRows& rows = *spec.rows;
  const Index d = spec.head_size;
  float* logsumexp = in.logsumexp.data<float>() + block.head * rows.queries() + block.first;
  const bool has_edges = HasEdges(rows, block);
  EdgeTerms terms;
  if (has_edges) FillTerms<T>(spec, block, in.query, in.labels, terms);
  const T* keys = EdgeHead<T>(in.key, block.head);
  const T* values = EdgeHead<T>(in.value, block.head);
  std::vector<float> scores, sums(at(d));
  for (Index i = 0; i < block.count; ++i) {
    const Index row = block.first + i;
    const Index begin = rows.begin[at(row)], count = rows.begin[at(row + 1)] - begin;
    const std::int32_t* key = rows.key.data() + begin;
    scores.resize(at(count) + hn::Lanes(Float()));
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (Index e = 0; e < count; ++e) {
      scores[at(e)] = EdgeDot(terms.row(i, d), keys + key[e] * d, d);
    }
    if (const float* of = has_edges ? terms.terms_of(i) : nullptr; of != nullptr) {
      for (Index e = 0; e < count; ++e) scores[at(e)] += of[rows.label[at(begin + e)]];
    }
    const Weighed weighed = WeighEdges(count, scores.data());
    if (weighed.sum != 0) {
      const DropoutRow mask = dropout_row(spec.dropout, block.head, row);
      for (Index e = 0; e < count; ++e) {
        const float kept = spec.dropout.active() ? KeptFactor(spec.dropout, mask, e) : 1.0f;
        AddEdgeRow(scores[at(e)] * kept / weighed.sum, values + key[e] * d, d, sums.data());
      }
    }
    logsumexp[i] = weighed.sum == 0 ? weighed.highest : weighed.highest + std::log(weighed.sum);
    T* to = in.out.data<T>() + (row * spec.heads + block.head) * d;
    for (Index c = 0; c < d; ++c) to[c] = static_cast<T>(sums[at(c)]);
  }
}

void ForwardBlockOf(const EdgeAttention& spec, const EdgeArguments& in, Index head, Index number) {
  if (in.query.dtype() == DType::bf16) {
    ForwardBlock<BFloat16>(spec, in, BlockAt(spec, head, number));
  } else {
    ForwardBlock<float>(spec, in, BlockAt(spec, head, number));
  }
}

/// Gradients of a head in fp32.
struct EdgeHeadGradients {
  std::vector<float> key, value, label_keys, label_biases;
};

/// Those of a block: of its scaled queries [count, d] and of its terms [count, L].
struct EdgeBlockGradients {
  std::vector<float> query, terms;
};

/// Adds what the edges of one query send back.
template <typename T>
void BackwardRow(const EdgeAttention& spec, const EdgeBackwardArguments& in, const EdgeBlock& block,
                 Index i, const EdgeTerms& terms, EdgeBlockGradients& own, EdgeHeadGradients& all) {
  const EdgeRows& rows = *spec.rows;
  const Index d = spec.head_size, row = block.first + i;
  const float logsumexp = in.logsumexp.data<float>()[block.head * rows.queries() + row];
  const Index begin = rows.begin[at(row)], count = rows.begin[at(row + 1)] - begin;
  if (count == 0 || logsumexp == -std::numeric_limits<float>::infinity()) return;
  const Index token = (row * spec.heads + block.head) * d;
  std::vector<float> gradient(at(d));
  float mean = 0;
  bool is_zero = true;
  for (Index c = 0; c < d; ++c) {
    gradient[at(c)] = static_cast<float>(in.out_gradient.data<T>()[token + c]);
    mean += gradient[at(c)] * static_cast<float>(in.out.data<T>()[token + c]);
    is_zero = is_zero && gradient[at(c)] == 0;
  }
  if (is_zero) return;
  const T* keys = EdgeHead<T>(in.key, block.head);
  const T* values = EdgeHead<T>(in.value, block.head);
  const float* query = terms.row(i, d);
  const float* added = terms.terms_of(i);
  const DropoutRow mask = dropout_row(spec.dropout, block.head, row);
  for (Index e = 0; e < count; ++e) {
    const Index key = rows.key[at(begin + e)] * d;
    float score, passed;
    TwoEdgeDots(query, keys + key, gradient.data(), values + key, d, &score, &passed);
    if (added != nullptr) score += added[rows.label[at(begin + e)]];
    // Rounding may leave it above 0.
    const float exponent = score - logsumexp;
    const float p = exponent > 0 ? std::exp(exponent) : softmax_weight(exponent);
    const float kept = spec.dropout.active() ? KeptFactor(spec.dropout, mask, e) : 1.0f;
    const float to_score = p * (passed * kept - mean);
    AddEdgeRow(p * kept, gradient.data(), d, all.value.data() + key);
    AddEdgeRow(to_score, query, d, all.key.data() + key);
    AddEdgeRow(to_score, keys + key, d, own.query.data() + i * d);
    if (added != nullptr) own.terms[at(i * terms.labels + rows.label[at(begin + e)])] += to_score;
  }
}

/// From the gradients of terms to those of queries and tables.
inline void SendTerms(const EdgeBlock& block, const EdgeLabels& labels, const EdgeTerms& terms,
                      Index d, EdgeBlockGradients& own, EdgeHeadGradients& all) {
  if (labels.keys != nullptr) {
    gemm({.m = block.count, .n = d, .k = terms.labels, .beta = 1}, own.terms.data(),
         EdgeHead<float>(*labels.keys, block.head), own.query.data());
    gemm({.m = terms.labels, .n = d, .k = block.count, .transpose_a = true, .beta = 1},
         own.terms.data(), terms.query.data(), all.label_keys.data());
  }
  for (Index i = 0; i < block.count && labels.biases != nullptr; ++i) {
    AddEdgeRow(1.0f, own.terms.data() + i * terms.labels, terms.labels, all.label_biases.data());
  }
}

template <typename T>
void WriteEdgeFloats(const std::vector<float>& from, float factor, T* to) {
  for (std::size_t c = 0; c < from.size(); ++c) to[c] = static_cast<T>(factor * from[c]);
}

template <typename T>
void BackwardHead(const EdgeAttention& spec, const EdgeBackwardArguments& in, Index head) {
  const EdgeRows& rows = *spec.rows;
  const Index d = spec.head_size, keys = in.key.dimension(1), labels = in.labels.count();
  EdgeHeadGradients all = {.key = std::vector<float>(at(keys * d)),
                           .value = std::vector<float>(at(keys * d)),
                           .label_keys = std::vector<float>(at(labels * d)),
                           .label_biases = std::vector<float>(at(labels))};
  EdgeTerms terms;
  EdgeBlockGradients own;
  for (Index number = 0; number * kEdgeQueries < rows.queries(); ++number) {
    const EdgeBlock block = BlockAt(spec, head, number);
    own.query.assign(at(block.count * d), 0.0f);
    if (HasEdges(rows, block)) {
      FillTerms<T>(spec, block, in.query, in.labels, terms);
      own.terms.assign(at(block.count * labels), 0.0f);
      for (Index i = 0; i < block.count; ++i) BackwardRow<T>(spec, in, block, i, terms, own, all);
      if (labels > 0) SendTerms(block, in.labels, terms, d, own, all);
    }
    T* to = in.query_gradient.data<T>() + (head * rows.queries() + block.first) * d;
    WriteEdgeFloats(own.query, spec.scale, to);
  }
  WriteEdgeFloats(all.key, 1.0f, in.key_gradient.data<T>() + head * keys * d);
  WriteEdgeFloats(all.value, 1.0f, in.value_gradient.data<T>() + head * keys * d);
  if (in.label_key_gradient != nullptr) {
    WriteEdgeFloats(all.label_keys, 1.0f, in.label_key_gradient->data<float>() + head * labels * d);
  }
  if (in.label_bias_gradient != nullptr) {
    WriteEdgeFloats(all.label_biases, 1.0f, in.label_bias_gradient->data<float>() + head * labels);
  }
}

void BackwardHeadOf(const EdgeAttention& spec, const EdgeBackwardArguments& in, Index head) {
  if (in.query.dtype() == DType::bf16) {
    BackwardHead<BFloat16>(spec, in, head);
  } else {
    BackwardHead<float>(spec, in, head);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace longformer::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longformer::kernels {

HWY_EXPORT(ForwardBlockOf);
HWY_EXPORT(BackwardHeadOf);

namespace {

void check_edges(const EdgeAttention& spec, const Tensor& query, const Tensor& key,
                 const Tensor& value, const EdgeLabels& labels) {
  const Index n = spec.rows->queries(), m = key.dimension(1), count = labels.count();
  const auto has_shape = [](const Tensor& x, const Shape& shape) {
    require(x.shape() == shape, "attention along edges: expected a tensor {}, found {}",
            to_string(shape), to_string(x.shape()));
  };
  has_shape(query, {spec.heads, n, spec.head_size});
  has_shape(key, {spec.heads, m, spec.head_size});
  has_shape(value, {spec.heads, m, spec.head_size});
  if (labels.keys != nullptr) has_shape(*labels.keys, {spec.heads, count, spec.head_size});
  if (labels.biases != nullptr) has_shape(*labels.biases, {spec.heads, count});
  check(*spec.rows, n, m, count);
}

}  // namespace

void check(const EdgeRows& rows, Index queries, Index keys, Index labels) {
  require(std::ssize(rows.begin) == queries + 1 && rows.begin.front() == 0 &&
              rows.begin.back() == rows.edges(),
          "edges: expected the first of {} edges for each of {} queries, found {} numbers",
          rows.edges(), queries, rows.begin.size());
  for (std::size_t i = 1; i < rows.begin.size(); ++i) {
    require(rows.begin[i - 1] <= rows.begin[i],
            "edges: expected numbers of first edges that ascend, found {} behind {}", rows.begin[i],
            rows.begin[i - 1]);
  }
  for (const std::int32_t key : rows.key) {
    require(key >= 0 && key < keys, "edges: expected keys below {}, found {}", keys, key);
  }
  require(labels == 0 || rows.label.size() == rows.key.size(),
          "edges: expected a label for each of {} edges, found {}", rows.edges(),
          rows.label.size());
  for (const std::int32_t label : rows.label) {
    require(labels == 0 || (label >= 0 && label < labels),
            "edges: expected labels below {}, found {}", labels, label);
  }
}

void edge_attention(const EdgeAttention& spec, const EdgeArguments& in) {
  limit_simd_targets();
  check_edges(spec, in.query, in.key, in.value, in.labels);
  const Index blocks = divide_up(spec.rows->queries(), HWY_NAMESPACE::kEdgeQueries);
  parallel_for(in.threads, spec.heads * blocks, [&](Index i) {
    HWY_DYNAMIC_DISPATCH(ForwardBlockOf)(spec, in, i / blocks, i % blocks);
  });
}

void edge_attention_backward(const EdgeAttention& spec, const EdgeBackwardArguments& in) {
  limit_simd_targets();
  check_edges(spec, in.query, in.key, in.value, in.labels);
  parallel_for(in.threads, spec.heads, [&](Index head) {
    HWY_DYNAMIC_DISPATCH(BackwardHeadOf)(spec, in, head);
  });
}

double edge_attention_flops(const EdgeAttention& spec, Index labels) {
  const double pairs = 4 * static_cast<double>(spec.rows->edges()) +
                       2 * static_cast<double>(spec.rows->queries() * labels);
  return pairs * static_cast<double>(spec.heads * spec.head_size);
}

}  // namespace longformer::kernels
#endif
