// The rows of global tokens, which see everything and have projections of their own, without
// projecting the tokens that they see (docs/spec/attention.md#a4).
//
// g global tokens of a document, H heads, d head size, D = H·d; R = H·g rows, of which row
// head·g + i belongs to global token i.
#pragma once

#include <span>
#include <vector>

#include "core/memory.h"
#include "kernels/attention/global_rows.h"

namespace longformer::kernels {

/// The global rows of one document against all of x [n, D].
struct GlobalAttention {
  const AttentionSpec& spec;
  const GlobalProjections& projections;
  const GlobalRows& globals;
  const Tensor& x;
  Dropout dropout;
  int threads = 1;

  Index g() const { return globals.count(); }
  Index d() const { return spec.head_size; }
  Index heads() const { return static_cast<Index>(spec.heads.size()); }
  Index width() const { return x.columns(); }
  Index rows() const { return heads() * g(); }
  /// Rows of x that this process attends to.
  Range keys() const {
    const AttentionDocument& document = globals.document;
    const auto& division = spec.rows->division;
    return division ? division->own
                    : Range{document.key_begin, document.key_begin + document.key_count};
  }
  Index begin() const { return keys().begin; }
  Index count() const { return keys().end - keys().begin; }
};

/// Results of the global rows once they have seen everything, of all ranks where the document is
/// divided.
struct GlobalSummary {
  /// q̂ [g, D], and Kᵀq̂ scaled [R, D]: what is multiplied with the rows of x.
  std::vector<float> queries, transformed;
  /// Σ p·x [R, D], the logarithm of the softmax denominator and Σ p, which dropout takes from 1.
  std::vector<float> mean, logsumexp, mass;
};
GlobalSummary summarise(const GlobalAttention& in);

/// Writes the result, V (Σ p x) + b Σ p of every head, to the global rows of `attended` [n, D].
void write_global_rows(const GlobalAttention& in, const GlobalSummary& summary, Tensor& attended);

/// Writes the same by way of projected keys and values of all tokens, which is cheaper for more
/// than d global tokens. Knows no dropout and no backward pass.
void write_projected_global_rows(const GlobalAttention& in, MemoryPool& memory, Tensor& attended);

/// fp32 sums that gather the gradients of the projections, [D, D] and [D]; null where none is
/// wanted. The bias of the keys shifts all scores of a query alike and has none.
struct GlobalGradients {
  float* query_weight = nullptr;
  float* query_bias = nullptr;
  float* key_weight = nullptr;
  float* value_weight = nullptr;
  float* value_bias = nullptr;
};

/// Takes the gradient of the global rows out of that of `attended`, where zeros are left for the
/// local attention that was overwritten, and adds what it makes of x to the rows of the document in
/// dx.
void global_attention_backward(const GlobalAttention& in, const GlobalSummary& summary,
                               const GlobalGradients& gradients, Tensor& attended_gradient,
                               Tensor& dx);

}  // namespace longformer::kernels
