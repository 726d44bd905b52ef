#include "kernels/optimizer_steps.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "core/threads.h"

namespace longformer::kernels {
namespace {

/// Elements of a piece of parallel work.
constexpr Index kPiece = 1 << 15;

/// Calls body(begin, end) for all pieces of `count` things, `size` of them in each.
template <typename Body>
void for_pieces(int threads, Index count, Index size, Body&& body) {
  parallel_for(threads, (count + size - 1) / size,
               [&](Index i) { body(i * size, std::min(count, (i + 1) * size)); });
}

/// Sum of body(begin, end) over the pieces, in their order.
template <typename Body>
double sum_pieces(int threads, Index count, Index size, Body&& body) {
  std::vector<double> sums(static_cast<std::size_t>((count + size - 1) / size));
  for_pieces(threads, count, size, [&](Index begin, Index end) {
    sums[static_cast<std::size_t>(begin / size)] = body(begin, end);
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

/// Σ term(i) with interleaved partial sums, which compilers turn into vectors.
template <typename Term>
double sum_terms(Index begin, Index end, Term&& term) {
  constexpr Index kLanes = 8;
  std::array<double, kLanes> lanes{};
  Index i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    for (Index lane = 0; lane < kLanes; ++lane) {
      lanes[static_cast<std::size_t>(lane)] += term(i + lane);
    }
  }
  double sum = 0;
  for (; i < end; ++i) sum += term(i);
  for (const double lane : lanes) sum += lane;
  return sum;
}

double squared(float x) { return static_cast<double>(x) * static_cast<double>(x); }

/// Rows that make a piece of about kPiece elements.
Index rows_of_piece(Index columns) {
  return std::max<Index>(1, kPiece / std::max<Index>(1, columns));
}

/// The numbers of a step of AdamW that are the same for all elements.
struct AdamWFactors {
  float keep, rate, root, epsilon, beta1, beta2, rest1, rest2, scale;
};

/// Moments below these are 0: beside an epsilon they move nothing, and those of parameters without
/// a gradient would shrink until every step computes with subnormal numbers.
constexpr float kNegligibleMean = 1e-30f;
constexpr float kNegligibleSquare = 1e-36f;
constexpr float kNoMean = std::numeric_limits<float>::max();

float without_negligible(float moment, float limit) {
  return std::abs(moment) < limit ? 0.0f : moment;
}

/// p, g, m and v of `count` elements.
void move_adamw(float* __restrict p, const float* __restrict gradients, float* __restrict m,
                float* __restrict v, Index count, const AdamWFactors& factors) {
  const AdamWFactors f = factors;
  for (Index i = 0; i < count; ++i) {
    const float g = f.scale * gradients[i];
    const float square = without_negligible(f.beta2 * v[i] + f.rest2 * g * g, kNegligibleSquare);
    // Without its square a mean would be divided by epsilon alone, however small that is.
    const float limit = square == 0.0f ? kNoMean : kNegligibleMean;
    const float mean = without_negligible(f.beta1 * m[i] + f.rest1 * g, limit);
    p[i] = f.keep * p[i] - f.rate * mean / (std::sqrt(square) * f.root + f.epsilon);
    m[i] = mean;
    v[i] = square;
  }
}

/// A parameter that is a matrix, with its factored second moment.
struct Matrix {
  float* value;
  const float* gradient;
  float* mean;
  float* row_moment;
  float* column_moment;
  Index rows;
  Index columns;
};

void update_factors(const Matrix& m, const AdafactorStep& step, double beta2) {
  const auto scale = static_cast<float>(step.gradient_scale);
  const auto blend = [beta2](float& moment, double mean) {
    moment = static_cast<float>(beta2 * static_cast<double>(moment) + (1 - beta2) * mean);
  };
  for_pieces(step.threads, m.rows, rows_of_piece(m.columns), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const float* g = m.gradient + i * m.columns;
      const double sum = sum_terms(0, m.columns, [&](Index j) { return squared(scale * g[j]); });
      blend(m.row_moment[i], sum / static_cast<double>(m.columns) + step.epsilon_square);
    }
  });
  constexpr Index kStrip = 64;
  for_pieces(step.threads, m.columns, kStrip, [&](Index begin, Index end) {
    std::array<double, kStrip> sums{};
    for (Index i = 0; i < m.rows; ++i) {
      const float* g = m.gradient + i * m.columns + begin;
      for (Index j = 0; j < end - begin; ++j) {
        sums[static_cast<std::size_t>(j)] += squared(scale * g[j]);
      }
    }
    for (Index j = begin; j < end; ++j) {
      blend(m.column_moment[j],
            sums[static_cast<std::size_t>(j - begin)] / static_cast<double>(m.rows) +
                step.epsilon_square);
    }
  });
}

/// Factors of the gradient, one for each row and one for each column.
struct Factors {
  std::vector<float> rows, columns;
};

Factors factors_of(const Matrix& m, const AdafactorStep& step) {
  double sum = 0;
  for (Index i = 0; i < m.rows; ++i) sum += static_cast<double>(m.row_moment[i]);
  const double mean = sum / static_cast<double>(m.rows);
  Factors factors;
  for (Index i = 0; i < m.rows; ++i) {
    const double row = static_cast<double>(m.row_moment[i]) / mean;
    factors.rows.push_back(static_cast<float>(step.gradient_scale / std::sqrt(row)));
  }
  for (Index j = 0; j < m.columns; ++j) {
    factors.columns.push_back(
        static_cast<float>(1 / std::sqrt(static_cast<double>(m.column_moment[j]))));
  }
  return factors;
}

/// How the value follows its update.
struct Move {
  float rate;
  float decay;
  float beta1;
};

/// Writes p and m of one element from its update.
void follow(const Move& move, float update, float& value, float* mean) {
  float change = move.rate * update;
  if (mean != nullptr) {
    *mean = without_negligible(move.beta1 * *mean + (1 - move.beta1) * change, kNegligibleMean);
    change = *mean;
  }
  value = value - move.decay * value - change;
}

double squared_updates(const Matrix& m, const Factors& factors, int threads) {
  return sum_pieces(threads, m.rows, rows_of_piece(m.columns), [&](Index begin, Index end) {
    double sum = 0;
    for (Index i = begin; i < end; ++i) {
      const float* g = m.gradient + i * m.columns;
      const float row = factors.rows[static_cast<std::size_t>(i)];
      const float* columns = factors.columns.data();
      sum += sum_terms(0, m.columns, [&](Index j) { return squared(row * columns[j] * g[j]); });
    }
    return sum;
  });
}

void move_matrix(const Matrix& m, const Factors& factors, const Move& move, int threads) {
  for_pieces(threads, m.rows, rows_of_piece(m.columns), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const float row = factors.rows[static_cast<std::size_t>(i)];
      const float* columns = factors.columns.data();
      for (Index j = 0; j < m.columns; ++j) {
        const Index at = i * m.columns + j;
        follow(move, row * columns[j] * m.gradient[at], m.value[at],
               m.mean == nullptr ? nullptr : m.mean + at);
      }
    }
  });
}

