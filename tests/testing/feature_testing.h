// Attention by features as its formulas have it, pair by pair in double
// (docs/spec/low-rank-and-kernels.md#f1, #f2).
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/features/feature_attention.h"

namespace longformer::kernels {

using Doubles = std::vector<double>;

/// The exponents, and the features, of one row x [d] by directions [m, d].
struct TrueFeatures {
  TrueFeatures(const FeatureMap& map, const double* x, const Doubles& directions) {
    const auto d = at(map.head_size), m = at(map.directions);
    const double factor =
        map.normalizes ? std::pow(static_cast<double>(map.head_size), -0.25) : 1.0;
    for (std::size_t c = 0; c < d; ++c) half_square += 0.5 * factor * factor * x[c] * x[c];
    for (std::size_t r = 0; r < std::max<std::size_t>(m, 1); ++r) {
      double sum = 0;
      for (std::size_t c = 0; c < d; ++c) {
        if (m == 0) products.push_back(factor * x[c]);
        if (m > 0) sum += factor * directions[r * d + c] * x[c];
      }
      if (m > 0) products.push_back(sum);
    }
  }
  /// The greatest exponent of the features, without the square.
  double highest(const FeatureMap& map) const {
    double most = *std::ranges::max_element(products);
    if (map.has_pairs()) most = std::max(most, -*std::ranges::min_element(products));
    return most;
  }

  Doubles products;
  double half_square = 0;
};

/// Weight of a pair by the formula, up to factors of the query.
inline double true_weight(const FeatureMap& map, const TrueFeatures& q, const TrueFeatures& k,
                          double top, double highest_key) {
  double sum = 0;
  for (std::size_t r = 0; r < q.products.size(); ++r) {
    const double a = q.products[r], b = k.products[r];
    const auto generalised = [&](double product) {
      if (map.kernel == FeatureKernel::relu) return std::max(0.0, product) + map.epsilon;
      return product > 0 ? product + 1 : std::exp(product);
    };
    if (map.kernel == FeatureKernel::trigonometric) {
      sum += std::cos(a - b) * std::exp(k.half_square - highest_key);
    } else if (!map.is_exponential()) {
      sum += generalised(a) * generalised(b);
    } else if (map.has_floor()) {
      const auto pair = [&](double from_query, double from_key) {
        return (std::exp(from_query - q.half_square - top) + map.epsilon) *
               (std::exp(from_key - k.half_square - highest_key) + map.epsilon);
      };
      sum += pair(a, b);
      if (map.kernel == FeatureKernel::hyperbolic) sum += pair(-a, -b);
    } else {
      sum += std::exp(a + b - k.half_square);
      if (map.kernel == FeatureKernel::hyperbolic) sum += std::exp(-a - b - k.half_square);
    }
  }
  return sum;
}

/// The maxima that the formula subtracts, in the order in which it asks for them: those of the
/// first time, as they are constants for the gradient.
struct Maxima {
  double next(double value) {
    if (place == kept.size()) kept.push_back(value);
    return kept[place++];
  }
  Doubles kept;
  std::size_t place = 0;
};

/// One head of one document: out [n, d] of query, key and value [n, d].
inline Doubles true_feature_attention(const FeatureMap& map, bool causal, const Doubles& query,
                                      const Doubles& key, const Doubles& value,
                                      const Doubles& directions,
                                      const std::vector<std::uint8_t>& mask = {},
                                      Maxima* maxima = nullptr) {
  Maxima own;
  if (maxima == nullptr) maxima = &own;
  const auto d = at(map.head_size);
  const std::size_t n = query.size() / d;
  Doubles out(n * d, 0.0);
  std::vector<TrueFeatures> q, k;
  for (std::size_t i = 0; i < n; ++i) {
    q.emplace_back(map, query.data() + i * d, directions);
    k.emplace_back(map, key.data() + i * d, directions);
  }
  const auto seen = [&](std::size_t j) { return mask.empty() || mask[j] != 0; };
  for (std::size_t i = 0; i < n; ++i) {
    if (!seen(i)) continue;
    const std::size_t end = causal ? i + 1 : n;
    double highest = -1e300, sum = 0;
    for (std::size_t j = 0; j < end; ++j) {
      if (!seen(j)) continue;
      highest = std::max(highest, map.kernel == FeatureKernel::trigonometric ? k[j].half_square
                                                                             : k[j].highest(map));
    }
    highest = maxima->next(highest);
    const double top = maxima->next(q[i].highest(map));
    for (std::size_t j = 0; j < end; ++j) {
      if (!seen(j)) continue;
      const double weight = true_weight(map, q[i], k[j], top, highest);
      sum += weight;
      for (std::size_t c = 0; c < d; ++c) out[i * d + c] += weight * value[j * d + c];
    }
    const double unit = static_cast<double>(map.directions);
    if (map.kernel == FeatureKernel::trigonometric && std::abs(sum) <= 1e-6 * unit) {
      sum += 2e-6 * unit;
    }
    for (std::size_t c = 0; c < d; ++c) out[i * d + c] /= sum;
  }
  return out;
}

}  // namespace longformer::kernels
