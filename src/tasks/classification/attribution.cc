#include "tasks/classification/attribution.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "core/error.h"
#include "engine/run/model_implementation.h"
#include "tasks/classification/classification.h"

namespace longformer::tasks {
namespace {

/// A pass of integrated gradients: a segment at a share of the way from its baseline.
struct PathPass {
  std::size_t segment = 0;
  double at = 1, weight = 1;
};

std::size_t segment_count(const ExplainedDocument& document) {
  return document.reading.rows.size();
}

bool merges_by_max(const ExplainedDocument& document) {
  return document.options.reading.merge == SegmentMerge::max && segment_count(document) > 1;
}

/// Tokens of all segments.
Index segment_tokens(const ExplainedDocument& document) {
  Index tokens = 0;
  for (const TokenRow& row : document.reading.rows) tokens += std::ssize(row.ids);
  return tokens;
}

/// The word embedding of the baseline, [E].
std::vector<float> baseline_row(const ExplainedDocument& document, const RowPasses& passes) {
  const auto size = static_cast<std::size_t>(passes.word_size());
  if (document.options.baseline == Baseline::zero) return std::vector<float>(size, 0.0f);
  const models::EncoderConfig& config = document.model.implementation().config;
  auto id = static_cast<std::int32_t>(config.pad_token_id);
  if (document.options.baseline == Baseline::mask) id = *document.tokenizer.special_tokens().mask;
  return passes.words(std::span(&id, 1));
}

class TokenAttribution {
 public:
  TokenAttribution(const ExplainedDocument& document, const RowPasses& passes)
      : document_(document),
        passes_(passes),
        baseline_(baseline_row(document, passes)),
        values_(static_cast<std::size_t>(document.reading.read()), 0.0) {}

  void run(std::span<const QuadraturePoint> points) {
    const std::vector<PathPass> jobs = jobs_of(points);
    passes_.gradients(
        jobs.size(), document_.label,
        [&](std::size_t i) { return row_at(jobs[i].segment, jobs[i].at); },
        [&](std::size_t i, const std::vector<float>& gradient) { add(jobs[i], gradient); });
  }

  /// The merged logit of the class at the baseline.
  double baseline_logit() const {
    std::vector<std::vector<float>> outputs(segment_count(document_));
    passes_.logits(
        outputs.size(), [&](std::size_t i) { return row_at(i, 0); },
        [&](std::size_t i, std::vector<float> logits) { outputs[i] = std::move(logits); });
    return merged_logits(outputs, document_.options.reading.merge)[label()];
  }

  const std::vector<double>& values() const { return values_; }

  /// Whether the baseline is a row of zeros.
  bool starts_at_zeros() const {
    return std::ranges::all_of(baseline_, [](float value) { return value == 0; });
  }

 private:
  std::size_t label() const { return static_cast<std::size_t>(document_.label); }

  /// A segment with its tokens of the text at a share of the way from the baseline.
  GivenRow row_at(std::size_t segment, double at) const {
    GivenRow given = {.row = document_.reading.rows[segment]};
    given.words = passes_.words(given.row.ids);
    const std::size_t size = baseline_.size();
    const auto first = static_cast<std::size_t>(document_.reading.prefix);
    const auto count = static_cast<std::size_t>(document_.reading.ranges[segment].size());
    for (std::size_t i = first * size; i < (first + count) * size; ++i) {
      const double from = baseline_[i % size];
      given.words[i] = static_cast<float>(from + at * (given.words[i] - from));
    }
    return given;
  }

  /// The segments whose gradients count at each point, and how much.
  std::vector<PathPass> jobs_of(std::span<const QuadraturePoint> points) const {
    const std::size_t segments = segment_count(document_);
    const double share = 1 / static_cast<double>(segments);
    std::vector<PathPass> jobs;
    if (!merges_by_max(document_)) {
      for (const QuadraturePoint& point : points) {
        for (std::size_t s = 0; s < segments; ++s)
          jobs.push_back({s, point.at, point.weight * share});
      }
      return jobs;
    }
    std::vector<float> best(points.size());
    jobs.resize(points.size());
    passes_.logits(
        points.size() * segments,
        [&](std::size_t i) { return row_at(i % segments, points[i / segments].at); },
        [&](std::size_t i, const std::vector<float>& logits) {
          const std::size_t point = i / segments, segment = i % segments;
          if (segment > 0 && logits[label()] <= best[point]) return;
          best[point] = logits[label()];
          jobs[point] = {segment, points[point].at, points[point].weight};
        });
    return jobs;
  }