/// The step of a value: learning rate, decay and clipping by the root mean square of the update.
Move move_of(const AdafactorStep& step, double value_rms, double update_rms) {
  const auto t = static_cast<double>(step.step);
  const double own = std::min(step.warmup_init ? 1e-6 * t : 1e-2, 1 / std::sqrt(t));
  const double scale = step.scale_parameter ? std::max(step.epsilon_scale, value_rms) : 1.0;
  const double rate = step.learning_rate.value_or(own) * step.learning_rate_scale * scale;
  const double clip = std::max(1.0, update_rms / step.clip_threshold);
  return {.rate = static_cast<float>(rate / clip),
          .decay = static_cast<float>(rate * step.weight_decay),
          .beta1 = static_cast<float>(step.beta1.value_or(0))};
}

double root_mean(double sum, Index count) { return std::sqrt(sum / static_cast<double>(count)); }

/// A stack of matrices is factored one by one, and clipped as one.
void step_matrices(Tensor& value, const Tensor& gradient, AdafactorMoments& moments,
                   const AdafactorStep& step, double beta2) {
  const Shape& shape = value.shape();
  const Index columns = shape.back();
  const Index rows = shape[shape.size() - 2];
  float* mean = step.beta1 ? moments.mean.data<float>() : nullptr;
  std::vector<Matrix> matrices;
  std::vector<Factors> factors;
  double sum = 0;
  for (Index k = 0; k < value.size() / (rows * columns); ++k) {
    const Index offset = k * rows * columns;
    matrices.push_back({.value = value.data<float>() + offset,
                        .gradient = gradient.data<float>() + offset,
                        .mean = mean == nullptr ? nullptr : mean + offset,
                        .row_moment = moments.rows.data<float>() + k * rows,
                        .column_moment = moments.columns.data<float>() + k * columns,
                        .rows = rows,
                        .columns = columns});
    update_factors(matrices.back(), step, beta2);
    factors.push_back(factors_of(matrices.back(), step));
    sum += squared_updates(matrices.back(), factors.back(), step.threads);
  }
  const double value_rms = root_mean(sum_of_squares(value, step.threads), value.size());
  const Move move = move_of(step, value_rms, root_mean(sum, value.size()));
  for (std::size_t k = 0; k < matrices.size(); ++k) {
    move_matrix(matrices[k], factors[k], move, step.threads);
  }
}

