#include "tasks/classification/classification.h"

#include <algorithm>

#include "core/error.h"
#include "engine/frame/evaluation_run.h"
#include "engine/frame/scores.h"
#include "engine/frame/split.h"
#include "models/attention/attention.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {
namespace {

/// Problem of the configuration, else regression for one label, multi-label where values are given,
/// else single-label.
ProblemType problem_of(const models::EncoderConfig& config, bool has_values) {
  if (!config.problem_type.empty()) return problem_type(config.problem_type);
  if (config.labels.size() == 1) return ProblemType::regression;
  return has_values ? ProblemType::multi_label : ProblemType::single_label;
}

class ClassificationHead final : public ClassifierHead {
 public:
  ClassificationHead(const models::EncoderConfig& config, const HeadParts& parts,
                     const models::LayerSource& source, std::string_view name)
      : ClassifierHead(parts, source, config.last_size(), name), config_(config) {}

 private:
  ops::LossSum loss_of(const ops::Context& context, const Tensor& logits, const models::Batch&,
                       const Targets& targets, const HeadLossOptions& options) const override {
    const std::vector<std::int32_t> labels = labels_of(targets);
    // A list of texts, of which one is relevant to a query.
    if (logits.columns() == 1 && !labels.empty()) {
      return choice_loss(context, logits, targets.questions, labels, options);
    }
    std::vector<float> values;
    for (const DocumentTarget& target : targets.documents) {
      values.insert(values.end(), target.values.begin(), target.values.end());
    }
    const ProblemType problem = problem_of(config_, !values.empty());
    if (problem == ProblemType::single_label) {
      return class_loss(context, logits, labels, options);
    }
    check_count(values.size(), logits.size(), "target values");
    ops::LossOptions mean = mean_of(static_cast<double>(values.size()), options);
    if (options.class_weights != nullptr && problem == ProblemType::multi_label) {
      mean.class_weights = options.class_weights->right;
      mean.other_weights = options.class_weights->other;
    }
    return problem == ProblemType::regression
               ? ops::squared_error(context, logits, values, mean)
               : ops::binary_cross_entropy(context, logits, values, mean);
  }

  models::EncoderConfig config_;
};

/// Predictions of all examples, and their labels. C classes.
struct Outcomes {
  std::vector<std::int32_t> predicted, expected;
  /// [examples, C]
  std::vector<float> scores, values;
};

std::vector<float> scores_of(std::span<const float> logits, ProblemType problem) {
  if (problem == ProblemType::single_label) return softmax(logits);
  if (problem == ProblemType::multi_label) return sigmoid(logits);
  return {logits.begin(), logits.end()};
}

Reading read_example(const RowReader& reader, const ClassificationExample& example) {
  return example.pair ? reader.read_pair(example.text, *example.pair) : reader.read(example.text);
}

class ClassificationSet final : public DataSet {
 public:
  ClassificationSet(ClassificationData data, const KnownLabels& known) : data_(std::move(data)) {
    labels_ = data_.labels.names();
    if (data_.problem != ProblemType::regression || known.labels) return;
    require(!data_.examples.empty(), "{}: expected examples, found none", data_.path);
    labels_.clear();
    for (std::size_t i = 0; i < data_.examples[0].values.size(); ++i) {
      labels_.push_back(fmt::format("LABEL_{}", i));
    }
  }

  std::vector<std::string> labels() const override { return labels_; }
  std::string problem_type() const override { return std::string(name_of(data_.problem)); }
  std::optional<LabelKind> label_kind() const override { return data_.kind; }
  bool has_one_class() const override { return data_.problem == ProblemType::single_label; }

  void check_classes() const {
    if (data_.problem != ProblemType::single_label) return;
    const auto& examples = data_.examples;
    require(std::ranges::any_of(
                examples, [&](const auto& one) { return one.label != examples.front().label; }),
            "{}: expected examples of two classes or more, found {} of \"{}\" alone", data_.path,
            examples.size(), labels_[static_cast<std::size_t>(examples.front().label)]);
  }

  DataReport report() const override { return data_.report; }
  std::vector<std::string> metric_names() const override {
    if (data_.problem == ProblemType::regression) return {"pearson", "spearman", "mse", "mae"};
    if (data_.problem == ProblemType::multi_label) {
      return {"f1_micro", "f1_macro", "f1_weighted", "precision_micro", "recall_micro", "accuracy"};
    }
    std::vector<std::string> names = {"accuracy"};
    if (labels_.size() == 2) names.emplace_back("f1");
    names.insert(names.end(), {"f1_macro", "f1_weighted", "precision_macro", "recall_macro"});
    return names;
  }

