#include "kernels/link_bounds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <numeric>
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
  // Eight sums, as one waits for each addition: 0.5 of the 2.3 s that 117,000 spans take.
  std::array<double, 8> sums = {};
  const auto add = [&](std::size_t sum, float value) {
    sums[sum] += static_cast<double>(value) * static_cast<double>(value);
  };
  std::size_t c = 0;
  for (; c + sums.size() <= x.size(); c += sums.size()) {
    for (std::size_t i = 0; i < sums.size(); ++i) add(i, x[c + i]);
  }
  for (; c < x.size(); ++c) add(0, x[c]);
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

std::span<float> row_in(Matrix& matrix, Index row, Index width) {
  return std::span(matrix).subspan(at(row * width), at(width));
}

/// Writes a row of each half, times the factor; returns the end of what it wrote.
float* write_row(std::initializer_list<const Tensor*> halves, Index row, float factor, float* to) {
  for (const Tensor* half : halves) {
    const Index width = half->columns();
    const auto times = [&](auto value) { return static_cast<float>(value) * factor; };
    if (half->dtype() == DType::bf16) {
      to = std::transform(half->data<BFloat16>() + row * width,
                          half->data<BFloat16>() + (row + 1) * width, to, times);
    } else {
      to = std::transform(half->data<float>() + row * width,
                          half->data<float>() + (row + 1) * width, to, times);
    }
  }
  return to;
}

/// Every so many rows of two matrices side by side.
Matrix sampled(const Tensor& start, const Tensor& end, Index count) {
  Matrix rows(at(count * 2 * start.columns()));
  float* to = rows.data();
  for (Index i = 0; i < count; ++i) {
    to = write_row({&start, &end}, i * start.rows() / count, 1, to);
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
  bool is_key;
  /// The part is the product with `onto`, and it is parts of the rows `from`.
  const Matrix& onto;
  const Matrix& from;
  /// [r], those of the rows of `from`.
  std::vector<double> from_lengths = {};
};

/// Lengths [k] of what a side was split into. `summed` adds those of the parts along all
/// directions, to which the rounding of their sum is in proportion; `missed`, of keys alone, is the
/// part along `onto` that the rest still has. `kept` is the part in bf16, `lost` what bf16 takes
/// from it.
struct SplitLengths {
  std::vector<double> whole, part, summed, rest, missed, kept, lost;
  explicit SplitLengths(Index rows)
      : whole(at(rows)),
        part(at(rows)),
        summed(at(rows)),
        rest(at(rows)),
        missed(at(rows)),
        kept(at(rows)),
        lost(at(rows)) {}
};

/// Smaller numbers than the least normal one are zeros for products of bf16.
constexpr float kLeastNormal = std::numeric_limits<float>::min();

/// Rounds a part to the bf16 numbers of `features`, and sets what that keeps and loses.
void round_part(std::span<const float> part, BFloat16* features, double& kept, double& lost) {
  double kept_squares = 0, lost_squares = 0;
  for (std::size_t j = 0; j < part.size(); ++j) {
    features[j] = BFloat16(std::abs(part[j]) < kLeastNormal ? 0.0f : part[j]);
    const auto rounded = static_cast<double>(static_cast<float>(features[j]));
    const double error = static_cast<double>(part[j]) - rounded;
    kept_squares += rounded * rounded;
    lost_squares += error * error;
  }
  kept = std::sqrt(kept_squares);
  lost = std::sqrt(lost_squares);
}

void set_missed(const SplitSide& side, RowRange rows, const Matrix& rest, SplitLengths& lengths) {
  const Index count = rows.end - rows.begin, directions = std::ssize(side.from_lengths);
  Matrix missed(at(count * directions));
  gemm({.m = count, .n = directions, .k = std::ssize(rest) / count, .transpose_b = true},
       rest.data(), side.onto.data(), missed.data());
  for (Index i = 0; i < count; ++i) {
    lengths.missed[at(rows.begin + i)] = std::sqrt(squares(row_in(missed, i, directions)));
  }
}

/// Writes the parts of rows [begin, end) to the first columns of `features` [k, width].
void split_rows(const SplitSide& side, RowRange rows, Tensor& features, SplitLengths& lengths) {
  const Index half = side.start.columns(), directions = std::ssize(side.from_lengths);
  const Index count = rows.end - rows.begin, width = 2 * half;
  Matrix rest(at(count * width)), parts(at(count * directions));
  for (Index i = 0; i < count; ++i) {
    write_row({&side.start, &side.end}, rows.begin + i, static_cast<float>(side.scale),
              rest.data() + i * width);
    lengths.whole[at(rows.begin + i)] = std::sqrt(squares(row_in(rest, i, width)));
  }
  gemm({.m = count, .n = directions, .k = width, .transpose_b = true}, rest.data(),
       side.onto.data(), parts.data());
  gemm({.m = count, .n = width, .k = directions, .alpha = -1, .beta = 1}, parts.data(),
       side.from.data(), rest.data());
  if (side.is_key) set_missed(side, rows, rest, lengths);
  for (Index i = 0; i < count; ++i) {
    const std::size_t row = at(rows.begin + i);
    const std::span<const float> part = row_in(parts, i, directions);
    for (std::size_t j = 0; j < part.size(); ++j) {
      lengths.summed[row] += std::abs(static_cast<double>(part[j])) * side.from_lengths[j];
    }
    lengths.part[row] = std::sqrt(squares(part));
    lengths.rest[row] = std::sqrt(squares(row_in(rest, i, width)));
    round_part(part, features.data<BFloat16>() + (rows.begin + i) * features.columns(),
               lengths.kept[row], lengths.lost[row]);
  }
}

SplitLengths split(SplitSide side, Index directions, Tensor& features, int threads) {
  const Index count = side.start.rows();
  for (Index j = 0; j < directions; ++j) {
    const Index width = std::ssize(side.from) / directions;
    const auto row = std::span(side.from).subspan(at(j * width), at(width));
    side.from_lengths.push_back(std::sqrt(squares(row)));
  }
  SplitLengths lengths(count);
  parallel_for(threads, (count + kSplitRows - 1) / kSplitRows, [&](Index block) {
    const RowRange rows = {block * kSplitRows, std::min(count, (block + 1) * kSplitRows)};
    split_rows(side, rows, features, lengths);
  });
  return lengths;
}

/// The least normal bf16 number, or 0, that a length is not above; NaN where there is none.
BFloat16 rounded_up(double length) {
  if (length > 0) length = std::max(length, static_cast<double>(kLeastNormal));
  BFloat16 rounded(static_cast<float>(length));
  if (static_cast<double>(static_cast<float>(rounded)) < length) ++rounded.bits;
  return std::isfinite(static_cast<float>(rounded))
             ? rounded
             : BFloat16(std::numeric_limits<float>::quiet_NaN());
}

/// The columns behind the directions.
void set_more_columns(const SplitLengths& queries, const SplitLengths& keys, const float* mentions,
                      LinkBounds& bounds) {
  const Index width = bounds.width(), count = std::ssize(bounds.margins);
  for (Index row = 0; row < count; ++row) {
    const std::size_t i = at(row);
    auto* of_query = bounds.queries.data<BFloat16>() + row * width + bounds.directions;
    auto* of_key = bounds.keys.data<BFloat16>() + row * width + bounds.directions;
    const std::array query = {rounded_up(queries.rest[i]), rounded_up(queries.lost[i]),
                              rounded_up(queries.part[i])};
    const std::array key = {rounded_up(keys.rest[i]), rounded_up(keys.kept[i]),
                            rounded_up(keys.lost[i])};
    of_query = std::copy(query.begin(), query.end(), of_query);
    of_key = std::copy(key.begin(), key.end(), of_key);
    // Three bf16 numbers hold the 24 bits of a float.
    float mention = mentions[row];
    for (Index c = 0; c < LinkBounds::kMentionColumns; ++c) {
      of_query[c] = BFloat16(1);
      of_key[c] = BFloat16(mention);
      mention -= static_cast<float>(of_key[c]);
    }
  }
}

/// NaN where one of them is.
double largest(std::span<const double> values) {
  double most = 0;
  for (const double value : values) most = std::isnan(most) || value <= most ? most : value;
  return most;
}

/// The largest lengths of all keys, with what rounding took from them.
struct LargestKey {
  double whole, part, rest, rest_error, missed, kept, lost, mention;
};

/// Lengths and parts in bf16 are at most so many times what they were.
constexpr double kWidened = 1 + 0x1p-6;
/// More than products lose that are too small for a float.
constexpr double kFlushed = 0x1p-110;

/// A sum of n products is off by at most n rounding units of the product of the lengths: `sums` are
/// those of the D columns, `splits` those of the r directions.
void set_margins(const SpanLinks& links, const SplitLengths& queries, const SplitLengths& keys,
                 LinkBounds& bounds) {
  const auto* mentions = links.mentions.data<float>();
  const double splits = kRoundingUnit * static_cast<double>(bounds.width() + 16);
  const double sums = splits + kRoundingUnit * static_cast<double>(2 * links.start_key.columns());
  LargestKey key = {};
  key.whole = largest(keys.whole);
  key.part = largest(keys.part);
  key.rest = largest(keys.rest);
  key.rest_error = splits * (key.whole + largest(keys.summed));
  key.missed = largest(keys.missed);
  key.kept = largest(keys.kept);
  key.lost = largest(keys.lost);
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
    const double added = part * key.part + queries.lost[at(u)] * key.kept + part * key.lost;
    bounds.margins[at(u)] = bounds.roundings[at(u)] + along + across + kFlushed +
                            2 * splits * kWidened * (added + rest * key.rest + mention);
  }
}

}  // namespace

