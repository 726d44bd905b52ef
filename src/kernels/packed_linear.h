// Dense layers whose weights are packed once for this machine.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/tensor.h"
#include "kernels/activation.h"

namespace longformer::kernels {

/// Widest row block that a PackedLinear is asked for: 256 rows keep a block of the 4-times wide
/// activations inside the last-level cache and the GEMM at its peak.
inline constexpr Index kRowBlock = 256;

/// How many rows a product should have, and multiples of it, so that few are compiled. Below
/// AVX-512 oneDNN compiles none, but takes six rows at a time; a product of few rows for all
/// threads is best left whole there (16 rows of the base model: 31 ms against 52).
Index row_unit(bool all_threads);

/// The columns of a wide matrix in slabs, each a matrix of its own: [slabs, rows, columns / slabs].
/// A dense layer from 3,072 numbers to 768 reaches 0.33 of the AMX rate, three from 1,024 reach
/// 0.6.
struct LinearSlabs {
  Index in = 1;   ///< slabs of x; with several y is fp32
  Index out = 1;  ///< slabs of y
};

/// How many slabs the numbers between the two layers of a feed-forward block should lie in on this
/// CPU.
Index feed_forward_slabs(Index intermediate, DType dtype);

struct PackedLinearOptions {
  DType dtype = DType::f32;  ///< dtype of x, and of W when packed
  std::optional<Activation> activation = std::nullopt;
  LinearSlabs slabs = {};
  /// Weights stay as they are: oneDNN's own layout pads eight columns to 64.
  bool keeps_layout = false;
  /// W and the rows of x are multiplied as 8-bit whole numbers with a scale for each row of either
  /// (kernels/int8_rows.h); x and y are as without. Needs has_int8_products(), and one slab.
  bool int8 = false;
};

/// Whether weights that change with every step are worth packing for a product of so many rows:
/// with AMX 4,096 rows of 768 times [3,072, 768] take 8 ms packed, 14.6 ms as they are, and
/// packing 2.4.
bool packs_for_training(Index rows, Index in, DType dtype);

/// scale·B·A·x, added to some columns of a product (LoRA, arXiv 2106.09685).
struct LowRankProduct {
  /// The first of the columns.
  Index column = 0;
  /// [r, in] and [columns, r] in fp32.
  Tensor a = {}, b = {};
  float scale = 1;
};

/// y = activation(x·Wᵀ + b) with W [out, in] packed once for this machine. Several matrices given
/// together are stacked along `out`.
class PackedLinear {
 public:
  /// biases has one tensor [out] for each weight, or is empty.
  PackedLinear(std::span<const Tensor> weights, std::span<const Tensor> biases,
               const PackedLinearOptions& options);
  /// The layer `base` with low-rank products before its activation, and with other biases unless
  /// these are empty. Its packed weights are in memory once. Columns of slabs are changed all
  /// together.
  PackedLinear(const PackedLinear& base, std::span<const Tensor> biases,
               std::span<const LowRankProduct> additions);
  PackedLinear(PackedLinear&&) noexcept;
  PackedLinear& operator=(PackedLinear&&) noexcept;
  ~PackedLinear();

  Index in_features() const;
  Index out_features() const;
  DType dtype() const;

  /// Takes other numbers for the weights, of the same shapes; not where a layer shares them. A bias
  /// that was given alone in fp32 is not copied and needs nothing.
  void repack(std::span<const Tensor> weights);

  /// A compiled product for a number of rows; cheap to ask for again. `all_threads` makes one that
  /// spreads over all threads and must be run outside parallel_for; else it runs on the calling
  /// thread. Not thread-safe: ask before the parallel loop.
  class Kernel;
  const Kernel& kernel(Index rows, DType output, bool all_threads = false) const;
  /// x [rows, in] of dtype(), y [rows, out] of the kernel's output type; both contiguous, in slabs
  /// where the options say so. What a row becomes does not depend on the number of rows.
  void run(const Kernel& kernel, const void* x, void* y) const;
  /// oneDNN's name of the code that multiplies; that of its slow loops begins with "ref".
  const std::string& implementation(const Kernel& kernel) const;

 private:
  void run_product(const Kernel& kernel, const void* x, void* y) const;
  void execute(const Kernel& kernel, const void* x, void* y) const;
  void multiply(const Kernel& kernel, const void* x, void* y) const;
  void multiply_parts(const Kernel& kernel, const void* x, void* y) const;
  void execute_int8(const Kernel& kernel, const void* x, void* y) const;

  struct Packed;
  std::unique_ptr<Packed> packed_;
};

}  // namespace longformer::kernels
