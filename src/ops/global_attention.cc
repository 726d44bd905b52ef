#include "ops/global_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/threads.h"
#include "kernels/gemm.h"
#include "kernels/softmax_weight.h"
#include "ops/global_rows.h"
#include "ops/gradients.h"

namespace longformer::ops {
namespace {

using kernels::gemm;
using Floats = std::vector<float>;

constexpr float kMasked = -std::numeric_limits<float>::infinity();
/// Rows of x that one step takes.
constexpr Index kKeysPerStep = 256;

void write_row(std::span<const float> values, Tensor& out, Index row) {
  const Index width = out.columns();
  if (out.dtype() == DType::f32) {
    std::copy(values.begin(), values.end(), out.data<float>() + row * width);
  } else {
    std::transform(values.begin(), values.end(), out.data<BFloat16>() + row * width,
                   [](float value) { return BFloat16(value); });
  }
}

void write_rows(const GlobalRows& globals, const Floats& values, Tensor& out) {
  const std::size_t width = at(out.columns());
  for (Index i = 0; i < globals.count(); ++i) {
    write_row({values.data() + at(i) * width, width}, out, globals.rows[at(i)]);
  }
}

/// The global rows of one document against all of x, without projecting x. Row head·g + i of a
/// matrix with R = H·g rows belongs to global token i.
struct Document {
  const AttentionSpec& spec;
  const GlobalProjections& projections;
  const GlobalRows& globals;
  const Tensor& x;
  Dropout dropout;

  Index g() const { return globals.count(); }
  Index d() const { return spec.head_size; }
  Index heads() const { return static_cast<Index>(spec.heads.size()); }
  Index width() const { return x.columns(); }
  Index rows() const { return heads() * g(); }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(d())); }
  Index begin() const { return globals.document.key_begin; }
  Index count() const { return globals.document.key_count; }
  /// As many parts of x as threads: the same bits whatever else is in the batch.
  Index parts(const Context& context) const {
    return std::clamp<Index>(count() / (2 * kKeysPerStep), 1, context.threads);
  }
  bool masked(Index key) const {
    return !spec.rows->key_mask.empty() && spec.rows->key_mask[at(key)] == 0;
  }
};

/// What is known of the global rows once they have seen everything.
struct Summary {
  /// q̂ [g, D], and Kᵀq̂ scaled [R, D]: what is multiplied with the rows of x.
  Floats queries, transformed;
  /// Σ p·x [R, D], the logarithm of the softmax denominator and Σ p, which dropout takes from 1.
  Floats mean, logsumexp, mass;
};

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
void for_dropped(const Document& in, Index first, Index keys, const Body& body) {
  const float kept = in.dropout.kept_factor();
  const std::uint32_t threshold = in.dropout.threshold();
  for (Index row = 0; row < in.rows(); ++row) {
    const auto mask =
        kernels::dropout_row(in.dropout, row / in.g(), in.globals.rows[at(row % in.g())]);
    for (Index j = 0; j < keys; ++j) {
      const bool dropped = mask.bits(static_cast<std::uint32_t>(first + j)) < threshold;
      body(row, j, dropped ? 0.0f : kept);
    }
  }
}

/// U·xᵀ of a block of keys, −∞ for masked ones.
void score(const Document& in, const Floats& transformed, const float* block, Index first,
           Index keys, Floats& scores) {
  scores.resize(at(in.rows() * keys));
  gemm({.m = in.rows(), .n = keys, .k = in.width(), .transpose_b = true}, transformed.data(), block,
       scores.data());
  for (Index j = 0; j < keys; ++j) {
    if (!in.masked(first + j)) continue;
    for (Index row = 0; row < in.rows(); ++row) scores[at(row * keys + j)] = kMasked;
  }
}

