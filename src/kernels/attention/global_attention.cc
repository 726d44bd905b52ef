#include "kernels/attention/global_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/threads.h"
#include "kernels/attention/attention.h"
#include "kernels/gemm.h"
#include "kernels/softmax_weight.h"
#include "longformer/ranks.h"

namespace longformer::kernels {
namespace {

using Floats = std::vector<float>;

constexpr float kMasked = -std::numeric_limits<float>::infinity();
/// Rows of x that one step takes.
constexpr Index kKeysPerStep = 256;

void write_rows(const GlobalRows& globals, const Floats& values, Tensor& out) {
  const std::size_t width = at(out.columns());
  for (Index i = 0; i < globals.count(); ++i) {
    write_row({values.data() + at(i) * width, width}, out, globals.rows[at(i)]);
  }
}

float scale_of(const GlobalAttention& in) { return 1.0f / std::sqrt(static_cast<float>(in.d())); }

/// One part of x for each thread: the bits do not depend on the rest of the batch.
Index parts_of(const GlobalAttention& in) {
  return std::clamp<Index>(in.count() / (2 * kKeysPerStep), 1, in.threads);
}

bool masked(const GlobalAttention& in, Index key) {
  const auto& mask = in.spec.rows->key_mask;
  return !mask.empty() && mask[at(key)] == 0;
}

/// Running softmax over some rows of x.
struct PartialSum {
  Floats maximum, denominator, mass, sum;
  PartialSum(Index rows, Index width)
      : maximum(at(rows), kMasked),
        denominator(at(rows), 0.0f),
        mass(at(rows), 0.0f),
        sum(at(rows * width), 0.0f) {}
};

/// Rows first … first + count − 1 of x as floats: themselves, or copied to `space`.
const float* block_of(const Tensor& x, Index first, Index count, Floats& space) {
  if (x.dtype() == DType::f32) return x.data<float>() + first * x.columns();
  space.resize(at(count * x.columns()));
  for (Index i = 0; i < count; ++i) copy_row(x, first + i, space.data() + i * x.columns());
  return space.data();
}

/// Calls body(row, key in the block, factor) for the probabilities [R, keys] of a block of keys.
template <typename Body>
void for_dropped(const GlobalAttention& in, Index first, Index keys, const Body& body) {
  const float kept = in.dropout.kept_factor();
  const std::uint32_t threshold = in.dropout.threshold();
  for (Index row = 0; row < in.rows(); ++row) {
    const auto mask = dropout_row(in.dropout, row / in.g(), in.globals.rows[at(row % in.g())]);
    for (Index j = 0; j < keys; ++j) {
      const bool dropped = mask.bits(static_cast<std::uint32_t>(first + j)) < threshold;
      body(row, j, dropped ? 0.0f : kept);
    }
  }
}

/// U·xᵀ of a block of keys, −∞ for masked ones.
void score(const GlobalAttention& in, const Floats& transformed, const float* block, Index first,
           Index keys, Floats& scores) {
  scores.resize(at(in.rows() * keys));
  gemm({.m = in.rows(), .n = keys, .k = in.width(), .transpose_b = true}, transformed.data(), block,
       scores.data());
  for (Index j = 0; j < keys; ++j) {
    if (!masked(in, first + j)) continue;
    for (Index row = 0; row < in.rows(); ++row) scores[at(row * keys + j)] = kMasked;
  }
}

/// Turns the scores of one step into weights and rescales what was summed so far.
void online_softmax(std::span<float> scores, Index keys, PartialSum& partial) {
  const std::size_t width = partial.sum.size() / partial.maximum.size();
  for (std::size_t row = 0; row < partial.maximum.size(); ++row) {
    const auto line = scores.subspan(row * at(keys), at(keys));
    const float highest =
        std::accumulate(line.begin(), line.end(), partial.maximum[row], highest_of);
    if (highest == kMasked) {
      std::fill(line.begin(), line.end(), 0.0f);
      continue;
    }
    const float rescale = softmax_weight(partial.maximum[row] - highest);
    if (rescale != 1.0f) {
      for (std::size_t c = 0; c < width; ++c) partial.sum[row * width + c] *= rescale;
      partial.mass[row] *= rescale;
    }
    float denominator = 0;
    for (float& weight : line) {
      weight = softmax_weight(weight - highest);
      denominator += weight;
    }
    partial.denominator[row] = partial.denominator[row] * rescale + denominator;
    partial.maximum[row] = highest;
  }
}

/// The rows [begin, end) of x as keys and values.
PartialSum attend(const GlobalAttention& in, const Floats& transformed, Index begin, Index end) {
  PartialSum partial(in.rows(), in.width());
  Floats scores, space;
  for (Index first = begin; first < end; first += kKeysPerStep) {
    const Index keys = std::min(kKeysPerStep, end - first);
    const float* block = block_of(in.x, first, keys, space);
    score(in, transformed, block, first, keys, scores);
    online_softmax(scores, keys, partial);
    if (in.dropout.active()) {
      for_dropped(in, first, keys, [&](Index row, Index j, float factor) {
        float& weight = scores[at(row * keys + j)];
        weight *= factor;
        partial.mass[at(row)] += weight;
      });
    }
    gemm({.m = in.rows(), .n = in.width(), .k = keys, .beta = 1}, scores.data(), block,
         partial.sum.data());
  }
  if (!in.dropout.active()) partial.mass = partial.denominator;
  return partial;
}

/// The partial sums as one.
void merge(std::span<const PartialSum> partials, GlobalSummary& summary) {
  const std::size_t rows = partials[0].maximum.size();
  const std::size_t width = partials[0].sum.size() / rows;
  summary.mean.assign(rows * width, 0.0f);
  summary.mass.assign(rows, 0.0f);
  summary.logsumexp.assign(rows, kMasked);
  for (std::size_t row = 0; row < rows; ++row) {
    float highest = kMasked;
    for (const auto& partial : partials) highest = highest_of(highest, partial.maximum[row]);
    if (highest == kMasked) continue;
    float denominator = 0;
    for (const auto& partial : partials) {
      denominator += partial.denominator[row] * softmax_weight(partial.maximum[row] - highest);
    }
    summary.logsumexp[row] = highest + std::log(denominator);
    for (const auto& partial : partials) {
      const float weight = softmax_weight(partial.maximum[row] - highest) / denominator;
      summary.mass[row] += weight * partial.mass[row];
      for (std::size_t c = 0; c < width; ++c) {
        summary.mean[row * width + c] += weight * partial.sum[row * width + c];
      }
    }
  }
}

/// The summaries of all ranks as one. Sent are one row of x and three numbers for each row.
void merge_over(const Ranks& ranks, GlobalSummary& summary) {
  const std::size_t rows = summary.logsumexp.size(), width = summary.mean.size() / rows;
  Floats highest = summary.logsumexp;
  ranks.max(highest);
  Floats sums;
  for (std::size_t row = 0; row < rows; ++row) {
    const bool sees = summary.logsumexp[row] != kMasked;
    const float weight = sees ? softmax_weight(summary.logsumexp[row] - highest[row]) : 0.0f;
    for (std::size_t c = 0; c < width; ++c) sums.push_back(weight * summary.mean[row * width + c]);
    sums.push_back(weight * summary.mass[row]);
    sums.push_back(weight);
  }
  ranks.sum(std::span(sums));
  for (std::size_t row = 0; row < rows; ++row) {
    const float* sum = sums.data() + row * (width + 2);
    const float denominator = sum[width + 1];
    if (denominator == 0) continue;
    for (std::size_t c = 0; c < width; ++c) summary.mean[row * width + c] = sum[c] / denominator;
    summary.mass[row] = sum[width] / denominator;
    summary.logsumexp[row] = highest[row] + std::log(denominator);
  }
}

/// V (Σ p x) + b Σ p of every head.
Floats values_of(const GlobalAttention& in, const GlobalSummary& summary) {
  const Index g = in.g(), d = in.d(), width = in.width();
  const auto* bias = in.projections.value_bias.data<float>();
  Floats result(at(g * width));
  parallel_for(in.threads, in.heads(), [&](Index head) {
    for (Index i = 0; i < g; ++i) {
      const float mass = summary.mass[at(head * g + i)];
      for (Index c = head * d; c < (head + 1) * d; ++c) result[at(i * width + c)] = mass * bias[c];
    }
    add_projected({in.projections.value_weight, in.projections.value_addition, head * d, d}, g,
                  summary.mean.data() + head * g * width, result.data() + head * d, width);
  });
  return result;
}

/// The gradient of the mean and of the mass of every row, from that of the result [g, D]; adds to
/// those of the value projection.
struct MeanGradient {
  Floats mean, mass;
};
MeanGradient values_backward(const GlobalAttention& in, const GlobalSummary& summary,
                             const Floats& gradient, const GlobalGradients& to) {
  const Index g = in.g(), d = in.d(), width = in.width();
  const GlobalProjections& p = in.projections;
  MeanGradient result = {Floats(at(in.rows() * width)), Floats(at(in.rows()))};
  const auto* bias = p.value_bias.data<float>();
  parallel_for(in.threads, in.heads(), [&](Index head) {
    const float* out = gradient.data() + head * d;
    gemm({.m = g, .n = width, .k = d, .lda = width}, out,
         p.value_weight.data<float>() + head * d * width, result.mean.data() + head * g * width);
    if (to.value_weight != nullptr) {
      gemm({.m = d, .n = width, .k = g, .transpose_a = true, .lda = width, .beta = 1}, out,
           summary.mean.data() + head * g * width, to.value_weight + head * d * width);
    }
    for (Index i = 0; i < g; ++i) {
      const auto row = at(head * g + i);
      for (Index c = 0; c < d; ++c) {
        result.mass[row] += out[i * width + c] * bias[head * d + c];
        if (to.value_bias == nullptr) continue;
        to.value_bias[head * d + c] += out[i * width + c] * summary.mass[row];
      }
    }
  });
  return result;
}

/// Sends the gradients of mean and mass to the rows [begin, end) of x, adding to dx, and gives the
/// part of the gradient of the transformed queries [R, D] that these rows have.
Floats attend_backward(const GlobalAttention& in, const GlobalSummary& summary,
                       const MeanGradient& gradient, std::pair<Index, Index> range, Tensor& dx) {
  const Index rows = in.rows(), width = in.width();
  Floats offset(at(rows));
  for (Index row = 0; row < rows; ++row) {
    double along = static_cast<double>(gradient.mass[at(row)]) * summary.mass[at(row)];
    for (Index c = 0; c < width; ++c) {
      along += static_cast<double>(gradient.mean[at(row * width + c)]) *
               summary.mean[at(row * width + c)];
    }
    offset[at(row)] = static_cast<float>(along);
  }
  Floats queries(at(rows * width), 0.0f), weights, slopes, space, sums;
  for (Index first = range.first; first < range.second; first += kKeysPerStep) {
    const Index keys = std::min(kKeysPerStep, range.second - first);
    const float* block = block_of(in.x, first, keys, space);
    score(in, summary.transformed, block, first, keys, weights);
    slopes.resize(weights.size());
    gemm({.m = rows, .n = keys, .k = width, .transpose_b = true}, gradient.mean.data(), block,
         slopes.data());
    const auto apply = [&](Index row, Index j, float factor) {
      const auto i = at(row * keys + j);
      const float weight =
          weights[i] == kMasked ? 0.0f : softmax_weight(weights[i] - summary.logsumexp[at(row)]);
      slopes[i] = weight * (factor * (slopes[i] + gradient.mass[at(row)]) - offset[at(row)]);
      weights[i] = weight * factor;
    };
    if (in.dropout.active()) {
      for_dropped(in, first, keys, apply);
    } else {
      for (Index row = 0; row < rows; ++row) {
        for (Index j = 0; j < keys; ++j) apply(row, j, 1.0f);
      }
    }
    gemm({.m = rows, .n = width, .k = keys, .beta = 1}, slopes.data(), block, queries.data());
    sums.resize(at(keys * width));
    gemm({.m = keys, .n = width, .k = rows, .transpose_a = true}, weights.data(),
         gradient.mean.data(), sums.data());
    gemm({.m = keys, .n = width, .k = rows, .transpose_a = true, .beta = 1}, slopes.data(),
         summary.transformed.data(), sums.data());
    for (Index j = 0; j < keys; ++j) {
      write_row({sums.data() + j * width, at(width)}, dx, first + j);
    }
  }
  return queries;
}

/// From the gradient of the transformed queries [R, D] to those of the query and key projections
/// and of the global rows of x, which it adds to dx.
void queries_backward(const GlobalAttention& in, const GlobalSummary& summary,
                      const Floats& gradient, const GlobalGradients& to, Tensor& dx) {
  const Index g = in.g(), d = in.d(), width = in.width();
  const GlobalProjections& p = in.projections;
  Floats queries(at(g * width));
  parallel_for(in.threads, in.heads(), [&](Index head) {
    const float* rows = gradient.data() + head * g * width;
    gemm({.m = g, .n = d, .k = width, .transpose_b = true, .ldc = width, .alpha = scale_of(in)},
         rows, p.key_weight.data<float>() + head * d * width, queries.data() + head * d);
    if (to.key_weight == nullptr) return;
    gemm({.m = d,
          .n = width,
          .k = g,
          .transpose_a = true,
          .lda = width,
          .alpha = scale_of(in),
          .beta = 1},
         summary.queries.data() + head * d, rows, to.key_weight + head * d * width);
  });
  Floats rows(at(g * width)), sums(at(g * width));
  for (Index i = 0; i < g; ++i) copy_row(in.x, in.globals.rows[at(i)], rows.data() + i * width);
  if (to.query_weight != nullptr) {
    gemm({.m = width, .n = width, .k = g, .transpose_a = true, .beta = 1}, queries.data(),
         rows.data(), to.query_weight);
  }
  if (to.query_bias != nullptr) {
    for (Index i = 0; i < g; ++i) {
      for (Index c = 0; c < width; ++c) to.query_bias[c] += queries[at(i * width + c)];
    }
  }
  for (Index i = 0; i < g; ++i) copy_row(dx, in.globals.rows[at(i)], sums.data() + i * width);
  gemm({.m = g, .n = width, .k = width, .beta = 1}, queries.data(), p.query_weight.data<float>(),
       sums.data());
  write_rows(in.globals, sums, dx);
}

/// Takes the global rows out of a gradient and leaves zeros.
Floats take_rows(const GlobalRows& globals, Tensor& gradient) {
  const Index width = gradient.columns();
  Floats rows(at(globals.count() * width));
  for (Index i = 0; i < globals.count(); ++i) {
    copy_row(gradient, globals.rows[at(i)], rows.data() + i * width);
  }
  write_rows(globals, Floats(rows.size(), 0.0f), gradient);
  return rows;
}

}  // namespace

GlobalSummary summarise(const GlobalAttention& in) {
  GlobalSummary summary;
  const Index g = in.g(), d = in.d(), width = in.width();
  summary.queries = project_queries(in.globals, in.projections, in.x);
  summary.transformed.resize(at(in.rows() * width));
  parallel_for(in.threads, in.heads(), [&](Index head) {
    project_back({in.projections.key_weight, in.projections.key_addition, head * d, d}, g,
                 scale_of(in), summary.queries.data() + head * d, width,
                 summary.transformed.data() + head * g * width);
  });
  const Index parts = parts_of(in);
  std::vector<PartialSum> partials(at(parts), PartialSum(0, 0));
  parallel_for(in.threads, parts, [&](Index part) {
    partials[at(part)] = attend(in, summary.transformed, in.begin() + in.count() * part / parts,
                                in.begin() + in.count() * (part + 1) / parts);
  });
  merge(partials, summary);
  if (const auto& division = in.spec.rows->division) merge_over(*division->ranks, summary);
  return summary;
}

void write_global_rows(const GlobalAttention& in, const GlobalSummary& summary, Tensor& attended) {
  write_rows(in.globals, values_of(in, summary), attended);
}

void write_projected_global_rows(const GlobalAttention& in, MemoryPool& memory, Tensor& attended) {
  const GlobalProjections& p = in.projections;
  const auto projected = [&](const Tensor& weight, const Tensor& bias,
                             const LowRankMatrix& addition) {
    Tensor all = memory.tensor({in.heads(), in.count(), in.d()}, DType::f32);
    project_document(in.globals, {weight, bias, addition, in.d()}, in.x, all, in.threads);
    return all;
  };
  const Tensor query = project_global_queries(in.globals, p, in.x, in.d());
  const Tensor key = projected(p.key_weight, p.key_bias, p.key_addition);
  const Tensor value = projected(p.value_weight, p.value_bias, p.value_addition);
  Tensor result = memory.tensor({in.g(), in.width()}, DType::f32);
  attention(AttentionBackend::fused, global_rows_spec(in.spec, in.globals),
            {.query = query, .key = key, .value = value, .out = result, .threads = in.threads});
  write_rows(in.globals, result.to_floats(), attended);
}

void global_attention_backward(const GlobalAttention& in, const GlobalSummary& summary,
                               const GlobalGradients& gradients, Tensor& attended_gradient,
                               Tensor& dx) {
  const Floats gradient = take_rows(in.globals, attended_gradient);
  const MeanGradient mean = values_backward(in, summary, gradient, gradients);
  const Index parts = parts_of(in);
  std::vector<Floats> queries(at(parts));
  parallel_for(in.threads, parts, [&](Index part) {
    const Index begin = in.begin() + in.count() * part / parts;
    const Index end = in.begin() + in.count() * (part + 1) / parts;
    queries[at(part)] = attend_backward(in, summary, mean, {begin, end}, dx);
  });
  for (Index part = 1; part < parts; ++part) {
    for (std::size_t i = 0; i < queries[0].size(); ++i) queries[0][i] += queries[at(part)][i];
  }
  queries_backward(in, summary, queries[0], gradients, dx);
}

}  // namespace longformer::kernels
