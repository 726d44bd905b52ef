#include "ops/loss.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "kernels/cross_entropy.h"
#include "ops/gradients.h"
#include "ops/row_blocks.h"

namespace longformer::ops {
namespace {

/// Rows whose logits of a whole vocabulary are in memory at a time.
constexpr Index kDecoderRows = 256;

/// Turns the rows of logits into scale times their gradient, in place, and sums the losses in the
/// order of the rows.
LossSum softmax_rows(const Context& context, Tensor& logits, std::span<const std::int32_t> labels,
                     const LossOptions& options) {
  const Index classes = logits.columns();
  std::vector<double> losses(labels.size(), 0.0);
  parallel_for(context.threads, logits.rows(), [&](Index row) {
    const auto i = static_cast<std::size_t>(row);
    float* values = logits.data<float>() + row * classes;
    if (labels[i] == kIgnored) {
      std::fill_n(values, classes, 0.0f);
      return;
    }
    losses[i] = kernels::softmax_cross_entropy(
        values, classes, {.label = labels[i], .smoothing = options.label_smoothing}, options.scale);
  });
  LossSum loss;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    loss.sum += losses[i];
    loss.weight += labels[i] == kIgnored ? 0 : 1;
  }
  return loss;
}

/// A loss of single logits: body(logit, target) gives loss and slope.
struct LossAndSlope {
  double loss;
  double slope;
};
template <typename Body>
LossSum elementwise(const Context& context, const Tensor& logits, std::span<const float> targets,
                    const LossOptions& options, const Body& body) {
  assert(static_cast<Index>(targets.size()) == logits.size());
  Tensor gradient = context.memory.tensor(logits.shape(), DType::f32);
  LossSum loss;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const LossAndSlope at =
        body(static_cast<double>(logits.data<float>()[i]), static_cast<double>(targets[i]));
    loss.sum += at.loss;
    loss.weight += 1;
    gradient.data<float>()[i] = static_cast<float>(options.scale * at.slope);
  }
  send_gradient(context, logits, std::move(gradient));
  return loss;
}

/// log Σ e^value over the rows, in double.
template <typename Rows>
double logsumexp(const float* column, Index stride, const Rows& rows) {
  double highest = -INFINITY, sum = 0;
  for (const Index row : rows) {
    highest = std::max(highest, static_cast<double>(column[row * stride]));
  }
  for (const Index row : rows) {
    sum += std::exp(static_cast<double>(column[row * stride]) - highest);
  }
  return highest + std::log(sum);
}

}  // namespace

LossSum cross_entropy(const Context& context, const Tensor& logits,
                      std::span<const std::int32_t> labels, const LossOptions& options) {
  Tensor gradient = context.memory.tensor(logits.shape(), DType::f32);
  std::memcpy(gradient.raw(), logits.raw(), logits.bytes());
  const LossSum loss = softmax_rows(context, gradient, labels, options);
  send_gradient(context, logits, std::move(gradient));
  return loss;
}

LossSum linear_cross_entropy(const Context& context, const Tensor& x, const Linear& decoder,
                             std::span<const std::int32_t> labels, const LossOptions& options) {
  const bool trained = wants_backward(context, x, decoder);
  refuse_packed(context, "linear_cross_entropy", decoder, x);
  LossOptions used = options;
  if (!trained) used.scale = 0;
  Tensor dx;
  if (trained && wants_gradient(x)) dx = context.memory.tensor(x.shape(), x.dtype());
  Context untaped = context;
  untaped.tape = nullptr;
  LossSum loss;
  for (Index begin = 0; begin < x.rows(); begin += kDecoderRows) {
    const Index rows = std::min(kDecoderRows, x.rows() - begin);
    Tensor block = x.slice_rows(begin, rows);
    Tensor logits = linear(untaped, block, decoder, DType::f32);
    const LossSum part = softmax_rows(
        context, logits,
        labels.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(rows)), used);
    loss.sum += part.sum;
    loss.weight += part.weight;
    if (!trained) continue;
    if (!dx.empty()) Tape::track(block);
    multiply_backward(context, block, decoder, logits);
    if (dx.empty()) continue;
    const Tensor gradient = block.gradient()->take();
    std::memcpy(row_of(dx, begin), gradient.raw(), gradient.bytes());
  }
  if (!dx.empty()) send_gradient(context, x, dx);
  return loss;
}

LossSum binary_cross_entropy(const Context& context, const Tensor& logits,
                             std::span<const float> targets, const LossOptions& options) {
  return elementwise(context, logits, targets, options, [](double x, double y) {
    const double softplus = std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    return LossAndSlope{softplus - x * y, 1 / (1 + std::exp(-x)) - y};
  });
}

LossSum squared_error(const Context& context, const Tensor& logits, std::span<const float> targets,
                      const LossOptions& options) {
  return elementwise(context, logits, targets, options, [](double x, double y) {
    return LossAndSlope{(x - y) * (x - y), 2 * (x - y)};
  });
}

LossSum row_cross_entropy(const Context& context, const Tensor& logits, Index column,
                          std::span<const RowChoice> choices, const LossOptions& options) {
  const Index stride = logits.columns();
  const float* values = logits.data<float>() + column;
  Tensor gradient = Tensor::zeros(logits.shape(), DType::f32);
  float* sent = gradient.data<float>() + column;
  LossSum loss;
  std::vector<Index> rows;
  std::vector<double> slopes;
  for (const RowChoice& choice : choices) {
    if (choice.right.empty()) continue;
    rows.clear();
    for (Index row = choice.range.begin; row < choice.range.end; ++row) rows.push_back(row);
    const double all = logsumexp(values, stride, rows);
    const double right = logsumexp(values, stride, choice.right);
    const double uniform = options.label_smoothing / static_cast<double>(rows.size());
    loss.sum += all - (1 - options.label_smoothing) * right;
    loss.weight += 1;
    slopes.assign(rows.size(), 0.0);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto value = static_cast<double>(values[rows[i] * stride]);
      loss.sum -= uniform * value;
      slopes[i] = std::exp(value - all) - uniform;
    }
    for (const Index row : choice.right) {
      slopes[static_cast<std::size_t>(row - choice.range.begin)] -=
          (1 - options.label_smoothing) *
          std::exp(static_cast<double>(values[row * stride]) - right);
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      sent[rows[i] * stride] = static_cast<float>(options.scale * slopes[i]);
    }
  }
  send_gradient(context, logits, std::move(gradient));
  return loss;
}

}  // namespace longformer::ops
