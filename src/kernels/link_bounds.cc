#include "kernels/link_bounds.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/threads.h"
#include "kernels/gemm.h"
#include "kernels/rows.h"

namespace longformer::kernels {
namespace {

/// Spans from which the directions are found.
constexpr Index kSampledSpans = 2048;
/// Rounds of the power iteration that finds them.
constexpr int kPowerRounds = 3;
/// Rows that are split together.
constexpr Index kSplitRows = 256;

/// Half a unit in the last place of 1.
constexpr double kRoundingUnit = 0x1p-24;

using Matrix = std::vector<float>;

double squares(std::span<const float> x) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

std::span<float> row_in(Matrix& matrix, Index row, Index width) {
  return std::span(matrix).subspan(at(row * width), at(width));
}

/// Every so many rows of two matrices side by side.
Matrix sampled(const Tensor& start, const Tensor& end, Index count) {
  const Index width = start.columns();
  Matrix rows;
  for (Index i = 0; i < count; ++i) {
    const Index row = i * start.rows() / count;
    for (const Tensor* half : {&start, &end}) {
      const auto* from = half->data<float>() + row * width;
      rows.insert(rows.end(), from, from + width);
    }
  }
  return rows;
}

/// Makes the rows of x [count, width] orthogonal and of length 1, and does to those of `follower`
/// what it does to them. Rows that depend on others become 0.
void make_orthonormal(Matrix& x, Matrix& follower, Index count) {
  const Index width = std::ssize(x) / count, other_width = std::ssize(follower) / count;
  const auto subtract = [](std::span<float> to, std::span<const float> from, double factor) {
    for (std::size_t c = 0; c < to.size(); ++c) to[c] -= static_cast<float>(factor) * from[c];
  };
  const auto scale = [](std::span<float> row, double factor) {
    for (float& value : row) value = static_cast<float>(static_cast<double>(value) * factor);
  };
  for (Index i = 0; i < count; ++i) {
    const std::span<float> row = row_in(x, i, width), own = row_in(follower, i, other_width);
    const double before = std::sqrt(squares(row));
    for (Index j = 0; j < i; ++j) {
      const std::span<float> earlier = row_in(x, j, width);
      double product = 0;
      for (std::size_t c = 0; c < row.size(); ++c) {
        product += static_cast<double>(row[c]) * static_cast<double>(earlier[c]);
      }
      subtract(row, earlier, product);
      subtract(own, row_in(follower, j, other_width), product);
    }
    const double length = std::sqrt(squares(row));
    const double factor = length > 1e-6 * before ? 1 / length : 0;
    scale(row, factor);
    scale(own, factor);
  }
}

/// Rows [r, D] along which queries and keys are split: q·k ≈ (query·q)·(key·k).
struct Directions {
  Matrix query, key;
};

/// The best r directions for the sampled queries and keys: a singular value decomposition of the
/// matrix of their scores, by power iteration.
Directions directions_of(const SpanLinks& links, Index count) {
  const Index samples = std::min(links.size(), kSampledSpans);
  const Index width = 2 * links.start_key.columns();
  const Matrix queries = sampled(links.start_query, links.end_query, samples);
  const Matrix keys = sampled(links.start_key, links.end_key, samples);
  // Rows of `to` become combinations of the samples: to · sampleᵀ · sample.
  Matrix products(at(count * samples));
  const auto onto = [&](const Matrix& directions, const Matrix& sample) {
    gemm({.m = count, .n = samples, .k = width, .transpose_b = true}, directions.data(),
         sample.data(), products.data());
  };
  const auto combine = [&](const Matrix& sample, Matrix& to) {
    gemm({.m = count, .n = width, .k = samples}, products.data(), sample.data(), to.data());
  };
  Directions found = {.query = Matrix(at(count * width)), .key = Matrix(at(count * width))};
  for (Index i = 0; i < count; ++i) {
    const Index row = i * samples / count;
    std::copy_n(keys.begin() + row * width, width, found.query.begin() + i * width);
  }
  // Each product multiplies the ratio of the largest direction to the smallest, of which fp32 holds
  // little: without the steps between, no direction behind the 64th was found.
  Matrix none;
  for (int round = 0; round < kPowerRounds; ++round) {
    onto(found.query, queries);
    make_orthonormal(products, none, count);
    combine(queries, found.key);
    make_orthonormal(found.key, none, count);
    onto(found.key, keys);
    make_orthonormal(products, none, count);
    combine(keys, found.query);
    make_orthonormal(found.query, none, count);
  }
  onto(found.query, queries);
  make_orthonormal(products, found.query, count);
  combine(queries, found.key);
  return found;
}

/// Rows of D columns as a part along directions and a rest that is orthogonal to them.
struct SplitSide {
  const Tensor& start;
  const Tensor& end;
  double scale;
  /// The part is the product with `onto`, and it is parts of the rows `from`.
  const Matrix& onto;
  const Matrix& from;
  /// [r], those of the rows of `from`.
  std::vector<double> from_lengths = {};
};

/// Lengths [k] of what a side was split into. `summed` adds those of the parts along all
/// directions, to which the rounding of their sum is in proportion; `missed` is the part along
/// `onto` that the rest still has.
struct SplitLengths {
  std::vector<double> whole, part, summed, rest, missed;
  explicit SplitLengths(Index rows)
      : whole(at(rows)), part(at(rows)), summed(at(rows)), rest(at(rows)), missed(at(rows)) {}
};

/// Writes the parts of rows [begin, end) to the first columns of `features` [k, width].
void split_rows(const SplitSide& side, RowRange rows, LinkBounds& bounds, Matrix& features,
                SplitLengths& lengths) {
  const Index half = side.start.columns(), directions = bounds.width - 2;
  const Index count = rows.end - rows.begin, width = 2 * half;
  Matrix rest(at(count * width)), missed(at(count * directions));
  for (Index i = 0; i < count; ++i) {
    float* to = rest.data() + i * width;
    for (const Tensor* one : {&side.start, &side.end}) {
      const auto* from = one->data<float>() + (rows.begin + i) * half;
      to = std::transform(from, from + half, to,
                          [&](float x) { return x * static_cast<float>(side.scale); });
    }
    lengths.whole[at(rows.begin + i)] = std::sqrt(squares(row_in(rest, i, width)));
  }
  float* parts = features.data() + rows.begin * bounds.width;
  gemm({.m = count, .n = directions, .k = width, .transpose_b = true, .ldc = bounds.width},
       rest.data(), side.onto.data(), parts);
  gemm({.m = count, .n = width, .k = directions, .lda = bounds.width, .alpha = -1, .beta = 1},
       parts, side.from.data(), rest.data());
  gemm({.m = count, .n = directions, .k = width, .transpose_b = true}, rest.data(),
       side.onto.data(), missed.data());
  for (Index i = 0; i < count; ++i) {
    const std::size_t row = at(rows.begin + i);
    for (Index j = 0; j < directions; ++j) {
      lengths.summed[row] +=
          std::abs(static_cast<double>(parts[i * bounds.width + j])) * side.from_lengths[at(j)];
    }
    lengths.part[row] =
        std::sqrt(squares(row_in(features, rows.begin + i, bounds.width).first(at(directions))));
    lengths.rest[row] = std::sqrt(squares(row_in(rest, i, width)));
    lengths.missed[row] = std::sqrt(squares(row_in(missed, i, directions)));
    features[row * at(bounds.width) + at(directions)] = static_cast<float>(lengths.rest[row]);
  }
}

SplitLengths split(SplitSide side, LinkBounds& bounds, Matrix& features, int threads) {
  const Index count = side.start.rows(), directions = bounds.width - 2;
  for (Index j = 0; j < directions; ++j) {
    const Index width = std::ssize(side.from) / directions;
    const auto row = std::span(side.from).subspan(at(j * width), at(width));
    side.from_lengths.push_back(std::sqrt(squares(row)));
  }
  SplitLengths lengths(count);
  parallel_for(threads, (count + kSplitRows - 1) / kSplitRows, [&](Index block) {
    const RowRange rows = {block * kSplitRows, std::min(count, (block + 1) * kSplitRows)};
    split_rows(side, rows, bounds, features, lengths);
  });
  return lengths;
}

/// NaN where one of them is.
double largest(std::span<const double> values) {
  double most = 0;
  for (const double value : values) most = std::isnan(most) || value <= most ? most : value;
  return most;
}

/// The largest lengths of all keys, with what rounding took from them.
struct LargestKey {
  double whole, part, rest, rest_error, missed, mention;
};

/// A sum of n products is off by at most n rounding units of the product of the lengths: `sums` are
/// those of the D columns, `splits` those of the r directions.
void set_margins(const SpanLinks& links, const SplitLengths& queries, const SplitLengths& keys,
                 LinkBounds& bounds) {
  const auto* mentions = links.mentions.data<float>();
  const double splits = kRoundingUnit * static_cast<double>(bounds.width + 16);
  const double sums = splits + kRoundingUnit * static_cast<double>(2 * links.start_key.columns());
  LargestKey key = {};
  key.whole = largest(keys.whole);
  key.part = largest(keys.part);
  key.rest = largest(keys.rest);
  key.rest_error = splits * (key.whole + largest(keys.summed));
  key.missed = largest(keys.missed);
  for (Index v = 0; v < links.size(); ++v) {
    key.mention = std::max(key.mention, std::abs(static_cast<double>(mentions[v])));
  }
  for (Index u = 0; u < links.size(); ++u) {
    const double whole = queries.whole[at(u)], part = queries.part[at(u)];
    const double rest = queries.rest[at(u)], summed = queries.summed[at(u)];
    const double mention = std::abs(static_cast<double>(mentions[u])) + key.mention;
    const double rest_error = splits * (whole + summed);
    const double along = part * key.missed + summed * (sums * key.rest + key.rest_error);
    const double across = rest * key.rest_error + rest_error * (key.rest + key.rest_error);
    bounds.roundings[at(u)] = 2 * (sums * whole * key.whole + 4 * kRoundingUnit * mention);
    bounds.margins[at(u)] = bounds.roundings[at(u)] + along + across +
                            2 * splits * (part * key.part + rest * key.rest + mention);
  }
}

}  // namespace

LinkBounds link_bounds(const SpanLinks& links, Index directions, int threads) {
  const Index count = links.size();
  const Index used = std::min({directions, count, 2 * links.start_key.columns(), kSampledSpans});
  const Directions along = directions_of(links, used);
  LinkBounds bounds = {.width = used + 2,
                       .queries = Matrix(at(count * (used + 2))),
                       .keys = Matrix(at(count * (used + 2))),
                       .margins = std::vector<double>(at(count)),
                       .roundings = std::vector<double>(at(count))};
  const SplitLengths queries = split({links.start_query, links.end_query,
                                      static_cast<double>(links.scale), along.query, along.key},
                                     bounds, bounds.queries, threads);
  const SplitLengths keys = split({links.start_key, links.end_key, 1, along.key, along.query},
                                  bounds, bounds.keys, threads);
  const auto* mentions = links.mentions.data<float>();
  for (Index row = 0; row < count; ++row) {
    bounds.queries[at((row + 1) * bounds.width - 1)] = 1;
    bounds.keys[at((row + 1) * bounds.width - 1)] = mentions[row];
  }
  set_margins(links, queries, keys, bounds);
  return bounds;
}

}  // namespace longformer::kernels
