#include "tasks/tagging/tagging.h"

#include <algorithm>

#include "core/error.h"
#include "engine/frame/evaluation_run.h"
#include "engine/frame/split.h"
#include "models/attention/attention.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {
namespace {

using Strings = std::vector<std::string>;

class TaggingHead final : public ClassifierHead {
 public:
  using ClassifierHead::ClassifierHead;

 private:
  ops::LossSum loss_of(const ops::Context& context, const Tensor& logits,
                       const models::Batch& batch, const Targets& targets,
                       const HeadLossOptions& options) const override {
    check_token_labels(batch, targets);
    return class_loss(context, logits, labels_of(targets), options);
  }
};

Strings names_of(std::span<const std::int32_t> labels, const Strings& names) {
  Strings result;
  for (const std::int32_t label : labels) {
    // A word that was not read has no entity.
    result.push_back(label < 0 ? "O" : names[static_cast<std::size_t>(label)]);
  }
  return result;
}

class TaggingSet final : public DataSet {
 public:
  explicit TaggingSet(TaggingData data) : data_(std::move(data)) {}

  Strings labels() const override { return data_.labels.names(); }
  std::optional<LabelKind> label_kind() const override { return data_.kind; }
  DataReport report() const override { return data_.report; }
  Strings metric_names() const override {
    return {"f1", "precision", "recall", "f1_macro", "accuracy"};
  }

  std::vector<SplitRecord> split_records() const override {
    return engine::split_records(data_.examples, [](const auto& one) {
      return split_keys(one.origin, fmt::format("{}", fmt::join(one.words, " ")));
    });
  }
  std::unique_ptr<DataSet> split_off(std::span<const Index> examples) override {
    return engine::split_off(*this, &TaggingSet::data_, examples);
  }

  ClassCounts class_counts() const override {
    ClassCounts found = {.counts = std::vector<Index>(data_.labels.size(), 0)};
    for (const TaggingExample& example : data_.examples) {
      for (const std::int32_t label : example.labels) {
        if (label < 0) continue;
        ++found.counts[static_cast<std::size_t>(label)];
        ++found.total;
      }
    }
    return found;
  }

  std::unique_ptr<TrainingSet> collate(const CollationSetup& setup) const override {
    return collated(data_, setup, [](Collator& rows, const TaggingExample& example) {
      return tasks::collate(rows, example);
    });
  }

  void evaluate(EvaluationRun& run) const override {
    const RowReader reader(run.model.tokenizer(), run.options.reading);
    const Strings& names = data_.labels.names();
    EntityCounter entities;
    const auto read = [&](const TaggingExample& example) { return reader.read(example.words); };
    const auto score = [&](const TaggingExample& example, const Document& document,
                           Json& prediction) {
      const std::vector<std::int32_t> labels = word_labels(document, names.size());
      run.result.counts[kUnreadWords] += std::count(labels.begin(), labels.end(), -1);
      const Strings predicted = names_of(labels, names);
      const Strings expected = names_of(example.labels, names);
      entities.add(predicted, expected);
      prediction["labels"] = expected;
      prediction["predictions"] = predicted;
    };
    run.each(data_.examples, read, score);
    const ClassificationMetrics metrics = entities.metrics();
    run.add("f1", metrics.micro.f1);
    run.add("precision", metrics.micro.precision);
    run.add("recall", metrics.micro.recall);
    run.add("f1_macro", metrics.macro.f1);
    run.add("accuracy", metrics.accuracy);
    run.add_labels(metrics);
  }

 private:
  TaggingData data_;
};

class Tagging final : public Task {
 public:
  const TaskNames& names() const override {
    static constexpr TaskNames names = {
        .head = "token-classification", .verb = "ner", .class_ending = "ForTokenClassification"};
    return names;
  }

  std::optional<HeadParts> parts(const models::EncoderConfig& config) const override {
    HeadParts parts = {.classifier = std::string(config.traits().token_classifier),
                       .outputs = static_cast<Index>(config.labels.size()),
                       .dropout = config.head_dropout.tokens};
    parts.read_tokens(config);
    return parts;
  }

  std::unique_ptr<Head> make_head(const models::EncoderConfig& config,
                                  const models::Weights& weights, DType dtype) const override {
    return std::make_unique<TaggingHead>(*parts(config),
                                         models::layer_source(config, weights, dtype),
                                         config.last_size(), names().head);
  }

  bool has_labels() const override { return true; }
  std::vector<const Counter*> counters() const override {
    return reading_counters({&kUnreadWords});
  }

  std::unique_ptr<DataSet> read(const std::string& path, const DataOptions& options,
                                const KnownLabels& known) const override {
    return std::make_unique<TaggingSet>(read_tagging(path, options, known));
  }
};

}  // namespace

const Task& tagging() {
  static const Tagging task;
  return task;
}

std::vector<Example> collate(Collator& rows, const TaggingExample& example) {
  Reading reading = rows.reader().read(example.words);
  std::vector<Example> examples = rows.examples_of(reading);
  const std::vector<Index>& words = reading.words;
  const auto owned = owned_tokens(reading.ranges, reading.read());
  for (std::size_t r = 0; r < examples.size(); ++r) {
    auto& labels = examples[r].targets[0].labels;
    labels.assign(examples[r].rows[0].ids.size(), kIgnoredLabel);
    for (Index token = owned[r].begin; token < owned[r].end; ++token) {
      const bool first = token == 0 || words[at(token)] != words[at(token - 1)];
      if (!first && !rows.label_all_pieces()) continue;
      labels[at(reading.prefix + token - reading.ranges[r].begin)] =
          example.labels[at(words[at(token)])];
    }
  }
  std::vector<Index> seen(words.begin(), words.begin() + reading.read());
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  rows.report().counts[kUnreadWords] += static_cast<Index>(example.words.size() - seen.size());
  rows.keep(std::move(reading));
  return examples;
}

std::vector<float> token_logits(const Document& document, std::size_t classes) {
  const Reading& reading = document.reading;
  const Index tokens = reading.read();
  const auto owned = owned_tokens(reading.ranges, tokens);
  std::vector<float> logits;
  logits.reserve(at(tokens) * classes);
  for (std::size_t s = 0; s < owned.size(); ++s) {
    const Index shift = reading.prefix - reading.ranges[s].begin;
    const auto row = [&](Index token) {
      return document.outputs[s].begin() + (token + shift) * static_cast<Index>(classes);
    };
    logits.insert(logits.end(), row(owned[s].begin), row(owned[s].end));
  }
  return logits;
}

std::vector<std::int32_t> word_labels(const Document& document, std::size_t classes) {
  std::vector<std::int32_t> labels(document.reading.word_count, -1);
  const std::vector<float> logits = token_logits(document, classes);
  for (std::size_t token = 0; token < logits.size() / classes; ++token) {
    std::int32_t& label = labels[at(document.reading.words[token])];
    const auto row = std::span(logits).subspan(token * classes, classes);
    if (label < 0) {
      label = static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
    }
  }
  return labels;
}

}  // namespace longformer::tasks
