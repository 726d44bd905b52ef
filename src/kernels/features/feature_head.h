// The features of one head and the sums over its keys, block by block: what the forward and the
// backward pass have in common.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/features/feature_attention.h"
#include "kernels/features/feature_products.h"
#include "kernels/features/feature_rows.h"

namespace longformer::kernels {

/// Rows that are computed together: with 128 the products are near the rate of large ones.
inline constexpr Index kFeatureBlock = 128;

/// Those of causal attention, whose triangle costs a quarter of the rest (m 256, d 64):
/// forward 25.5 ms, with 128 27.6 ms (4,096 rows, 12 heads).
inline constexpr Index kCausalBlock = 64;

/// A query whose denominator is below has lost digits in a causal block, where later keys may have
/// raised the maxima: features below 2^−64 count as 0.
inline constexpr float kLeastDenominator = 1e-9f;

/// Rows of a head of one document.
struct HeadBlock {
  const float* values = nullptr;
  Index rows = 0;
  /// The same rows in bf16; null where products are in fp32.
  const BFloat16* narrow = nullptr;
  /// One byte for each row, 0 = masked; null when nothing is masked.
  const std::uint8_t* mask = nullptr;

  bool is_masked(Index row) const { return mask != nullptr && mask[row] == 0; }
  Factor factor() const { return {values, narrow}; }
};

/// Sums over the keys that were read: feature r of a key counts with e^{−maxima[r]}. The arrays lie
/// behind each other.
struct FeatureSums {
  float* maxima = nullptr;  ///< [stride]
  float* counts = nullptr;  ///< [stride]
  float* values = nullptr;  ///< [F, d]

  FeatureSums() = default;
  FeatureSums(float* memory, Index stride)
      : maxima(memory), counts(memory + stride), values(memory + 2 * stride) {}
};

/// Features of a block of rows, [rows, stride]; in bf16 alone where products are.
struct FeatureMemory {
  float* wide = nullptr;
  BFloat16* narrow = nullptr;

  Factor factor() const { return {wide, narrow}; }
};

/// The features of one head; for one thread.
class FeatureHead {
 public:
  FeatureHead(const FeatureMap& map, DType dtype);

  FeatureProducts& products() { return products_; }

  Index features() const { return features_; }
  /// Floats of a row of features.
  Index stride() const { return stride_; }
  /// Floats of FeatureSums.
  Index sum_size() const { return 2 * stride_ + features_ * map_.head_size; }

  /// Ω [m, d] of the head.
  void start(const float* directions);

  /// Nothing was read.
  void clear(const FeatureSums& sums) const;

  /// A floor (FeatureMap::has_floor) requires a look at all keys before the first features are
  /// made.
  void look_at(const HeadBlock& keys, const FeatureSums& sums);

  /// Raises the maxima of the sums to those of the keys, and writes the features of these,
  /// [rows, stride], and their column sums. Where `before` is given it gets the sums as they were,
  /// if queries could lose digits by the raise; else nothing.
  void key_features(const HeadBlock& keys, const FeatureSums& sums, const FeatureMemory& features,
                    float* counts, std::vector<float>* before = nullptr);
  /// Adds those keys to the sums.
  void add(const HeadBlock& values, const FeatureMemory& features, const float* counts,
           const FeatureSums& sums);
  /// counts += Σ of the rows of features, each by its weight.
  void add_counts(const FeatureMemory& features, Index rows, const float* weights,
                  float* counts) const;
  /// Brings sums over queries, which count with e^{+maxima[r]}, to other maxima.
  void rescale_back(const FeatureSums& sums, const float* maxima) const;

  /// Features of queries, each row by a factor of its own, and their products with the counts.
  void query_features(const HeadBlock& queries, const FeatureSums& sums,
                      const FeatureMemory& features, float* denominators);
  /// Whether a row of the last keys, and query, of a causal block saw too little of itself.
  bool is_lost(Index row, float denominator, const FeatureSums& sums) const;
  /// Sums of signed features may vanish: corrects what the rows of a block are divided by.
  void guard(Index rows, bool causal, const FeatureSums& sums, float* denominators) const;

  /// Gradients of features to those of the rows x [rows, d] that they were made of. What comes in
  /// is gradients + shifts ⊗ added, with `added` [stride]; gradients are overwritten.
  struct FeatureGradients {
    FeatureMemory features, gradients;
    const float* shifts;
    const float* added;
  };
  void backward(const HeadBlock& x, bool are_keys, const FeatureGradients& in,
                float* row_gradients);

 private:
  void rescale(const FeatureSums& sums, const float* maxima, float sign) const;
  void project(const HeadBlock& x, float* to);
  /// The block that passes write to.
  FeatureBlock block_of(const FeatureMemory& memory, Index rows) const {
    return {{memory.wide, rows, stride_}, memory.narrow};
  }
  /// Features or gradients that were made in fp32.
  void round(const FeatureMemory& memory, Index rows) const {
    if (memory.narrow != nullptr) narrow_all(memory.wide, memory.narrow, rows * stride_);
  }
  void measure(const HeadBlock& x);
  Factor directions() const {
    return {directions_.data(), products_.is_narrow() ? narrow_directions_.data() : nullptr};
  }
  void plain_key_features(const HeadBlock& keys, const FeatureSums& sums, float* features);
  void plain_query_features(const HeadBlock& queries, float* features) const;
  float plain_feature(float product) const;
  void plain_backward(const HeadBlock& x, const FeatureGradients& in);

  FeatureMap map_;
  Index features_, stride_;
  float factor_;
  FeatureProducts products_;
  /// Ω, by the factor of queries and keys.
  std::vector<float> directions_;
  std::vector<BFloat16> narrow_directions_;
  /// Half of the squared length of every row of a block.
  std::vector<float> half_squares_;
  /// Greatest of them up to every row of the last keys, and in the sums.
  std::vector<float> highest_;
  std::vector<float> raised_, row_sums_;
};

}  // namespace longformer::kernels
