// Gradient recomputes: the bits of the plain pass, in less memory.
//
// Reruns: tsan
#include "ops/recompute.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "fixtures.h"
#include "models/encoder.h"
#include "models/registry.h"
#include "models/stack.h"
#include "toy_network.h"

namespace longformer::recompute_test {
namespace {

constexpr Index kWidth = 16;
constexpr Index kRows = 6;
constexpr int kLayers = 8;

struct Pass {
  std::vector<float> output = {};
  std::vector<float> input_gradient = {};
  std::vector<std::vector<float>> weight_gradients = {};
  Index peak = 0;
  Index held_after = 0;
};

/// A stack of layers of which each uses its input twice, with dropout.
Pass run(bool recomputes, bool uses_output = true) {
  toy::Ledger ledger;
  MemoryPool pool;
  Tape tape;
  const ops::Context context{.memory = pool, .tape = &tape, .dropout_seed = 77};
  Tensor input = random_normal_tensor({kRows, kWidth}, 1, 1);
  Tape::track(input);
  std::vector<Tensor> weights;
  Tensor x = input;
  for (int layer = 0; layer < kLayers; ++layer) {
    weights.push_back(random_normal_tensor({kWidth, kWidth}, 0.3f, 100u + layer));
    Tape::track(weights.back());
    const ops::Part part = [weight = weights.back(), layer, &ledger](
                               const ops::Context& inner, std::span<const Tensor> inputs) {
      const auto place = static_cast<std::uint64_t>(3 * layer);
      Tensor y = toy::linear(inner, inputs[0], weight, ledger);
      y = toy::activate(inner, y, inner.dropout(0.2, place), ledger);
      y = toy::linear(inner, y, weight, ledger);
      const Tensor second = toy::activate(inner, inputs[0], inner.dropout(0.2, place + 1), ledger);
      return std::vector<Tensor>{toy::activate(inner, y, inner.dropout(0.2, place + 2), ledger),
                                 second};
    };
    const std::vector<Tensor> both =
        recomputes ? ops::recompute(context, {x}, part) : part(context, std::vector<Tensor>{x});
    // The second result is used by every other layer only.
    x = layer % 2 == 0 ? both[0] : toy::linear(context, both[1], weights.back(), ledger);
  }
  if (uses_output) toy::squared_error(x, Tensor::zeros(x.shape(), DType::f32));
  tape.backward();
  Pass pass{.output = x.to_floats(), .peak = ledger.peak(), .held_after = ledger.held()};
  if (!uses_output) {
    EXPECT_TRUE(input.gradient()->sum.empty());
    return pass;
  }
  pass.input_gradient = input.gradient()->sum.to_floats();
  for (const Tensor& weight : weights) {
    const Tensor& sum = weight.gradient()->sum;
    pass.weight_gradients.push_back(sum.empty() ? std::vector<float>() : sum.to_floats());
  }
  return pass;
}

TEST(Recompute, BitsOfThePlainPassInLessMemory) {
  const Pass plain = run(false);
  const Pass recomputed = run(true);
  EXPECT_EQ(plain.output, recomputed.output);
  EXPECT_EQ(plain.input_gradient, recomputed.input_gradient);
  EXPECT_EQ(plain.weight_gradients, recomputed.weight_gradients);
  float largest = 0;
  for (const float g : plain.input_gradient) largest = std::max(largest, std::abs(g));
  EXPECT_GT(largest, 0.0f);
  // One layer at a time, beside the linears outside of the parts, instead of all layers.
  EXPECT_LT(recomputed.peak, plain.peak / 3);
  EXPECT_EQ(plain.held_after, 0);
  EXPECT_EQ(recomputed.held_after, 0);
}

TEST(Recompute, NothingToDoWithoutAGradient) { EXPECT_EQ(run(true, false).held_after, 0); }

TEST(Recompute, ServesWithoutATape) {
  MemoryPool pool;
  toy::Ledger ledger;
  const ops::Context context{.memory = pool};
  const Tensor x = random_normal_tensor({kRows, kWidth}, 1, 1);
  int calls = 0;
  const ops::Part part = [&](const ops::Context& inner, std::span<const Tensor> inputs) {
    ++calls;
    return std::vector<Tensor>{toy::activate(inner, inputs[0], {}, ledger)};
  };
  const std::vector<Tensor> y = ops::recompute(context, {x}, part);
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(wants_gradient(y[0]));
}

TEST(Recompute, NetworkTrainsToTheSameBits) {
  std::vector<std::vector<float>> gradients;
  for (const bool recomputes : {false, true}) {
    toy::Network network;
    network.checkpoint(recomputes);
    network.run({.seed = 5});
    for (const auto& parameter : network.parameters().items()) {
      gradients.push_back(parameter.value.gradient()->sum.to_floats());
    }
  }
  EXPECT_EQ(gradients[0], gradients[2]);
  EXPECT_EQ(gradients[1], gradients[3]);
}

struct EncoderPass {
  std::vector<float> output;
  std::map<std::string, std::vector<float>> gradients = {};
};

/// Two ragged documents with global tokens and dropout through the encoder of a folder.
EncoderPass run_encoder(const std::string& name, DType dtype, bool recomputes) {
  const auto folder = fixtures_folder() / name;
  models::EncoderConfig config = models::read_config((folder / "config.json").string());
  config.hidden_dropout = config.attention_dropout = 0.2;
  const auto weights =
      models::Weights::trained(models::Weights::open(folder.string(), config.family->names), {});
  const models::Encoder encoder(config, weights, dtype);
  models::Batch batch;
  batch.starts = {0, 11, 18};
  if (config.has_global_attention()) batch.global_rows = {0, 3, 11};
  for (std::int32_t i = 0; i < 18; ++i) batch.ids.push_back(5 + 3 * i % 11);
  batch.types.assign(batch.ids.size(), 0);
  for (std::size_t document = 0; document < 2; ++document) {
    const auto begin = static_cast<std::size_t>(batch.starts[document]);
    const auto end = static_cast<std::size_t>(batch.starts[document + 1]);
    const auto rows =
        models::position_rows(config, std::span(batch.ids).subspan(begin, end - begin));
    batch.positions.insert(batch.positions.end(), rows.begin(), rows.end());
  }
  MemoryPool pool;
  Tape tape;
  const ops::Context context{
      .memory = pool, .dtype = dtype, .tape = &tape, .dropout_seed = 4, .recomputes = recomputes};
  const Tensor hidden = encoder.forward(context, batch);
  EncoderPass pass{.output = hidden.to_floats()};
  hidden.gradient()->sum = random_normal_tensor(hidden.shape(), 1, 9).to(dtype);
  tape.backward();
  for (const auto& [parameter, value] : weights.parameters()) {
    const Tensor& sum = value.gradient()->sum;
    if (!sum.empty()) pass.gradients[parameter] = sum.to_floats();
  }
  return pass;
}

TEST(GradientCheckpointing, BitsOfThePlainEncoder) {
  for (const char* name :
       {"tiny_longformer", "tiny_bert", "tiny_mpnet", "tiny_jina_v2", "tiny_deberta_v2",
        "tiny_deberta_v2_conv", "tiny_big_bird_model", "tiny_bigbird_pegasus", "tiny_pegasus_x",
        "tiny_funnel", "tiny_funnel_model", "tiny_reformer_model"}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const EncoderPass plain = run_encoder(name, dtype, false);
      const EncoderPass recomputed = run_encoder(name, dtype, true);
      EXPECT_EQ(plain.output, recomputed.output) << name;
      EXPECT_GE(plain.gradients.size(), 20u);
      EXPECT_EQ(plain.gradients, recomputed.gradients) << name;
    }
  }
}

/// A layer with a loss of its own, as a memory has that learns to keep what it compresses.
class LayerWithLoss final : public models::Block {
 public:
  LayerWithLoss(Tensor weight, Tensor judge, toy::Ledger& ledger)
      : weight_(std::move(weight)), judge_(std::move(judge)), ledger_(ledger) {}

