// How far similarities to vectors of bytes are from those to the vectors.
#include "index/vector_scores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/random.h"

namespace longformer::index::vector_scores_test {
namespace {

std::vector<float> vector_of(Index width, std::uint64_t seed, bool has_peak) {
  const Tensor numbers = random_normal_tensor({width}, 1, seed);
  std::vector<float> vector = numbers.to_floats();
  // One large number makes all others coarse.
  if (has_peak) vector[at(width / 2)] = 30;
  double squares = 0;
  for (const float one : vector) squares += static_cast<double>(one) * one;
  for (float& one : vector) one = static_cast<float>(one / std::sqrt(squares));
  return vector;
}

TEST(LargestError, IsNotExceeded) {
  const Index rows = 300;
  for (const Similarity kind :
       {Similarity::cosine, Similarity::dot, Similarity::euclidean, Similarity::manhattan}) {
    for (const Index width : {1, 3, 64, 384, 1024}) {
      std::vector<std::vector<float>> vectors;
      kernels::ByteVectors bytes;
      bytes.width = width;
      for (Index row = 0; row < rows; ++row) {
        vectors.push_back(vector_of(width, at(row), row % 3 == 0));
        bytes.append(vectors.back());
      }
      std::vector<float> scores(at(rows));
      double used = 0;
      for (Index question = 0; question < 20; ++question) {
        // Some are vectors of the index.
        const std::vector<float> query =
            question % 2 == 0 ? vectors[at(question)] : vector_of(width, 1000 + at(question), true);
        compare(kind, bytes, query, scores, 1);
        const float error = largest_error(kind, query);
        for (Index row = 0; row < rows; ++row) {
          const double apart = static_cast<double>(compare(kind, query, vectors[at(row)])) -
                               static_cast<double>(scores[at(row)]);
          const double most =
              static_cast<double>(error) * static_cast<double>(bytes.scales[at(row)]);
          ASSERT_TRUE(apart <= most)
              << name_of(kind) << " " << width << " " << apart << " " << most;
          used = std::max(used, apart / most);
        }
      }
      // A bound that nothing comes near to would let everything in. One number is exact in bytes.
      if (width == 1) continue;
      EXPECT_TRUE(used > 0.05) << name_of(kind) << " " << width << " " << used;
    }
  }
}

}  // namespace
}  // namespace longformer::index::vector_scores_test
