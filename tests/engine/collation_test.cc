// Rows of tokens and their labels against the examples of `transformers`
// (tests/fixtures/make_task_fixtures.py), truncation and overlapping rows.
#include "engine/frame/collation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "error_testing.h"
#include "fixtures.h"
#include "models/registry.h"
#include "tasks/choice/multiple_choice.h"
#include "tasks/classification/classification.h"
#include "tasks/question_answering/question_answering.h"
#include "tasks/tagging/tagging.h"
#include "temporary_folder.h"

namespace longformer::tasks::collation_test {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<std::int32_t>;
using Positions = std::vector<Index>;

const std::filesystem::path kFixtures = fixtures_folder();
constexpr Index kPlenty = 512;

class Collation : public testing::TestWithParam<std::string> {
 protected:
  Tokenizer tokenizer_ = Tokenizer::load((kFixtures / "tokenizers" / GetParam()).string());
  Json rows_ = Json::parse(std::ifstream(kFixtures / "tasks" / "rows.json"))[GetParam()];

  Collator collator(ReadingOptions options, bool label_all_pieces = false) const {
    return Collator(tokenizer_, options, label_all_pieces);
  }
};

/// The form of data with unanswerable questions: rows without an answer point to the first token.
std::vector<Example> collate(Collator& rows, const QuestionExample& question) {
  return tasks::collate(rows, question, /*has_unanswerable=*/true);
}

TaggingExample tagging_example(const Json& json) {
  return {{}, json["words"].get<std::vector<std::string>>(), json["labels"].get<Ids>()};
}

TEST_P(Collation, LabelsOfWordsAreThoseOfTransformers) {
  for (const bool all : {false, true}) {
    Collator rows = collator({.max_tokens = kPlenty}, all);
    for (const Json& one : rows_["tagging"]) {
      const auto examples = collate(rows, tagging_example(one));
      ASSERT_EQ(examples.size(), 1u);
      EXPECT_EQ(examples[0].rows[0].ids, one["ids"].get<Ids>());
      EXPECT_EQ(examples[0].targets[0].labels, one[all ? "all" : "first"].get<Ids>());
    }
    EXPECT_EQ(rows.report().counts["unread_words"], 0);
    EXPECT_EQ(rows.report().documents, 4);
  }
}

QuestionExample question_example(const Json& json) {
  QuestionExample example;
  example.context = std::make_shared<const std::string>(json["context"].get<std::string>());
  example.question = json["question"].get<std::string>();
  for (const Json& answer : json["answers"]) {
    const auto text = answer[0].get<std::string>();
    const auto begin = answer[1].get<std::int64_t>();
    const auto size = static_cast<std::int64_t>(character_starts(text).size()) - 1;
    example.answers.push_back({text, {begin, begin + size}});
  }
  return example;
}

TEST_P(Collation, PositionsOfAnswersAreThoseOfTransformers) {
  Collator rows = collator({.max_tokens = kPlenty});
  for (const Json& one : rows_["questions"]) {
    const auto examples = collate(rows, question_example(one));
    ASSERT_EQ(examples.size(), 1u);
    EXPECT_EQ(examples[0].rows[0].ids, one["ids"].get<Ids>());
    EXPECT_EQ(examples[0].rows[0].types, one["types"].get<Ids>());
    Positions starts, ends;
    for (const Json& answer : one["answers"]) {
      starts.push_back(answer[2].get<Index>());
      ends.push_back(answer[3].get<Index>());
    }
    const auto united = [](Positions positions) {
      std::sort(positions.begin(), positions.end());
      positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
      return positions;
    };
    EXPECT_EQ(examples[0].targets[0].starts, united(starts));
    EXPECT_EQ(examples[0].targets[0].ends, united(ends));
  }
}

TEST_P(Collation, OverlappingRowsHoldTheirAnswersAlone) {
  const QuestionExample question = question_example(rows_["questions"][0]);
  Collator plenty = collator({.max_tokens = kPlenty});
  const Example whole = collate(plenty, question)[0];
  const auto size = static_cast<Index>(whole.rows[0].ids.size());
  Collator rows = collator({.max_tokens = size - 10, .too_long = TooLong::split, .stride = 5});
  const auto examples = collate(rows, question);
  ASSERT_EQ(examples.size(), 2u);
  EXPECT_EQ(rows.report().rows, 2);
  EXPECT_EQ(rows.report().counts["truncated_tokens"], 0);
  for (const Example& example : examples) {
    const Ids& ids = example.rows[0].ids;
    EXPECT_EQ(static_cast<Index>(ids.size()), size - 10);
    const DocumentTarget& target = example.targets[0];
    if (target.starts == Positions{0}) {
      EXPECT_EQ(target.ends, Positions{0});
      continue;
    }
    // The tokens at both places are those of the whole row.
    for (const Index start : target.starts) {
      const auto is_same = [&](Index place) {
        return whole.rows[0].ids[static_cast<std::size_t>(place)] ==
               ids[static_cast<std::size_t>(start)];
      };
      EXPECT_TRUE(
          std::any_of(whole.targets[0].starts.begin(), whole.targets[0].starts.end(), is_same));
    }
  }
}

TEST_P(Collation, AnswersBehindTheCutAreCounted) {
  const QuestionExample question = question_example(rows_["questions"][2]);
  Collator plenty = collator({.max_tokens = kPlenty});
  const Example whole = collate(plenty, question)[0];
  Collator rows =
      collator({.max_tokens = whole.targets[0].starts[0], .too_long = TooLong::truncate});
  const auto examples = collate(rows, question);
  ASSERT_EQ(examples.size(), 1u);
  EXPECT_EQ(examples[0].targets[0].starts, Positions{0});
  EXPECT_EQ(rows.report().counts["unreached_answers"], 1);
  EXPECT_EQ(rows.report().counts["truncated_documents"], 1);
  EXPECT_EQ(rows.report().counts["truncated_tokens"],
            static_cast<Index>(whole.rows[0].ids.size()) - whole.targets[0].starts[0]);
  Collator refusing =
      collator({.max_tokens = whole.targets[0].starts[0], .too_long = TooLong::refuse});
  expect_error(error_of([&] { collate(refusing, question); }),
               {"expected at most", "found", "{truncate} {split}"});
  Collator small = collator({.max_tokens = 6});
  expect_error(error_of([&] { collate(small, question); }), {"question: expected at most"});
}

TEST_P(Collation, EveryWordIsLabelledOnceInOverlappingRows) {
  TaggingExample example;
  for (int i = 0; i < 60; ++i) {
    example.words.push_back(i % 3 == 0 ? "lighthouse" : "keeper's");
    example.labels.push_back(i);
  }
  Collator rows = collator({.max_tokens = 24, .too_long = TooLong::split, .stride = 8});
  std::vector<int> seen(60, 0);
  for (const Example& row : collate(rows, example)) {
    ASSERT_EQ(row.targets[0].labels.size(), row.rows[0].ids.size());
    for (const std::int32_t label : row.targets[0].labels) {
      if (label != kIgnoredLabel) ++seen.at(static_cast<std::size_t>(label));
    }
  }
  EXPECT_EQ(seen, std::vector<int>(60, 1));
  EXPECT_EQ(rows.report().counts["unread_words"], 0);
  Collator cutting = collator({.max_tokens = 24, .too_long = TooLong::truncate});
  int labelled = 0;
  const auto cut = collate(cutting, example);
  for (const std::int32_t label : cut[0].targets[0].labels) {
    labelled += label != kIgnoredLabel ? 1 : 0;
  }
  EXPECT_GT(labelled, 0);
  EXPECT_EQ(cutting.report().counts["unread_words"], 60 - labelled);
}

TEST_P(Collation, ClassesAndGlobalTokens) {
  Collator rows = collator(
      {.max_tokens = 8,
       .too_long = TooLong::split,
       .stride = 2,
       .global_positions = [](const Encoding&, std::string_view) { return Positions{0}; }});
  ClassificationExample example;
  example.text = "the lamp the lamp the lamp the lamp the lamp";
  example.label = 2;
  const auto examples = collate(rows, example);
  EXPECT_GT(examples.size(), 1u);
  for (const Example& one : examples) {
    EXPECT_EQ(one.targets[0].labels, Ids{2});
    EXPECT_EQ(one.rows[0].global_positions, Positions{0});
    EXPECT_LE(one.rows[0].ids.size(), 8u);
  }
  example.values = {0, 1};
  EXPECT_TRUE(collate(rows, example)[0].targets[0].labels.empty());
  EXPECT_EQ(collate(rows, example)[0].targets[0].values, (std::vector<float>{0, 1}));
}

/// Every place with the token of which the text has an l.
Positions lamps(const Encoding& tokens, std::string_view text) {
  const auto last = *std::max_element(tokens.sequence_ids.begin(), tokens.sequence_ids.end());
  Positions found;
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    const CharacterSpan span = tokens.offsets[i];
    if (tokens.sequence_ids[i] != last || span.end > static_cast<Index>(text.size())) continue;
    const auto word = text.substr(static_cast<std::size_t>(span.begin),
                                  static_cast<std::size_t>(span.end - span.begin));
    if (word.find('l') != std::string_view::npos) found.push_back(static_cast<Index>(i));
  }
  return found;
}

