// The head for questions over paragraphs against PyTorch in double precision
// (tests/fixtures/make_multi_hop.py): logits, loss and all gradients; and metrics by hand.
//
// Reruns: tsan
#include "tasks/multi_hop/multi_hop_head.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "engine/run/document_states.h"
#include "engine/run/model_implementation.h"
#include "error_testing.h"
#include "fixtures.h"
#include "formats/safetensors.h"
#include "longformer/analysis.h"
#include "tasks/multi_hop/multi_hop_metrics.h"

namespace longformer::multi_hop_head_test {
namespace {

constexpr std::size_t kQuestions = 3;

const std::string kFolder = (fixtures_folder() / "tiny_longformer_multi_hop").string();

/// Contents of the fixture.
class Expected {
 public:
  std::vector<float> floats(const std::string& key) const {
    return file_.tensors().at(key).to_floats();
  }
  template <typename Number>
  std::vector<Number> integers(const std::string& key) const {
    const Tensor& tensor = file_.tensors().at(key);
    const auto* data = tensor.data<std::int32_t>();
    return {data, data + tensor.size()};
  }
  bool has(const std::string& key) const { return file_.tensors().contains(key); }
  const auto& tensors() const { return file_.tensors(); }

 private:
  formats::SafetensorsFile file_ =
      formats::SafetensorsFile::open(kFolder + "/expected.safetensors");
};

/// The rows of a question, and what is to be said of it.
struct Question {
  std::vector<std::vector<std::int32_t>> ids, globals;
  MultiHopTarget target;
};

Question question_of(const Expected& expected, std::size_t number) {
  const std::string q = std::to_string(number) + ".";
  Question question;
  for (int row = 0; expected.has(q + std::to_string(row) + ".ids"); ++row) {
    const std::string name = q + std::to_string(row);
    question.ids.push_back(expected.integers<std::int32_t>(name + ".ids"));
    question.globals.push_back(expected.integers<std::int32_t>(name + ".globals"));
  }
  const auto labels = [&](const char* name) {
    const auto numbers = expected.integers<std::int32_t>(q + name);
    return std::vector<float>(numbers.begin(), numbers.end());
  };
  MultiHopTarget& target = question.target;
  target.answer_type = expected.integers<std::int32_t>(q + "type")[0];
  target.starts = expected.integers<std::int64_t>(q + "starts");
  target.ends = expected.integers<std::int64_t>(q + "ends");
  target.paragraphs = expected.integers<std::int64_t>(q + "paragraphs");
  target.sentences = expected.integers<std::int64_t>(q + "sentences");
  target.paragraph_labels = labels("paragraph_labels");
  target.sentence_labels = labels("sentence_labels");
  const std::vector<float> weights = expected.floats("weights");
  std::copy(weights.begin(), weights.end(), target.loss_weights.begin());
  return question;
}

double difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::quiet_NaN();
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double here = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(here <= largest)) largest = here;
  }
  return largest;
}

class MultiHopHeadTest : public testing::Test {
 protected:
  MultiHopHeadTest() {
    for (std::size_t q = 0; q < kQuestions; ++q) questions_.push_back(question_of(expected_, q));
    for (const Question& question : questions_) {
      for (std::size_t r = 0; r < question.ids.size(); ++r) {
        documents_.push_back({.ids = question.ids[r],
                              .attention_mask = {},
                              .token_type_ids = {},
                              .position_ids = {},
                              .global_attention_mask = question.globals[r]});
        targets_.emplace_back();
        if (r == 0) targets_.back().multi_hop = question.target;
      }
      rows_.push_back(std::ssize(question.ids));
    }
  }

  LossGradients gradients() const {
    return GradientModel::load(kFolder).loss_and_gradients(documents_, targets_, rows_);
  }

  Expected expected_;
  std::vector<Question> questions_;
  std::vector<DocumentInput> documents_;
  std::vector<DocumentTarget> targets_;
  std::vector<std::int64_t> rows_;
};

