// Passes over rows of features, compiled once for each instruction set.
//
// A block has rows of F features, `stride` apart, padded to whole vectors: what is beyond F weighs
// nothing.
#pragma once

#include "core/dtype.h"

namespace longformer::kernels {

/// Rows are padded to multiples of it.
inline constexpr Index kFeatureUnit = 16;

struct FeatureRows {
  float* values = nullptr;
  Index rows = 0;
  /// A multiple of kFeatureUnit, and the distance of rows.
  Index stride = 0;
};

/// Rows of features, or of logs that become them. With `narrow` the results lie there alone, in
/// bf16 and in rows of the same stride; else in place of the logs.
struct FeatureBlock {
  FeatureRows wide;
  BFloat16* narrow = nullptr;
};

/// maxima = the greater of maxima and logs − shifts[row], feature by feature.
void raise_maxima(const FeatureRows& logs, const float* shifts, float* maxima);

struct KeyExponents {
  const float* shifts;
  const float* maxima;
  float* sums;
};
/// e^{logs − shifts[row] − maxima}, for exponents that are not above 0; sums += them.
void exponentiate_keys(const FeatureBlock& block, const KeyExponents& in);

struct QueryExponents {
  const float* maxima;
  const float* counts;
  float* denominators;
};
/// e^{logs + maxima − c} with c the greatest of the row; denominators = their products with counts.
void exponentiate_queries(const FeatureBlock& block, const QueryExponents& in);

struct GradientFactors {
  const float* shifts;
  const float* added;
  /// Narrow where the block is narrow.
  FeatureBlock features;
  float* sums;
};
/// (values + shifts[row]·added)·features; sums[row] = Σ of the row.
void finish_gradients(const FeatureBlock& block, const GradientFactors& in);

/// sums += Σ of the rows, each by its weight.
void add_rows(const FeatureBlock& block, const float* weights, float* sums);

}  // namespace longformer::kernels