TEST_P(Collation, RulesOfGlobalTokensReadTheText) {
  Collator rows = collator({.max_tokens = kPlenty, .global_positions = lamps});
  ClassificationExample alone, pair;
  alone.text = pair.pair.emplace("the lamp, the lamp");
  pair.text = "lamp lamp lamp";
  QuestionExample question;
  question.context = std::make_shared<const std::string>("the lamp, the lamp");
  question.question = "lamp?";
  EXPECT_EQ(collate(rows, alone)[0].rows[0].global_positions->size(), 2u);
  EXPECT_EQ(collate(rows, pair)[0].rows[0].global_positions->size(), 2u);
  EXPECT_EQ(collate(rows, question)[0].rows[0].global_positions->size(), 2u);
  TaggingExample words;
  words.words = {"the", "lamp", "lamp"};
  words.labels = {0, 1, 1};
  EXPECT_EQ(collate(rows, words)[0].rows[0].global_positions->size(), 2u);
}

TEST_P(Collation, PairsAreCutWhereTheyAreLongest) {
  ClassificationExample example;
  example.text = "the lamp";
  example.pair = "the lamp the lamp the lamp the lamp the lamp";
  Collator rows = collator({.max_tokens = 10, .too_long = TooLong::truncate});
  const auto cut = collate(rows, example)[0].rows[0];
  EXPECT_EQ(cut.ids, tokenizer_.encode_pair(example.text, *example.pair, {.max_length = 10}).ids);
  EXPECT_EQ(rows.report().counts["truncated_documents"], 1);
  Collator split = collator({.max_tokens = 12, .too_long = TooLong::split, .stride = 2});
  EXPECT_GT(collate(split, example).size(), 1u);
}

