#include "engine/frame/metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "core/error.h"

namespace longformer::engine {
namespace {

/// True positives, and how often a label is predicted and right.
struct Counts {
  std::int64_t both = 0, predicted = 0, expected = 0;
};

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

LabelScores scores_of(const std::string& label, const Counts& counts) {
  const auto both = static_cast<double>(counts.both);
  const auto predicted = static_cast<double>(counts.predicted);
  const auto expected = static_cast<double>(counts.expected);
  return {label, ratio(both, predicted), ratio(both, expected),
          ratio(2 * both, predicted + expected), counts.expected};
}

/// The averages of what `labels` has.
void average(const Counts& total, ClassificationMetrics& metrics) {
  metrics.micro = scores_of("micro", total);
  metrics.macro = {.label = "macro", .support = total.expected};
  metrics.weighted = {.label = "weighted", .support = total.expected};
  for (const LabelScores& one : metrics.labels) {
    const double even = 1.0 / static_cast<double>(metrics.labels.size());
    const double share =
        ratio(static_cast<double>(one.support), static_cast<double>(total.expected));
    const auto add = [&one](LabelScores& mean, double weight) {
      mean.precision += weight * one.precision;
      mean.recall += weight * one.recall;
      mean.f1 += weight * one.f1;
    };
    add(metrics.macro, even);
    add(metrics.weighted, share);
  }
}

Counts sum(std::span<const Counts> counts) {
  Counts total;
  for (const Counts& one : counts) {
    total.both += one.both;
    total.predicted += one.predicted;
    total.expected += one.expected;
  }
  return total;
}

double pearson(std::span<const double> a, std::span<const double> b) {
  const auto n = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / n;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / n;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return ab / std::sqrt(aa * bb);
}

/// The rank of each value; equal ones share the mean of theirs.
std::vector<double> ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> result(values.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i) {
      result[order[i]] = static_cast<double>(begin + end - 1) / 2;
    }
  }
  return result;
}

/// A label as its kind (B, I, E, S or O) and the type of its entity.
struct Tag {
  char kind = 'O';
  std::string_view type;
  explicit Tag(std::string_view label) {
    if (label == "O" || label.empty()) return;
    const bool marked = label.size() > 1 && label[1] == '-' &&
                        std::string_view("BIES").find(label[0]) != std::string_view::npos;
    kind = marked ? label[0] : 'I';
    type = marked ? label.substr(2) : label;
    if (label == "B" || label == "I" || label == "E" || label == "S") {
      kind = label[0];
      type = "_";
    }
  }
};

bool ends(const Tag& before, const Tag& now) {
  if (before.kind == 'O') return false;
  if (before.kind == 'E' || before.kind == 'S') return true;
  return now.kind == 'B' || now.kind == 'S' || now.kind == 'O' || before.type != now.type;
}

bool begins(const Tag& before, const Tag& now) {
  if (now.kind == 'O') return false;
  if (now.kind == 'B' || now.kind == 'S') return true;
  return before.kind == 'E' || before.kind == 'S' || before.kind == 'O' || before.type != now.type;
}

}  // namespace

ClassificationMetrics class_metrics(std::span<const std::int32_t> predicted,
                                    std::span<const std::int32_t> expected,
                                    std::span<const std::string> labels) {
  require(predicted.size() == expected.size(), "metrics: expected {} predictions, found {}",
          expected.size(), predicted.size());
  std::vector<Counts> counts(labels.size());
  std::int64_t documents = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] < 0) continue;
    ++documents;
    const auto right = static_cast<std::size_t>(expected[i]);
    const auto found = static_cast<std::size_t>(predicted[i]);
    ++counts.at(right).expected;
    ++counts.at(found).predicted;
    if (right == found) ++counts[right].both;
  }
  ClassificationMetrics metrics;
  for (std::size_t c = 0; c < labels.size(); ++c) {
    if (counts[c].expected + counts[c].predicted > 0) {
      metrics.labels.push_back(scores_of(labels[c], counts[c]));
    }
  }
  const Counts total = sum(counts);
  average(total, metrics);
  metrics.accuracy = ratio(static_cast<double>(total.both), static_cast<double>(documents));
  return metrics;
}