  void add(const PathPass& job, std::span<const float> gradient) {
    const TokenRange& range = document_.reading.ranges[job.segment];
    const std::vector<float> words = passes_.words(document_.reading.rows[job.segment].ids);
    const std::size_t size = baseline_.size();
    for (Index token = 0; token < range.size(); ++token) {
      const auto row = static_cast<std::size_t>(document_.reading.prefix + token) * size;
      double sum = 0;
      for (std::size_t e = 0; e < size; ++e) {
        sum += (static_cast<double>(words[row + e]) - baseline_[e]) * gradient[row + e];
      }
      values_[static_cast<std::size_t>(range.begin + token)] += job.weight * sum;
    }
  }

  const ExplainedDocument& document_;
  const RowPasses& passes_;
  std::vector<float> baseline_;
  std::vector<double> values_;
};

/// A segment that a sentence is taken from.
struct Occluded {
  std::size_t sentence = 0, segment = 0;
};

std::vector<Occluded> occluded(const ExplainedDocument& document,
                               std::span<const TokenRange> sentences) {
  std::vector<Occluded> all;
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    for (std::size_t s = 0; s < segment_count(document); ++s) {
      const TokenRange& range = document.reading.ranges[s];
      if (sentences[i].begin < range.end && sentences[i].end > range.begin) all.push_back({i, s});
    }
  }
  return all;
}

/// The tokens of a segment without a sentence.
GivenRow row_without(const ExplainedDocument& document, std::size_t segment,
                     const TokenRange& sentence) {
  const Encoding& whole = document.reading.encoding;
  const TokenRange& range = document.reading.ranges[segment];
  Encoding kept;
  for (Index token = range.begin; token < range.end; ++token) {
    const auto i = static_cast<std::size_t>(token);
    const bool is_hidden = token >= sentence.begin && token < sentence.end;
    if (is_hidden && document.options.occlusion == Occlusion::remove) continue;
    kept.ids.push_back(is_hidden ? *document.tokenizer.special_tokens().mask : whole.ids[i]);
    kept.offsets.push_back(whole.offsets[i]);
  }
  const TokenRange all = {0, static_cast<Index>(kept.ids.size())};
  GivenRow given = {.row = document.reader.row_of(document.reader.around().around(kept, all),
                                                  document.reading.text)};
  require(!given.row.ids.empty(), OptionName("occlusion"),
          "expected a text of several sentences, as nothing is left of it without special tokens, "
          "found one sentence");
  return given;
}

}  // namespace

Index attribution_tokens(const ExplainedDocument& document) {
  const ExplainOptions& options = document.options;
  const Index tokens = segment_tokens(document);
  const bool integrates = options.method == ExplainMethod::integrated;
  const Index points = integrates ? options.steps : 1;
  Index all = integrates ? tokens : 0;
  if (!merges_by_max(document)) return all + RowPasses::kGradientPasses * points * tokens;
  Index longest = 0;
  for (const TokenRow& row : document.reading.rows)
    longest = std::max(longest, std::ssize(row.ids));
  return all + points * (tokens + RowPasses::kGradientPasses * longest);
}

