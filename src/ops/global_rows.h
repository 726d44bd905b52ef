// The rows of global tokens and their second set of projections: what computing them and looking at
// them share (spec.md A.4).
#pragma once

#include <vector>

#include "ops/global_attention.h"

namespace longformer::ops {

/// One document with its global rows (absolute row numbers).
struct GlobalRows {
  kernels::AttentionDocument document;
  std::vector<Index> rows;
  Index count() const { return static_cast<Index>(rows.size()); }
};

/// The documents of a spec that have global rows.
std::vector<GlobalRows> documents_with_globals(const AttentionSpec& spec);

/// The global rows of one document as a spec of their own: every query sees every visible key.
AttentionSpec global_rows_spec(const AttentionSpec& spec, const GlobalRows& globals);

/// Copies a row of x, fp32 or bf16, to floats.
void copy_row(const Tensor& x, Index row, float* to);

/// q̂ = W x + b of the global rows, [g, D].
std::vector<float> project_queries(const GlobalRows& globals, const GlobalProjections& p,
                                   const Tensor& x);

/// The same head-major, [H, g, d] fp32.
Tensor project_global_queries(const Context& context, const Tensor& x, const GlobalRows& globals,
                              const GlobalProjections& p, Index head_size);

/// Keys or values of all tokens of a document, [H, n, d] fp32.
Tensor project_document(const Context& context, const Tensor& x, const GlobalRows& globals,
                        const Tensor& weight, const Tensor& bias, Index head_size);

}  // namespace longformer::ops
