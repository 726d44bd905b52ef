// Packed layers with the additions of adapters against plain loops in double.
//
// Reruns: isa
#include "kernels/packed_linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/elementwise.h"

namespace longformer::kernels::packed_linear_test {
namespace {

using Numbers = std::vector<float>;

/// bf16 holds each of these numbers.
Tensor drawn(std::mt19937& random, const Shape& shape) {
  Tensor tensor(shape, DType::f32);
  std::uniform_int_distribution<int> eighths(-8, 8);
  for (Index i = 0; i < tensor.size(); ++i) {
    tensor.data<float>()[i] = static_cast<float>(eighths(random)) / 8.0f;
  }
  return tensor;
}

/// Weights [out, in] below each other, with a bias each, and what is added to each; empty: nothing.
struct Layer {
  std::vector<Tensor> weights, biases, a, b;
  float scale = 0.5f;

  Index in() const { return weights[0].columns(); }
  Index out() const {
    Index sum = 0;
    for (const Tensor& weight : weights) sum += weight.rows();
    return sum;
  }

  PackedLinear packed(const PackedLinearOptions& options, std::span<const Tensor> biases) const {
    const PackedLinear base(weights, this->biases, options);
    std::vector<LowRankProduct> additions;
    Index column = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (!a[i].empty()) {
        additions.push_back({.column = column, .a = a[i], .b = b[i], .scale = scale});
      }
      column += weights[i].rows();
    }
    // The base is gone when the layer is run.
    return PackedLinear(base, biases, additions);
  }

  /// Before the activation.
  std::vector<double> product(const float* x, std::span<const Tensor> biases) const {
    std::vector<double> y;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      for (Index row = 0; row < weights[i].rows(); ++row) {
        double sum = biases[i].data<float>()[row];
        for (Index k = 0; k < in(); ++k) {
          double weight = weights[i].data<float>()[row * in() + k];
          for (Index r = 0; !a[i].empty() && r < a[i].rows(); ++r) {
            weight += double{scale} * b[i].data<float>()[row * a[i].rows() + r] *
                      a[i].data<float>()[r * in() + k];
          }
          sum += weight * x[k];
        }
        y.push_back(sum);
      }
    }
    return y;
  }
};

Layer layer_of(std::mt19937& random, std::vector<Index> heights, Index in, Index rank) {
  Layer layer;
  for (std::size_t i = 0; i < heights.size(); ++i) {
    layer.weights.push_back(drawn(random, {heights[i], in}));
    layer.biases.push_back(drawn(random, {heights[i]}));
    // The middle one of three has no addition, as that of keys.
    const bool is_plain = i == 1 || rank == 0;
    layer.a.push_back(is_plain ? Tensor() : drawn(random, {rank, in}));
    layer.b.push_back(is_plain ? Tensor() : drawn(random, {heights[i], rank}));
  }
  return layer;
}

/// The layer on `rows` rows, as [rows, out] whatever slabs it has.
Numbers run(const PackedLinear& layer, const Tensor& x, const PackedLinearOptions& options,
            DType output, bool all_threads) {
  const Index rows = x.rows(), in = layer.in_features(), out = layer.out_features();
  const Index columns = in / options.slabs.in, width = out / options.slabs.out;
  Tensor slabs({rows, in}, DType::f32);
  for (Index i = 0; i < rows * in; ++i) {
    const Index slab = i % in / columns;
    slabs.data<float>()[(slab * rows + i / in) * columns + i % columns] = x.data<float>()[i];
  }
  const Tensor source = slabs.to(options.dtype);
  Tensor y({rows, out}, output);
  layer.run(layer.kernel(rows, output, all_threads), source.raw(), y.raw());
  const Tensor wide = y.to(DType::f32);
  Numbers result(at(rows * out));
  for (Index i = 0; i < rows * out; ++i) {
    const Index slab = i % out / width;
    result[at(i)] = wide.data<float>()[(slab * rows + i / out) * width + i % width];
  }
  return result;
}

/// In slabs below AVX-512 rows are not padded, and threads do not share columns.
std::vector<Index> row_counts(const PackedLinearOptions& options) {
  if (options.slabs.in * options.slabs.out > 1) return {4, 16};
  return {1, 2, 5, 16, 19};
}