  Tensor forward(const ops::Context& context, const Tensor& x,
                 const models::LayerInput& in) const override {
    const Tensor y =
        toy::activate(context, toy::linear(context, x, weight_, ledger_), Dropout(), ledger_);
    in.losses->emplace_back("judged", toy::linear(context, y, judge_, ledger_));
    return y;
  }
  std::unique_ptr<models::LayerState> start(DType, Index) const override { return nullptr; }

 private:
  Tensor weight_, judge_;
  toy::Ledger& ledger_;
};

struct StackPass {
  std::vector<std::string> names;
  std::vector<std::vector<float>> losses, gradients;
};

/// Two layers of one row each, whose losses alone send gradients back.
StackPass run_stack(bool recomputes) {
  toy::Ledger ledger;
  MemoryPool pool;
  Tape tape;
  const ops::Context context{.memory = pool, .tape = &tape, .recomputes = recomputes};
  Tensor x = random_normal_tensor({1, kWidth}, 1, 1);
  Tape::track(x);
  std::vector<Tensor> weights = {x};
  models::Stack stack;
  for (unsigned layer = 0; layer < 2; ++layer) {
    Tensor weight = random_normal_tensor({kWidth, kWidth}, 0.3f, 20 + layer);
    Tensor judge = random_normal_tensor({1, kWidth}, 0.3f, 40 + layer);
    Tape::track(weight);
    Tape::track(judge);
    weights.insert(weights.end(), {weight, judge});
    stack.add(std::make_unique<LayerWithLoss>(weight, judge, ledger));
  }
  models::NamedLosses losses;
  stack.forward(context, x, std::make_shared<models::SharedInput>(), {.losses = &losses});
  StackPass pass;
  for (const auto& [name, loss] : losses) {
    pass.names.push_back(name);
    pass.losses.push_back(loss.to_floats());
    loss.gradient()->sum = random_normal_tensor({1, 1}, 1, 3);
  }
  tape.backward();
  for (const Tensor& weight : weights) {
    pass.gradients.push_back(weight.gradient()->sum.to_floats());
  }
  return pass;
}

TEST(AuxiliaryLosses, ComeBackByNameWithTheirGradients) {
  const StackPass plain = run_stack(false), again = run_stack(true);
  EXPECT_EQ(plain.names, (std::vector<std::string>{"judged", "judged"}));
  EXPECT_EQ(again.names, plain.names);
  EXPECT_EQ(again.losses, plain.losses);
  EXPECT_EQ(again.gradients, plain.gradients);
  // Input and first layer get a gradient from the loss of the second too.
  ASSERT_EQ(plain.gradients.size(), 5u);
  for (const auto& gradient : plain.gradients) {
    double sum = 0;
    for (const float one : gradient) sum += std::abs(one);
    EXPECT_TRUE(sum > 0);
  }
}

}  // namespace
}  // namespace longformer::recompute_test
