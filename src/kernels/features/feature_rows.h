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

/// logs −= shifts[row]; maxima = the greater of maxima and logs, feature by feature.
void shift_and_raise(const FeatureRows& logs, const float* shifts, float* maxima);

/// logs = e^{logs − maxima}, for logs that are no greater; sums += them.
void exponentiate_keys(const FeatureRows& logs, const float* maxima, float* sums);

/// logs = e^{logs + maxima − c} with c the greatest of the row; denominators = their products with
/// sums.
void exponentiate_queries(const FeatureRows& logs, const float* maxima, const float* sums,
                          float* denominators);

/// products[row] = Σ a·b over `columns` numbers.
void multiply_rows(const float* a, const float* b, Index rows, Index columns, float* products);

/// values = values·factors + shifts[row]·added, with factors laid out like values.
void finish_gradients(const FeatureRows& values, const float* shifts, const float* added,
                      const float* factors);

/// sums[row] = Σ of the features of a row.
void sum_features(const FeatureRows& values, float* sums);

}  // namespace longformer::kernels