ClassificationMetrics multi_label_metrics(std::span<const float> scores,
                                          std::span<const float> expected,
                                          std::span<const std::string> labels, float threshold) {
  require(scores.size() == expected.size() && !labels.empty(),
          "metrics: expected {} scores, found {}", expected.size(), scores.size());
  std::vector<Counts> counts(labels.size());
  std::int64_t exact = 0;
  const std::size_t documents = scores.size() / labels.size();
  for (std::size_t d = 0; d < documents; ++d) {
    bool same = true;
    for (std::size_t c = 0; c < labels.size(); ++c) {
      const bool found = scores[d * labels.size() + c] > threshold;
      const bool right = expected[d * labels.size() + c] > 0.5f;
      counts[c].predicted += found ? 1 : 0;
      counts[c].expected += right ? 1 : 0;
      counts[c].both += found && right ? 1 : 0;
      same = same && found == right;
    }
    exact += same ? 1 : 0;
  }
  ClassificationMetrics metrics;
  for (std::size_t c = 0; c < labels.size(); ++c) {
    metrics.labels.push_back(scores_of(labels[c], counts[c]));
  }
  average(sum(counts), metrics);
  metrics.accuracy = ratio(static_cast<double>(exact), static_cast<double>(documents));
  return metrics;
}

RegressionMetrics regression_metrics(std::span<const float> predicted,
                                     std::span<const float> expected) {
  require(predicted.size() == expected.size() && !expected.empty(),
          "metrics: expected {} predictions, found {}", expected.size(), predicted.size());
  const std::vector<double> found(predicted.begin(), predicted.end());
  const std::vector<double> right(expected.begin(), expected.end());
  RegressionMetrics metrics;
  for (std::size_t i = 0; i < right.size(); ++i) {
    const double error = found[i] - right[i];
    metrics.mean_squared_error += error * error / static_cast<double>(right.size());
    metrics.mean_absolute_error += std::abs(error) / static_cast<double>(right.size());
  }
  metrics.pearson = pearson(found, right);
  metrics.spearman = pearson(ranks(found), ranks(right));
  return metrics;
}

std::vector<LabelledRange> entities_of(std::span<const std::string> labels) {
  std::vector<LabelledRange> entities;
  Tag before("O");
  std::int64_t begin = 0;
  for (std::size_t i = 0; i <= labels.size(); ++i) {
    const Tag now(i < labels.size() ? std::string_view(labels[i]) : "O");
    const auto place = static_cast<std::int64_t>(i);
    if (ends(before, now)) entities.push_back({std::string(before.type), begin, place});
    if (begins(before, now)) begin = place;
    before = now;
  }
  return entities;
}

EntityCounter::Counts& EntityCounter::counts_of(const std::string& type) {
  const auto place = std::lower_bound(
      counts_.begin(), counts_.end(), type,
      [](const Counts& counts, const std::string& name) { return counts.type < name; });
  if (place != counts_.end() && place->type == type) return *place;
  return *counts_.insert(place, {.type = type});
}

void EntityCounter::add(std::span<const std::string> predicted,
                        std::span<const std::string> expected) {
  require(predicted.size() == expected.size(), "metrics: expected {} predictions, found {}",
          expected.size(), predicted.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ++labels_;
    right_ += predicted[i] == expected[i] ? 1 : 0;
  }
  const std::vector<LabelledRange> right = entities_of(expected);
  const std::vector<LabelledRange> found = entities_of(predicted);
  for (const LabelledRange& entity : right) ++counts_of(entity.type).expected;
  for (const LabelledRange& entity : found) ++counts_of(entity.type).predicted;
  // Both are in order, and no two of one side begin at the same place.
  auto next = right.begin();
  for (const LabelledRange& entity : found) {
    while (next != right.end() && next->begin < entity.begin) ++next;
    if (next != right.end() && *next == entity) ++counts_of(entity.type).both;
  }
}

ClassificationMetrics EntityCounter::metrics() const {
  ClassificationMetrics metrics;
  std::vector<engine::Counts> all;
  for (const Counts& counts : counts_) {
    all.push_back({counts.both, counts.predicted, counts.expected});
    metrics.labels.push_back(scores_of(counts.type, all.back()));
  }
  average(sum(all), metrics);
  metrics.accuracy = ratio(static_cast<double>(right_), static_cast<double>(labels_));
  return metrics;
}

}  // namespace longformer::engine
