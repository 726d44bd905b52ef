#include "kernels/vector_scan.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "core/finite.h"
#include "core/threads.h"
#include "kernels/simd_dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vector_scan.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace longformer::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Dot products of rows [rows, width] with a query [width].
void DotProducts(const std::int8_t* row, Index rows, std::span<const std::int16_t> query,
                 std::int32_t* products) {
  const hn::ScalableTag<std::int16_t> d16;
  const hn::RepartitionToWide<decltype(d16)> d32;
  const hn::Rebind<std::int8_t, decltype(d16)> d8;
  const auto lanes = static_cast<Index>(hn::Lanes(d16));
  const auto width = static_cast<Index>(query.size());
  const std::int16_t* values = query.data();
  if (width < lanes) {
    for (Index i = 0; i < rows; ++i, row += width) {
      products[i] = 0;
      for (Index c = 0; c < width; ++c) products[i] += row[c] * values[c];
    }
    return;
  }
  // The last vector of a row ends where the row does. Its first lanes have been there already, so
  // the query is 0 in them; without a rest that is all of it.
  const Index whole = width - width % lanes, last = width - lanes;
  const auto last_values =
      hn::IfThenZeroElse(hn::FirstN(d16, at(whole - last)), hn::LoadU(d16, values + last));
  for (Index i = 0; i < rows; ++i, row += width) {
    auto sum = hn::Zero(d32), other = hn::Zero(d32);
    for (Index c = 0; c < whole; c += lanes) {
      const auto bytes = hn::PromoteTo(d16, hn::LoadU(d8, row + c));
      sum = hn::ReorderWidenMulAccumulate(d32, bytes, hn::LoadU(d16, values + c), sum, other);
    }
    if (whole < width) {
      const auto bytes = hn::PromoteTo(d16, hn::LoadU(d8, row + last));
      sum = hn::ReorderWidenMulAccumulate(d32, bytes, last_values, sum, other);
    }
    products[i] = hn::GetLane(hn::SumOfLanes(d32, hn::Add(sum, other)));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace longformer::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longformer::kernels {
namespace {

HWY_EXPORT(DotProducts);

/// Bytes that a thread takes at a time: long enough for the processor to read ahead, short enough
/// for threads to end together.
constexpr Index kBlockBytes = Index{1} << 18;
/// The products of a block are on the stack.
constexpr Index kMostRows = 1024;

/// Quantizes to the integers −levels … levels; returns the scale.
template <typename Integer>
float to_integers(std::span<const float> from, Index levels, std::span<Integer> to) {
  assert(from.size() == to.size() && all_finite(from));
  float highest = 0;
  for (const float x : from) highest = std::max(highest, std::abs(x));
  const auto scale = static_cast<float>(static_cast<double>(highest) / static_cast<double>(levels));
  // Also of what is too small for a scale.
  if (scale == 0) {
    std::fill(to.begin(), to.end(), Integer{0});
    return 0;
  }
  const double factor = 1 / static_cast<double>(scale);
  for (std::size_t i = 0; i < from.size(); ++i) {
    // A scale that is rounded as coarsely as subnormal numbers are may lead beyond the levels.
    const Index nearest = std::lrint(static_cast<double>(from[i]) * factor);
    to[i] = static_cast<Integer>(std::clamp(nearest, -levels, levels));
  }
  return scale;
}

struct Ranked {
  float score = 0;
  Index index = 0;
};

bool is_better(const Ranked& a, const Ranked& b) {
  return a.score != b.score ? a.score > b.score : a.index < b.index;
}

/// Leaves the `count` best ones, the worst of these at the end.
void keep_best(std::vector<Ranked>& ranked, Index count) {
  std::nth_element(ranked.begin(), ranked.begin() + count - 1, ranked.end(), is_better);
  ranked.erase(ranked.begin() + count, ranked.end());
}

}  // namespace

float quantize(std::span<const float> vector, std::span<std::int8_t> bytes) {
  return to_integers(vector, kByteLevels, bytes);
}

void ByteVectors::reserve(Index vectors) {
  bytes.reserve(at(vectors * width));
  scales.reserve(at(vectors));
}

void ByteVectors::make_room(Index further) {
  constexpr Index kSlack = 8;
  const Index wanted = size() + further;
  if (at(wanted) > scales.capacity()) reserve(wanted + wanted / kSlack);
}

void ByteVectors::append(std::span<const float> vector) {
  assert(static_cast<Index>(vector.size()) == width);
  bytes.resize(bytes.size() + vector.size());
  scales.push_back(quantize(vector, std::span(bytes).last(vector.size())));
}

void ByteVectors::append(std::span<const std::int8_t> vector, float scale) {
  assert(static_cast<Index>(vector.size()) == width);
  bytes.insert(bytes.end(), vector.begin(), vector.end());
  scales.push_back(scale);
}

Index query_levels(Index width) {
  assert(width >= 1 && width <= kWidestQuery);
  // Bytes that others have made may be −128.
  const Index most = std::numeric_limits<std::int32_t>::max() / (128 * width);
  return std::min<Index>(most, std::numeric_limits<std::int16_t>::max());
}

IntegerQuery integer_query(std::span<const float> query) {
  IntegerQuery integers;
  integers.values.resize(query.size());
  integers.scale = to_integers(query, query_levels(static_cast<Index>(query.size())),
                               std::span(integers.values));
  return integers;
}

void scan(const ByteVectors& vectors, std::span<const float> query, std::span<float> scores,
          int threads) {
  const Index width = vectors.width, size = vectors.size();
  assert(static_cast<Index>(query.size()) == width && static_cast<Index>(scores.size()) == size);
  if (size == 0) return;
  limit_simd_targets();
  const IntegerQuery integers = integer_query(query);
  const auto query_scale = static_cast<double>(integers.scale);
  const Index rows = std::clamp<Index>(kBlockBytes / width, 1, kMostRows);
  parallel_for(threads, (size + rows - 1) / rows, [&](Index block) {
    const Index begin = block * rows, count = std::min(rows, size - begin);
    std::int32_t products[kMostRows];
    HWY_DYNAMIC_DISPATCH(DotProducts)
    (vectors.bytes.data() + begin * width, count, integers.values, products);
    for (Index i = 0; i < count; ++i) {
      // In double, where no product of two scales is too small to be exact.
      const double scale = static_cast<double>(vectors.scales[at(begin + i)]) * query_scale;
      scores[at(begin + i)] = static_cast<float>(products[i] * scale);
    }
  });
}

std::vector<Index> best(std::span<const float> scores, Index count) {
  assert(count >= 0);
  const auto size = static_cast<Index>(scores.size());
  count = std::min(count, size);
  if (count == 0) return {};
  // Many times fewer than all come in, as each time that there are twice as many as wanted, only
  // what is above the worst of the best may follow; an equal one that comes later is no better.
  const Index room = std::min(size, std::max<Index>(2 * count, 1024));
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  float bar = kLowest;
  std::vector<Ranked> ranked;
  ranked.reserve(at(room));
  for (Index i = 0; i < size; ++i) {
    const float score = scores[at(i)];
    if (i >= count && !(score > bar)) continue;
    if (static_cast<Index>(ranked.size()) == room) {
      keep_best(ranked, count);
      bar = ranked.back().score;
      if (!(score > bar)) continue;
    }
    ranked.push_back({std::isnan(score) ? kLowest : score, i});
  }
  keep_best(ranked, count);
  std::sort(ranked.begin(), ranked.end(), is_better);
  std::vector<Index> indices(ranked.size());
  std::transform(ranked.begin(), ranked.end(), indices.begin(),
                 [](const Ranked& one) { return one.index; });
  return indices;
}

}  // namespace longformer::kernels
#endif
