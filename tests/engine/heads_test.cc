// Heads of folders that `transformers` wrote, against the logits that it computed
// (tests/fixtures/make_models.py, make_modern_encoders.py), and where heads put global attention by
// default.
//
// Reruns: tsan
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "core/error.h"
#include "encoder_goldens.h"
#include "engine/frame/head.h"
#include "engine/frame/table.h"
#include "error_testing.h"
#include "fixtures.h"
#include "longformer/model.h"
#include "models/registry.h"
#include "tasks/choice/candidate_scoring.h"
#include "tasks/choice/multiple_choice.h"
#include "tasks/classification/classification.h"
#include "tasks/masked_lm/masked_lm.h"
#include "tasks/question_answering/question_answering.h"
#include "tasks/tagging/tagging.h"

namespace longformer::heads_test {
namespace {

using engine::default_globals;
using engine::Task;

std::string fixture(const std::string& name) { return (fixtures_folder() / name).string(); }

/// Largest difference over values whose token is visible (all of them when they are no tokens');
/// NaN for different sizes or a NaN.
double difference(const std::vector<float>& a, const std::vector<float>& b,
                  const std::vector<std::int32_t>& mask) {
  if (a.size() != b.size()) return std::numeric_limits<double>::quiet_NaN();
  const std::size_t width = a.size() % mask.size() == 0 ? a.size() / mask.size() : 0;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (width > 0 && mask[i / width] == 0) continue;
    const double here = std::abs(static_cast<double>(a[i]) - b[i]);
    if (!(here <= largest)) largest = here;
  }
  return largest;
}

struct Folder {
  const char* name;
  const char* head;
  std::size_t labels;
};

class Heads : public testing::TestWithParam<Folder> {};

TEST_P(Heads, EqualTransformersAloneAndInABatch) {
  const Model model = Model::load(fixture(GetParam().name));
  EXPECT_EQ(model.info().head, GetParam().head);
  EXPECT_EQ(model.info().labels.size(), GetParam().labels);
  const auto cases = goldens(GetParam().name);
  ASSERT_EQ(cases.size(), 3u);
  std::vector<DocumentInput> inputs;
  for (const Golden& golden : cases) inputs.push_back(golden.input());
  const auto together = model.forward(inputs);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Golden& golden = cases[i];
    EXPECT_EQ(golden.logits.empty(), model.info().head == "question-answering");
    for (const auto& out : {together[i], model.forward({&inputs[i], 1})[0]}) {
      EXPECT_TRUE(difference(out.logits, golden.logits, golden.mask) <= 1e-4);
      EXPECT_TRUE(difference(out.start_logits, golden.start, golden.mask) <= 1e-4);
      EXPECT_TRUE(difference(out.end_logits, golden.end, golden.mask) <= 1e-4);
    }
  }
}

TEST_P(Heads, Bf16StaysNear) {
  const Model model = Model::load(fixture(GetParam().name), {.dtype = "bf16"});
  // A token whose hash lies near two buckets may change its place: transformers is off by 0.45.
  const double tolerance = model.info().model_type == "reformer" ? 0.4 : 0.1;
  for (const Golden& golden : goldens(GetParam().name)) {
    const DocumentInput input = golden.input();
    const auto out = model.forward({&input, 1})[0];
    EXPECT_TRUE(difference(out.logits, golden.logits, golden.mask) <= tolerance);
    EXPECT_TRUE(difference(out.start_logits, golden.start, golden.mask) <= tolerance);
    EXPECT_TRUE(difference(out.end_logits, golden.end, golden.mask) <= tolerance);
  }
}

TEST_P(Heads, TheEncoderAloneHasNoLogitsAndNoDefaultGlobals) {
  const Model model = Model::load(fixture(GetParam().name));
  const Golden golden = goldens(GetParam().name)[0];
  DocumentInput input = golden.input();
  const auto alone = model.forward({&input, 1}, {.head = false})[0];
  EXPECT_TRUE(alone.logits.empty() && alone.start_logits.empty() && alone.end_logits.empty());
  const std::vector<std::int32_t> none(golden.ids.size(), 0);
  input.global_attention_mask = none;
  const auto spelled = model.forward({&input, 1}, {.head = true})[0];
  EXPECT_EQ(alone.last_hidden_state, spelled.last_hidden_state);
}

