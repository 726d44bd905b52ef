#include "tasks/choice/multiple_choice.h"

#include <algorithm>

#include "core/error.h"
#include "engine/frame/evaluation_run.h"
#include "engine/frame/predictions.h"
#include "engine/frame/scores.h"
#include "engine/frame/split.h"
#include "models/attention/attention.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {
namespace {

class ChoiceHead final : public ClassifierHead {
 public:
  using ClassifierHead::ClassifierHead;

 private:
  ops::LossSum loss_of(const ops::Context& context, const Tensor& logits, const models::Batch&,
                       const Targets& targets, const HeadLossOptions& options) const override {
    return choice_loss(context, logits, targets.questions, labels_of(targets), options);
  }
};

class ChoiceSet final : public DataSet {
 public:
  explicit ChoiceSet(ChoiceData data) : data_(std::move(data)) {}

  DataReport report() const override { return data_.report; }
  std::vector<std::string> metric_names() const override { return {"accuracy"}; }

  std::vector<SplitRecord> split_records() const override {
    return engine::split_records(data_.examples, [](const auto& one) {
      return split_keys(one.origin, one.question.context + one.question.question);
    });
  }
  std::unique_ptr<DataSet> split_off(std::span<const Index> examples) override {
    return engine::split_off(*this, &ChoiceSet::data_, examples);
  }

  std::unique_ptr<TrainingSet> collate(const CollationSetup& setup) const override {
    return collated(data_, setup, [](Collator& rows, const ChoiceExample& example) {
      return tasks::collate(rows, example);
    });
  }

  void evaluate(EvaluationRun& run) const override {
    const RowReader reader(run.model.tokenizer(), run.options.reading);
    evaluate_choices(run, data_,
                     [&](const ChoiceQuestion& question) { return reader.read(question); });
  }

 private:
  ChoiceData data_;
};

class MultipleChoice final : public Task {
 public:
  const TaskNames& names() const override {
    static constexpr TaskNames names = {
        .head = "multiple-choice", .verb = "choose", .class_ending = "ForMultipleChoice"};
    return names;
  }

  std::optional<HeadParts> parts(const models::EncoderConfig& config) const override {
    return HeadParts{.classifier = std::string(config.traits().choice_classifier),
                     .outputs = 1,
                     .layer = &config.traits().choice_layer,
                     .recipe = config.head,
                     .dropout = config.head_dropout.choices};
  }

  std::unique_ptr<Head> make_head(const models::EncoderConfig& config,
                                  const models::Weights& weights, DType dtype) const override {
    return std::make_unique<ChoiceHead>(*parts(config),
                                        models::layer_source(config, weights, dtype),
                                        config.last_size(), names().head);
  }

  /// Global tokens are those after the separators between question and choice. `transformers`
  /// insists on three separators and then skips two positions; with any other number a second
  /// separator is skipped only where it directly follows.
  std::vector<Index> globals_of_ids(const models::EncoderConfig& config,
                                    std::span<const std::int32_t> ids,
                                    const std::string& name) const override {
    const Index first = first_separator(config, ids, name);
    const auto found = ids.begin() + first;
    const bool doubled = found + 1 != ids.end() && found[1] == *found;
    const bool skips_two = doubled || std::count(found, ids.end(), *found) == 3;
    return positions_between(first + (skips_two ? 2 : 1), static_cast<Index>(ids.size()));
  }

  std::vector<const Counter*> counters() const override { return official_counters(); }

  std::vector<Index> globals_of_texts(const models::EncoderConfig& config, const Encoding& tokens,
                                      const std::string& name) const override {
    auto positions = from_second_text(tokens);
    return positions.empty() ? globals_of_ids(config, tokens.ids, name) : positions;
  }

  void check_too_long(TooLong too_long) const override {
    require(too_long != TooLong::split, {Remedy::truncate}, OptionName("stride"),
            "expected truncation of long contexts, found a stride");
  }

  std::unique_ptr<DataSet> read(const std::string& path, const DataOptions& options,
                                const KnownLabels&) const override {
    return std::make_unique<ChoiceSet>(read_choices(path, options));
  }
};

}  // namespace

const Task& multiple_choice() {
  static const MultipleChoice task;
  return task;
}

std::vector<Example> collate(Collator& rows, const ChoiceExample& example) {
  Reading reading = rows.reader().read(example.question);
  Example one = rows.example_of(reading);
  one.targets[0].labels = {right_choice(example)};
  rows.keep(std::move(reading).counts());
  return {std::move(one)};
}

std::vector<float> choice_logits(const Document& document) {
  const std::vector<Index>& places = document.reading.places;
  std::vector<float> logits(places.size(), 0.0f);
  for (const std::vector<float>& output : document.outputs) {
    if (places.empty()) logits.push_back(output.at(0));
    for (std::size_t i = 0; i < places.size(); ++i) logits[i] += output.at(at(places[i]));
  }
  return logits;
}

void check_question(const ChoiceQuestion& question) {
  require(!question.choices.empty(), "expected at least one choice, found none");
  require(!question.context.empty() || !question.question.empty(),
          "expected a context or a question, found neither");
}

void evaluate_choices(EvaluationRun& run, const ChoiceData& data,
                      const std::function<Reading(const ChoiceQuestion&)>& read) {
  std::int64_t right = 0;
  AnswersById published;
  const auto read_one = [&](const ChoiceExample& example) {
    check_question(example.question);
    return read(example.question);
  };
  const auto score = [&](const ChoiceExample& example, const Document& document, Json& prediction) {
    const std::vector<float> logits = choice_logits(document);
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    right += best == example.label ? 1 : 0;
    published[example.origin.id] = example.question.choices[at(best)];
    prediction["label"] = data.is_answered() ? Json(example.label) : Json();
    prediction["prediction"] = best;
    prediction["probabilities"] = softmax(logits);
  };
  run.each(data.examples, read_one, score);
  // A question that the model could not read counts as answered wrongly.
  const auto questions = std::ssize(data.examples);
  run.result.counts[kMissing] = questions - run.result.examples;
  if (data.is_answered()) {
    run.add("accuracy", static_cast<double>(right) / static_cast<double>(questions));
  }
  run.publish(answers_text(published));
}

}  // namespace longformer::tasks
