// The rows of global tokens and their second set of projections: what computing them and looking at
// them share (docs/spec/attention.md#a4).
#pragma once

#include <span>
#include <vector>

#include "core/tensor.h"
#include "kernels/attention/spec.h"

namespace longformer::kernels {

/// scale·B·A beside a matrix [D, D], which other models have without it: A [r, D], B [D, r], fp32;
/// empty for none.
struct LowRankMatrix {
  Tensor a = {}, b = {};
  float scale = 1;
};

/// The second set of projections, which global tokens use: weights [D, D] and biases [D], fp32.
/// Backward passes know no additions.
struct GlobalProjections {
  Tensor query_weight, query_bias;
  Tensor key_weight, key_bias;
  Tensor value_weight, value_bias;
  LowRankMatrix query_addition = {}, key_addition = {}, value_addition = {};
};

/// Rows of a projection: those of a head, or all.
struct ProjectionRows {
  const Tensor& weight;
  const LowRankMatrix& addition;
  Index first = 0, count = 0;
};
/// y [m, count] += x [m, D]·Mᵀ; the rows of y are `ldy` numbers apart.
void add_projected(const ProjectionRows& matrix, Index m, const float* x, float* y, Index ldy);
/// y [m, D] = alpha·x [m, count]·M; the rows of x are `ldx` numbers apart.
void project_back(const ProjectionRows& matrix, Index m, float alpha, const float* x, Index ldx,
                  float* y);

/// One document with its global rows (absolute row numbers).
struct GlobalRows {
  AttentionDocument document;
  std::vector<Index> rows;
  Index count() const { return static_cast<Index>(rows.size()); }
};

/// The documents of a spec that have global rows.
std::vector<GlobalRows> documents_with_globals(const AttentionSpec& spec);

/// The global rows of one document as a spec of their own: every query sees every visible key.
AttentionSpec global_rows_spec(const AttentionSpec& spec, const GlobalRows& globals);

/// That spec over the keys of the whole batch, for global rows without projections of their own.
/// Their queries are rows of `query` [H, n, d], copied to [H, g, d].
AttentionSpec own_rows_spec(const AttentionSpec& spec, const GlobalRows& globals);
Tensor global_queries(const GlobalRows& globals, const Tensor& query);

/// Copies a row of x, fp32 or bf16, to floats.
void copy_row(const Tensor& x, Index row, float* to);
/// Writes floats to a row of x, fp32 or bf16.
void write_row(std::span<const float> values, Tensor& x, Index row);

/// q̂ = W x + b of the global rows, [g, D].
std::vector<float> project_queries(const GlobalRows& globals, const GlobalProjections& p,
                                   const Tensor& x);

/// Projected queries of the global rows, head-major, [H, g, d] fp32.
Tensor project_global_queries(const GlobalRows& globals, const GlobalProjections& p,
                              const Tensor& x, Index head_size);

/// The projection of the keys or of the values.
struct Projection {
  const Tensor& weight;
  const Tensor& bias;
  const LowRankMatrix& addition;
  Index head_size = 0;
};
/// Keys or values of all tokens of a document, to `projected` [H, n, d] fp32.
void project_document(const GlobalRows& globals, const Projection& projection, const Tensor& x,
                      Tensor& projected, int threads);

}  // namespace longformer::kernels
