// Documents in a stream: order, batches, errors, and where global attention is asked for.
//
// Reruns: tsan
#include "engine/run/document_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/error.h"
#include "engine/frame/scores.h"
#include "engine/reading/text_template.h"
#include "fixtures.h"
#include "longformer/model.h"
#include "longformer/tasks.h"

namespace longformer::document_stream_test {
namespace {

std::string fixture(const std::string& name) { return (fixtures_folder() / name).string(); }

engine::TokenRow row_of(std::size_t size) {
  engine::TokenRow row;
  row.ids.resize(size);
  std::iota(row.ids.begin(), row.ids.end(), 5);
  row.types.assign(size, 0);
  return row;
}

TEST(DocumentStream, KeepsOrderAcrossBatchesSegmentsAndErrors) {
  const Model model = Model::load(fixture("tiny_longformer_classifier"));
  // Documents of 0 to 4 segments; every third is an error, every fourth too long for the model.
  const auto document = [](std::size_t i) {
    Document result;
    result.reading.tokens = static_cast<std::int64_t>(i);
    if (i % 3 == 1) {
      result.error = "unreadable";
      return result;
    }
    for (std::size_t s = 0; s < i % 5; ++s) result.reading.rows.push_back(row_of(3 + i % 7));
    if (i % 4 == 3) result.reading.rows.push_back(row_of(42));
    return result;
  };
  for (const std::int64_t batch_tokens : {1, 20, 100000}) {
    std::size_t next = 0, seen = 0;
    stream_documents(
        model, {.batch_tokens = batch_tokens},
        [&]() -> std::optional<Document> {
          if (next == 60) return std::nullopt;
          return document(next++);
        },
        [&](const Document& done) {
          ASSERT_EQ(done.reading.tokens, static_cast<std::int64_t>(seen));
          const Document expected = document(seen++);
          const bool too_long = expected.error.empty() && (seen - 1) % 4 == 3;
          EXPECT_EQ(done.error.empty(), expected.error.empty() && !too_long);
          if (too_long) {
            EXPECT_NE(done.error.find("at most 41 tokens"), std::string::npos);
          }
          ASSERT_EQ(done.outputs.size(), done.error.empty() ? expected.reading.rows.size() : 0);
          for (std::size_t s = 0; s < done.outputs.size(); ++s) {
            const DocumentInput input{.ids = expected.reading.rows[s].ids,
                                      .attention_mask = {},
                                      .token_type_ids = {},
                                      .position_ids = {},
                                      .global_attention_mask = {}};
            EXPECT_EQ(done.outputs[s], model.forward({&input, 1})[0].logits);
          }
        });
    EXPECT_EQ(seen, 60u);
  }
}

TEST(DocumentStream, PassesOnWhatIsThrown) {
  const Model model = Model::load(fixture("tiny_longformer_classifier"));
  std::size_t made = 0, seen = 0;
  const auto endless = [&]() -> std::optional<Document> {
    ++made;
    Document document;
    document.reading.rows.push_back(row_of(4));
    return document;
  };
  EXPECT_THROW(stream_documents(model, {}, endless,
                                [&](const auto&) {
                                  if (++seen == 5) throw std::runtime_error("no reader");
                                }),
               std::runtime_error);
  EXPECT_EQ(seen, 5u);
  made = seen = 0;
  const auto failing = [&]() -> std::optional<Document> {
    if (made == 3) throw std::runtime_error("no disk");
    return endless();
  };
  EXPECT_THROW(stream_documents(model, {}, failing, [&](const auto&) { ++seen; }),
               std::runtime_error);
  // Documents before the failure are answered first.
  EXPECT_EQ(seen, 3u);
}

TEST(TextTemplate, PutsTheSpecialTokensAroundEverySegment) {
  const Tokenizer tokenizer = Tokenizer::load(fixture("tiny_bert_tagger"));
  const std::string text = "he was with the of and";
  const Encoding tokens = tokenizer.encode(text, {.add_special_tokens = false, .max_length = {}});
  const engine::TextTemplate alone(tokenizer);
  const Encoding whole = alone.around(tokens, {0, 6});
  const Encoding expected = tokenizer.encode(text);
  EXPECT_EQ(whole.ids, expected.ids);
  EXPECT_EQ(whole.offsets, expected.offsets);
  EXPECT_EQ(whole.type_ids, expected.type_ids);
  EXPECT_EQ(whole.special_tokens_mask, expected.special_tokens_mask);
  EXPECT_EQ(whole.sequence_ids, expected.sequence_ids);
  EXPECT_EQ(alone.around(tokens, {2, 4}).ids, tokenizer.encode("with the").ids);
  EXPECT_EQ(alone.around(tokens, {2, 4}).offsets[1], (CharacterSpan{7, 11}));

  const engine::TextTemplate behind(tokenizer, "for it");
  const Encoding pair = tokenizer.encode_pair("for it", text);
  EXPECT_EQ(behind.around(tokens, {0, 6}).ids, pair.ids);
  EXPECT_EQ(behind.around(tokens, {0, 6}).type_ids, pair.type_ids);
  EXPECT_EQ(behind.around(tokens, {0, 6}).sequence_ids, pair.sequence_ids);
  EXPECT_EQ(behind.around(tokens, {0, 6}).offsets, pair.offsets);
  EXPECT_EQ(behind.prefix(), 4);
  EXPECT_EQ(behind.size(), 5);
  EXPECT_EQ(behind.around(tokens, {3, 3}).ids.size(), 5u);
}

TEST(GlobalAttention, OfAPairAndOfSentences) {
  const Model model = Model::load(fixture("tiny_longformer_qa"));
  const Tokenizer tokenizer = Tokenizer::load(fixture("tiny_longformer_qa"));
  // [CLS] for it [SEP] he was . the of [SEP]
  const std::string text = "he was. the of";
  const Encoding pair = tokenizer.encode_pair("for it", text);
  ASSERT_EQ(pair.ids.size(), 10u);
  const auto of = [&](std::string_view rule) {
    return GlobalAttention::parse(rule).mask(model, pair, text);
  };
  using Mask = std::vector<std::int32_t>;
  EXPECT_EQ(of("question"), (Mask{1, 1, 1, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(of("default"), of("question"));
  EXPECT_EQ(of("sentences"), (Mask{0, 0, 0, 0, 1, 0, 0, 1, 0, 0}));
  EXPECT_EQ(of("cls,every:4,8-20"), (Mask{1, 0, 0, 0, 1, 0, 0, 0, 1, 1}));
  EXPECT_EQ(of("none"), Mask(10, 0));
  EXPECT_EQ(of("all"), Mask(10, 1));
  EXPECT_EQ(of("99999999999"), Mask(10, 0));
  EXPECT_EQ(GlobalAttention::parse("cls,3").rule(), "cls,3");
}

TEST(GlobalAttention, RefusesWhatIsNoRule) {
  for (const char* rule :
       {"", ",", "cls 1", "every", "every:", "every:-1", "every:0", "4-", "-4", "7-3", "0x3",
        "1,,2", "99999999999999999999", "1-99999999999999999999"}) {
    EXPECT_THROW(GlobalAttention::parse(rule), Error) << rule;
  }
}

TEST(Classifier, ClassifiesAListOfTexts) {
  const Classifier classifier = Classifier::load(fixture("tiny_longformer_classifier"));
  const std::vector<std::string> texts = {"he was", "", "the of and"};
  const auto results = classifier.classify(texts);
  ASSERT_EQ(results.size(), 3u);
  for (const Classification& result : results) {
    ASSERT_EQ(result.scores.size(), 3u);
    const auto probabilities = engine::softmax(result.logits);
    const auto best = std::max_element(result.logits.begin(), result.logits.end());
    const auto index = static_cast<std::size_t>(best - result.logits.begin());
    EXPECT_EQ(result.scores[0].label, classifier.model().info().labels[index]);
    EXPECT_EQ(result.scores[0].score, probabilities[index]);
  }
  EXPECT_EQ(results[1].tokens, 2);
  const std::vector<std::string> long_text = {std::string("the of and ") + std::string(200, 'a'),
                                              [] {
                                                std::string text;
                                                for (int i = 0; i < 100; ++i) text += "he ";
                                                return text;
                                              }()};
  EXPECT_THROW(classifier.classify(long_text), Error);
}

TEST(Chooser, SeparatorsInATextDoNotMoveTheGlobalTokens) {
  const Chooser chooser = Chooser::load(fixture("tiny_longformer_choice"));
  const std::vector<ChoiceQuestion> questions = {{"he was </s> with", "for it?", {"his", "on be"}}};
  const auto plain = chooser.choose(questions);
  // <s> he was </s> with </s></s> for it? his </s>: the choice begins at position 7 or later.
  const Encoding tokens = chooser.tokenizer().encode_pair("he was </s> with", "for it? his");
  const auto second = std::find(tokens.sequence_ids.begin(), tokens.sequence_ids.end(), 1);
  ChooseOptions options;
  options.global_attention =
      GlobalAttention::parse(std::to_string(second - tokens.sequence_ids.begin()) + "-1000");
  EXPECT_EQ(chooser.choose(questions, options)[0].logits, plain[0].logits);
  options.global_attention = GlobalAttention::parse("default");
  EXPECT_NE(chooser.choose(questions, options)[0].logits, plain[0].logits);
}

TEST(Scores, AreStableAndSumToOne) {
  const std::vector<float> logits = {1000.0f, 999.0f, -1000.0f};
  const auto softmax = engine::softmax(logits);
  EXPECT_TRUE(std::abs(softmax[0] - 1 / (1 + std::exp(-1.0))) <= 1e-6);
  EXPECT_TRUE(std::abs(softmax[0] + softmax[1] + softmax[2] - 1) <= 1e-6);
  const auto sigmoid = engine::sigmoid(logits);
  EXPECT_EQ(sigmoid[0], 1.0f);
  EXPECT_EQ(sigmoid[2], 0.0f);
  EXPECT_TRUE(std::abs(engine::sigmoid(std::vector<float>{1.0f})[0] - 0.7310586f) <= 1e-6);
  EXPECT_TRUE(engine::softmax({}).empty());
}

}  // namespace
}  // namespace longformer::document_stream_test
