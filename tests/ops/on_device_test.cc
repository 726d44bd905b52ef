// Ops on a device of OpenCL against those of the CPU, over odd sizes, with every way of
// multiplying.
#include "ops/on_device.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "activation_truth.h"
#include "core/memory.h"
#include "core/random.h"
#include "error_testing.h"
#include "kernels/opencl/clblast.h"
#include "kernels/opencl/pool.h"
#include "opencl_testing.h"
#include "ops/device.h"
#include "ops/heads.h"
#include "ops/loss.h"
#include "ops/residual.h"
#include "ops/row_vectors.h"

namespace longformer::ops::on_device_test {
namespace {

using kernels::Activation;
using kernels::kUnlimitedReach;

Tensor random(const Shape& shape, std::uint64_t seed, float deviation = 1) {
  return random_normal_tensor(shape, deviation, seed);
}

double difference(const Tensor& a, const Tensor& b) {
  const std::vector<float> left = a.to_floats(), right = b.to_floats();
  if (left.size() != right.size()) return NAN;
  double largest = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const double here = left[i] == right[i] ? 0 : std::abs(static_cast<double>(left[i]) - right[i]);
    if (!(here <= largest)) largest = here;
  }
  return largest;
}

class OnDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (!kernels::has_opencl()) GTEST_SKIP() << "no device of OpenCL (tools/packages.sh opencl)";
    device_ = Device::named("opencl");
  }

  Tensor there(const Tensor& tensor) const {
    return tensor.empty() ? tensor : device_->uploaded(tensor);
  }
  std::vector<Tensor> there(const std::vector<Tensor>& tensors) const {
    std::vector<Tensor> all;
    for (const Tensor& tensor : tensors) all.push_back(there(tensor));
    return all;
  }
  LayerNorm there(LayerNorm norm) const {
    norm.weight = there(norm.weight);
    norm.bias = there(norm.bias);
    return norm;
  }

  MemoryPool memory_;
  Context context_{memory_, DType::f32, 2};
  std::shared_ptr<const Device> device_;
};

/// A layer of the CPU and its copy on the device.
struct Layers {
  Linear here, there;
};

Layers layers(const Device& device, const std::vector<Index>& outs, Index in, std::uint64_t seed,
              std::optional<Activation> activation = std::nullopt, bool has_bias = true) {
  std::vector<Tensor> weights, biases, weights_there, biases_there;
  for (const Index out : outs) {
    weights.push_back(random({out, in}, ++seed, 0.1f));
    weights_there.push_back(device.uploaded(weights.back()));
    if (!has_bias) continue;
    biases.push_back(random({out}, ++seed));
    biases_there.push_back(device.uploaded(biases.back()));
  }
  const LinearOptions options = {.activation = activation};
  return {Linear(weights, biases, options), Linear(weights_there, biases_there, options)};
}

/// Sets a variable of the environment for a while.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

class Products : public OnDevice, public testing::WithParamInterface<const char*> {};