  std::vector<SplitRecord> split_records() const override {
    const ClassCounts counts = class_counts();
    std::vector<SplitRecord> records;
    for (const ClassificationExample& one : data_.examples) {
      records.push_back({.origin = one.origin,
                         .keys = split_keys(one.origin, one.text + one.pair.value_or("")),
                         .stratum = stratum_of(one, counts)});
    }
    return records;
  }
  std::unique_ptr<DataSet> split_off(std::span<const Index> examples) override {
    auto part = engine::split_off(*this, &ClassificationSet::data_, examples);
    for (ClassificationSet* one : {this, part.get()}) {
      one->data_.report.empty = std::ranges::count_if(
          one->data_.examples, [](const auto& two) { return two.text.empty(); });
    }
    return part;
  }

  ClassCounts class_counts() const override {
    if (data_.problem == ProblemType::regression) return {};
    ClassCounts found = {.counts = std::vector<Index>(labels_.size(), 0),
                         .total = std::ssize(data_.examples),
                         .is_multi_label = data_.problem == ProblemType::multi_label};
    for (const ClassificationExample& one : data_.examples) {
      if (!found.is_multi_label) ++found.counts[static_cast<std::size_t>(one.label)];
      for (std::size_t i = 0; found.is_multi_label && i < one.values.size(); ++i) {
        if (one.values[i] > 0.5f) ++found.counts[i];
      }
    }
    return found;
  }

  std::unique_ptr<TrainingSet> collate(const CollationSetup& setup) const override {
    return collated(data_, setup, [](Collator& rows, const ClassificationExample& example) {
      return tasks::collate(rows, example);
    });
  }

  void evaluate(EvaluationRun& run) const override {
    const RowReader reader(run.model.tokenizer(), run.options.reading);
    Outcomes outcomes;
    const auto read = [&](const ClassificationExample& example) {
      return read_example(reader, example);
    };
    const auto score = [&](const ClassificationExample& example, const Document& document,
                           Json& prediction) {
      const auto scores =
          scores_of(merged_logits(document.outputs, run.options.merge), data_.problem);
      outcomes.predicted.push_back(static_cast<std::int32_t>(
          std::max_element(scores.begin(), scores.end()) - scores.begin()));
      outcomes.expected.push_back(example.label);
      outcomes.scores.insert(outcomes.scores.end(), scores.begin(), scores.end());
      outcomes.values.insert(outcomes.values.end(), example.values.begin(), example.values.end());
      if (run.wants_predictions()) describe(example, scores, run.options.threshold, prediction);
    };
    run.each(data_.examples, read, score);
    if (data_.problem == ProblemType::single_label) add_single_label(outcomes, run);
    if (data_.problem == ProblemType::multi_label) add_multi_label(outcomes, run);
    if (data_.problem == ProblemType::regression) add_regression(outcomes, run);
  }

 private:
  /// The class; of several, the rarest; of numbers, none.
  std::int32_t stratum_of(const ClassificationExample& example, const ClassCounts& counts) const {
    if (data_.problem == ProblemType::single_label) return example.label;
    std::int32_t rarest = engine::kNoStratum;
    if (data_.problem == ProblemType::regression) return rarest;
    for (std::size_t i = 0; i < example.values.size(); ++i) {
      if (example.values[i] <= 0.5f) continue;
      const bool is_rarer =
          rarest < 0 || counts.counts[i] < counts.counts[static_cast<std::size_t>(rarest)];
      if (is_rarer) rarest = static_cast<std::int32_t>(i);
    }
    return rarest;
  }

  /// {"label", "prediction", "scores"}: names, lists of names, or numbers.
  void describe(const ClassificationExample& example, std::span<const float> scores,
                float threshold, Json& json) const {
    if (data_.problem == ProblemType::regression) {
      json["label"] = example.values;
      json["prediction"] = std::vector<float>(scores.begin(), scores.end());
      return;
    }
    if (data_.problem == ProblemType::single_label) {
      const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
      json["label"] = labels_[static_cast<std::size_t>(example.label)];
      json["prediction"] = labels_[static_cast<std::size_t>(best)];
    } else {
      json["label"] = Json::array();
      json["prediction"] = Json::array();
      for (std::size_t c = 0; c < labels_.size(); ++c) {
        if (example.values[c] > 0.5f) json["label"].push_back(labels_[c]);
        if (scores[c] > threshold) json["prediction"].push_back(labels_[c]);
      }
    }
    json["scores"] = Json::object();
    for (std::size_t c = 0; c < labels_.size(); ++c) json["scores"][labels_[c]] = scores[c];
  }

