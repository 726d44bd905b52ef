// The similarity of a question's vector with every vector of an index.
#pragma once

#include <span>

#include "kernels/vector_scan.h"
#include "longformer/options.h"

namespace longformer::index {

/// scores[i] = the similarity of vector i, as its bytes say it, and the query [d]; scores [n]. For
/// the cosine all vectors have length 1.
void compare(Similarity kind, const kernels::ByteVectors& vectors, std::span<const float> query,
             std::span<float> scores, int threads);

/// How far at most the similarity of a vector's bytes to a query is below that of the vector.
class ErrorOfBytes {
 public:
  ErrorOfBytes(Similarity kind, std::span<const float> query);

  /// `scale` is that of the bytes.
  float largest(float scale) const { return factor_ * scale + rounding_; }

 private:
  float factor_ = 0, rounding_ = 0;
};

/// Similarity of two exact vectors.
float compare(Similarity kind, std::span<const float> a, std::span<const float> b);

}  // namespace longformer::index
