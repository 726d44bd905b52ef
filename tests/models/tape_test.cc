// Steps that the tape records and leaves out, and the writers of a gradient.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/random.h"
#include "error_testing.h"
#include "fixtures.h"
#include "models/encoder.h"
#include "models/registry.h"
#include "ops/dropout.h"
#include "ops/key_ring.h"
#include "ops/normalization.h"
#include "ops/recompute.h"

namespace longformer::ops::tape_test {
namespace {

using Floats = std::vector<float>;

Tensor tracked(const Shape& shape, std::uint64_t seed) {
  Tensor x = random_normal_tensor(shape, 1.0f, seed);
  Tape::track(x);
  return x;
}

/// a + b, which sends the same gradient to both.
Tensor sum_of(const Context& context, const Tensor& a, const Tensor& b) {
  Tensor y = a.copied();
  for (Index i = 0; i < y.size(); ++i) y.data<float>()[i] += b.data<float>()[i];
  record(context, "sum", y, [context, a, b](const Tensor& gradient) {
    send_gradient(context, a, gradient);
    send_gradient(context, b, gradient);
  });
  return y;
}

TEST(SharedGradient, AnotherOneThatArrivesAtOneValueLeavesTheOther) {
  MemoryPool memory;
  Tape tape;
  const Context context = {.memory = memory, .tape = &tape};
  const Tensor a = tracked({2, 2}, 1), b = tracked({2, 2}, 2);
  const Tensor y = sum_of(context, a, b);
  y.gradient()->sum = Tensor::from(Floats{1, 2, 3, 4}, {2, 2});
  tape.backward();
  send_gradient(context, a, Tensor::from(Floats{10, 10, 10, 10}, {2, 2}));
  EXPECT_EQ(a.gradient()->sum.to_floats(), (Floats{11, 12, 13, 14}));
  EXPECT_EQ(b.gradient()->sum.to_floats(), (Floats{1, 2, 3, 4}));
}

/// The backward pass of dropout works in place.
TEST(SharedGradient, ABackwardPassInPlaceLeavesTheOtherValue) {
  MemoryPool memory;
  Tape tape;
  const Context context = {.memory = memory, .tape = &tape};
  const Tensor u = tracked({8, 4}, 1), v = tracked({8, 4}, 2);
  const Dropout first = {.rate = 0.5f, .seed = 3}, second = {.rate = 0.5f, .seed = 4};
  const Tensor y = sum_of(context, dropout(context, u, first), dropout(context, v, second));
  y.gradient()->sum = Tensor::from(Floats(32, 1.0f), {8, 4});
  tape.backward();
  for (const auto& [x, mask] : {std::pair{u, first}, std::pair{v, second}}) {
    const Floats found = x.gradient()->sum.to_floats();
    for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], mask.factor(i)) << i;
  }
}

TEST(MaxRows, TheFirstOfEqualRowsGetsTheGradient) {
  MemoryPool memory;
  Tape tape;
  const Context context = {.memory = memory, .tape = &tape};
  const float nan = std::nanf("");
  Tensor x = Tensor::from(Floats{1, 5, nan, -INFINITY,  //
                                 7, 5, 9, -INFINITY,    //
                                 7, 2, nan, -INFINITY},
                          {3, 4});
  Tape::track(x);
  const std::vector<RowRange> ranges = {{0, 3}, {1, 1}, {1, 3}};
  const Tensor y = max_rows(context, x, ranges);
  y.gradient()->sum = Tensor::from(Floats{1, 2, 3, 4, 100, 100, 100, 100, 10, 20, 30, 40}, {3, 4});
  tape.backward();
  EXPECT_EQ(x.gradient()->sum.to_floats(), (Floats{0, 2, 3, 4,     //
                                                   11, 20, 0, 40,  //
                                                   0, 0, 30, 0}));
}

TEST(StopGradient, NothingIsSentBackOrRecorded) {
  MemoryPool memory;
  Tape tape;
  const Context context = {.memory = memory, .tape = &tape};
  const Tensor x = tracked({4, 4}, 1);
  const Tensor stopped = stop_gradient(x);
  EXPECT_TRUE(stopped.is_same_as(x));
  EXPECT_TRUE(wants_gradient(x));
  const Tensor y = dropout(context, stopped, {.rate = 0.5f, .seed = 1});
  EXPECT_FALSE(wants_gradient(y));
  EXPECT_TRUE(tape.ops().empty());
}

