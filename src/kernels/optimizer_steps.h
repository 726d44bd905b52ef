// The arithmetic of optimizers: one step of one parameter.
//
// Values, gradients and moments are fp32. Sums run in double over fixed pieces that are added in
// order: results depend neither on the number of threads nor on chance.
#pragma once

#include <cstdint>
#include <optional>

#include "core/tensor.h"

namespace longformer::kernels {

/// Copies the elements of a tensor of the same shape and dtype.
void assign(Tensor& target, const Tensor& source);

/// Σ x². Not finite where an element is not.
double sum_of_squares(const Tensor& x, int threads);

/// One step of AdamW (Loshchilov and Hutter; docs/spec/training.md#c3).
struct AdamWStep {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  /// Number of the step, for the bias correction; the first is 1.
  std::int64_t step = 1;
  /// The gradient is multiplied with it first: averaging and clipping.
  double gradient_scale = 1;
  int threads = 1;
};

/// m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g², p ← p − lr·(m̂/(√v̂+ε) + λp).
void adamw_step(Tensor& value, const Tensor& gradient, Tensor& mean, Tensor& square,
                const AdamWStep& step);

/// One step of Adagrad (Duchi et al. 2011) as in PyTorch, with a limit for each tensor (Sukhbaatar
/// et al., arXiv 1905.07799; docs/spec/training.md#c3).
struct AdagradStep {
  double learning_rate = 0;
  /// A step whose gradient has a larger norm than this is multiplied with their quotient; 0: never.
  double clip = 0;
  double epsilon = 1e-10;
  /// λ is part of the gradient.
  double weight_decay = 0;
  double gradient_scale = 1;
  int threads = 1;
};

/// g ← g + λp, s ← s + g², p ← p − lr·g/(√s + ε).
void adagrad_step(Tensor& value, const Tensor& gradient, Tensor& sum, const AdagradStep& step);

/// Rows of the value [rows, d] (its last dimension) are directions: v ← decay · v + (1 − decay) · s
/// / |s|, with the row s of the sums; one whose sum is zero stays.
void average_directions(Tensor& value, const Tensor& sums, double decay);

/// Numbers below `least` become it, numbers above `most` that.
void clamp(Tensor& value, float least, float most);

/// Running averages of Adafactor. A matrix [R, C] has those of the rows [R] and of the columns [C]
/// of its squared gradient, with leading dimensions for a stack of matrices; a vector has `square`.
/// `mean` exists only with a β₁.
struct AdafactorMoments {
  Tensor rows, columns, square, mean;

  /// Zeros for a value of this shape.
  static AdafactorMoments zeros(const Shape& shape, bool with_mean);
};

/// One step of Adafactor as in `transformers` (Shazeer and Stern, arXiv 1804.04235).
struct AdafactorStep {
  /// Absent: the step's own, min(1e-2, 1/√t), with `warmup_init` min(1e-6·t, 1/√t).
  std::optional<double> learning_rate = {};
  bool warmup_init = false;
  /// Multiply the learning rate with max(epsilon_scale, RMS of the value).
  bool scale_parameter = true;
  std::optional<double> beta1 = {};
  double decay_rate = -0.8;
  double clip_threshold = 1;
  double epsilon_square = 1e-30;
  double epsilon_scale = 1e-3;
  double weight_decay = 0;
  /// Multiplies the learning rate, own or given.
  double learning_rate_scale = 1;
  std::int64_t step = 1;
  double gradient_scale = 1;
  int threads = 1;
};

void adafactor_step(Tensor& value, const Tensor& gradient, AdafactorMoments& moments,
                    const AdafactorStep& step);

}  // namespace longformer::kernels