void step_vector(Tensor& value, const Tensor& gradient, AdafactorMoments& moments,
                 const AdafactorStep& step, double beta2) {
  const float* g = gradient.data<float>();
  float* square = moments.square.data<float>();
  const auto scale = static_cast<float>(step.gradient_scale);
  const auto update = [&](Index i) { return scale * g[i] / std::sqrt(square[i]); };
  const double sum = sum_pieces(step.threads, value.size(), kPiece, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      square[i] = static_cast<float>(beta2 * static_cast<double>(square[i]) +
                                     (1 - beta2) * (squared(scale * g[i]) + step.epsilon_square));
    }
    return sum_terms(begin, end, [&](Index i) { return squared(update(i)); });
  });
  const double value_rms = root_mean(sum_of_squares(value, step.threads), value.size());
  const Move move = move_of(step, value_rms, root_mean(sum, value.size()));
  float* p = value.data<float>();
  float* mean = step.beta1 ? moments.mean.data<float>() : nullptr;
  for_pieces(step.threads, value.size(), kPiece, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      follow(move, update(i), p[i], mean == nullptr ? nullptr : mean + i);
    }
  });
}

}  // namespace

void assign(Tensor& target, const Tensor& source) {
  assert(target.shape() == source.shape() && target.dtype() == source.dtype());
  if (target.bytes() > 0) std::memcpy(target.raw(), source.raw(), target.bytes());
}

double sum_of_squares(const Tensor& x, int threads) {
  const float* values = x.data<float>();
  return sum_pieces(threads, x.size(), kPiece, [&](Index begin, Index end) {
    return sum_terms(begin, end, [&](Index i) { return squared(values[i]); });
  });
}

