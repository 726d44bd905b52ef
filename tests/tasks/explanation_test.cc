// Why a classifier decided so: gradients against differences of logits, sums against logits, and
// sentences that are left out against texts without them.
#include "longformer/explanation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "error_testing.h"
#include "fixtures.h"
#include "tasks/classification/attribution.h"

namespace longformer::tasks::explanation_test {
namespace {

const std::string kText = "he was in the house. they had not been there. she is with her.";

std::string fixture(const std::string& name) { return (fixtures_folder() / name).string(); }

Explainer explainer_of(const std::string& name) { return Explainer::load(fixture(name)); }

double sum_of(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value);
  return sum;
}

TEST(Quadrature, IntegratesPolynomialsExactly) {
  for (const Index points : {1, 2, 3, 7, 32, 301}) {
    for (const Index degree : {Index{0}, Index{1}, 2 * points - 1}) {
      double sum = 0;
      for (const QuadraturePoint& point : gauss_legendre(points)) {
        EXPECT_TRUE(point.at > 0 && point.at < 1) << points;
        sum += point.weight * std::pow(point.at, static_cast<double>(degree));
      }
      const double expected = 1 / (static_cast<double>(degree) + 1);
      EXPECT_TRUE(std::abs(sum - expected) <= 1e-12) << points << " " << degree << " " << sum;
    }
  }
  // Abramowitz and Stegun, table 25.4, for −1 … 1.
  const std::vector<QuadraturePoint> three = gauss_legendre(3);
  EXPECT_TRUE(std::abs(three[0].at - (1 - 0.774596669241483) / 2) <= 1e-14);
  EXPECT_TRUE(std::abs(three[1].weight - 0.888888888888889 / 2) <= 1e-14);
}

/// Gradients of the passes beside central differences of their logits.
void expect_true_gradients(const std::string& name) {
  const Explainer explainer = explainer_of(name);
  const RowReader reader(explainer.tokenizer(),
                         {.max_tokens = explainer.model().info().max_tokens});
  const Reading reading = reader.read(std::string("he was in the house."));
  const RowPasses passes(explainer.model(), 8192);
  const std::vector<float> words = passes.words(reading.rows[0].ids);
  std::vector<float> gradient;
  passes.gradients(
      1, 1,
      [&](std::size_t) {
        return GivenRow{reading.rows[0], words};
      },
      [&](std::size_t, std::vector<float> values) { gradient = std::move(values); });
  ASSERT_EQ(gradient.size(), words.size());
  double largest = 0;
  for (const float value : gradient) largest = std::max(largest, std::abs(double(value)));
  ASSERT_TRUE(largest > 0);
  constexpr float kStep = 0.01f;
  constexpr std::size_t kCompared = 12;
  std::vector<float> logits(2 * kCompared);
  const auto place = [&](std::size_t i) { return (i / 2) * 7919 % words.size(); };
  passes.logits(
      2 * kCompared,
      [&](std::size_t i) {
        GivenRow row = {reading.rows[0], words};
        row.words[place(i)] += i % 2 == 0 ? kStep : -kStep;
        return row;
      },
      [&](std::size_t i, const std::vector<float>& values) { logits[i] = values[1]; });
  for (std::size_t i = 0; i < kCompared; ++i) {
    const double slope = (double(logits[2 * i]) - logits[2 * i + 1]) / (2 * double(kStep));
    EXPECT_TRUE(std::abs(slope - gradient[place(2 * i)]) <= 2e-2 * largest) << name << " " << i;
  }
}

TEST(Explanation, GradientsAreThoseOfTheLogit) {
  for (const char* name : {"tiny_longformer_classifier", "tiny_distilbert_classifier",
                           "tiny_modernbert_classifier", "tiny_funnel_classifier"}) {
    expect_true_gradients(name);
  }
}

TEST(Explanation, IntegratedGradientsAddUp) {
  for (const char* name : {"tiny_longformer_classifier", "tiny_distilbert_classifier",
                           "tiny_modernbert_classifier", "tiny_funnel_classifier"}) {
    const Explainer explainer = explainer_of(name);
    for (const Baseline baseline : {Baseline::pad, Baseline::mask}) {
      ExplainOptions options;
      options.baseline = baseline;
      options.steps = 200;
      const Explanation found = explainer.explain(kText, options);
      EXPECT_EQ(found.label, found.classification.scores[0].label);
      EXPECT_TRUE(found.is_complete) << name << " " << found.error << " of " << found.sum;
      EXPECT_TRUE(std::abs(sum_of(found.values) - found.sum) <= 1e-4) << name;
      double words = 0, sentences = 0;
      for (const AttributedSpan& one : found.words) words += one.value;
      for (const AttributedSpan& one : found.sentences) sentences += one.value;
      EXPECT_TRUE(std::abs(words - found.sum) <= 1e-4 && std::abs(sentences - found.sum) <= 1e-4);
      EXPECT_EQ(found.sentences.size(), 3u) << name;
    }
  }
}

TEST(Explanation, TooFewStepsAreTold) {
  const Explainer explainer = explainer_of("tiny_longformer_classifier");
  ExplainOptions options;
  options.steps = 1;
  options.tolerance = 0;
  const Explanation found = explainer.explain(kText, options);
  EXPECT_FALSE(found.is_complete);
  EXPECT_TRUE(found.error > 0);
}

TEST(Explanation, WordsAreRunsOfTokensWithoutBlanks) {
  const Explanation found = explainer_of("tiny_distilbert_classifier").explain("he  washed, she");
  std::vector<CharacterSpan> spans;
  for (const AttributedSpan& one : found.words) spans.push_back(one.span);
  EXPECT_EQ(spans, (std::vector<CharacterSpan>{{0, 2}, {4, 10}, {10, 11}, {12, 15}}));
}

TEST(Explanation, OcclusionIsTheLogitOfTheTextWithoutASentence) {
  const Classifier classifier = Classifier::load(fixture("tiny_distilbert_classifier"));
  const Explainer explainer = explainer_of("tiny_distilbert_classifier");
  ExplainOptions options;
  options.method = ExplainMethod::occlusion;
  options.label = classifier.model().info().labels[1];
  const Explanation found = explainer.explain(kText, options);
  const std::vector<std::string> texts = {kText, "they had not been there. she is with her.",
                                          "he was in the house. she is with her.",
                                          "he was in the house. they had not been there."};
  const std::vector<Classification> whole = classifier.classify(texts);
  ASSERT_EQ(found.sentences.size(), 3u);
  EXPECT_TRUE(found.values.empty() && found.words.empty());
  for (std::size_t i = 0; i < 3; ++i) {
    const double expected = double(whole[0].logits[1]) - whole[i + 1].logits[1];
    EXPECT_TRUE(std::abs(found.sentences[i].value - expected) <= 1e-5) << i;
  }
}

TEST(Explanation, SegmentsOfALongDocumentAddUp) {
  const Explainer explainer = explainer_of("tiny_distilbert_classifier");
  std::string text;
  while (text.size() < 4000) text += kText + " ";
  ExplainOptions options;
  options.steps = 100;
  EXPECT_NE(error_of([&] { explainer.explain(text, options); }).find("{split}"), std::string::npos);
  options.reading.too_long = TooLong::split;
  options.reading.stride = 4;
  for (const SegmentMerge merge : {SegmentMerge::mean, SegmentMerge::max}) {
    options.reading.merge = merge;
    const Explanation found = explainer.explain(text, options);
    EXPECT_GT(found.classification.segments, 1);
    EXPECT_EQ(found.values.size(), found.ids.size());
    EXPECT_TRUE(found.error <= 0.1 * std::abs(found.logit - found.baseline_logit) + 1e-3)
        << found.error;
  }
  options.method = ExplainMethod::occlusion;
  for (const Occlusion occlusion : {Occlusion::remove, Occlusion::mask}) {
    options.occlusion = occlusion;
    const Explanation found = explainer.explain(text, options);
    EXPECT_GT(found.sentences.size(), 100u);
    for (const AttributedSpan& one : found.sentences) EXPECT_TRUE(std::isfinite(one.value));
  }
}

TEST(Explanation, EmptyTextsHaveNoValues) {
  const Explainer explainer = explainer_of("tiny_distilbert_classifier");
  for (const ExplainMethod method :
       {ExplainMethod::gradient, ExplainMethod::integrated, ExplainMethod::occlusion}) {
    ExplainOptions options;
    options.method = method;
    const Explanation found = explainer.explain("", options);
    EXPECT_TRUE(found.values.empty() && found.words.empty() && found.sentences.empty());
    EXPECT_TRUE(found.is_complete);
  }
}

TEST(Explanation, TheUsualBaselineIsTheMaskWhereZerosMeanNothing) {
  const auto baseline = [](const std::string& folder) {
    return explainer_of(folder).explain(kText, {.method = ExplainMethod::gradient}).baseline;
  };
  EXPECT_EQ(baseline("tiny_modernbert_classifier"), "mask");
  EXPECT_EQ(baseline("tiny_longformer_classifier"), "pad");
}

TEST(Explanation, MistakesAreTold) {
  const Explainer explainer = explainer_of("tiny_modernbert_classifier");
  const auto error = [&](auto&& change) {
    ExplainOptions options;
    change(options);
    return error_of([&] { explainer.explain(kText, options); });
  };
  EXPECT_NE(error([](auto& options) { options.label = "none of them"; }).find("expected one of"),
            std::string::npos);
  EXPECT_NE(error([](auto& options) { options.baseline = Baseline::zero; }).find("multiple"),
            std::string::npos);
  EXPECT_NE(error([](auto& options) { options.steps = 0; }).find("steps: expected 1 to"),
            std::string::npos);
  EXPECT_NE(error_of([] { explainer_of("tiny_bert"); }).find("sequence-classification"),
            std::string::npos);
}

}  // namespace
}  // namespace longformer::tasks::explanation_test
