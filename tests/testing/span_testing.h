// Scores of spans and their links as plain loops in double, to compare kernels with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/span_scores.h"

namespace longformer::testing_spans {

using Doubles = std::vector<double>;

inline double dot(const Doubles& a, Index row_a, const Doubles& b, Index row_b, Index width) {
  double sum = 0;
  for (Index c = 0; c < width; ++c) sum += a[at(row_a * width + c)] * b[at(row_b * width + c)];
  return sum;
}

/// starts [n], ends [n], query and key [n, width] in double.
struct Spans {
  std::vector<Index> counts;
  Index width = 0;
  double scale = 1;
  Doubles starts, ends, query, key;

  /// The score of each span, in order.
  Doubles scores() const {
    Doubles all;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const auto first = static_cast<Index>(i);
      for (Index last = first; last < first + counts[i]; ++last) {
        all.push_back(starts[i] + ends[at(last)] + scale * dot(query, first, key, last, width));
      }
    }
    return all;
  }

  /// The gradients of starts, ends, query and key, of which this one has the shape.
  Spans gradients(const Doubles& gradient) const {
    Spans to = *this;
    for (Doubles* one : {&to.starts, &to.ends, &to.query, &to.key}) {
      std::fill(one->begin(), one->end(), 0.0);
    }
    std::size_t number = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const auto first = static_cast<Index>(i);
      for (Index last = first; last < first + counts[i]; ++last, ++number) {
        to.starts[i] += gradient[number];
        to.ends[at(last)] += gradient[number];
        for (Index c = 0; c < width; ++c) {
          to.query[at(first * width + c)] += scale * gradient[number] * key[at(last * width + c)];
          to.key[at(last * width + c)] += scale * gradient[number] * query[at(first * width + c)];
        }
      }
    }
    return to;
  }
};

/// mentions [k], the others [k, width] in double.
struct Links {
  Index width = 0;
  double scale = 1;
  Doubles mentions, start_query, end_query, start_key, end_key;

  Index size() const { return static_cast<Index>(mentions.size()); }

  double score(Index u, Index v) const {
    return mentions[at(u)] + mentions[at(v)] +
           scale *
               (dot(start_query, u, start_key, v, width) + dot(end_query, u, end_key, v, width));
  }

  /// The sum of the losses of all spans; adds factor times its gradients to those of `to`.
  double loss(const std::vector<std::int32_t>& clusters, double factor, Links* to) const {
    double sum = 0;
    for (Index u = 0; u < size(); ++u) {
      // The last one is the score of nothing.
      Doubles scores, right;
      for (Index v = 0; v < u; ++v) {
        scores.push_back(score(u, v));
        const bool same = clusters[at(u)] >= 0 && clusters[at(u)] == clusters[at(v)];
        right.push_back(same ? scores.back() : -std::numeric_limits<double>::infinity());
      }
      const bool none =
          std::all_of(right.begin(), right.end(), [](double x) { return x < -1e300; });
      scores.push_back(0);
      right.push_back(none ? 0 : -std::numeric_limits<double>::infinity());
      const double all = logsumexp(scores), good = logsumexp(right);
      sum += all - good;
      if (to == nullptr) continue;
      for (Index v = 0; v < u; ++v) {
        send(u, v, factor * (std::exp(scores[at(v)] - all) - std::exp(right[at(v)] - good)), *to);
      }
    }
    return sum;
  }

  Links zeros() const {
    Links to = *this;
    for (Doubles* one : to.all()) std::fill(one->begin(), one->end(), 0.0);
    return to;
  }
  std::vector<Doubles*> all() {
    return {&mentions, &start_query, &end_query, &start_key, &end_key};
  }

 private:
  static double logsumexp(const Doubles& x) {
    const double largest = *std::max_element(x.begin(), x.end());
    double sum = 0;
    for (const double value : x) sum += std::exp(value - largest);
    return largest + std::log(sum);
  }

  void send(Index u, Index v, double gradient, Links& to) const {
    to.mentions[at(u)] += gradient;
    to.mentions[at(v)] += gradient;
    for (Index c = 0; c < width; ++c) {
      const std::size_t own = at(u * width + c), other = at(v * width + c);
      to.start_query[own] += scale * gradient * start_key[other];
      to.end_query[own] += scale * gradient * end_key[other];
      to.start_key[other] += scale * gradient * start_query[own];
      to.end_key[other] += scale * gradient * end_query[own];
    }
  }
};

}  // namespace longformer::testing_spans