TEST(Refusals, AGradientThatCannotBeSentBackIsAnError) {
  MemoryPool memory;
  Tape tape;
  const Context context = {.memory = memory, .tape = &tape};
  const Tensor weight = random_normal_tensor({4, 4}, 1.0f, 1);
  const Linear packed(std::vector{weight}, {}, {});
  const Tensor x = tracked({4, 4}, 2);
  EXPECT_EQ(error_of([&] { linear(context, x, packed, DType::f32); }),
            "linear: expected values that want no gradient, as none can be sent back, found one "
            "that does");
  EXPECT_EQ(error_of([&] { project_heads(context, x, packed, 2, 2); }),
            "project_heads: expected values that want no gradient, as none can be sent back, found "
            "one that does");
  linear(context, stop_gradient(x), packed, DType::f32);
  KeyRing ring({.heads = 2, .head_size = 4, .past = 3}, DType::f32);
  const Tensor key = tracked({2, 1, 4}, 3);
  EXPECT_EQ(error_of([&] { ring.append_to(0, key, key); }),
            "key ring: expected keys and values without gradients, found some that want one");
}

struct EncoderPass {
  bool wanted = false;
  std::vector<std::string_view> recorded = {};
  Floats output = {};
  std::map<std::string, Floats> gradients = {};
};

/// A document with a global token through tiny_longformer, all of whose weights but the frozen ones
/// are trained.
EncoderPass run_encoder(const std::function<bool(const std::string&)>& frozen, bool recomputes) {
  const auto folder = fixtures_folder() / "tiny_longformer";
  const auto config = models::read_config((folder / "config.json").string());
  const auto weights = models::Weights::trained(
      models::Weights::open(folder.string(), config.family->names), {.frozen = frozen});
  const models::Encoder encoder(config, weights, DType::f32);
  models::Batch batch;
  batch.starts = {0, 11};
  batch.global_rows = {0};
  for (std::int32_t i = 0; i < 11; ++i) batch.ids.push_back(5 + i);
  batch.types.assign(batch.ids.size(), 0);
  batch.positions = models::position_rows(config, batch.ids);
  MemoryPool pool;
  Tape tape;
  const Context context = {
      .memory = pool, .tape = &tape, .dropout_seed = 4, .recomputes = recomputes};
  const Tensor hidden = encoder.forward(context, batch);
  EncoderPass pass = {.wanted = wants_gradient(hidden), .recorded = tape.ops()};
  pass.output = hidden.to_floats();
  if (!pass.wanted) return pass;
  hidden.gradient()->sum = random_normal_tensor(hidden.shape(), 1, 9);
  tape.backward();
  for (const auto& [name, value] : weights.parameters()) {
    if (!wants_gradient(value) || value.gradient()->sum.empty()) continue;
    pass.gradients[name] = value.gradient()->sum.to_floats();
  }
  return pass;
}

/// Everything below the last layer is frozen: it records nothing and is not computed again.
TEST(FrozenLayers, CostNoBackwardPass) {
  const auto below = [](const std::string& name) {
    return name.find("encoder.layer.1.") == std::string::npos;
  };
  const auto nothing = [](const std::string&) { return false; };
  const auto everything = [](const std::string&) { return true; };
  using Names = std::vector<std::string_view>;
  const Names layer = {"project_heads", "attention", "global_attention", "linear_add_norm",
                       "feed_forward_add_norm"};
  for (const bool recomputes : {false, true}) {
    const EncoderPass all = run_encoder(nothing, recomputes);
    const EncoderPass last = run_encoder(below, recomputes);
    const EncoderPass none = run_encoder(everything, recomputes);
    EXPECT_EQ(all.recorded.size(), recomputes ? 3u : 11u);
    EXPECT_EQ(last.recorded, recomputes ? Names{"recompute"} : layer);
    EXPECT_TRUE(none.recorded.empty());
    EXPECT_FALSE(none.wanted);
    EXPECT_EQ(last.output, all.output);
    EXPECT_EQ(none.output, all.output);
    EXPECT_GE(last.gradients.size(), 20u);
    for (const auto& [name, gradient] : last.gradients) {
      EXPECT_EQ(gradient, all.gradients.at(name)) << name;
    }
  }
}

}  // namespace
}  // namespace longformer::ops::tape_test
