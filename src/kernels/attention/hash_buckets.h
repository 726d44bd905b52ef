// Hashing of vectors by random rotations (arXiv 1509.02897), and the order in which vectors of one
// bucket lie beside each other (Reformer, docs/spec/other-attentions.md#h3).
//
// H heads, d head size.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.h"

namespace longformer::kernels {

/// R [H, d, rounds · columns] fp32. Every factor f of the number of buckets has f / 2 columns: the
/// bucket is the place of the largest of [xR; −xR], and the factors' buckets are the digits of one
/// number, the first of them the lowest.
struct HashRotations {
  Tensor rotations;
  Index rounds = 1;
  std::vector<Index> factors;

  Index columns() const { return rotations.dimension(2) / rounds; }
};

/// Rows begin … begin + count − 1 of x [H, n, d] fp32 or bf16 to their buckets [H, rounds, count].
/// The length of a vector does not count.
std::vector<std::int32_t> hash_buckets(const Tensor& x, Index begin, Index count,
                                       const HashRotations& hash, int threads);

/// The numbers of each row of `count` buckets in the order of their buckets, equal ones in the
/// order of their numbers; each row is filled up with −1 to so many places.
std::vector<std::int32_t> bucket_order(std::span<const std::int32_t> buckets, Index count,
                                       Index places, int threads);

}  // namespace longformer::kernels