TEST_F(MultiHopHeadTest, LogitsAreThoseOfPyTorch) {
  const Model model = Model::load(kFolder);
  EXPECT_EQ(model.info().head, "multi-hop-question-answering");
  const Model::Implementation& loaded = model.implementation();
  for (std::size_t q = 0; q < kQuestions; ++q) {
    const Question& question = questions_[q];
    std::vector<engine::TokenRow> rows;
    tasks::MultiHopPlaces places = {.row_starts = {},
                                    .paragraphs = question.target.paragraphs,
                                    .sentences = question.target.sentences};
    Index begin = 0;
    for (std::size_t r = 0; r < question.ids.size(); ++r) {
      std::vector<Index> globals;
      for (std::size_t i = 0; i < question.ids[r].size(); ++i) {
        if (question.globals[r][i] != 0) globals.push_back(static_cast<Index>(i));
      }
      rows.push_back(
          {question.ids[r], std::vector<std::int32_t>(question.ids[r].size(), 0), globals});
      places.row_starts.push_back(begin);
      begin += std::ssize(question.ids[r]);
    }
    const Tensor states = states_of(loaded, rows, {.batch_tokens = 64});
    const auto turn = loaded.turn();
    const auto found = dynamic_cast<const tasks::MultiHopHead&>(loaded.task_head())
                           .score(loaded.context(), states, places);
    std::vector<float> spans;
    for (std::size_t i = 0; i < found.starts.size(); ++i) {
      spans.insert(spans.end(), {found.starts[i], found.ends[i]});
    }
    const std::string name = std::to_string(q) + ".";
    EXPECT_TRUE(difference(spans, expected_.floats(name + "span_logits")) <= 1e-5);
    EXPECT_TRUE(difference(found.types, expected_.floats(name + "type_logits")) <= 1e-5);
    EXPECT_TRUE(difference(found.paragraphs, expected_.floats(name + "paragraph_logits")) <= 1e-5);
    EXPECT_TRUE(difference(found.sentences, expected_.floats(name + "sentence_logits")) <= 1e-5);
  }
  // The rows of a question are documents of their own where logits of tokens are asked for.
  const auto outputs = model.forward({documents_.data(), 1});
  const std::vector<float> all = expected_.floats("0.span_logits");
  EXPECT_TRUE(difference(outputs[0].logits, std::span(all).first(outputs[0].logits.size())) <=
              1e-5);
}

TEST_F(MultiHopHeadTest, LossAndGradientsAreThoseOfPyTorch) {
  const LossGradients found = gradients();
  EXPECT_TRUE(std::abs(found.loss - static_cast<double>(expected_.floats("loss")[0])) <= 1e-5);
  std::size_t compared = 0;
  for (const NamedGradient& one : found.gradients) {
    const std::vector<float> right = expected_.floats("gradient." + one.name);
    double largest = 0;
    for (const float value : right) largest = std::max(largest, std::abs(double{value}));
    EXPECT_TRUE(difference(one.values, right) <= 2e-5 * std::max(1.0, largest))
        << one.name << ": " << difference(one.values, right) << " of " << largest;
    ++compared;
  }
  std::size_t all = 0;
  for (const auto& [name, tensor] : expected_.tensors()) {
    all += name.starts_with("gradient.") ? 1 : 0;
  }
  EXPECT_EQ(compared, all);
}

TEST_F(MultiHopHeadTest, WeightsOfZeroLeaveTheirLayersAlone) {
  const auto largest_of = [&](const std::string& layer) {
    double largest = 0;
    for (const NamedGradient& one : gradients().gradients) {
      if (!one.name.starts_with(layer)) continue;
      for (const float value : one.values) largest = std::max(largest, std::abs(double{value}));
    }
    return largest;
  };
  EXPECT_GT(largest_of("sentence_scorer"), 0.01);
  for (DocumentTarget& target : targets_) {
    if (target.multi_hop) target.multi_hop->loss_weights = {1, 1, 0, 0};
  }
  EXPECT_EQ(largest_of("sentence_scorer"), 0);
  EXPECT_EQ(largest_of("paragraph_scorer"), 0);
  EXPECT_GT(largest_of("qa_outputs"), 0.01);
}

TEST_F(MultiHopHeadTest, NothingToBeSaidIsNoLoss) {
  for (DocumentTarget& target : targets_) {
    if (target.multi_hop) target.multi_hop = MultiHopTarget();
  }
  const LossGradients found = gradients();
  EXPECT_EQ(found.loss, 0);
  for (const NamedGradient& one : found.gradients) {
    for (const float value : one.values) ASSERT_EQ(value, 0) << one.name;
  }
}