TEST_P(Collation, ChoicesAreRowsOfOneExample) {
  const ChoiceExample example = {
      {}, {"the lighthouse keeper's lamp", "who?", {"the keeper", "x", ""}}, 1};
  Collator rows = collator(
      {.max_tokens = kPlenty, .global_positions = [](const Encoding& tokens, std::string_view) {
         return from_second_text(tokens);
       }});
  const auto examples = collate(rows, example);
  ASSERT_EQ(examples.size(), 1u);
  ASSERT_EQ(examples[0].rows.size(), 3u);
  EXPECT_EQ(examples[0].targets[0].labels, Ids{1});
  for (std::size_t i = 0; i < 3; ++i) {
    const Encoding pair = tokenizer_.encode_pair("the lighthouse keeper's lamp",
                                                 "who? " + example.question.choices[i]);
    EXPECT_EQ(examples[0].rows[i].ids, pair.ids);
    const auto& globals = *examples[0].rows[i].global_positions;
    ASSERT_FALSE(globals.empty());
    EXPECT_EQ(pair.sequence_ids[static_cast<std::size_t>(globals[0])], 1);
    EXPECT_EQ(pair.sequence_ids[static_cast<std::size_t>(globals[0] - 1)], -1);
    EXPECT_EQ(globals.back(), static_cast<Index>(pair.ids.size()) - 1);
  }
}

TEST_P(Collation, OptionsThatLeaveNoRoom) {
  expect_error(error_of([this] { collator({.max_tokens = 2}); }), {"max_length:", "found 2"});
  expect_error(
      error_of([this] { collator({.max_tokens = 8, .too_long = TooLong::split, .stride = 6}); }),
      {"stride", "found 6"});
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, Collation, testing::Values("bert_uncased", "prefix_space"));