TEST_P(Products, EqualThoseOfTheCpu) {
  if (IsSkipped()) return;
  if (std::string(GetParam()) == "clblast" && !kernels::opencl::has_clblast()) {
    GTEST_SKIP() << "no CLBlast (tools/packages.sh opencl)";
  }
  const Variable products("LONGFORMER_OPENCL_PRODUCTS", GetParam());
  std::uint64_t seed = 0;
  for (const Index n : {1, 13, 70}) {
    for (const Index in : {1, 19, 64}) {
      for (const Index out : {1, 31, 33, 96}) {
        const Layers dense = layers(*device_, {out}, in, ++seed);
        const Tensor x = random({n, in}, ++seed);
        const double off = difference(linear(context_, x, dense.here, DType::f32),
                                      linear(context_, there(x), dense.there, DType::f32));
        EXPECT_TRUE(off <= 2e-5) << n << " " << in << " " << out << ": " << off;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Products, testing::Values("vectors", "tiles", "clblast"),
                         [](const auto& way) { return std::string(way.param); });

TEST_F(OnDevice, ActivationsEqualThoseOfTheCpu) {
  for (const Activation activation : kActivations) {
    const Layers dense = layers(*device_, {40}, 24, 7, activation);
    const Tensor x = random({37, 24}, 3, 10);
    const double off = difference(linear(context_, x, dense.here, DType::f32),
                                  linear(context_, there(x), dense.there, DType::f32));
    EXPECT_TRUE(off <= 2e-5) << static_cast<int>(activation) << ": " << off;
  }
}

TEST_F(OnDevice, RowsOfTheHostGoToALayerOfTheDevice) {
  const Layers dense = layers(*device_, {5}, 24, 7);
  const Tensor x = random({3, 24}, 3);
  EXPECT_LE(difference(linear(context_, x, dense.here, DType::f32),
                       linear(context_, x, dense.there, DType::f32)),
            1e-5);
}

TEST_F(OnDevice, NormsEqualThoseOfTheCpu) {
  for (const Index width : {1, 15, 64, 130}) {
    for (const bool centres : {true, false}) {
      const LayerNorm norm = {.weight = random({width}, 1),
                              .bias = centres ? random({width}, 2) : Tensor(),
                              .epsilon = 1e-5f,
                              .centres = centres,
                              .gain_offset = centres ? 0.0f : 1.0f};
      const Tensor x = random({21, width}, 3), residual = random({21, width}, 5);
      EXPECT_LE(
          difference(layer_norm(context_, x, norm), layer_norm(context_, there(x), there(norm))),
          2e-5);
      const Layers dense = layers(*device_, {width}, width, 8);
      EXPECT_LE(difference(
                    linear_add_norm(context_, x, dense.here, residual, norm),
                    linear_add_norm(context_, there(x), dense.there, there(residual), there(norm))),
                5e-5);
      EXPECT_LE(difference(linear_norm(context_, x, dense.here, norm),
                           linear_norm(context_, there(x), dense.there, there(norm))),
                5e-5);
      EXPECT_LE(difference(linear_add(context_, x, dense.here, residual),
                           linear_add(context_, there(x), dense.there, there(residual))),
                2e-5);
      EXPECT_EQ(difference(add(context_, x, residual), add(context_, there(x), there(residual))),
                0);
    }
  }
}

TEST_F(OnDevice, FeedForwardBlocksEqualThoseOfTheCpu) {
  const LayerNorm norm = {.weight = random({24}, 1), .bias = random({24}, 2), .epsilon = 1e-5f};
  const Tensor x = random({21, 24}, 3), residual = random({21, 24}, 5);
  for (int kind = 0; kind < 4; ++kind) {
    const bool gated = kind > 0;
    const std::vector<Index> outs =
        kind == 2 ? std::vector<Index>{40, 40} : std::vector<Index>{gated ? 80 : 40};
    const auto up = layers(*device_, outs, 24, 10,
                           gated ? std::nullopt : std::optional(Activation::gelu), kind != 3);
    const auto down = layers(*device_, {24}, 40, 20, std::nullopt, kind != 3);
    std::optional<Gate> gate;
    if (gated) gate = Gate{Activation::gelu, kind == 2};
    const FeedForward here = {up.here, down.here, gate}, block = {up.there, down.there, gate};
    EXPECT_LE(difference(feed_forward_add(context_, x, here, residual),
                         feed_forward_add(context_, there(x), block, there(residual))),
              2e-5);
    EXPECT_LE(difference(feed_forward_add_norm(context_, x, here, norm),
                         feed_forward_add_norm(context_, there(x), block, there(norm))),
              2e-5);
  }
}

TEST_F(OnDevice, RowsEqualThoseOfTheCpu) {
  const Tensor x = random({17, 23}, 3);
  const Tensor device_x = there(x);
  const std::vector<Index> chosen = {16, 0, 3, 3};
  EXPECT_EQ(difference(select_rows(context_, x, chosen), select_rows(context_, device_x, chosen)),
            0);
  const std::vector<RowRange> ranges = {{0, 5}, {5, 6}, {2, 17}};
  EXPECT_LE(difference(sum_rows(context_, x, ranges), sum_rows(context_, device_x, ranges)), 1e-5);
  EXPECT_LE(difference(mean_rows(context_, x, ranges), mean_rows(context_, device_x, ranges)),
            1e-5);
  EXPECT_LE(difference(mean_rows(context_, x, ranges, RowDivisor::root),
                       mean_rows(context_, device_x, ranges, RowDivisor::root)),
            1e-5);
  EXPECT_EQ(difference(max_rows(context_, x, ranges), max_rows(context_, device_x, ranges)), 0);
  EXPECT_LE(difference(unit_rows(context_, x), unit_rows(context_, device_x)), 1e-6);
  EXPECT_EQ(difference(lowered_rows(context_, x, std::vector<RowRange>{{2, 4}}, 3),
                       lowered_rows(context_, device_x, std::vector<RowRange>{{2, 4}}, 3)),
            0);
  const std::vector<Tensor> parts = {x, x.slice_rows(3, 2)};
  const std::vector<Tensor> device_parts = {device_x, device_x.slice_rows(3, 2)};
  EXPECT_EQ(difference(joined_rows(context_, parts), joined_rows(context_, device_parts)), 0);
  Tensor here({6, 23}, DType::f32), copied({6, 23}, DType::f32);
  const std::vector<RowRange> some = {{0, 5}, {9, 10}};
  copy_rows(x, some, here);
  copy_rows(device_x, some, copied);
  EXPECT_EQ(difference(here, copied), 0);
  // A part begins where it begins.
  EXPECT_EQ(difference(select_rows(context_, x.slice_rows(3, 9), std::vector<Index>{1, 8}),
                       select_rows(context_, device_x.slice_rows(3, 9), std::vector<Index>{1, 8})),
            0);
}

TEST_F(OnDevice, EmbeddingsEqualThoseOfTheCpu) {
  EmbeddingTables tables = {
      .words = random({19, 33}, 1).to(DType::bf16),
      .positions = random({40, 33}, 2),
      .types = random({2, 33}, 3),
      .norm = {.weight = random({33}, 4), .bias = random({33}, 5), .epsilon = 1e-5f},
      .word_scale = 1.5f};
  const std::vector<std::int32_t> words = {3, 18, 0, 7, 7}, positions = {0, 1, 2, 39, 4},
                                  types = {0, 1, 1, 0, 0};
  for (int kind = 0; kind < 3; ++kind) {
    if (kind > 0) tables.norm = {};
    if (kind > 1) tables.positions = tables.types = {};
    EmbeddingTables copies = tables;
    copies.words = there(tables.words);
    copies.positions = there(tables.positions);
    copies.norm = there(tables.norm);
    // The types stay on the host, as those of models without a table of them do.
    const EmbeddingRows rows = {words, positions, types};
    EXPECT_LE(difference(embed(context_, tables, rows), embed(context_, copies, rows)), 1e-5);
  }
}

TEST_F(OnDevice, HeadsEqualThoseOfTheCpu) {
  const Layers dense = layers(*device_, {24, 24, 24}, 20, 7);
  const Tensor x = random({11, 20}, 3);
  const auto here = project_heads(context_, x, dense.here, 3, 8);
  const auto found = project_heads(context_, there(x), dense.there, 3, 8);
  ASSERT_EQ(found.size(), here.size());
  for (std::size_t i = 0; i < here.size(); ++i) EXPECT_LE(difference(here[i], found[i]), 1e-5);
  const std::vector<Index> chosen = {2, 0, 0, 1};
  EXPECT_EQ(difference(
                take_heads(context_, found[0], chosen),
                take_heads(context_, Tensor::from(found[0].to_floats(), found[0].shape()), chosen)),
            0);
  const LayerNorm norm = {.weight = random({8}, 1), .bias = random({8}, 2), .epsilon = 1e-5f};
  EXPECT_LE(
      difference(norm_heads(context_, here[1], norm), norm_heads(context_, found[1], there(norm))),
      1e-5);
  for (const bool neighbours : {false, true}) {
    const RotationPart part = {{1.0f, 0.3f, 0.1f, 0.01f}, 30};
    const auto rotation = std::make_shared<const Rotation>(
        Rotation{rotation_table({&part, 1}, 1), {0, 1, 2, 3, 29, 0, 1, 2, 3, 4, 5}, neighbours});
    EXPECT_LE(difference(rotate(context_, here[0], rotation), rotate(context_, found[0], rotation)),
              1e-5);
  }
}

/// Rows of documents of these lengths, with some keys masked, and global ones.
AttentionSpec ragged_spec(const std::vector<Index>& lengths, Index heads, Index d, Index reach,
                          bool has_mask, Index globals) {
  std::vector<Index> starts = {0};
  for (const Index length : lengths) starts.push_back(starts.back() + length);
  kernels::AttentionRows rows = kernels::self_attention_rows(starts);
  if (has_mask) {
    rows.key_mask.assign(static_cast<std::size_t>(starts.back()), 1);
    for (std::size_t i = 0; i + 1 < starts.size(); ++i) rows.key_mask[starts[i + 1] - 1] = 0;
  }
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    for (Index g = 0; g < globals && starts[i] + 3 * g + 1 < starts[i + 1]; ++g) {
      rows.global_keys.push_back(starts[i] + 3 * g);
    }
  }
  AttentionSpec spec;
  spec.head_size = d;
  spec.heads.assign(static_cast<std::size_t>(heads), {reach, reach, 1});
  if (heads > 1 && reach < kUnlimitedReach) spec.heads[1].dilation = 2;
  spec.rows = kernels::shared(std::move(rows));
  return spec;
}

TEST_F(OnDevice, AttentionEqualsThatOfTheCpu) {
  std::uint64_t seed = 0;
  for (const auto& lengths : std::vector<std::vector<Index>>{{1}, {70, 5, 133}, {33, 32}}) {
    const Index n = std::accumulate(lengths.begin(), lengths.end(), Index{0});
    for (const Index reach : {Index{4}, kUnlimitedReach}) {
      for (const bool has_mask : {false, true}) {
        const AttentionSpec spec = ragged_spec(lengths, 3, 16, reach, has_mask, 2);
        const Tensor q = random({3, n, 16}, ++seed), k = random({3, n, 16}, ++seed),
                     v = random({3, n, 16}, ++seed);
        Tensor here = attention(context_, spec, q, k, v);
        const Tensor first = attention(context_, spec, there(q), there(k), there(v));
        EXPECT_LE(difference(here, first), 1e-5) << n << " " << reach << " " << has_mask;
        // Two parts, as one softmax.
        const std::vector<KeyGroup> groups = {{spec, k, v}, {spec, v, k}};
        const std::vector<KeyGroup> parts = {{spec, there(k), there(v)},
                                             {spec, there(v), there(k)}};
        EXPECT_LE(difference(attention_over(context_, q, groups),
                             attention_over(context_, there(q), parts)),
                  1e-5);
      }
    }
  }
}

TEST_F(OnDevice, NaNShowsBesideAPartThatSawNothing) {
  const AttentionSpec spec = ragged_spec({9}, 3, 16, 4, false, 0);
  kernels::AttentionRows rows = *spec.rows;
  rows.key_mask.assign(9, 0);
  AttentionSpec blind = spec;
  blind.rows = kernels::shared(std::move(rows));
  const Tensor q = random({3, 9, 16}, 1), v = random({3, 9, 16}, 2);
  const Tensor bad = Tensor::from(std::vector<float>(3 * 9 * 16, std::nanf("")), {3, 9, 16});
  std::vector<KeyGroup> here = {{spec, bad, v}, {blind, v, v}};
  std::vector<KeyGroup> parts = {{spec, there(bad), there(v)}, {blind, there(v), there(v)}};
  for (int order = 0; order < 2; ++order) {
    for (const Tensor& found :
         {attention_over(context_, q, here), attention_over(context_, there(q), parts)}) {
      for (const float one : found.to_floats()) ASSERT_TRUE(std::isnan(one)) << order;
    }
    std::swap(here[0], here[1]);
    std::swap(parts[0], parts[1]);
  }
}

TEST_F(OnDevice, GlobalRowsEqualThoseOfTheCpu) {
  std::uint64_t seed = 0;
  for (const Index globals : {Index{1}, Index{3}, Index{30}}) {
    for (const bool has_mask : {false, true}) {
      const AttentionSpec spec = ragged_spec({70, 1, 5, 133}, 2, 16, 4, has_mask, globals);
      const Tensor x = random({209, 32}, ++seed);
      const auto weight = [&] { return random({32, 32}, ++seed, 0.2f); };
      const auto bias = [&] { return random({32}, ++seed); };
      const GlobalProjections here = {weight(), bias(), weight(), bias(), weight(), bias()};
      const GlobalProjections copies = {there(here.query_weight), there(here.query_bias),
                                        there(here.key_weight),   there(here.key_bias),
                                        there(here.value_weight), there(here.value_bias)};
      Tensor attended = random({209, 32}, ++seed);
      Tensor found = there(attended);
      global_attention(context_, spec, here, x, attended);
      global_attention(context_, spec, copies, there(x), found);
      EXPECT_LE(difference(attended, found), 2e-5) << globals << " " << has_mask;
    }
  }
}

TEST_F(OnDevice, TheSecondPassAllocatesNothing) {
  const Layers dense = layers(*device_, {96, 96, 96}, 96, 7);
  const Tensor x = there(random({40, 96}, 3));
  const AttentionSpec spec = ragged_spec({40}, 6, 16, 4, false, 0);
  auto& pool = kernels::opencl::device_of(x).pool();
  const auto pass = [&] {
    const auto heads = project_heads(context_, x, dense.there, 6, 16);
    return attention(context_, spec, heads[0], heads[1], heads[2]);
  };
  pass();
  const std::size_t before = pool.allocations();
  for (int i = 0; i < 5; ++i) pass();
  EXPECT_EQ(pool.allocations(), before);
}

TEST_F(OnDevice, WhatHasNoOpIsRefusedByName) {
  const Tensor x = there(random({4, 8}, 3));
  EXPECT_EQ(error_of([&] { activated(context_, Activation::tanh, x); }),
            "activated: expected a model on the CPU, found one on a device, which has no such op");
  EXPECT_EQ(error_of([&] { x.data<float>(); }),
            "expected numbers in the memory of this machine, found them on a device: an op that "
            "has none for devices was asked for them");
}

TEST(DeviceNames, OthersAreRefused) {
  EXPECT_EQ(Device::named("cpu"), nullptr);
  EXPECT_EQ(Device::named(""), nullptr);
  for (const char* name : {"cuda", "opencl:", "opencl:x", "opencl:-1", "openclx", "opencl:1x"}) {
    EXPECT_EQ(error_of([&] { Device::named(name); }),
              fmt::format("device: expected cpu, opencl or opencl:N, found \"{}\"", name));
  }
}

}  // namespace
}  // namespace longformer::ops::on_device_test
