#include "kernels/features/feature_head.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "core/cpu.h"
#include "kernels/row_copies.h"

namespace longformer::kernels {
namespace {

/// The maximum of nothing, and what a masked key and padding have instead of −∞: their differences
/// are numbers.
constexpr float kNothing = -1e30f, kMasked = 2e30f;

/// Raises by more than this can take digits from a query: e^−20 is a little above
/// kLeastDenominator.
constexpr float kSafeRaise = 20;

/// The smallest denominator of signed features, and what is added to smaller ones
/// (docs/spec/low-rank-and-kernels.md#f2).
constexpr float kLeastSum = 1e-6f, kAddedSum = 2e-6f;

/// Sums of signed features nearly vanish, and would keep no digit of bf16. Rows that are no
/// multiple of a vector are padded, which oneDNN is slow with.
bool multiplies_in_bf16(const FeatureMap& map, DType dtype) {
  return dtype == DType::bf16 && map.kernel != FeatureKernel::trigonometric &&
         map.features() % kFeatureUnit == 0 && cpu_isa() >= CpuIsa::avx512_bf16;
}

std::vector<float> floats(Index count) { return std::vector<float>(at(count)); }

}  // namespace

FeatureHead::FeatureHead(const FeatureMap& map, DType dtype)
    : map_(map),
      features_(map.features()),
      stride_((features_ + kFeatureUnit - 1) / kFeatureUnit * kFeatureUnit),
      factor_(map.factor()),
      products_(multiplies_in_bf16(map, dtype)),
      directions_(floats(map.directions * map.head_size)),
      half_squares_(floats(kFeatureBlock)),
      highest_(floats(kFeatureBlock)),
      raised_(floats(stride_)),
      row_sums_(floats(kFeatureBlock)) {}

void FeatureHead::start(const float* directions) {
  std::transform(directions, directions + map_.directions * map_.head_size, directions_.begin(),
                 [this](float value) { return value * factor_; });
  products_.factor(directions_.data(), std::ssize(directions_), narrow_directions_);
}

void FeatureHead::clear(const FeatureSums& sums) const {
  const bool has_maxima = map_.is_exponential() || map_.kernel == FeatureKernel::trigonometric;
  std::fill_n(sums.maxima, stride_, has_maxima ? kNothing : 0.0f);
  std::fill_n(sums.counts, stride_, 0.0f);
  std::fill_n(sums.values, features_ * map_.head_size, 0.0f);
}

/// Products with the directions and their negatives, [rows, stride].
void FeatureHead::project(const HeadBlock& x, float* to) {
  const Index d = map_.head_size, m = map_.directions;
  if (m > 0) {
    products_.multiply({.m = x.rows, .n = m, .k = d, .transpose_b = true, .ldc = stride_},
                       x.factor(), directions(), to);
  }
  for (Index row = 0; row < x.rows; ++row) {
    float* of_row = to + row * stride_;
    const float* from = x.values + row * d;
    if (m == 0) std::transform(from, from + d, of_row, [&](float v) { return v * factor_; });
    if (map_.kernel == FeatureKernel::hyperbolic) {
      std::transform(of_row, of_row + m, of_row + m, [](float product) { return -product; });
    }
    std::fill(of_row + features_, of_row + stride_, -kMasked);
  }
}

void FeatureHead::measure(const HeadBlock& x) {
  multiply_rows(x.values, x.values, x.rows, map_.head_size, half_squares_.data());
  for (Index row = 0; row < x.rows; ++row) half_squares_[at(row)] *= 0.5f * factor_ * factor_;
}

float FeatureHead::plain_feature(float product) const {
  const float epsilon = static_cast<float>(map_.epsilon);
  if (map_.kernel == FeatureKernel::relu) return (product < 0 ? 0 : product) + epsilon;
  return product < 0 ? std::exp(product) : product + 1;
}

void FeatureHead::look_at(const HeadBlock& keys, const FeatureSums& sums) {
  std::vector<float> products = floats(keys.rows * stride_);
  project(keys, products.data());
  float highest = sums.maxima[0];
  for (Index row = 0; row < keys.rows; ++row) {
    if (keys.is_masked(row)) continue;
    const float* of_row = products.data() + row * stride_;
    highest = std::max(highest, *std::max_element(of_row, of_row + features_));
  }
  std::fill_n(sums.maxima, stride_, highest);
}

void FeatureHead::rescale(const FeatureSums& sums, const float* maxima, float sign) const {
  const Index d = map_.head_size;
  for (Index r = 0; r < features_; ++r) {
    if (maxima[r] == sums.maxima[r]) continue;
    const float factor = std::exp(sign * (sums.maxima[r] - maxima[r]));
    sums.counts[r] *= factor;
    float* row = sums.values + r * d;
    for (Index c = 0; c < d; ++c) row[c] *= factor;
  }
  std::copy_n(maxima, stride_, sums.maxima);
}

void FeatureHead::rescale_back(const FeatureSums& sums, const float* maxima) const {
  rescale(sums, maxima, -1);
}

void FeatureHead::key_features(const HeadBlock& keys, const FeatureSums& sums,
                               const FeatureMemory& features, float* counts,
                               std::vector<float>* before) {
  const bool has_floor = map_.has_floor();
  const bool is_signed = map_.kernel == FeatureKernel::trigonometric;
  const FeatureBlock block = block_of(features, keys.rows);
  project(keys, features.wide);
  measure(keys);
  float highest = sums.maxima[0];
  for (Index row = 0; row < keys.rows; ++row) {
    float& shift = half_squares_[at(row)];
    if (!keys.is_masked(row)) highest = highest >= shift ? highest : shift;
    highest_[at(row)] = highest;
    if (keys.is_masked(row)) shift = is_signed ? -kMasked : kMasked;
  }
  std::copy_n(sums.maxima, stride_, raised_.begin());
  if (is_signed) std::fill(raised_.begin(), raised_.end(), highest);
  if (map_.is_exponential()) {
    // The floor makes the maxima final, and greater than any shifted product.
    raise_maxima(block.wide, half_squares_.data(), raised_.data());
  }
  if (before != nullptr) {
    const bool loses = !std::equal(raised_.begin(), raised_.end(), sums.maxima,
                                   [](float now, float then) { return now <= then + kSafeRaise; });
    before->clear();
    if (loses) before->assign(sums.maxima, sums.maxima + sum_size());
  }
  rescale(sums, raised_.data(), 1);
  std::fill_n(counts, stride_, 0.0f);
  if (map_.is_exponential()) {
    const FeatureBlock target = has_floor ? FeatureBlock{block.wide} : block;
    exponentiate_keys(target, {half_squares_.data(), sums.maxima, counts});
    if (!has_floor) return;
  }
  plain_key_features(keys, sums, features.wide);
  std::fill_n(counts, stride_, 0.0f);
  for (Index row = 0; row < keys.rows; ++row) {
    for (Index r = 0; r < features_; ++r) counts[r] += features.wide[row * stride_ + r];
  }
  round(features, keys.rows);
}

/// Features that the passes of feature_rows.h do not make; with a floor those passes come first.
void FeatureHead::plain_key_features(const HeadBlock& keys, const FeatureSums& sums,
                                     float* features) {
  const Index m = map_.directions;
  for (Index row = 0; row < keys.rows; ++row) {
    float* of_row = features + row * stride_;
    std::fill(of_row + features_, of_row + stride_, 0.0f);
    if (keys.is_masked(row)) {
      std::fill_n(of_row, features_, 0.0f);
    } else if (map_.is_exponential()) {
      for (Index r = 0; r < features_; ++r) of_row[r] += static_cast<float>(map_.epsilon);
    } else if (map_.kernel == FeatureKernel::trigonometric) {
      const float weight = std::exp(half_squares_[at(row)] - sums.maxima[0]);
      for (Index r = 0; r < m; ++r) {
        of_row[m + r] = weight * std::sin(of_row[r]);
        of_row[r] = weight * std::cos(of_row[r]);
      }
    } else {
      for (Index r = 0; r < features_; ++r) of_row[r] = plain_feature(of_row[r]);
    }
  }
}

void FeatureHead::add(const HeadBlock& values, const FeatureMemory& features, const float* counts,
                      const FeatureSums& sums) {
  const Index d = map_.head_size;
  products_.multiply(
      {.m = features_, .n = d, .k = values.rows, .transpose_a = true, .lda = stride_, .beta = 1},
      features.factor(), values.factor(), sums.values);
  for (Index r = 0; r < stride_; ++r) sums.counts[r] += counts[r];
}

void FeatureHead::add_counts(const FeatureMemory& features, Index rows, const float* weights,
                             float* counts) const {
  add_rows(block_of(features, rows), weights, counts);
}

void FeatureHead::query_features(const HeadBlock& queries, const FeatureSums& sums,
                                 const FeatureMemory& features, float* denominators) {
  project(queries, features.wide);
  if (map_.is_exponential() && !map_.has_floor()) {
    return exponentiate_queries(block_of(features, queries.rows),
                                {sums.maxima, sums.counts, denominators});
  }
  measure(queries);
  plain_query_features(queries, features.wide);
  for (Index row = 0; row < queries.rows; ++row) {
    multiply_rows(features.wide + row * stride_, sums.counts, 1, stride_, denominators + row);
  }
  round(features, queries.rows);
}

void FeatureHead::plain_query_features(const HeadBlock& queries, float* features) const {
  const Index m = map_.directions;
  for (Index row = 0; row < queries.rows; ++row) {
    float* of_row = features + row * stride_;
    std::fill(of_row + features_, of_row + stride_, 0.0f);
    if (map_.is_exponential()) {
      const float shift = half_squares_[at(row)] + *std::max_element(of_row, of_row + features_);
      for (Index r = 0; r < features_; ++r) {
        of_row[r] = std::exp(of_row[r] - shift) + static_cast<float>(map_.epsilon);
      }
    } else if (map_.kernel == FeatureKernel::trigonometric) {
      for (Index r = 0; r < m; ++r) {
        of_row[m + r] = std::sin(of_row[r]);
        of_row[r] = std::cos(of_row[r]);
      }
    } else {
      for (Index r = 0; r < features_; ++r) of_row[r] = plain_feature(of_row[r]);
    }
  }
}

bool FeatureHead::is_lost(Index row, float denominator, const FeatureSums& sums) const {
  if (map_.is_exponential()) return denominator < kLeastDenominator;
  return map_.kernel == FeatureKernel::trigonometric &&
         highest_[at(row)] < sums.maxima[0] - kSafeRaise;
}

void FeatureHead::guard(Index rows, bool causal, const FeatureSums& sums,
                        float* denominators) const {
  if (map_.kernel != FeatureKernel::trigonometric) return;
  for (Index row = 0; row < rows; ++row) {
    // The paper's denominator is a mean, by the greatest weight that the query sees.
    const float scale = causal ? std::exp(highest_[at(row)] - sums.maxima[0]) : 1.0f;
    const float unit = static_cast<float>(map_.directions) * scale;
    if (std::abs(denominators[row]) <= kLeastSum * unit) denominators[row] += kAddedSum * unit;
  }
}

/// For what is not made by the passes of feature_rows.h: gradients of products with the directions,
/// and the sums of those of exponents.
void FeatureHead::plain_backward(const HeadBlock& x, const FeatureGradients& in) {
  const Index m = map_.directions;
  const auto epsilon = static_cast<float>(map_.epsilon);
  for (Index row = 0; row < x.rows; ++row) {
    float* g = in.gradients.wide + row * stride_;
    const float* f = in.features.wide + row * stride_;
    float sum = 0;
    for (Index r = 0; r < features_; ++r) g[r] += in.shifts[row] * in.added[r];
    if (x.is_masked(row)) {
      std::fill_n(g, stride_, 0.0f);
    } else if (map_.is_exponential()) {
      for (Index r = 0; r < features_; ++r) sum += g[r] *= f[r] - epsilon;
    } else if (map_.kernel == FeatureKernel::trigonometric) {
      for (Index r = 0; r < features_; ++r) sum += g[r] * f[r];
      for (Index r = 0; r < m; ++r) g[r] = g[m + r] * f[r] - g[r] * f[m + r];
    } else if (map_.kernel == FeatureKernel::relu) {
      for (Index r = 0; r < features_; ++r) g[r] = f[r] > epsilon ? g[r] : 0;
    } else {
      for (Index r = 0; r < features_; ++r) g[r] *= std::min(f[r], 1.0f);
    }
    row_sums_[at(row)] = sum;
  }
}

void FeatureHead::backward(const HeadBlock& x, bool are_keys, const FeatureGradients& in,
                           float* row_gradients) {
  const Index d = map_.head_size, m = map_.directions;
  const bool has_twins = map_.kernel == FeatureKernel::hyperbolic;
  if (map_.is_exponential() && !map_.has_floor()) {
    FeatureBlock block = block_of(in.gradients, x.rows);
    if (has_twins) block.narrow = nullptr;
    finish_gradients(block, {in.shifts, in.added, block_of(in.features, x.rows), row_sums_.data()});
  } else {
    plain_backward(x, in);
    round(in.gradients, x.rows);
  }
  for (Index row = 0; has_twins && row < x.rows; ++row) {
    float* of_row = in.gradients.wide + row * stride_;
    for (Index r = 0; r < m; ++r) of_row[r] -= of_row[m + r];
  }
  if (m > 0) {
    products_.multiply({.m = x.rows, .n = d, .k = m, .lda = stride_}, in.gradients.factor(),
                       directions(), row_gradients);
  }
  // The exponents of keys, and with a floor those of queries, have the squared length.
  const bool is_signed = map_.kernel == FeatureKernel::trigonometric;
  const bool has_squares = are_keys ? is_signed || map_.is_exponential() : map_.has_floor();
  const float unit = (is_signed ? 1.0f : -1.0f) * factor_ * factor_;
  for (Index row = 0; row < x.rows; ++row) {
    float* to = row_gradients + row * d;
    if (m == 0) {
      const float* from = in.gradients.wide + row * stride_;
      std::transform(from, from + d, to, [&](float value) { return value * factor_; });
    }
    const float factor = has_squares ? unit * row_sums_[at(row)] : 0;
    for (Index c = 0; c < d; ++c) to[c] += factor * x.values[row * d + c];
  }
}

}  // namespace longformer::kernels