  void add_single_label(const Outcomes& outcomes, EvaluationRun& run) const {
    const auto metrics = class_metrics(outcomes.predicted, outcomes.expected, labels_);
    run.add("accuracy", metrics.accuracy);
    if (labels_.size() == 2) {
      const auto second =
          std::find_if(metrics.labels.begin(), metrics.labels.end(),
                       [&](const LabelScores& one) { return one.label == labels_[1]; });
      run.add("f1", second == metrics.labels.end() ? 0 : second->f1);
    }
    run.add("f1_macro", metrics.macro.f1);
    run.add("f1_weighted", metrics.weighted.f1);
    run.add("precision_macro", metrics.macro.precision);
    run.add("recall_macro", metrics.macro.recall);
    run.add_labels(metrics);
  }

  void add_multi_label(const Outcomes& outcomes, EvaluationRun& run) const {
    const auto metrics =
        multi_label_metrics(outcomes.scores, outcomes.values, labels_, run.options.threshold);
    run.add("f1_micro", metrics.micro.f1);
    run.add("f1_macro", metrics.macro.f1);
    run.add("f1_weighted", metrics.weighted.f1);
    run.add("precision_micro", metrics.micro.precision);
    run.add("recall_micro", metrics.micro.recall);
    run.add("accuracy", metrics.accuracy);
    run.add_labels(metrics);
  }

  static void add_regression(const Outcomes& outcomes, EvaluationRun& run) {
    const auto metrics = regression_metrics(outcomes.scores, outcomes.values);
    run.add("pearson", metrics.pearson);
    run.add("spearman", metrics.spearman);
    run.add("mse", metrics.mean_squared_error);
    run.add("mae", metrics.mean_absolute_error);
  }

  ClassificationData data_;
  std::vector<std::string> labels_;
};

class Classification final : public Task {
 public:
  const TaskNames& names() const override {
    static constexpr TaskNames names = {.head = "sequence-classification",
                                        .verb = "classify",
                                        .class_ending = "ForSequenceClassification"};
    return names;
  }

  std::optional<HeadParts> parts(const models::EncoderConfig& config) const override {
    const models::EncoderTraits& traits = config.traits();
    const bool reads_last = config.head.pooling == models::DocumentPooling::last;
    return HeadParts{.classifier = std::string(traits.document_classifier),
                     .outputs = static_cast<Index>(config.labels.size()),
                     .has_bias = config.head.classifier_bias,
                     .layer = reads_last ? nullptr : &traits.document_layer,
                     .recipe = config.head,
                     .dropout = config.head_dropout.documents};
  }

  std::unique_ptr<Head> make_head(const models::EncoderConfig& config,
                                  const models::Weights& weights, DType dtype) const override {
    return std::make_unique<ClassificationHead>(
        config, *parts(config), models::layer_source(config, weights, dtype), names().head);
  }

  bool has_labels() const override { return true; }

  std::vector<Index> globals_of_ids(const models::EncoderConfig&, std::span<const std::int32_t>,
                                    const std::string&) const override {
    return {0};
  }

  std::unique_ptr<DataSet> read(const std::string& path, const DataOptions& options,
                                const KnownLabels& known) const override {
    ClassificationTarget target = {.labels = known.labels, .kind = known.kind};
    if (!known.problem_type.empty()) target.problem = problem_type(known.problem_type);
    return std::make_unique<ClassificationSet>(read_classification(path, options, target), known);
  }
};

}  // namespace

const Task& classification() {
  static const Classification task;
  return task;
}

void check_problem_type(const DataOptions& options, const Task& task) {
  require(options.problem_type.empty() || &task == &classification(),
          OptionName("data.problem_type", "problem type"),
          "expected a task that classifies documents, found {}",
          task.names().verb.empty() ? task.names().head : task.names().verb);
}

void check_classes(const DataSet& examples) {
  const auto* set = dynamic_cast<const ClassificationSet*>(&examples);
  if (set != nullptr) set->check_classes();
}

std::vector<Example> collate(Collator& rows, const ClassificationExample& example) {
  Reading reading = read_example(rows.reader(), example);
  std::vector<Example> examples = rows.examples_of(reading);
  for (Example& one : examples) {
    if (example.values.empty()) one.targets[0].labels = {example.label};
    one.targets[0].values = example.values;
  }
  rows.keep(std::move(reading).counts());
  return examples;
}

std::vector<float> merged_logits(std::span<const std::vector<float>> segments, SegmentMerge merge) {
  std::vector<double> sums(segments[0].begin(), segments[0].end());
  for (const std::vector<float>& segment : segments.subspan(1)) {
    for (std::size_t c = 0; c < sums.size(); ++c) {
      const auto logit = static_cast<double>(segment[c]);
      sums[c] = merge == SegmentMerge::mean ? sums[c] + logit : std::max(sums[c], logit);
    }
  }
  const double divisor = merge == SegmentMerge::mean ? static_cast<double>(segments.size()) : 1.0;
  std::vector<float> logits;
  for (const double sum : sums) logits.push_back(static_cast<float>(sum / divisor));
  return logits;
}

}  // namespace longformer::tasks