INSTANTIATE_TEST_SUITE_P(
    Models, Heads,
    testing::Values(Folder{"tiny_longformer_classifier", "sequence-classification", 3},
                    Folder{"tiny_bert_tagger", "token-classification", 5},
                    Folder{"tiny_longformer_qa", "question-answering", 0},
                    Folder{"tiny_longformer_choice", "multiple-choice", 0},
                    Folder{"tiny_distilbert_classifier", "sequence-classification", 3},
                    Folder{"tiny_electra_choice", "multiple-choice", 0},
                    Folder{"tiny_modernbert_classifier", "sequence-classification", 3},
                    Folder{"tiny_modernbert_mean", "sequence-classification", 3},
                    Folder{"tiny_modernbert_tagger", "token-classification", 5},
                    Folder{"tiny_modernbert_qa", "question-answering", 0},
                    Folder{"tiny_modernbert_choice", "multiple-choice", 0},
                    Folder{"tiny_nomic_bert_classifier", "sequence-classification", 3},
                    Folder{"tiny_gte_classifier", "sequence-classification", 3},
                    Folder{"tiny_eurobert_late", "sequence-classification", 3},
                    Folder{"tiny_eurobert_mean", "sequence-classification", 3},
                    Folder{"tiny_neobert_classifier", "sequence-classification", 3},
                    Folder{"tiny_qwen3_classifier", "sequence-classification", 3},
                    Folder{"tiny_mpnet_classifier", "sequence-classification", 3},
                    Folder{"tiny_big_bird_classifier", "sequence-classification", 3},
                    Folder{"tiny_big_bird_qa", "question-answering", 0},
                    Folder{"tiny_funnel_classifier", "sequence-classification", 3},
                    Folder{"tiny_reformer_classifier", "sequence-classification", 3},
                    Folder{"tiny_reformer_qa", "question-answering", 0},
                    Folder{"tiny_deberta_v2_classifier", "sequence-classification", 3}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Table, KnowsTheTaskOfAFolderThatDoesNotNameItsClass) {
  models::EncoderConfig config;
  config.family = &models::family_of("distilbert", "");
  const auto task = [&](const char* name) {
    return engine::task_of(config, models::Weights::open(fixture(name), config.family->names));
  };
  EXPECT_EQ(task("tiny_distilbert_classifier"), &tasks::classification());
  EXPECT_EQ(task("tiny_distilbert"), &tasks::masked_lm());
  // A classifier without the layer before it may be that of tokens.
  EXPECT_EQ(task("tiny_bert_tagger"), nullptr);
}

TEST(Table, KeysThatNoHeadReadsAreTold) {
  const auto told = [](const std::string& text) {
    const auto object = formats::parse_json(text, "config.json");
    return engine::unused_keys(models::parse_config(formats::ConfigReader(object, "config.json")));
  };
  EXPECT_EQ(
      told(R"({"model_type": "bert", "coref_head": {"top_lamda": 0.5}, "rotary": true})"),
      "config.json: coref_head: ignored, as nothing here reads it: \"top_lamda\": 0.5 (did you "
      "mean \"top_lambda\"?); config.json: ignored, as nothing here reads it: \"rotary\": "
      "true");
  EXPECT_EQ(told(R"({"model_type": "bert", "coref_head": {"top_lambda": 0.5}})"), "");
  EXPECT_NE(told(R"({"model_type": "bert", "other_head": {"top_lambda": 0.5}})").find("other_head"),
            std::string::npos);
}

TEST(Table, AVerbChoosesTheHeadOfAFolderThatDoesNotNameItsClass) {
  models::EncoderConfig config;
  config.family = &models::family_of("distilbert", "");
  const auto task = [&](const char* name, const char* verb) {
    const auto weights = models::Weights::open(fixture(name), config.family->names);
    return engine::task_for(config, weights, verb);
  };
  EXPECT_EQ(task("tiny_distilbert", "mlm"), &tasks::masked_lm());
  EXPECT_EQ(task("tiny_distilbert_classifier", "mlm"), &tasks::classification());
  EXPECT_EQ(task("tiny_distilbert_classifier", "classify"), &tasks::classification());
  EXPECT_EQ(task("tiny_distilbert", ""), &tasks::masked_lm());
  EXPECT_NE(error_of([&] { task("tiny_distilbert", "mlmm"); }).find("mlmm"), std::string::npos);
}

/// A Longformer whose separator is 2.
models::EncoderConfig longformer_config() {
  models::EncoderConfig config;
  config.family = &models::family_of("longformer", "");
  return config;
}

TEST(DefaultGlobals, AreWhereTransformersPutsThem) {
  const auto config = longformer_config();
  const std::vector<std::int32_t> ids = {0, 9, 9, 2, 2, 7, 7, 2};
  const auto of = [&](const Task* task) { return default_globals(config, task, ids, "document"); };
  EXPECT_EQ(of(&tasks::question_answering()), (std::vector<Index>{0, 1, 2}));
  EXPECT_EQ(of(&tasks::multiple_choice()), (std::vector<Index>{5, 6, 7}));
  EXPECT_EQ(of(&tasks::classification()), (std::vector<Index>{0}));
  EXPECT_TRUE(of(&tasks::tagging()).empty());
  EXPECT_TRUE(of(&tasks::masked_lm()).empty());
  EXPECT_TRUE(of(nullptr).empty());
}

TEST(DefaultGlobals, SeparatorsInOtherPlacesAndNumbers) {
  const auto config = longformer_config();
  const auto of = [&](const Task* task, const std::vector<std::int32_t>& ids) {
    return default_globals(config, task, ids, "document");
  };
  const Task* question = &tasks::question_answering();
  const Task* choice = &tasks::multiple_choice();
  // [CLS] A [SEP] B [SEP]: the one separator is all that is skipped.
  EXPECT_EQ(of(question, {1, 9, 2, 7, 2}), (std::vector<Index>{0, 1}));
  EXPECT_EQ(of(choice, {1, 9, 2, 7, 2}), (std::vector<Index>{3, 4}));
  // Three separators apart: transformers skips the position behind the first whatever it is.
  EXPECT_EQ(of(choice, {1, 2, 9, 2, 7, 2}), (std::vector<Index>{3, 4, 5}));
  EXPECT_EQ(of(choice, {1, 2, 2, 9, 2, 2}), (std::vector<Index>{3, 4, 5}));
  EXPECT_TRUE(of(question, {2, 9, 2}).empty());
  EXPECT_TRUE(of(choice, {9, 2}).empty());
}

TEST(DefaultGlobals, NeedASeparator) {
  const std::vector<std::int32_t> ids = {1, 9};
  try {
    default_globals(longformer_config(), &tasks::question_answering(), ids, "document 3");
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "document 3: expected a separator (token id 2) behind the question, found none (give "
              "a global attention mask to do without)");
  }
  // Dense attention has no global tokens to look for.
  models::EncoderConfig bert;
  bert.family = &models::family_of("bert", "");
  EXPECT_TRUE(default_globals(bert, &tasks::question_answering(), ids, "document").empty());
}

}  // namespace
}  // namespace longformer::heads_test
