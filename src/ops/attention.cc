#include "ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "core/threads.h"
#include "kernels/gemm.h"
#include "ops/global_rows.h"

namespace longformer::ops {
namespace {

using kernels::gemm;

constexpr float kMasked = -std::numeric_limits<float>::infinity();
/// Rows of x that one step of the online softmax takes.
constexpr Index kStep = 256;

void write_row(std::span<const float> values, Tensor& out, Index row) {
  const Index width = out.columns();
  if (out.dtype() == DType::f32) {
    std::copy(values.begin(), values.end(), out.data<float>() + row * width);
  } else {
    std::transform(values.begin(), values.end(), out.data<BFloat16>() + row * width,
                   [](float value) { return BFloat16(value); });
  }
}

/// Running softmax over some rows of x for every (head, global token): maximum, denominator and
/// Σ p·x.
struct PartialSum {
  std::vector<float> maximum, denominator, sum;
  PartialSum(Index rows, Index width)
      : maximum(static_cast<std::size_t>(rows), kMasked),
        denominator(static_cast<std::size_t>(rows), 0.0f),
        sum(static_cast<std::size_t>(rows * width), 0.0f) {}
};

/// Turns the scores of one step into weights and rescales what was summed so far.
void online_softmax(std::span<float> scores, Index keys, PartialSum& partial) {
  const std::size_t width = partial.sum.size() / partial.maximum.size();
  for (std::size_t row = 0; row < partial.maximum.size(); ++row) {
    const auto line =
        scores.subspan(row * static_cast<std::size_t>(keys), static_cast<std::size_t>(keys));
    const float highest =
        std::max(partial.maximum[row], *std::max_element(line.begin(), line.end()));
    if (highest == kMasked) {
      std::fill(line.begin(), line.end(), 0.0f);
      continue;
    }
    const float rescale = std::exp(partial.maximum[row] - highest);
    if (rescale != 1.0f) {
      for (std::size_t c = 0; c < width; ++c) partial.sum[row * width + c] *= rescale;
    }
    float denominator = 0;
    for (float& score : line) {
      score = std::exp(score - highest);
      denominator += score;
    }
    partial.denominator[row] = partial.denominator[row] * rescale + denominator;
    partial.maximum[row] = highest;
  }
}

/// The rows [begin, end) of x as keys and values for the transformed queries U [rows, D].
PartialSum attend(const AttentionSpec& spec, const Tensor& x, std::span<const float> transformed,
                  Index begin, Index end) {
  const Index width = x.columns();
  const Index rows = static_cast<Index>(transformed.size()) / width;
  PartialSum partial(rows, width);
  std::vector<float> scores(static_cast<std::size_t>(rows * kStep));
  std::vector<float> copied(x.dtype() == DType::f32 ? 0 : static_cast<std::size_t>(kStep * width));
  for (Index first = begin; first < end; first += kStep) {
    const Index keys = std::min(kStep, end - first);
    const float* block = nullptr;
    if (copied.empty()) {
      block = x.data<float>() + first * width;
    } else {
      for (Index i = 0; i < keys; ++i) copy_row(x, first + i, copied.data() + i * width);
      block = copied.data();
    }
    gemm({.m = rows, .n = keys, .k = width, .transpose_b = true}, transformed.data(), block,
         scores.data());
    if (!spec.key_mask.empty()) {
      for (Index j = 0; j < keys; ++j) {
        if (spec.key_mask[static_cast<std::size_t>(first + j)] != 0) continue;
        for (Index row = 0; row < rows; ++row)
          scores[static_cast<std::size_t>(row * keys + j)] = kMasked;
      }
    }
    online_softmax({scores.data(), static_cast<std::size_t>(rows * keys)}, keys, partial);
    gemm({.m = rows, .n = width, .k = keys, .beta = 1}, scores.data(), block, partial.sum.data());
  }
  return partial;
}

/// Weighted mean of x per row over all partial sums.
std::vector<float> merged(std::span<const PartialSum> partials) {
  const std::size_t rows = partials[0].maximum.size();
  const std::size_t width = partials[0].sum.size() / rows;
  std::vector<float> mean(rows * width, 0.0f);
  for (std::size_t row = 0; row < rows; ++row) {
    float highest = kMasked;
    for (const auto& partial : partials) highest = std::max(highest, partial.maximum[row]);
    if (highest == kMasked) continue;
    float denominator = 0;
    for (const auto& partial : partials) {
      denominator += partial.denominator[row] * std::exp(partial.maximum[row] - highest);
    }
    for (const auto& partial : partials) {
      const float weight = std::exp(partial.maximum[row] - highest) / denominator;
      for (std::size_t c = 0; c < width; ++c)
        mean[row * width + c] += weight * partial.sum[row * width + c];
    }
  }
  return mean;
}

/// The associative form, for few global tokens.
void attend_without_projecting(const Context& context, const AttentionSpec& spec,
                               const GlobalProjections& p, const GlobalRows& globals,
                               const Tensor& x, Tensor& attended) {
  const Index g = globals.count();
  const Index d = spec.head_size;
  const Index heads = static_cast<Index>(spec.heads.size());
  const Index width = x.columns();
  const std::vector<float> queries = project_queries(globals, p, x);
  // Row head·g + i holds Kᵀq̂ of global token i, scaled.
  std::vector<float> transformed(static_cast<std::size_t>(heads * g * width));
  parallel_for(context.threads, heads, [&](Index head) {
    gemm({.m = g,
          .n = width,
          .k = d,
          .lda = width,
          .alpha = 1.0f / std::sqrt(static_cast<float>(d))},
         queries.data() + head * d, p.key_weight.data<float>() + head * d * width,
         transformed.data() + head * g * width);
  });
  // As many parts as threads: the same bits whatever else is in the batch.
  const auto& document = globals.document;
  const Index parts = std::clamp<Index>(document.key_count / (2 * kStep), 1, context.threads);
  std::vector<PartialSum> partials(static_cast<std::size_t>(parts), PartialSum(0, 0));
  parallel_for(context.threads, parts, [&](Index part) {
    const Index begin = document.key_begin + document.key_count * part / parts;
    const Index end = document.key_begin + document.key_count * (part + 1) / parts;
    partials[static_cast<std::size_t>(part)] = attend(spec, x, transformed, begin, end);
  });
  const std::vector<float> mean = merged(partials);
  std::vector<float> result(static_cast<std::size_t>(g * width));
  for (Index i = 0; i < g; ++i)
    std::copy_n(p.value_bias.data<float>(), width, result.data() + i * width);
  parallel_for(context.threads, heads, [&](Index head) {
    gemm({.m = g, .n = d, .k = width, .transpose_b = true, .ldc = width, .beta = 1},
         mean.data() + head * g * width, p.value_weight.data<float>() + head * d * width,
         result.data() + head * d);
  });
  for (Index i = 0; i < g; ++i) {
    write_row({result.data() + i * width, static_cast<std::size_t>(width)}, attended,
              globals.rows[static_cast<std::size_t>(i)]);
  }
}

/// Dense attention of the global rows over projected keys and values, for many global tokens.
void attend_with_projections(const Context& context, const AttentionSpec& spec,
                             const GlobalProjections& p, const GlobalRows& globals, const Tensor& x,
                             Tensor& attended) {
  const Index g = globals.count();
  const Index d = spec.head_size;
  const Index width = x.columns();
  const Tensor query = project_global_queries(context, x, globals, p, d);
  const Tensor key = project_document(context, x, globals, p.key_weight, p.key_bias, d);
  const Tensor value = project_document(context, x, globals, p.value_weight, p.value_bias, d);
  const AttentionSpec dense = global_rows_spec(spec, globals);
  Tensor result = context.memory.tensor({g, width}, DType::f32);
  kernels::attention(
      kernels::AttentionBackend::fused, dense,
      {.query = query, .key = key, .value = value, .out = result, .threads = context.threads});
  for (Index i = 0; i < g; ++i) {
    write_row({result.data<float>() + i * width, static_cast<std::size_t>(width)}, attended,
              globals.rows[static_cast<std::size_t>(i)]);
  }
}

}  // namespace

Tensor attention(const Context& context, const AttentionSpec& spec, const Tensor& query,
                 const Tensor& key, const Tensor& value) {
  const Index width = static_cast<Index>(spec.heads.size()) * spec.head_size;
  Tensor out = context.memory.tensor({query.dimension(1), width}, context.dtype);
  kernels::attention(
      kernels::AttentionBackend::fused, spec,
      {.query = query, .key = key, .value = value, .out = out, .threads = context.threads});
  return out;
}

void global_attention(const Context& context, const AttentionSpec& spec,
                      const GlobalProjections& projections, const Tensor& x, Tensor& attended) {
  for (const GlobalRows& globals : documents_with_globals(spec)) {
    if (globals.count() <= spec.head_size) {
      attend_without_projecting(context, spec, projections, globals, x, attended);
    } else {
      attend_with_projections(context, spec, projections, globals, x, attended);
    }
  }
}

}  // namespace longformer::ops
