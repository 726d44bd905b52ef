#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/error.h"
#include "core/random.h"
#include "core/threads.h"
#include "kernels/gemm.h"
#include "longformer/report.h"
#include "longformer/search.h"

namespace longformer {
namespace {

/// Rows of one product: with 256 its results stay small, and the product is at its rate.
constexpr Index kProductRows = 256;

/// Pairs whose median tells what unrelated passages have in common. The seed is fixed, so the same
/// documents always have the same result.
constexpr std::uint64_t kSampledPairs = 9999, kSeed = 42;

/// Vectors of length 1 [rows, width]; a vector of zeros stays one.
struct Directions {
  explicit Directions(const Embedding& of)
      : rows(of.rows), width(rows == 0 ? 0 : std::ssize(of.values) / rows), values(of.values) {
    for (Index i = 0; i < rows; ++i) {
      double squares = 0;
      for (const float x : row(i)) squares += double{x} * double{x};
      const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
      for (float& x : std::span(values).subspan(at(i * width), at(width))) {
        x = static_cast<float>(x * scale);
      }
    }
  }

  std::span<const float> row(Index i) const {
    return std::span(values).subspan(at(i * width), at(width));
  }

  Index rows, width;
  std::vector<float> values;
};

/// The best partner of each passage, and its cosine.
struct Partners {
  explicit Partners(Index passages) : scores(at(passages), -2.0f), partners(at(passages), 0) {}

  std::vector<float> scores;
  std::vector<Index> partners;
};

/// Takes in the cosines [rows, b] of some passages of a.
void take(std::span<const float> cosines, Index first, Partners& of_a, Partners& of_b) {
  const std::size_t width = of_b.scores.size();
  for (Index i = first; !cosines.empty(); ++i, cosines = cosines.subspan(width)) {
    const std::span<const float> row = cosines.first(width);
    const auto best = std::ranges::max_element(row);
    of_a.scores[at(i)] = *best;
    of_a.partners[at(i)] = best - row.begin();
    for (std::size_t j = 0; j < width; ++j) {
      if (row[j] <= of_b.scores[j]) continue;
      of_b.scores[j] = row[j];
      of_b.partners[j] = i;
    }
  }
}

std::pair<Partners, Partners> best_partners(const Directions& a, const Directions& b) {
  Partners of_a(a.rows), of_b(b.rows);
  std::vector<float> cosines(at(std::min(kProductRows, a.rows) * b.rows));
  for (Index first = 0; first < a.rows; first += kProductRows) {
    Interruption::poll();
    const Index rows = std::min(kProductRows, a.rows - first);
    kernels::gemm({.m = rows, .n = b.rows, .k = a.width, .transpose_b = true},
                  a.values.data() + first * a.width, b.values.data(), cosines.data());
    take(std::span(cosines).first(at(rows * b.rows)), first, of_a, of_b);
  }
  return {std::move(of_a), std::move(of_b)};
}

/// Median cosine of random pairs.
float usual_cosine(const Directions& a, const Directions& b) {
  std::vector<float> cosines;
  for (std::uint64_t i = 0; i < kSampledPairs; ++i) {
    const auto one = random_bits(kSeed, 2 * i) % static_cast<std::uint64_t>(a.rows);
    const auto other = random_bits(kSeed, 2 * i + 1) % static_cast<std::uint64_t>(b.rows);
    cosines.push_back(similarity(Similarity::dot, a.row(static_cast<Index>(one)),
                                 b.row(static_cast<Index>(other))));
  }
  const auto middle = cosines.begin() + static_cast<std::ptrdiff_t>(kSampledPairs / 2);
  std::nth_element(cosines.begin(), middle, cosines.end());
  return *middle;
}

/// Rounding may give a little more than 1.
float clamped(float cosine) { return std::clamp(cosine, -1.0f, 1.0f); }

float mean(const Partners& a, const Partners& b) {
  double sum = 0;
  for (const float score : a.scores) sum += score;
  for (const float score : b.scores) sum += score;
  return clamped(static_cast<float>(sum / static_cast<double>(a.scores.size() + b.scores.size())));
}

}  // namespace

DocumentComparison compare_passages(const Embedding& a, const Embedding& b) {
  DocumentComparison found;
  if (a.rows == 0 || b.rows == 0) {
    found.only_a = a.spans;
    found.only_b = b.spans;
    return found;
  }
  const ThreadLimit threads(available_threads());
  const Directions of_a(a), of_b(b);
  require(of_a.width == of_b.width, "comparison: expected vectors of one size, found {} and {}",
          of_a.width, of_b.width);
  const auto [best_a, best_b] = best_partners(of_a, of_b);
  const float usual = usual_cosine(of_a, of_b);
  found.score = mean(best_a, best_b);
  std::map<std::pair<Index, Index>, float> pairs;
  for (std::size_t i = 0; i < at(a.rows); ++i) {
    if (best_a.scores[i] < usual) {
      found.only_a.push_back(a.spans[i]);
    } else {
      pairs.try_emplace({static_cast<Index>(i), best_a.partners[i]}, best_a.scores[i]);
    }
  }
  for (std::size_t j = 0; j < at(b.rows); ++j) {
    if (best_b.scores[j] < usual) {
      found.only_b.push_back(b.spans[j]);
    } else {
      pairs.try_emplace({best_b.partners[j], static_cast<Index>(j)}, best_b.scores[j]);
    }
  }
  for (const auto& [rows, score] : pairs) {
    found.pairs.push_back(
        {.a = a.spans[at(rows.first)], .b = b.spans[at(rows.second)], .score = clamped(score)});
  }
  return found;
}

}  // namespace longformer
