// The backends that execute an AttentionSpec. One call is one layer.
//
// Dimensions: H heads, d head size, nq queries, nk keys, r reach, g global keys.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/tensor.h"
#include "kernels/attention/spec.h"

namespace longformer::kernels {

/// Positions as in Transformer-XL (docs/spec/language-models.md#d2, #g1): with t the dilation steps
/// from key j back to query i, the score is ((q_i + u)·k_j + (q_i + v)·r_t) / √d. Where rows have
/// places, t is what RowPlaces says.
struct RelativePositions {
  const Tensor& content_bias;   ///< u [H, d] fp32
  const Tensor& position_bias;  ///< v [H, d] fp32
  /// r [H, m, d] of the dtype of the queries; row t belongs to the distance t · dilation of its
  /// head. m is above every t that occurs.
  const Tensor& keys;
  /// [H, nq, K] fp32, given exactly when keys have kinds (RowPlaces): what is added to the scores,
  /// as they go into the softmax, of a query and the keys of each kind.
  const Tensor* kind_scores = nullptr;
};

/// Positions as in DeBERTa (docs/spec/modern-encoders.md#disentangled): with u the row of the
/// distance from key j to query i, the score is (q_i·k_j + q_i·r_u + k_j·s_u) / √d.
struct DistanceKeys {
  /// r and s [H, P, d] of the dtype of the queries; null for a term that is left out.
  const Tensor* keys = nullptr;
  const Tensor* queries = nullptr;
  /// Row of each distance −R … R, never less than the one before; the ends hold beyond.
  std::span<const std::int32_t> rows = {};

  Index count() const {
    return keys != nullptr ? keys->dimension(1) : queries != nullptr ? queries->dimension(1) : 0;
  }
};

/// Inputs are head-major, [H, n, d], fp32 or bf16 (all three alike); scores are scaled by 1/√d
/// here. out is token-major [nq, H·d] of the same dtype.
struct AttentionArguments {
  const Tensor& query;
  const Tensor& key;
  const Tensor& value;
  Tensor& out;
  /// Natural logarithm of each softmax denominator (with its maximum), [H, nq] fp32, −∞ for a query
  /// that sees no key; may be null.
  Tensor* logsumexp = nullptr;
  int threads = 1;
  /// Given exactly when the spec has relative positions.
  const RelativePositions* relative = nullptr;
  /// Given exactly when the spec has biases by distance: [H, 2R + 1] fp32. Number R + t of a head
  /// is added to the scores, as they go into the softmax, of keys t positions behind their query;
  /// those farther than R take the last.
  const Tensor* distance_bias = nullptr;
  /// Given exactly when the spec has keys of distances.
  const DistanceKeys* distance_keys = nullptr;
};

/// Gradients in the shapes and dtypes of the keys and queries; null for those that are not there.
struct DistanceKeyGradients {
  Tensor* keys = nullptr;
  Tensor* queries = nullptr;
};

struct RelativeGradients {
  Tensor& content_bias;           ///< [H, d] fp32
  Tensor& position_bias;          ///< [H, d] fp32
  Tensor& keys;                   ///< [H, m, d] of the dtype of the queries
  Tensor* kind_scores = nullptr;  ///< [H, nq, K] fp32; null exactly when there are none
};

/// The inputs and results of a forward pass, the gradient of its output, and where the gradients of
/// its inputs go: shapes and dtypes are those of the inputs, what was there is overwritten.
struct AttentionBackwardArguments {
  const Tensor& query;
  const Tensor& key;
  const Tensor& value;
  const Tensor& out;
  const Tensor& logsumexp;
  /// [nq, H·d]. Rows of zeros, such as those of global queries whose output the layer has
  /// overwritten, cost next to nothing; their row of `out` is not used.
  const Tensor& out_gradient;
  Tensor& query_gradient;
  Tensor& key_gradient;
  Tensor& value_gradient;
  const RelativePositions* relative = nullptr;
  /// Null exactly when `relative` is.
  const RelativeGradients* relative_gradients = nullptr;
  /// The biases of the forward pass.
  const Tensor* distance_bias = nullptr;
  /// Null where nobody wants it.
  Tensor* distance_bias_gradient = nullptr;
  const DistanceKeys* distance_keys = nullptr;
  DistanceKeyGradients distance_key_gradients = {};
  int threads = 1;
};

/// `loop` goes diagonal by diagonal, `chunks` by overlapping blocks of twice the reach, `fused`
/// keeps an online softmax over tiles, `full` materialises all nq·nk scores of a head. `opencl`
/// runs on a device of OpenCL, without stored scores either.
enum class AttentionBackend { loop, chunks, fused, full, opencl };

std::string_view name_of(AttentionBackend backend);
/// Parses loop, chunks, fused, full or opencl. Throws Error for anything else.
AttentionBackend attention_backend(const std::string& name);

/// Why the backend cannot run the spec; nothing when it can.
std::optional<std::string> why_not(AttentionBackend backend, const AttentionSpec& spec);

/// Runs the backend. Throws Error with the reason of why_not, or when shapes and dtypes disagree
/// with the spec.
void attention(AttentionBackend backend, const AttentionSpec& spec, const AttentionArguments& in);

/// The gradients of attention, whatever backend ran forward. Probabilities are computed again, tile
/// by tile; sums are in fp32. The same bits every time for the same number of threads. Throws Error
/// when shapes and dtypes disagree with the spec.
void attention_backward(const AttentionSpec& spec, const AttentionBackwardArguments& in);

/// Why the backend cannot compute gradients of the spec; nothing when it can.
std::optional<std::string> why_not_backward(AttentionBackend backend, const AttentionSpec& spec);
/// The gradients by a backend of one's choice.
void attention_backward(AttentionBackend backend, const AttentionSpec& spec,
                        const AttentionBackwardArguments& in);

}  // namespace longformer::kernels