double LinkBounds::slack(Index u, Index v) const {
  double sum = 0;
  for (Index c = directions; c < directions + kSlackColumns; ++c) {
    sum += static_cast<double>(static_cast<float>(queries.data<BFloat16>()[u * width() + c])) *
           static_cast<double>(static_cast<float>(keys.data<BFloat16>()[v * width() + c]));
  }
  return sum;
}

LinkBounds link_bounds(const SpanLinks& links, Index directions, int threads) {
  const Index count = links.size();
  LinkBounds bounds = {
      .directions = std::min({directions, count, 2 * links.start_key.columns(), kSampledSpans}),
      .margins = std::vector<double>(at(count)),
      .roundings = std::vector<double>(at(count))};
  bounds.queries = Tensor({count, bounds.width()}, DType::bf16);
  bounds.keys = Tensor({count, bounds.width()}, DType::bf16);
  const Directions along = directions_of(links, bounds.directions);
  const SplitLengths queries =
      split({links.start_query, links.end_query, static_cast<double>(links.scale), false,
             along.query, along.key},
            bounds.directions, bounds.queries, threads);
  const SplitLengths keys = split({links.start_key, links.end_key, 1, true, along.key, along.query},
                                  bounds.directions, bounds.keys, threads);
  set_more_columns(queries, keys, links.mentions.data<float>(), bounds);
  set_margins(links, queries, keys, bounds);
  return bounds;
}

}  // namespace longformer::kernels