void adamw_step(Tensor& value, const Tensor& gradient, Tensor& mean, Tensor& square,
                const AdamWStep& step) {
  assert(gradient.size() == value.size() && mean.size() == value.size());
  const auto t = static_cast<double>(step.step);
  const AdamWFactors factors{
      .keep = static_cast<float>(1 - step.learning_rate * step.weight_decay),
      .rate = static_cast<float>(step.learning_rate / (1 - std::pow(step.beta1, t))),
      .root = static_cast<float>(1 / std::sqrt(1 - std::pow(step.beta2, t))),
      // At rest 0 is divided by it.
      .epsilon = std::max(static_cast<float>(step.epsilon), std::numeric_limits<float>::min()),
      .beta1 = static_cast<float>(step.beta1),
      .beta2 = static_cast<float>(step.beta2),
      .rest1 = static_cast<float>(1 - step.beta1),
      .rest2 = static_cast<float>(1 - step.beta2),
      .scale = static_cast<float>(step.gradient_scale)};
  for_pieces(step.threads, value.size(), kPiece, [&](Index begin, Index end) {
    move_adamw(value.data<float>() + begin, gradient.data<float>() + begin,
               mean.data<float>() + begin, square.data<float>() + begin, end - begin, factors);
  });
}

void adagrad_step(Tensor& value, const Tensor& gradient, Tensor& sum, const AdagradStep& step) {
  const auto scale = static_cast<float>(step.gradient_scale);
  const auto decay = static_cast<float>(step.weight_decay);
  const auto epsilon = static_cast<float>(step.epsilon);
  float* p = value.data<float>();
  float* s = sum.data<float>();
  const float* g = gradient.data<float>();
  double rate = step.learning_rate;
  if (step.clip > 0) {
    const double square =
        sum_pieces(step.threads, value.size(), kPiece, [&](Index begin, Index end) {
          return sum_terms(begin, end,
                           [&](Index i) { return squared(scale * g[i] + decay * p[i]); });
        });
    const double norm = std::sqrt(square);
    if (norm > step.clip) rate *= step.clip / (norm + 1e-10);
  }
  const auto factor = static_cast<float>(rate);
  for_pieces(step.threads, value.size(), kPiece, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const float all = scale * g[i] + decay * p[i];
      s[i] += all * all;
      p[i] -= factor * all / (std::sqrt(s[i]) + epsilon);
    }
  });
}

void average_directions(Tensor& value, const Tensor& sums, double decay) {
  const Index d = value.shape().back();
  float* to = value.data<float>();
  const float* from = sums.data<float>();
  for (Index first = 0; first < value.size(); first += d) {
    double squares = 0;
    for (Index c = first; c < first + d; ++c) squares += static_cast<double>(from[c]) * from[c];
    if (squares == 0) continue;
    const double factor = (1 - decay) / std::sqrt(squares);
    for (Index c = first; c < first + d; ++c) {
      to[c] = static_cast<float>(decay * to[c] + factor * from[c]);
    }
  }
}

void clamp(Tensor& value, float least, float most) {
  float* p = value.data<float>();
  for (Index i = 0; i < value.size(); ++i) p[i] = std::clamp(p[i], least, most);
}

AdafactorMoments AdafactorMoments::zeros(const Shape& shape, bool with_mean) {
  AdafactorMoments moments;
  if (with_mean) moments.mean = Tensor::zeros(shape, DType::f32);
  Shape rows = shape;
  if (shape.size() < 2) {
    moments.square = Tensor::zeros(std::move(rows), DType::f32);
    return moments;
  }
  rows.pop_back();
  Shape columns(shape.begin(), shape.end() - 2);
  columns.push_back(shape.back());
  moments.rows = Tensor::zeros(std::move(rows), DType::f32);
  moments.columns = Tensor::zeros(std::move(columns), DType::f32);
  return moments;
}

void adafactor_step(Tensor& value, const Tensor& gradient, AdafactorMoments& moments,
                    const AdafactorStep& step) {
  assert(gradient.size() == value.size());
  if (value.size() == 0) return;
  const double beta2 = 1 - std::pow(static_cast<double>(step.step), step.decay_rate);
  if (value.shape().size() >= 2) {
    step_matrices(value, gradient, moments, step, beta2);
  } else {
    step_vector(value, gradient, moments, step, beta2);
  }
}

}  // namespace longformer::kernels
