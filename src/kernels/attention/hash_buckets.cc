#include "kernels/attention/hash_buckets.h"

#include <algorithm>
#include <numeric>

#include "core/threads.h"
#include "kernels/gemm.h"

namespace longformer::kernels {
namespace {

constexpr Index kRowsTogether = 128;

/// Place of the largest of [x; −x].
Index largest(std::span<const float> x) {
  float most = -1;
  Index found = 0;
  const Index size = std::ssize(x);
  for (Index i = 0; i < size; ++i) {
    if (x[at(i)] > most) {
      most = x[at(i)];
      found = i;
    }
  }
  for (Index i = 0; i < size; ++i) {
    if (-x[at(i)] > most) {
      most = -x[at(i)];
      found = size + i;
    }
  }
  return found;
}

std::int32_t bucket_of(std::span<const float> rotated, std::span<const Index> factors) {
  Index bucket = 0, begin = 0, digit = 1;
  for (const Index factor : factors) {
    bucket += digit * largest(rotated.subspan(at(begin), at(factor / 2)));
    begin += factor / 2;
    digit *= factor;
  }
  return static_cast<std::int32_t>(bucket);
}

}  // namespace

std::vector<std::int32_t> hash_buckets(const Tensor& x, Index begin, Index count,
                                       const HashRotations& hash, int threads) {
  const Index heads = x.dimension(0), d = x.dimension(2), columns = hash.columns();
  const Index width = hash.rounds * columns, blocks = (count + kRowsTogether - 1) / kRowsTogether;
  std::vector<std::int32_t> buckets(at(heads * hash.rounds * count));
  parallel_for(threads, heads * blocks, [&](Index i) {
    const Index head = i / blocks, first = i % blocks * kRowsTogether;
    const Index rows = std::min(kRowsTogether, count - first);
    std::vector<float> block(at(rows * d)), rotated(at(rows * width));
    x.reshaped({x.size() / d, d})
        .slice_rows(head * x.dimension(1) + begin + first, rows)
        .copy_to(block);
    gemm({.m = rows, .n = width, .k = d, .beta = 0}, block.data(),
         hash.rotations.data<float>() + head * d * width, rotated.data());
    for (Index round = 0; round < hash.rounds; ++round) {
      std::int32_t* to = buckets.data() + (head * hash.rounds + round) * count + first;
      for (Index row = 0; row < rows; ++row) {
        const float* numbers = rotated.data() + row * width + round * columns;
        to[row] = bucket_of({numbers, at(columns)}, hash.factors);
      }
    }
  });
  return buckets;
}

std::vector<std::int32_t> bucket_order(std::span<const std::int32_t> buckets, Index count,
                                       Index places, int threads) {
  const Index rows = count == 0 ? 0 : std::ssize(buckets) / count;
  std::vector<std::int32_t> order(at(rows * places), -1);
  parallel_for(threads, rows, [&](Index row) {
    const std::int32_t* own = buckets.data() + row * count;
    std::int32_t* to = order.data() + row * places;
    std::vector<std::int32_t> begins(at(*std::max_element(own, own + count)) + 2);
    for (Index i = 0; i < count; ++i) ++begins[at(own[i]) + 1];
    std::partial_sum(begins.begin(), begins.end(), begins.begin());
    for (Index i = 0; i < count; ++i) to[begins[at(own[i])]++] = static_cast<std::int32_t>(i);
  });
  return order;
}

}  // namespace longformer::kernels
