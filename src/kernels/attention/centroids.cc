#include "kernels/attention/centroids.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "core/threads.h"
#include "kernels/gemm.h"

namespace longformer::kernels {
namespace {

constexpr Index kRowsTogether = 256;

/// Scores that are looked at to guess which may be among the largest.
constexpr Index kSample = 4096;

constexpr float kBelowAll = -std::numeric_limits<float>::infinity();

std::vector<float> floats_of(const Tensor& x, Index first, Index count) {
  const Index d = x.dimension(2);
  std::vector<float> rows(at(count * d));
  x.reshaped({x.size() / d, d}).slice_rows(first, count).copy_to(rows);
  return rows;
}

/// Calls body(row within the text, numbers, centroid) for every row of a head.
template <typename Body>
void for_routed(const RoutedRows& rows, Index head, const Body& body) {
  const Index count = rows.count(), d = rows.x.dimension(2);
  const std::vector<float> numbers =
      floats_of(rows.x, head * rows.x.dimension(1) + rows.begin, count);
  for (Index i = 0; i < count; ++i) {
    body(i, std::span(numbers).subspan(at(i * d), at(d)),
         static_cast<Index>(rows.nearest[at(head * count + i)]));
  }
}

bool goes_first(const ScoredToken& a, const ScoredToken& b) {
  const auto rank = [](float score) { return std::isnan(score) ? kBelowAll : score; };
  const float first = rank(a.score), second = rank(b.score);
  return first > second || (first == second && a.token < b.token);
}

/// A score that hardly more than `size` of all reach: the one of a sample at its share of them and
/// four deviations more; −∞ where a sample is no less work.
float likely_bound(std::span<const float> scores, Index size) {
  const Index count = std::ssize(scores);
  const double share = static_cast<double>(size) / static_cast<double>(count) * kSample;
  const auto rank = static_cast<Index>(share + 4 * std::sqrt(share) + 1);
  if (count < 4 * kSample || rank >= kSample / 2) return kBelowAll;
  std::vector<float> sample(at(kSample));
  for (Index i = 0; i < kSample; ++i) {
    const float score = scores[at(i * count / kSample)];
    sample[at(i)] = std::isnan(score) ? kBelowAll : score;
  }
  std::nth_element(sample.begin(), sample.begin() + rank, sample.end(), std::greater<>());
  return sample[at(rank)];
}

/// The scores that reach the bound, with their tokens; all where that is −∞.
std::vector<ScoredToken> reaching(std::span<const float> scores, float bound) {
  std::vector<ScoredToken> found;
  for (Index i = 0; i < std::ssize(scores); ++i) {
    const float score = scores[at(i)];
    // NaN reaches no number.
    if (score >= bound || bound == kBelowAll) {
      found.push_back({score, static_cast<std::int32_t>(i)});
    }
  }
  return found;
}

}  // namespace

void centroid_scores(const Tensor& x, Index begin, const Tensor& centroids, Tensor& scores,
                     int threads) {
  const Index heads = x.dimension(0), d = x.dimension(2), clusters = centroids.dimension(1),
              count = scores.dimension(2);
  const Index blocks = (count + kRowsTogether - 1) / kRowsTogether;
  parallel_for(threads, heads * blocks, [&](Index i) {
    const Index head = i / blocks, first = i % blocks * kRowsTogether;
    const Index rows = std::min(kRowsTogether, count - first);
    const std::vector<float> block = floats_of(x, head * x.dimension(1) + begin + first, rows);
    gemm({.m = clusters, .n = rows, .k = d, .transpose_b = true, .ldc = count, .beta = 0},
         centroids.data<float>() + head * clusters * d, block.data(),
         scores.data<float>() + head * clusters * count + first);
  });
}

bool has_last(std::span<const ScoredToken> list, Index size) {
  const ScoredToken& last = list.back();
  return std::count_if(list.begin(), list.end(), [&last](const ScoredToken& other) {
           return goes_first(other, last);
         }) < size;
}

std::vector<ScoredToken> largest_of(std::vector<ScoredToken> list, Index size) {
  if (size >= std::ssize(list)) return list;
  std::nth_element(list.begin(), list.begin() + size, list.end(), goes_first);
  list.resize(at(size));
  std::sort(list.begin(), list.end(),
            [](const ScoredToken& a, const ScoredToken& b) { return a.token < b.token; });
  return list;
}

std::vector<std::vector<ScoredToken>> largest_scores(const Tensor& scores, Index size,
                                                     int threads) {
  const Index lists = scores.dimension(0) * scores.dimension(1), count = scores.dimension(2);
  std::vector<std::vector<ScoredToken>> chosen(at(lists));
  parallel_for(threads, lists, [&](Index list) {
    const std::span from(scores.data<float>() + list * count, at(count));
    // Some 900 of 65,536 are left, of which 512 are chosen.
    std::vector<ScoredToken> some = reaching(from, likely_bound(from, size));
    if (std::ssize(some) < std::min(size, count)) {
      some = reaching(from, kBelowAll);
    }
    // A copy: that list has more memory than it needs.
    const std::vector<ScoredToken> largest = largest_of(std::move(some), size);
    chosen[at(list)].assign(largest.begin(), largest.end());
  });
  return chosen;
}

void add_token(const Tensor& scores, std::int32_t token, Index most,
               std::vector<std::vector<ScoredToken>>& lists) {
  const float* score = scores.data<float>();
  for (auto& list : lists) {
    list.push_back({*score++, token});
    if (most == 0 || std::ssize(list) <= most) continue;
    list.erase(std::max_element(list.begin(), list.end(), goes_first));
  }
}

std::vector<std::int32_t> nearest_centroids(const Tensor& scores, int threads) {
  const Index heads = scores.dimension(0), clusters = scores.dimension(1),
              count = scores.dimension(2);
  std::vector<std::int32_t> nearest(at(heads * count), 0);
  parallel_for(threads, heads, [&](Index head) {
    const float* all = scores.data<float>() + head * clusters * count;
    std::vector<float> best(all, all + count);
    for (Index cluster = 1; cluster < clusters; ++cluster) {
      for (Index i = 0; i < count; ++i) {
        const float score = all[cluster * count + i];
        if (!(score > best[at(i)])) continue;
        best[at(i)] = score;
        nearest[at(head * count + i)] = static_cast<std::int32_t>(cluster);
      }
    }
  });
  return nearest;
}

void add_to_centroids(const RoutedRows& rows, Tensor& sums, int threads) {
  const Index clusters = sums.dimension(1), d = sums.dimension(2);
  parallel_for(threads, sums.dimension(0), [&](Index head) {
    for_routed(rows, head, [&](Index /*row*/, std::span<const float> x, Index centroid) {
      double squares = 0;
      for (const float number : x) squares += static_cast<double>(number) * number;
      const auto factor = static_cast<float>(1 / std::max(std::sqrt(squares), 1e-12));
      float* to = sums.data<float>() + (head * clusters + centroid) * d;
      for (Index c = 0; c < d; ++c) to[c] += factor * x[at(c)];
    });
  });
}

double centroid_distance(const RoutedRows& rows, const Tensor& centroids, float factor) {
  const Index heads = centroids.dimension(0), clusters = centroids.dimension(1),
              d = centroids.dimension(2);
  double sum = 0;
  for (Index head = 0; head < heads; ++head) {
    for_routed(rows, head, [&](Index /*row*/, std::span<const float> x, Index centroid) {
      const float* to = centroids.data<float>() + (head * clusters + centroid) * d;
      for (Index c = 0; c < d; ++c) {
        const double apart = static_cast<double>(factor * x[at(c)]) - to[c];
        sum += apart * apart;
      }
    });
  }
  return sum / static_cast<double>(std::max<Index>(1, heads * rows.count() * d));
}

void centroid_distance_backward(const RoutedRows& rows, const Tensor& centroids, float factor,
                                float slope, Tensor& dx, int threads) {
  const Index heads = centroids.dimension(0), clusters = centroids.dimension(1),
              d = centroids.dimension(2), n = rows.x.dimension(1);
  const float each =
      2 * factor * slope / static_cast<float>(std::max<Index>(1, heads * rows.count() * d));
  parallel_for(threads, heads, [&](Index head) {
    for_routed(rows, head, [&](Index row, std::span<const float> x, Index centroid) {
      const float* from = centroids.data<float>() + (head * clusters + centroid) * d;
      const Index first = (head * n + rows.begin + row) * d;
      for (Index c = 0; c < d; ++c) {
        const float step = each * (factor * x[at(c)] - from[c]);
        if (dx.dtype() == DType::f32) {
          dx.data<float>()[first + c] += step;
        } else {
          BFloat16& to = dx.data<BFloat16>()[first + c];
          to = BFloat16(static_cast<float>(to) + step);
        }
      }
    });
  });
}

}  // namespace longformer::kernels