TEST(TrainingBatch, LaysExamplesBehindEachOther) {
  models::EncoderConfig config;
  config.family = &models::family_of("longformer", "");
  config.vocab_size = 50;
  config.type_vocab_size = 1;
  config.pad_token_id = 1;
  config.max_position_embeddings = 12;
  const auto row = [](Ids ids, Positions globals) {
    const Ids types(ids.size(), 0);
    return TokenRow{std::move(ids), types, std::move(globals)};
  };
  std::vector<Example> examples(2);
  examples[0].rows = {row({0, 10, 2}, {0, 1})};
  examples[0].targets.resize(1);
  examples[0].targets[0].starts = {1, 2};
  examples[1].rows = {row({0, 11, 12, 2}, {0})};
  examples[1].targets.resize(1);
  examples[1].targets[0].starts = {0};
  const TrainingBatch batch = training_batch(config, examples);
  EXPECT_EQ(batch.tokens.ids, (Ids{0, 10, 2, 0, 11, 12, 2}));
  EXPECT_EQ(batch.tokens.positions, (Ids{2, 3, 4, 2, 3, 4, 5}));
  EXPECT_EQ(batch.tokens.starts, (Positions{0, 3, 7}));
  EXPECT_EQ(batch.tokens.global_rows, (Positions{0, 1, 3}));
  ASSERT_EQ(batch.targets.size(), 2u);
  EXPECT_EQ(batch.targets[0].starts, (Positions{1, 2}));
  EXPECT_EQ(batch.targets[1].starts, (Positions{0}));
  EXPECT_EQ(batch.questions, (Positions{1, 1}));

  Example choice;
  choice.rows = {row({0, 2}, {1}), row({0, 5, 2}, {})};
  choice.targets.resize(2);
  choice.targets[0].labels = {1};
  const TrainingBatch choices = training_batch(config, std::vector<Example>{choice, choice});
  EXPECT_EQ(choices.questions, (Positions{2, 2}));
  ASSERT_EQ(choices.targets.size(), 4u);
  EXPECT_EQ(choices.targets[2].labels, Ids{1});
  EXPECT_EQ(choices.tokens.global_rows, (Positions{1, 6}));

  choice.rows[0].ids[0] = 50;
  expect_error(error_of([&] {
                 training_batch(config, {&choice, 1});
               }),
               {"from 0 to 49", "found 50"});
  choice.rows[0] = row(Ids(11, 0), {});
  expect_error(error_of([&] { training_batch(config, {&choice, 1}); }), {"at most 10", "found 11"});
}

TEST(PublishedData, RowsHoldTheAnswersOfQuestions) {
  const std::filesystem::path data = data_folder();
  if (data.empty()) GTEST_SKIP() << "no data sets";
  const TemporaryFolder folder;
  std::filesystem::copy(data / "bert_vocab" / "bert-base-cased-vocab.txt",
                        folder.path() / "vocab.txt");
  std::ofstream(folder.path() / "tokenizer_config.json")
      << R"({"tokenizer_class":"BertTokenizer","do_lower_case":false})";
  const Tokenizer tokenizer = Tokenizer::load(folder.name());
  const auto papers =
      read_questions((data / "covidqa" / "200423_covidQA.realigned.json").string(), {});
  Collator rows(tokenizer, {.max_tokens = 16384, .too_long = TooLong::refuse});
  for (std::size_t i = 0; i < papers.examples.size(); i += 40) {
    const QuestionExample& question = papers.examples[i];
    const DocumentTarget example = collate(rows, question)[0].targets[0];
    ASSERT_NE(example.starts, Positions{0}) << question.origin.id;
    const Encoding text = tokenizer.encode_pair(question.question, *question.context);
    const CharacterSpan first = text.offsets[static_cast<std::size_t>(example.starts[0])];
    const CharacterSpan last = text.offsets[static_cast<std::size_t>(example.ends[0])];
    const CharacterSpan answer = question.answers[0].span;
    EXPECT_TRUE(first.begin <= answer.begin || first.begin - answer.begin < 2);
    EXPECT_TRUE(first.end > answer.begin && last.begin < answer.end && last.end >= answer.end - 1);
  }
}

}  // namespace
}  // namespace longformer::tasks::collation_test