void compare(const Layer& layer, const PackedLinearOptions& options, std::mt19937& random) {
  const PackedLinear own = layer.packed(options, {});
  std::vector<Tensor> others;
  for (const Tensor& bias : layer.biases) others.push_back(drawn(random, bias.shape()));
  const PackedLinear with_biases = layer.packed(options, others);
  const bool is_plain = options.slabs.in * options.slabs.out == 1;
  for (const Index rows : row_counts(options)) {
    const Tensor x = drawn(random, {rows, layer.in()});
    for (const DType output : {DType::f32, options.dtype}) {
      if (options.slabs.in > 1 && output != DType::f32) continue;
      const double tolerance = output == DType::f32 ? 2e-6 : 4e-3;
      for (const bool all_threads : {false, is_plain}) {
        const Numbers y = run(own, x, options, output, all_threads);
        const Numbers other = run(with_biases, x, options, output, all_threads);
        for (Index row = 0; row < rows; ++row) {
          const float* x_row = x.data<float>() + row * layer.in();
          for (const auto& [found, biases] :
               {std::pair{&y, std::span<const Tensor>(layer.biases)}, {&other, others}}) {
            const std::vector<double> expected = layer.product(x_row, biases);
            for (std::size_t i = 0; i < expected.size(); ++i) {
              auto value = static_cast<float>(expected[i]);
              if (options.activation) activate(*options.activation, &value, &value, 1, DType::f32);
              const double size = std::max(1.0, std::abs(expected[i]));
              ASSERT_NEAR((*found)[at(row) * expected.size() + i], value, tolerance * size)
                  << rows << " rows of " << layer.in() << " to " << layer.out();
            }
          }
        }
      }
    }
  }
}

TEST(PackedLinearWithAdditions, EqualsPlainLoops) {
  std::mt19937 random(7);
  const std::vector<std::vector<Index>> stacks = {{1}, {7}, {48}, {33}, {16, 16, 16}, {5, 9, 3}};
  for (const auto& heights : stacks) {
    for (const Index in : {1, 6, 31, 64}) {
      for (const Index rank : {1, 3, 8}) {
        const Layer layer = layer_of(random, heights, in, rank);
        for (const DType dtype : {DType::f32, DType::bf16}) {
          compare(layer, {.dtype = dtype}, random);
        }
      }
    }
  }
}

TEST(PackedLinearWithAdditions, ActivationsComeBehindThem) {
  std::mt19937 random(8);
  for (const Activation activation :
       {Activation::gelu, Activation::gelu_tanh, Activation::relu, Activation::silu,
        Activation::quick_gelu, Activation::tanh, Activation::mish}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      compare(layer_of(random, {21}, 9, 2), {.dtype = dtype, .activation = activation}, random);
    }
  }
}

TEST(PackedLinearWithAdditions, SlabsAreAddedToWhole) {
  std::mt19937 random(9);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    compare(layer_of(random, {192}, 24, 4),
            {.dtype = dtype, .activation = Activation::gelu, .slabs = {.out = 3}}, random);
    compare(layer_of(random, {40}, 192, 4), {.dtype = dtype, .slabs = {.in = 3}}, random);
  }
}

TEST(PackedLinearWithAdditions, RowsDoNotDependOnTheirNumber) {
  std::mt19937 random(10);
  std::normal_distribution<float> normal;
  const auto drawn_normal = [&](Tensor& tensor) {
    for (Index i = 0; i < tensor.size(); ++i) tensor.data<float>()[i] = normal(random);
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const Index in : {40, 768}) {
      for (const Index rank : {0, 1, 5, 8}) {
        Layer layer = layer_of(random, {24, 24, 24}, in, rank);
        for (auto* tensors : {&layer.weights, &layer.a, &layer.b}) {
          for (Tensor& tensor : *tensors) {
            if (!tensor.empty()) drawn_normal(tensor);
          }
        }
        const PackedLinear packed = layer.packed({.dtype = dtype}, {});
        Tensor x({64, in}, DType::f32);
        drawn_normal(x);
        const Numbers all = run(packed, x, {.dtype = dtype}, DType::f32, false);
        for (Index rows = 1; rows < 64; ++rows) {
          for (const bool all_threads : {false, true}) {
            const Numbers some =
                run(packed, x.slice_rows(0, rows), {.dtype = dtype}, DType::f32, all_threads);
            EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()))
                << rows << " rows of " << in << ", rank " << rank << ", " << name_of(dtype)
                << (all_threads ? ", all threads" : "");
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace longformer::kernels::packed_linear_test
