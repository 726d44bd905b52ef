// One forward: a model in training computes what a model that serves computes, with and without a
// tape.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "api/model_implementation.h"

namespace longformer {
namespace {

std::string fixture(const std::string& name) {
  return (std::filesystem::path(__FILE__).parent_path() / "fixtures" / name).string();
}

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
  const Model::Implementation serving(config, models::Checkpoint::open(folder), options);
  const Model::Implementation training(
      config, models::Checkpoint::trainable(models::Checkpoint::open(folder), {}), options);
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

INSTANTIATE_TEST_SUITE_P(Fixtures, TrainedForward,
                         testing::Values("tiny_bert", "tiny_roberta", "tiny_longformer",
                                         "tiny_longformer_mlm", "tiny_longformer_qa"));

}  // namespace
}  // namespace longformer