TEST_F(MultiHopHeadTest, TargetsThatDoNotFitAreRefused) {
  const auto refused = [&](const auto& change) {
    targets_[0].multi_hop = questions_[0].target;
    change(*targets_[0].multi_hop);
    return error_of([&] { gradients(); });
  };
  expect_error(refused([](MultiHopTarget& one) { one.starts = {40}; }), {"40", "others"});
  expect_error(refused([](MultiHopTarget& one) { one.sentences[0] = -1; }), {"40", "others"});
  expect_error(refused([](MultiHopTarget& one) { one.paragraph_labels.pop_back(); }),
               {"2 paragraphs", "found 1"});
  expect_error(refused([](MultiHopTarget& one) { one.answer_type = 3; }), {"0 to 2", "3"});
  targets_[0].multi_hop.reset();
  expect_error(error_of([&] { gradients(); }), {"first row of each question", "none"});
}

using tasks::score_facts;
using tasks::score_words;
using tasks::SupportingFact;

TEST(MultiHopMetrics, WholeAnswersAreRightOnlyWhole) {
  EXPECT_EQ(score_words("yes it is", "Yes").f1, 0);
  EXPECT_EQ(score_words("no", "no way").recall, 0);
  EXPECT_EQ(score_words("noanswer", "no answer").f1, 0);
  EXPECT_EQ(score_words("Yes.", "the yes").exact_match, 1);
  EXPECT_EQ(score_words("Yes.", "the yes").f1, 1);
  // "not" holds "no", and is no whole answer.
  EXPECT_TRUE(score_words("not here", "not there").f1 == 0.5);
  // Both empty: equal, and nothing in common.
  EXPECT_EQ(score_words("the", "").exact_match, 1);
  EXPECT_EQ(score_words("the", "").f1, 0);
  const tasks::PrecisionRecall twice = score_words("cat cat dog", "cat dog dog");
  EXPECT_DOUBLE_EQ(twice.precision, 2.0 / 3);
  EXPECT_DOUBLE_EQ(twice.recall, 2.0 / 3);
}

TEST(MultiHopMetrics, FactsAreSets) {
  const std::vector<SupportingFact> gold = {{"A", 0}, {"A", 0}, {"B", 1}};
  const std::vector<SupportingFact> same = {{"B", 1}, {"A", 0}};
  const std::vector<SupportingFact> more = {{"A", 0}, {"C", 0}, {"A", 0}};
  EXPECT_EQ(score_facts(same, gold).exact_match, 1);
  EXPECT_EQ(score_facts(more, gold).precision, 0.5);
  EXPECT_EQ(score_facts(more, gold).recall, 0.5);
  EXPECT_EQ(score_facts({}, gold).f1, 0);
  const std::vector<SupportingFact> composed = {{"caf\u00e9", 0}, {"cafe\u0301", 0}};
  const std::vector<SupportingFact> decomposed = {{"cafe\u0301", 0}};
  EXPECT_EQ(score_facts(composed, decomposed).exact_match, 1);
  EXPECT_EQ(score_facts(decomposed, composed).f1, 1);
  EXPECT_EQ(score_facts({}, {}).exact_match, 1);
  EXPECT_EQ(score_facts({}, {}).recall, 0);
}

TEST(MultiHopMetrics, WhatIsAbsentAddsNothing) {
  tasks::MultiHopCounter counter;
  const std::vector<SupportingFact> facts = {{"A", 0}, {"B", 2}};
  counter.add({"x", facts}, {"x", facts});
  counter.add({"x", std::nullopt}, {"x", facts});
  counter.add({std::nullopt, facts}, {"x", facts});
  counter.add({"x", facts}, {std::nullopt, std::nullopt});
  const auto named = counter.named();
  const std::map<std::string, double> values(named.begin(), named.end());
  EXPECT_EQ(values.at("em"), 0.5);
  EXPECT_EQ(values.at("sp_f1"), 0.5);
  EXPECT_EQ(values.at("joint_em"), 0.25);
  EXPECT_EQ(values.at("joint_prec"), 0.25);
  EXPECT_DOUBLE_EQ(values.at("paragraph_recall"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(values.at("type_accuracy"), 2.0 / 3);
}

}  // namespace
}  // namespace longformer::multi_hop_head_test
