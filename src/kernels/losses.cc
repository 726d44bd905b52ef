#include "kernels/losses.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "core/threads.h"
#include "kernels/cross_entropy.h"

namespace longformer::kernels {
namespace {

/// A loss of single logits: body(logit, target, place) gives loss and slope.
struct LossAndSlope {
  double loss;
  double slope;
};
template <typename Body>
LossSum elementwise(const Tensor& logits, std::span<const float> targets,
                    const LossOptions& options, Tensor& gradient, const Body& body) {
  assert(static_cast<Index>(targets.size()) == logits.size());
  LossSum loss;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const LossAndSlope at =
        body(static_cast<double>(logits.data<float>()[i]), static_cast<double>(targets[i]), i);
    loss.sum += at.loss;
    loss.weight += 1;
    gradient.data<float>()[i] = static_cast<float>(options.scale * at.slope);
  }
  return loss;
}

/// The factor of a row with this label.
double weight_of(std::int32_t label, const LossOptions& options) {
  return options.class_weights.empty() ? 1 : options.class_weights[static_cast<std::size_t>(label)];
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

/// Calls body for fp32 or bf16.
template <typename Body>
auto with_numbers(DType dtype, const Body& body) {
  return dtype == DType::bf16 ? body.template operator()<BFloat16>()
                              : body.template operator()<float>();
}

}  // namespace

LossSum cross_entropy_rows(Tensor& logits, std::span<const std::int32_t> labels,
                           const LossOptions& options, int threads) {
  const Index classes = logits.columns();
  std::vector<double> losses(labels.size(), 0.0);
  parallel_for(threads, logits.rows(), [&](Index row) {
    const auto i = static_cast<std::size_t>(row);
    float* values = logits.data<float>() + row * classes;
    if (labels[i] == kIgnored) {
      std::fill_n(values, classes, 0.0f);
      return;
    }
    const double weight = weight_of(labels[i], options);
    losses[i] =
        weight * softmax_cross_entropy(values, classes,
                                       {.label = labels[i], .smoothing = options.label_smoothing},
                                       weight * options.scale);
  });
  LossSum loss;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    loss.sum += losses[i];
    loss.weight += labels[i] == kIgnored ? 0 : weight_of(labels[i], options);
    if (!options.each.empty()) options.each[i] = static_cast<float>(losses[i]);
  }
  return loss;
}

LossSum binary_cross_entropy(const Tensor& logits, std::span<const float> targets,
                             const LossOptions& options, Tensor& gradient) {
  const auto softplus = [](double x) {
    return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
  };
  const auto plain = [&](double x, double y, std::size_t) {
    return LossAndSlope{softplus(x) - x * y, 1 / (1 + std::exp(-x)) - y};
  };
  if (options.class_weights.empty()) {
    return elementwise(logits, targets, options, gradient, plain);
  }
  // −y·log p − (1 − y)·log(1 − p), each part with its factor.
  const auto columns = static_cast<std::size_t>(logits.columns());
  const auto weighted = [&](double x, double y, std::size_t i) {
    const double one = y * options.class_weights[i % columns];
    const double none = (1 - y) * options.other_weights[i % columns];
    const double probability = 1 / (1 + std::exp(-x));
    return LossAndSlope{one * (softplus(x) - x) + none * softplus(x),
                        one * (probability - 1) + none * probability};
  };
  return elementwise(logits, targets, options, gradient, weighted);
}

LossSum squared_error(const Tensor& logits, std::span<const float> targets,
                      const LossOptions& options, Tensor& gradient) {
  return elementwise(logits, targets, options, gradient, [](double x, double y, std::size_t) {
    return LossAndSlope{(x - y) * (x - y), 2 * (x - y)};
  });
}

double mean_square_difference(const Tensor& x, const Tensor& target) {
  return with_numbers(x.dtype(), [&]<typename T>() {
    double sum = 0;
    const T *a = x.data<T>(), *b = target.data<T>();
    for (Index i = 0; i < x.size(); ++i) {
      const double difference = static_cast<float>(a[i]) - static_cast<float>(b[i]);
      sum += difference * difference;
    }
    return sum / static_cast<double>(x.size());
  });
}

void scaled_difference(const Tensor& x, const Tensor& target, float factor, Tensor& to) {
  with_numbers(x.dtype(), [&]<typename T>() {
    const T *a = x.data<T>(), *b = target.data<T>();
    for (Index i = 0; i < x.size(); ++i) {
      to.data<T>()[i] =
          static_cast<T>(factor * (static_cast<float>(a[i]) - static_cast<float>(b[i])));
    }
    return 0;
  });
}

LossSum row_cross_entropy(const Tensor& logits, Index column, std::span<const RowChoice> choices,
                          const LossOptions& options, Tensor& gradient) {
  const Index stride = logits.columns();
  const float* values = logits.data<float>() + column;
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
      // A logit of −∞ must not meet a factor of 0.
      if (uniform > 0) loss.sum -= uniform * value;
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
  return loss;
}

}  // namespace longformer::kernels