void attribute_tokens(const ExplainedDocument& document, const RowPasses& passes,
                      Explanation& explanation) {
  const ExplainOptions& options = document.options;
  TokenAttribution attribution(document, passes);
  // The value of such a word embedding would be 0, whatever the model does with the word.
  require(!document.model.implementation().encoder.normalises_words_alone() ||
              !attribution.starts_at_zeros(),
          OptionName("baseline"),
          "expected another one than zeros for a {}, which normalises word embeddings alone, so "
          "that any multiple of one means the same",
          document.model.info().model_type);
  const bool integrates = options.method == ExplainMethod::integrated;
  attribution.run(integrates ? gauss_legendre(options.steps)
                             : std::vector<QuadraturePoint>{{.at = 1, .weight = 1}});
  const std::vector<double>& values = attribution.values();
  explanation.values.assign(values.begin(), values.end());
  if (!integrates) return;
  explanation.steps = options.steps;
  for (const double value : values) explanation.sum += value;
  explanation.baseline_logit = attribution.baseline_logit();
  const double difference = explanation.logit - explanation.baseline_logit;
  explanation.error = std::abs(explanation.sum - difference);
  // Differences of logits in fp32 have about five digits.
  const double rounding = 1e-4 * (1 + std::abs(explanation.logit));
  explanation.is_complete =
      explanation.error <= options.tolerance * std::abs(difference) + rounding;
}

void occlude_sentences(const ExplainedDocument& document, const RowPasses& passes,
                       std::span<const TokenRange> sentences, Explanation& explanation) {
  const std::vector<Occluded> all = occluded(document, sentences);
  const auto label = static_cast<std::size_t>(document.label);
  std::vector<std::vector<float>> outputs;
  passes.logits(
      all.size(),
      [&](std::size_t i) {
        return row_without(document, all[i].segment, sentences[all[i].sentence]);
      },
      [&](std::size_t i, std::vector<float> logits) {
        const std::size_t sentence = all[i].sentence;
        if (i == 0 || all[i - 1].sentence != sentence) {
          outputs.assign(document.outputs.begin(), document.outputs.end());
        }
        outputs[all[i].segment] = std::move(logits);
        if (i + 1 < all.size() && all[i + 1].sentence == sentence) return;
        const double without = merged_logits(outputs, document.options.reading.merge)[label];
        explanation.sentences[sentence].value = explanation.logit - without;
      });
}

Index occlusion_tokens(const ExplainedDocument& document, std::span<const TokenRange> sentences) {
  Index tokens = 0;
  for (const auto& [sentence, segment] : occluded(document, sentences)) {
    tokens += std::ssize(document.reading.rows[segment].ids);
  }
  return tokens;
}

std::vector<QuadraturePoint> gauss_legendre(Index points) {
  std::vector<QuadraturePoint> all(static_cast<std::size_t>(points));
  for (Index i = 0; i < points; ++i) {
    // The roots of the Legendre polynomial in −1 … 1, by Newton's method.
    double x = -std::cos(std::numbers::pi * (static_cast<double>(i) + 0.75) /
                         (static_cast<double>(points) + 0.5));
    double slope = 1, step = 1;
    for (int round = 0; round < 100 && std::abs(step) > 1e-15; ++round) {
      double before = 1, value = x;
      for (Index k = 2; k <= points; ++k) {
        const auto degree = static_cast<double>(k);
        before =
            std::exchange(value, ((2 * degree - 1) * x * value - (degree - 1) * before) / degree);
      }
      slope = static_cast<double>(points) * (x * value - before) / (x * x - 1);
      step = value / slope;
      x -= step;
    }
    all[static_cast<std::size_t>(i)] = {.at = (1 + x) / 2,
                                        .weight = 1 / ((1 - x * x) * slope * slope)};
  }
  return all;
}

void check_possible(const ExplainedDocument& document) {
  const ExplainOptions& options = document.options;
  require(options.steps >= 1 && options.steps <= kMostSteps, OptionName("steps"),
          "expected 1 to {}, found {}", kMostSteps, options.steps);
  const bool has_mask = document.tokenizer.special_tokens().mask.has_value();
  if (options.method == ExplainMethod::occlusion) {
    require(options.occlusion == Occlusion::remove || has_mask, OptionName("occlusion"),
            "expected remove for a tokenizer without a mask, found mask");
    return;
  }
  require(options.baseline != Baseline::mask || has_mask, OptionName("baseline"),
          "expected pad or zero for a tokenizer without a mask, found mask");
  const models::EncoderConfig& config = document.model.implementation().config;
  const bool has_padding = config.pad_token_id >= 0 && config.pad_token_id < config.vocab_size;
  require(options.baseline != Baseline::pad || has_padding, OptionName("baseline"),
          "expected mask or zero for a model without a padding token, found pad");
}

}  // namespace longformer::tasks
