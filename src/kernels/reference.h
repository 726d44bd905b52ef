// The plain scalar truth: attention computed one query at a time straight from its definition.
// Every backend and every fast path is compared with it; nothing else calls it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention/probabilities.h"

namespace longformer::kernels {

/// Whether the query row sees the key row in the head; both rows belong to the document.
bool sees(const AttentionSpec& spec, const AttentionDocument& document, Index head, Index query,
          Index key);

template <typename Real>
struct ReferenceAttention {
  /// [nq, H·d]
  std::vector<Real> out;
  /// [H, nq]; −∞ for a query that sees no key.
  std::vector<Real> logsumexp;
};

/// Terms of scores beside products of queries and keys, as in AttentionArguments.
struct PositionTerms {
  const RelativePositions* relative = nullptr;
  /// Any floating dtype.
  const Tensor* distance_bias = nullptr;
  const DistanceKeys* distance_keys = nullptr;
};

/// Inputs [H, n, d] of any floating dtype; all arithmetic is in Real (float or double).
template <typename Real>
ReferenceAttention<Real> reference_attention(const AttentionSpec& spec, const Tensor& query,
                                             const Tensor& key, const Tensor& value,
                                             const PositionTerms& terms = {});

/// Gradients in the shapes of the inputs; those of terms that are not there are empty.
template <typename Real>
struct ReferenceGradients {
  std::vector<Real> query, key, value;
  std::vector<Real> content_bias, position_bias, relative_keys, kind_scores;
  std::vector<Real> distance_bias, distance_keys, distance_queries;
};

/// out_gradient is [nq, H·d].
template <typename Real>
ReferenceGradients<Real> reference_attention_backward(const AttentionSpec& spec,
                                                      const Tensor& query, const Tensor& key,
                                                      const Tensor& value,
                                                      const Tensor& out_gradient,
                                                      const PositionTerms& terms = {});

/// One row of it, [d], for inputs that are too long for all of them.
template <typename Real>
std::vector<Real> reference_attention_row(const AttentionSpec& spec, const Tensor& query,
                                          const Tensor& key, const Tensor& value, Index head,
                                          Index query_row);

/// The probabilities of one head of one document as attention_probabilities lays them out,
/// [rows, columns].
template <typename Real>
std::vector<Real> reference_attention_probabilities(const AttentionSpec& spec, const Tensor& query,
                                                    const Tensor& key, DocumentHead which,
                                                    const Tensor* distance_bias = nullptr);

/// A Linear layer as the checkpoint stores it: weight [out, in], bias [out].
struct ReferenceLinear {
  Tensor weight;
  Tensor bias;
};

/// The self-attention of a Longformer layer over one document, up to its output projection.
struct ReferenceLongformerAttention {
  Tensor hidden;  ///< [n, D]
  ReferenceLinear query, key, value;
  ReferenceLinear query_global, key_global, value_global;
  std::vector<HeadPattern> heads;
  /// One per token: 0 masked, 1 local, 2 global.
  std::vector<std::uint8_t> kinds;
};

/// [n, D]: local rows attend to their window and the global tokens with the local projections, each
/// key once; global rows to every token that is not masked with the global projections; masked rows
/// are zero.
template <typename Real>
std::vector<Real> reference_longformer_attention(const ReferenceLongformerAttention& in);

}  // namespace longformer::kernels
