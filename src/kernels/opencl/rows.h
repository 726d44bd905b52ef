// The small kernels of an encoder on a device: rows.cl. Whoever calls these has the turn of the
// device; all tensors lie on it, and all are fp32 but lists of numbers, which are int32.
#pragma once

#include <optional>

#include "core/tensor.h"
#include "kernels/activation.h"
#include "kernels/opencl/device.h"

namespace longformer::kernels::opencl {

/// Rows of tables that tokens look up; empty tables add nothing.
struct EmbeddedRows {
  Tensor words, types, positions;
  Tensor word_rows, type_rows, position_rows;
  float scale = 1;
};
/// [n, D].
Tensor embed(const EmbeddedRows& rows);

/// activation(x + bias) + residual, in place; empty ones add nothing.
struct Finish {
  Tensor bias = {};
  std::optional<Activation> activation = std::nullopt;
  Tensor residual = {};
};
void finish(Tensor& x, const Finish& with);

struct Norm {
  Tensor weight, shift;
  float offset = 0, epsilon = 0;
  bool centres = true;
};
/// The norm of x + bias + residual, of which both may be empty.
Tensor normalise(const Tensor& x, const Tensor& bias, const Tensor& residual, const Norm& norm);

/// One of several stacked projections x [n, stride], and the bias of all: [H, n, d].
struct HeadPart {
  Index heads = 0, head_size = 0, first = 0;
};
Tensor split_heads(const Tensor& x, const Tensor& bias, const HeadPart& part);
/// Heads of x [G, n, d] by their numbers.
Tensor take_heads(const Tensor& x, const Tensor& chosen);
/// Rows of x by their numbers.
Tensor select_rows(const Tensor& x, const Tensor& chosen);

/// activation(a) · b of halves [n, 2w] with their bias.
struct GateOf {
  Activation activation = Activation::silu;
  bool activates_second = false;
  Tensor bias = {};
};
Tensor gate(const Tensor& x, const GateOf& gate);

/// x [H, n, d] turned by rows of a table.
struct RotationOf {
  Tensor table, places;
  bool pairs_neighbours = false;
};
Tensor rotate(const Tensor& x, const RotationOf& rotation);

enum class Fold { sum = 0, mean = 1, root_mean = 2, largest = 3 };
/// Rows of each range, pairs of numbers, folded into one.
Tensor fold_rows(const Tensor& x, const Tensor& ranges, Fold how);
/// Each row divided by its length.
Tensor unit_rows(const Tensor& x);
/// x − amount, in the rows that are marked with 1 or, without marks, everywhere.
Tensor lower_rows(const Tensor& x, const Tensor& marks, float amount);

/// Results [n, H·d] over some keys, and the logarithms of their denominators [H, n].
struct SoftmaxPart {
  Tensor out, logsumexp;
};
/// Both as one softmax over the keys of both.
SoftmaxPart merged(const SoftmaxPart& a, const SoftmaxPart& b);

/// Second projections of global rows, [D, D] and [D].
struct GlobalWeights {
  Tensor query, query_bias, key, value, value_bias;
};
/// The global rows of a document: `count` of those in the list, from `first` on, and its keys.
struct GlobalPart {
  Tensor rows;
  Index first = 0, count = 0;
  Index key_begin = 0, key_count = 0;
  /// One byte for each row of the batch; empty when nothing is masked.
  Tensor mask = {};
  Index head_size = 0;
};
/// Overwrites these rows of `attended` with attention of their own projections over the keys, rows
/// of x (ops/global_attention.h).
void attend_globally(const Tensor& x, const GlobalWeights& weights, const GlobalPart& part,
                     Tensor& attended);

}  // namespace longformer::kernels::opencl
