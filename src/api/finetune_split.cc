#include "api/finetune_split.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/words.h"
#include "engine/frame/split.h"
#include "formats/json.h"

namespace longformer {
namespace {

engine::SplitPlan plan_of(const FinetuneOptions& options, const engine::DataSet& data,
                          std::span<const engine::SplitRecord> records) {
  engine::SplitPlan plan = {.path = options.train_path,
                            .seed = options.training.seed,
                            .share = options.validation_split,
                            .folds = options.folds,
                            .fold = options.fold};
  const bool has_strata = std::ranges::all_of(
      records, [](const engine::SplitRecord& one) { return one.stratum != engine::kNoStratum; });
  // Examples with several labels have no class that must be in both parts.
  if (has_strata && !data.class_counts().is_multi_label) plan.classes = data.labels();
  return plan;
}

/// {label: [training, validation]}.
engine::Json counts_by_label(std::span<const engine::SplitRecord> records,
                             std::span<const Index> chosen,
                             const std::vector<std::string>& labels) {
  std::vector<Index> all(records.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Index>(i);
  const auto total = engine::stratum_counts(records, all, labels.size());
  const auto taken = engine::stratum_counts(records, chosen, labels.size());
  engine::Json counts = engine::Json::object();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    counts[labels[i]] = {total[i] - taken[i], taken[i]};
  }
  return counts;
}

/// Note of classes that have too few examples to be in the part of each fold.
std::string note_of(std::span<const engine::SplitRecord> records, const engine::SplitPlan& plan) {
  if (plan.folds == 0 || plan.classes.empty()) return {};
  std::vector<Index> all(records.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Index>(i);
  const auto counts = engine::stratum_counts(records, all, plan.classes.size());
  std::string found;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0 || counts[i] >= plan.folds) continue;
    found += fmt::format("{}{} ({})", found.empty() ? "" : ", ", formats::quote(plan.classes[i]),
                         counted(counts[i], "example"));
  }
  if (found.empty()) return {};
  return fmt::format(
      "folds: expected at least {} of each class, as there are folds, found fewer of {}: some "
      "folds are evaluated without them",
      counted(plan.folds, "example"), found);
}

/// The text of validation_split.json, where ids stand as the data have them.
std::string file_of(const engine::Json& facts, std::span<const engine::SplitRecord> records,
                    std::span<const Index> chosen) {
  std::string text = facts.dump(1, ' ', false, engine::Json::error_handler_t::replace);
  text.resize(text.rfind('\n'));
  text += ",\n \"examples\": [";
  const char* between = "\n";
  for (const Index i : chosen) {
    const engine::Origin& origin = records[at(i)].origin;
    text += fmt::format("{}  {{\n   \"number\": {}", std::exchange(between, ",\n"), i + 1);
    if (origin.line > 0) text += fmt::format(",\n   \"line\": {}", origin.line);
    if (origin.record > 0) text += fmt::format(",\n   \"record\": {}", origin.record);
    if (!origin.id.empty()) text += ",\n   \"id\": " + origin.id_json();
    text += "\n  }";
  }
  return text + "\n ]\n}\n";
}

}  // namespace

void check_split(const FinetuneOptions& options) {
  const double share = options.validation_split;
  require(share >= 0 && share < 1 && std::isfinite(share), OptionName("validation_split"),
          "expected a share above 0 and below 1, found {}", share);
  require(options.folds == 0 || options.folds >= 2, OptionName("folds"),
          "expected 2 or more, found {}", options.folds);
  require(options.fold == 0 || options.folds > 0, OptionName("fold"),
          "expected the number of folds beside it, found none");
  require(options.fold >= 0 && options.fold <= options.folds, OptionName("fold"),
          "expected the number of one of {} folds, found {}", options.folds, options.fold);
  require(options.folds == 0 || share == 0, OptionName("folds"),
          "expected none beside a validation split, found {}", options.folds);
  if (!options.splits()) return;
  const char* option = share > 0 ? "validation_split" : "folds";
  require(options.validation_path.empty(), OptionName(option),
          "expected no validation data beside it, found '{}'", options.validation_path);
  require(options.training.eval_strategy != "no", OptionName(option),
          "expected evaluations of the examples that are kept out of training, found the "
          "eval_strategy no");
}

DataSplit split_data(const FinetuneOptions& options, engine::DataSet& data) {
  DataSplit split;
  if (!options.splits()) return split;
  const std::vector<engine::SplitRecord> records = data.split_records();
  require(!records.empty(), OptionName(options.folds > 0 ? "folds" : "validation_split"),
          "expected data that can be split, found {}", options.train_path);
  const engine::SplitPlan plan = plan_of(options, data, records);
  const std::vector<Index> chosen = engine::validation_part(records, plan);
  split.facts["seed"] = plan.seed;
  if (plan.folds > 0) {
    split.facts["folds"] = plan.folds;
    split.facts["fold"] = plan.fold;
  } else {
    split.facts["validation_split"] = plan.share;
  }
  split.facts["training"] = records.size() - chosen.size();
  split.facts["validation"] = chosen.size();
  if (!plan.classes.empty()) {
    split.facts["labels"] = counts_by_label(records, chosen, plan.classes);
  }
  split.note = note_of(records, plan);
  split.file = file_of(split.facts, records, chosen);
  split.validation = data.split_off(chosen);
  return split;
}

engine::ClassWeights weights_of_classes(const FinetuneOptions& options,
                                        const engine::DataSet& data) {
  if (options.class_weights.empty()) return {};
  require(options.training.label_smoothing_factor == 0, OptionName("class_weights"),
          "expected none beside label smoothing, found '{}'", options.class_weights);
  return engine::class_weights(options.class_weights, data.labels(), data.class_counts());
}

engine::Json to_json(const engine::ClassWeights& weights, const std::vector<std::string>& labels) {
  engine::Json object = engine::Json::object();
  for (std::size_t i = 0; i < weights.right.size(); ++i) {
    if (weights.other.empty()) {
      object[labels[i]] = weights.right[i];
    } else {
      object[labels[i]] = {weights.right[i], weights.other[i]};
    }
  }
  return object;
}

}  // namespace longformer