/// Turns the scores of one step into weights and rescales what was summed so far.
void online_softmax(std::span<float> scores, Index keys, PartialSum& partial) {
  const std::size_t width = partial.sum.size() / partial.maximum.size();
  for (std::size_t row = 0; row < partial.maximum.size(); ++row) {
    const auto line = scores.subspan(row * at(keys), at(keys));
    const float highest =
        std::max(partial.maximum[row], *std::max_element(line.begin(), line.end()));
    if (highest == kMasked) {
      std::fill(line.begin(), line.end(), 0.0f);
      continue;
    }
    const float rescale = kernels::softmax_weight(partial.maximum[row] - highest);
    if (rescale != 1.0f) {
      for (std::size_t c = 0; c < width; ++c) partial.sum[row * width + c] *= rescale;
      partial.mass[row] *= rescale;
    }
    float denominator = 0;
    for (float& weight : line) {
      weight = kernels::softmax_weight(weight - highest);
      denominator += weight;
    }
    partial.denominator[row] = partial.denominator[row] * rescale + denominator;
    partial.maximum[row] = highest;
  }
}

/// The rows [begin, end) of x as keys and values.
PartialSum attend(const Document& in, const Floats& transformed, Index begin, Index end) {
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
void merge(std::span<const PartialSum> partials, Summary& summary) {
  const std::size_t rows = partials[0].maximum.size();
  const std::size_t width = partials[0].sum.size() / rows;
  summary.mean.assign(rows * width, 0.0f);
  summary.mass.assign(rows, 0.0f);
  summary.logsumexp.assign(rows, kMasked);
  for (std::size_t row = 0; row < rows; ++row) {
    float highest = kMasked;
    for (const auto& partial : partials) highest = std::max(highest, partial.maximum[row]);
    if (highest == kMasked) continue;
    float denominator = 0;
    for (const auto& partial : partials) {
      denominator +=
          partial.denominator[row] * kernels::softmax_weight(partial.maximum[row] - highest);
    }
    summary.logsumexp[row] = highest + std::log(denominator);
    for (const auto& partial : partials) {
      const float weight = kernels::softmax_weight(partial.maximum[row] - highest) / denominator;
      summary.mass[row] += weight * partial.mass[row];
      for (std::size_t c = 0; c < width; ++c) {
        summary.mean[row * width + c] += weight * partial.sum[row * width + c];
      }
    }
  }
}

Summary summarise(const Context& context, const Document& in) {
  Summary summary;
  const Index g = in.g(), d = in.d(), width = in.width();
  summary.queries = project_queries(in.globals, in.projections, in.x);
  summary.transformed.resize(at(in.rows() * width));
  parallel_for(context.threads, in.heads(), [&](Index head) {
    gemm({.m = g, .n = width, .k = d, .lda = width, .alpha = in.scale()},
         summary.queries.data() + head * d,
         in.projections.key_weight.data<float>() + head * d * width,
         summary.transformed.data() + head * g * width);
  });
  const Index parts = in.parts(context);
  std::vector<PartialSum> partials(at(parts), PartialSum(0, 0));
  parallel_for(context.threads, parts, [&](Index part) {
    partials[at(part)] = attend(in, summary.transformed, in.begin() + in.count() * part / parts,
                                in.begin() + in.count() * (part + 1) / parts);
  });
  merge(partials, summary);
  return summary;
}

/// V (Σ p x) + b Σ p of every head.
Floats values_of(const Context& context, const Document& in, const Summary& summary) {
  const Index g = in.g(), d = in.d(), width = in.width();
  const auto* bias = in.projections.value_bias.data<float>();
  Floats result(at(g * width));
  parallel_for(context.threads, in.heads(), [&](Index head) {
    for (Index i = 0; i < g; ++i) {
      const float mass = summary.mass[at(head * g + i)];
      for (Index c = head * d; c < (head + 1) * d; ++c) result[at(i * width + c)] = mass * bias[c];
    }
    gemm({.m = g, .n = d, .k = width, .transpose_b = true, .ldc = width, .beta = 1},
         summary.mean.data() + head * g * width,
         in.projections.value_weight.data<float>() + head * d * width, result.data() + head * d);
  });
  return result;
}

/// Dense attention of the global rows over projected keys and values, for many global tokens.
Floats attend_with_projections(const Context& context, const Document& in) {
  const GlobalProjections& p = in.projections;
  const Tensor query = project_global_queries(context, in.x, in.globals, p, in.d());
  const Tensor key = project_document(context, in.x, in.globals, p.key_weight, p.key_bias, in.d());
  const Tensor value =
      project_document(context, in.x, in.globals, p.value_weight, p.value_bias, in.d());
  Tensor result = context.memory.tensor({in.g(), in.width()}, DType::f32);
  kernels::attention(
      kernels::AttentionBackend::fused, global_rows_spec(in.spec, in.globals),
      {.query = query, .key = key, .value = value, .out = result, .threads = context.threads});
  return result.to_floats();
}

/// The gradient of the mean and of the mass of every row, from that of the result [g, D]; adds to
/// those of the value projection.
struct MeanGradient {
  Floats mean, mass;
};
MeanGradient values_backward(const Context& context, const Document& in, const Summary& summary,
                             const Floats& gradient) {
  const Index g = in.g(), d = in.d(), width = in.width();
  const GlobalProjections& p = in.projections;
  MeanGradient result = {Floats(at(in.rows() * width)), Floats(at(in.rows()))};
  float* weight_gradient =
      wants_gradient(p.value_weight) ? parameter_gradient(p.value_weight).data<float>() : nullptr;
  float* bias_gradient =
      wants_gradient(p.value_bias) ? parameter_gradient(p.value_bias).data<float>() : nullptr;
  const auto* bias = p.value_bias.data<float>();
  parallel_for(context.threads, in.heads(), [&](Index head) {
    const float* out = gradient.data() + head * d;
    gemm({.m = g, .n = width, .k = d, .lda = width}, out,
         p.value_weight.data<float>() + head * d * width, result.mean.data() + head * g * width);
    if (weight_gradient != nullptr) {
      gemm({.m = d, .n = width, .k = g, .transpose_a = true, .lda = width, .beta = 1}, out,
           summary.mean.data() + head * g * width, weight_gradient + head * d * width);
    }
    for (Index i = 0; i < g; ++i) {
      const auto row = at(head * g + i);
      for (Index c = 0; c < d; ++c) {
        result.mass[row] += out[i * width + c] * bias[head * d + c];
        if (bias_gradient == nullptr) continue;
        bias_gradient[head * d + c] += out[i * width + c] * summary.mass[row];
      }
    }
  });
  return result;
}

/// Sends the gradients of mean and mass to the rows [begin, end) of x, adding to dx, and gives the
/// part of the gradient of the transformed queries [R, D] that these rows have.
Floats attend_backward(const Document& in, const Summary& summary, const MeanGradient& gradient,
                       std::pair<Index, Index> range, Tensor& dx) {
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
      const float weight = weights[i] == kMasked
                               ? 0.0f
                               : kernels::softmax_weight(weights[i] - summary.logsumexp[at(row)]);
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
/// and of the global rows of x. The bias of the keys shifts all scores of a query alike and has
/// none.
void queries_backward(const Context& context, const Document& in, const Summary& summary,
                      const Floats& gradient, Tensor& dx) {
  const Index g = in.g(), d = in.d(), width = in.width();
  const GlobalProjections& p = in.projections;
  Floats queries(at(g * width));
  float* key_gradient =
      wants_gradient(p.key_weight) ? parameter_gradient(p.key_weight).data<float>() : nullptr;
  parallel_for(context.threads, in.heads(), [&](Index head) {
    const float* rows = gradient.data() + head * g * width;
    gemm({.m = g, .n = d, .k = width, .transpose_b = true, .ldc = width, .alpha = in.scale()}, rows,
         p.key_weight.data<float>() + head * d * width, queries.data() + head * d);
    if (key_gradient == nullptr) return;
    gemm({.m = d,
          .n = width,
          .k = g,
          .transpose_a = true,
          .lda = width,
          .alpha = in.scale(),
          .beta = 1},
         summary.queries.data() + head * d, rows, key_gradient + head * d * width);
  });
  Floats rows(at(g * width)), sums(at(g * width));
  for (Index i = 0; i < g; ++i) copy_row(in.x, in.globals.rows[at(i)], rows.data() + i * width);
  if (wants_gradient(p.query_weight)) {
    gemm({.m = width, .n = width, .k = g, .transpose_a = true, .beta = 1}, queries.data(),
         rows.data(), parameter_gradient(p.query_weight).data<float>());
  }
  if (wants_gradient(p.query_bias)) {
    auto* bias = parameter_gradient(p.query_bias).data<float>();
    for (Index i = 0; i < g; ++i) {
      for (Index c = 0; c < width; ++c) bias[c] += queries[at(i * width + c)];
    }
  }
  for (Index i = 0; i < g; ++i) copy_row(dx, in.globals.rows[at(i)], sums.data() + i * width);
  gemm({.m = g, .n = width, .k = width, .beta = 1}, queries.data(), p.query_weight.data<float>(),
       sums.data());
  write_rows(in.globals, sums, dx);
}

void document_backward(const Context& context, const Document& in, const Summary& summary,
                       const Floats& gradient, Tensor& dx) {
  const MeanGradient mean = values_backward(context, in, summary, gradient);
  const Index parts = in.parts(context);
  std::vector<Floats> queries(at(parts));
  parallel_for(context.threads, parts, [&](Index part) {
    const Index begin = in.begin() + in.count() * part / parts;
    const Index end = in.begin() + in.count() * (part + 1) / parts;
    queries[at(part)] = attend_backward(in, summary, mean, {begin, end}, dx);
  });
  for (Index part = 1; part < parts; ++part) {
    for (std::size_t i = 0; i < queries[0].size(); ++i) queries[0][i] += queries[at(part)][i];
  }
  queries_backward(context, in, summary, queries[0], dx);
}

/// What the backward pass of a layer keeps.
struct Kept {
  AttentionSpec spec;
  GlobalProjections projections;
  Tensor x;
  std::vector<GlobalRows> documents;
  std::vector<Summary> summaries;
};

/// The local attention of rows that were overwritten gets no gradient.
Floats take_rows(const GlobalRows& globals, Tensor& gradient) {
  const Index width = gradient.columns();
  Floats rows(at(globals.count() * width));
  for (Index i = 0; i < globals.count(); ++i) {
    copy_row(gradient, globals.rows[at(i)], rows.data() + i * width);
  }
  write_rows(globals, Floats(rows.size(), 0.0f), gradient);
  return rows;
}

void global_attention_backward(const Context& context, const Kept& kept, Dropout dropout,
                               Tensor& gradient) {
  Tensor dx = context.memory.zeros(kept.x.shape(), kept.x.dtype());
  for (std::size_t i = 0; i < kept.documents.size(); ++i) {
    const Document in{kept.spec, kept.projections, kept.documents[i], kept.x, dropout};
    const Floats rows = take_rows(kept.documents[i], gradient);
    document_backward(context, in, kept.summaries[i], rows, dx);
  }
  send_gradient(context, kept.x, dx);
}

}  // namespace

void global_attention(const Context& context, const AttentionSpec& spec,
                      const GlobalProjections& projections, const Tensor& x, Tensor& attended) {
  // With many global tokens a pass that no backward pass follows projects all tokens instead.
  const bool serves = context.tape == nullptr || !context.tape->keeps_steps();
  const bool trained = wants_backward(context, x, attended, projections);
  // The masks of the local probabilities are others.
  const Dropout dropout = {.rate = spec.dropout.rate, .seed = random_bits(spec.dropout.seed, 1)};
  auto kept = std::make_shared<Kept>();
  std::vector<GlobalRows> documents = documents_with_globals(spec);
  if (documents.empty()) return;
  for (GlobalRows& globals : documents) {
    const Document in{spec, projections, globals, x, dropout};
    if (globals.count() > spec.head_size && serves && !dropout.active()) {
      write_rows(globals, attend_with_projections(context, in), attended);
      continue;
    }
    Summary summary = summarise(context, in);
    write_rows(globals, values_of(context, in, summary), attended);
    if (!trained) continue;
    kept->summaries.push_back(std::move(summary));
    kept->documents.push_back(std::move(globals));
  }
  if (!trained) return;
  if (!wants_gradient(attended)) Tape::track(attended);
  if (kept->documents.empty()) return;
  kept->spec = spec;
  kept->projections = projections;
  kept->x = x;
  context.tape->record("global_attention", [context, kept, dropout, slot = attended.gradient()] {
    if (slot->sum.empty()) return;
    slot->sum = owned(context, std::move(slot->sum));
    global_attention_backward(context, *kept, dropout, slot->sum);
  });
}

}  // namespace longformer::ops
