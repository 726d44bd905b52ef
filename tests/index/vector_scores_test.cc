// How far similarities to vectors of bytes are from those to the vectors.
#include "index/vector_scores.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/random.h"

namespace longformer::index::vector_scores_test {
namespace {

/// A vector of a length; one large number makes all others coarse.
std::vector<float> vector_of(Index width, std::uint64_t seed, bool has_peak, double length = 1) {
  std::vector<float> vector = random_normal_tensor({width}, 1, seed).to_floats();
  if (has_peak) vector[at(width / 2)] = 30;
  double squares = 0;
  for (const float one : vector) squares += static_cast<double>(one) * one;
  for (float& one : vector) one = static_cast<float>(length * one / std::sqrt(squares));
  return vector;
}

/// The largest share of the bound that the vectors use.
double used_share(Similarity kind, Index width, double length) {
  const Index rows = 300;
  std::vector<std::vector<float>> vectors;
  kernels::ByteVectors bytes;
  bytes.width = width;
  for (Index row = 0; row < rows; ++row) {
    vectors.push_back(vector_of(width, at(row), row % 3 == 0, length));
    bytes.append(vectors.back());
  }
  std::vector<float> scores(at(rows));
  double used = 0;
  for (Index question = 0; question < 20; ++question) {
    // Some are vectors of the index.
    const std::vector<float> query =
        question % 2 == 0 ? vectors[at(question)] : vector_of(width, 1000 + at(question), true);
    compare(kind, bytes, query, scores, 1);
    const ErrorOfBytes error(kind, query);
    for (Index row = 0; row < rows; ++row) {
      const double apart = static_cast<double>(compare(kind, query, vectors[at(row)])) -
                           static_cast<double>(scores[at(row)]);
      const double share = apart / static_cast<double>(error.largest(bytes.scales[at(row)]));
      if (!(share <= used)) used = share;
    }
  }
  return used;
}

TEST(ErrorOfBytes, IsNotExceeded) {
  for (const Index width : {1, 3, 64, 384, 1024}) {
    for (const Similarity kind : {Similarity::dot, Similarity::euclidean, Similarity::manhattan}) {
      for (const double length : {1e-6, 1e-3, 1.0, 1e3}) {
        const double used = used_share(kind, width, length);
        EXPECT_TRUE(used <= 1) << name_of(kind) << " " << width << " " << length << " " << used;
      }
    }
    EXPECT_TRUE(used_share(Similarity::cosine, width, 1) <= 1) << width;
  }
}

/// A bound that nothing comes near to would let everything in.
TEST(ErrorOfBytes, IsUsed) {
  for (const Similarity kind :
       {Similarity::cosine, Similarity::dot, Similarity::euclidean, Similarity::manhattan}) {
    for (const Index width : {3, 64, 384, 1024}) {
      EXPECT_TRUE(used_share(kind, width, 1) > 0.05) << name_of(kind) << " " << width;
    }
  }
}

}  // namespace
}  // namespace longformer::index::vector_scores_test
