// One forward: a model in training computes what a model that serves computes, with and without a
// tape.
//
// Reruns: tsan
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "engine/run/model_implementation.h"
#include "engine/training/trained_model.h"
#include "fixtures.h"
#include "longformer/analysis.h"
#include "longformer/checkpoint.h"
#include "longformer/options.h"
#include "tasks/classification/classification.h"

namespace longformer::trained_forward_test {
namespace {

std::string fixture(const std::string& name) { return (fixtures_folder() / name).string(); }

std::vector<std::int32_t> ids_of(const ModelInfo& info, std::int64_t n) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < n; ++i) {
    ids.push_back(static_cast<std::int32_t>(5 + (i * 7) % (info.vocabulary_size - 5)));
  }
  return ids;
}

class TrainedForward : public testing::TestWithParam<std::string> {};

TEST_P(TrainedForward, EqualsThatOfAServingModel) {
  const std::string folder = fixture(GetParam());
  const auto config = models::read_config(folder + "/config.json");
  const LoadOptions options = {.dtype = "fp32", .threads = 2};
  const Model::Implementation serving(config, models::Weights::open(folder, config.family->names),
                                      options);
  const Model::Implementation training(
      config, models::Weights::trained(models::Weights::open(folder, config.family->names), {}),
      options);
  const std::vector<std::int32_t> ids = ids_of(serving.info, serving.info.max_tokens - 2);
  std::vector<std::int32_t> globals(ids.size(), 0);
  if (serving.info.has_global_attention) globals[0] = globals[7] = 1;
  const DocumentInput document = {.ids = ids,
                                  .attention_mask = {},
                                  .token_type_ids = {},
                                  .position_ids = {},
                                  .global_attention_mask = globals};
  const models::Batch batch = serving.batch({&document, 1});
  const std::vector<float> expected = serving.encoder.forward(serving.context(), batch).to_floats();
  for (const bool taped : {false, true}) {
    Tape tape;
    ops::Context context = training.context();
    if (taped) context.tape = &tape;
    const std::vector<float> found = training.encoder.forward(context, batch).to_floats();
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_TRUE(std::abs(found[i] - expected[i]) <= 1e-5f) << taped << " " << i;
    }
  }
}

std::ptrdiff_t threads_of_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

// oneDNN must not spread a product over more.
TEST(Threads, OneThreadBeginsNoOthers) {
  const std::ptrdiff_t before = threads_of_process();
  const std::string folder = fixture("tiny_longformer_qa");
  for (const char* dtype : {"fp32", "bf16"}) {
    const LoadOptions options = {.dtype = dtype, .threads = 1};
    const Model model = Model::load(folder, options);
    const std::vector<std::int32_t> ids = ids_of(model.info(), model.info().max_tokens - 2);
    std::vector<std::int32_t> globals(ids.size(), 0);
    globals[0] = globals[7] = 1;
    const DocumentInput document = {.ids = ids,
                                    .attention_mask = {},
                                    .token_type_ids = {},
                                    .position_ids = {},
                                    .global_attention_mask = globals};
    model.forward({&document, 1}, {});
    const DocumentTarget target = {.labels = {}, .values = {}, .starts = {3}, .ends = {5}};
    GradientModel::load(folder, options).loss_and_gradients({&document, 1}, {&target, 1}, {});
  }
  EXPECT_EQ(threads_of_process(), before);
}

// ---- one projection for global tokens and all others ----

struct StepGradients {
  double loss = 0;
  std::map<std::string, std::vector<float>> by_name;
};

StepGradients one_step(const std::string& folder, bool shared) {
  TrainingOptions options;
  options.threads = 2;
  const TrainedModel model({.folder = folder,
                            .task = &tasks::classification(),
                            .labels = {"no", "yes"},
                            .shares_global_projections = shared},
                           options);
  const std::vector<std::int32_t> ids = ids_of(model.implementation().info, 90);
  std::vector<std::int32_t> globals(ids.size(), 0);
  globals[0] = globals[40] = globals[89] = 1;
  const DocumentInput document = {.ids = ids,
                                  .attention_mask = {},
                                  .token_type_ids = {},
                                  .position_ids = {},
                                  .global_attention_mask = globals};
  const engine::TrainingBatch batch = {
      .tokens = model.implementation().batch({&document, 1}),
      .targets = {{.labels = {1}, .values = {}, .starts = {}, .ends = {}}},
      .questions = {1}};
  StepGradients found;
  found.loss = model.step(batch, 5).loss;
  for (const auto& [name, value] : model.implementation().weights.parameters()) {
    if (Tensor sum = value.gradient()->take(); !sum.empty()) found.by_name[name] = sum.to_floats();
  }
  return found;
}

TEST(SharedGlobalProjections, GetTheSumOfBothGradients) {
  const std::string folder = testing::TempDir() + "/shared_global_projections";
  convert(fixture("tiny_bert"), folder, {.max_positions = 128, .windows = {16}, .overwrite = true});
  const StepGradients own = one_step(folder, false), shared = one_step(folder, true);
  EXPECT_TRUE(std::abs(own.loss - shared.loss) <= 1e-6) << own.loss << ' ' << shared.loss;
  std::size_t global = 0;
  for (const auto& [name, gradient] : own.by_name) {
    const std::string local = models::local_projection(name);
    if (!local.empty()) {
      EXPECT_FALSE(shared.by_name.contains(name)) << name;
      continue;
    }
    std::string both = name;
    if (const auto at = name.rfind('.'); at != std::string::npos) both.insert(at, "_global");
    const auto other = own.by_name.find(both);
    if (other != own.by_name.end()) ++global;
    const std::vector<float>& sum = shared.by_name.at(name);
    double largest = 1e-6;
    for (const float value : gradient) largest = std::max<double>(largest, std::abs(value));
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const float expected = gradient[i] + (other == own.by_name.end() ? 0.0f : other->second[i]);
      ASSERT_TRUE(std::abs(sum[i] - expected) <= 1e-4 * largest) << name << ' ' << i;
    }
  }
  EXPECT_GT(global, 0u);
}

TEST(SharedGlobalProjections, NeedEqualOnes) {
  try {
    one_step(fixture("tiny_longformer"), true);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("to share them"), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, TrainedForward,
                         testing::Values("tiny_bert", "tiny_roberta", "tiny_longformer",
                                         "tiny_longformer_mlm", "tiny_longformer_qa", "tiny_mpnet",
                                         "tiny_jina_v2", "tiny_deberta_v2", "tiny_deberta_v2_conv",
                                         "tiny_big_bird", "tiny_funnel", "tiny_reformer_model"));

}  // namespace
}  // namespace longformer::trained_forward_test
