#include "tasks/writing/sequence_to_sequence.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "engine/frame/collation.h"
#include "engine/frame/evaluation_run.h"
#include "engine/frame/split.h"
#include "tasks/engine_names.h"
#include "tasks/writing/rouge.h"
#include "tasks/writing/sequence_data.h"

namespace longformer::tasks {
namespace {

constexpr Counter kTruncatedTargets = {
    .name = "truncated_targets",
    .meaning = "texts to learn that were cut",
    .training = {.one = "{n} text to learn is cut", .many = "{n} texts to learn are cut"},
    .is_of_model = true};
constexpr Counter kWrittenTokens = {.name = "written_tokens",
                                    .meaning = "texts: tokens written",
                                    .row = "written tokens",
                                    .is_of_model = true};
constexpr Counter kCutTexts = {
    .name = "cut_texts",
    .meaning = "texts that reached the longest length",
    .evaluation = {.one = "{n} of {examples|text} reached the longest length",
                   .many = "{n} of {examples|text} reached the longest length"},
    .option = "max_length",
    .is_of_model = true};
constexpr Counter kRepeatingTexts = {
    .name = "repeating_texts",
    .meaning = "texts that are one token again and again",
    .evaluation = {.one = "{n} of {examples|text} is one token again and again",
                   .many = "{n} of {examples|text} are one token again and again"},
    .is_of_model = true};

class SequenceSet final : public DataSet {
 public:
  explicit SequenceSet(SequenceData data) : data_(std::move(data)) {}

  DataReport report() const override { return data_.report; }
  std::vector<std::string> metric_names() const override {
    return {kRougeNames.begin(), kRougeNames.end()};
  }

  std::vector<SplitRecord> split_records() const override {
    return engine::split_records(
        data_.examples, [](const auto& one) { return split_keys(one.origin, one.source); });
  }
  std::unique_ptr<DataSet> split_off(std::span<const Index> examples) override {
    return engine::split_off(*this, &SequenceSet::data_, examples);
  }
  std::unique_ptr<TrainingSet> collate(const CollationSetup& setup) const override;
  void evaluate(EvaluationRun& run) const override;

 private:
  SequenceData data_;
};

class SequenceToSequence final : public Task {
 public:
  const TaskNames& names() const override {
    static constexpr TaskNames names = {.head = "sequence-to-sequence",
                                        .verb = "seq2seq",
                                        .class_ending = "ForConditionalGeneration"};
    return names;
  }

  std::optional<HeadParts> parts(const models::EncoderConfig&) const override {
    return std::nullopt;
  }

  std::unique_ptr<Head> make_head(const models::EncoderConfig& config,
                                  const models::Weights& weights, DType dtype) const override {
    require(config.decoder.has_value(),
            "{} head: expected a model with a decoder ({}), found {} without one", names().head,
            models::encoder_decoder_names(), config.model_type());
    return std::make_unique<DecoderHead>(config, weights, dtype);
  }

  std::vector<const Counter*> counters() const override {
    return reading_counters({&kWrittenTokens, &kCutTexts, &kRepeatingTexts});
  }

  bool is_present(const models::EncoderConfig& config, const models::Weights&) const override {
    return config.decoder.has_value();
  }

  /// `transformers` has none; all recipes for summaries take the first token
  /// (docs/spec/training.md#c5).
  std::vector<Index> globals_of_texts(const models::EncoderConfig&, const Encoding&,
                                      const std::string&) const override {
    return {0};
  }

  std::unique_ptr<DataSet> read(const std::string& path, const DataOptions& options,
                                const KnownLabels&) const override {
    return std::make_unique<SequenceSet>(read_sequences(path, options));
  }
};

/// The tokens of a target; cut to what the decoder takes, with the end token.
std::vector<std::int32_t> target_tokens(const CollationSetup& setup, const std::string& target,
                                        Counts& counts) {
  Index most = setup.config.decoder->max_tokens();
  if (setup.max_target_tokens > 0) most = std::min(most, setup.max_target_tokens);
  const Encoding tokens = setup.tokenizer.encode(target, {.max_length = most});
  counts[kTruncatedTargets] += tokens.truncated > 0 ? 1 : 0;
  return tokens.ids;
}

std::unique_ptr<TrainingSet> SequenceSet::collate(const CollationSetup& setup) const {
  require(setup.reading.too_long != TooLong::split, {Remedy::truncate}, OptionName("stride"),
          "expected truncation of long documents in training, found a stride");
  for (const SequenceExample& example : data_.examples) {
    require(!example.target.empty(), {Remedy::skip_invalid},
            "{}: expected a text to write, found an empty one",
            place_of(data_.path, example.origin));
  }
  return collated(data_, setup, [&setup](Collator& rows, const SequenceExample& example) {
    Reading reading = rows.reader().read(example.source);
    Example one = rows.example_of(reading);
    one.targets[0].labels = target_tokens(setup, example.target, rows.report().counts);
    return std::vector<Example>{std::move(one)};
  });
}

void SequenceSet::evaluate(EvaluationRun& run) const {
  require(run.options.write != nullptr,
          "model: expected one that writes texts, with how it does, found none");
  std::vector<RougeScores> scores;
  const auto source = [](const SequenceExample& example) { return example.source; };
  const auto score = [&](const SequenceExample& example, const TextResult& found,
                         Json& prediction) {
    run.result.counts[kWrittenTokens] += found.written_tokens;
    run.result.counts[kCutTexts] += found.is_cut ? 1 : 0;
    run.result.counts[kRepeatingTexts] += found.repeats ? 1 : 0;
    scores.push_back(rouge(example.target, found.text, run.options.rouge_stems));
    prediction["target"] = example.target;
    prediction["prediction"] = found.text;
    for (std::size_t i = 0; i < kRougeNames.size(); ++i) {
      prediction[std::string(kRougeNames[i])] = scores.back()[i].f;
    }
  };
  run.each_text(data_.examples, source, score);
  for (std::size_t i = 0; i < kRougeNames.size(); ++i) {
    double sum = 0;
    for (const RougeScores& one : scores) sum += one[i].f;
    run.add(std::string(kRougeNames[i]), sum / static_cast<double>(scores.size()));
  }
  if (!run.options.rouge_intervals) return;
  const auto intervals = bootstrap(scores, 1);
  for (std::size_t i = 0; i < kRougeNames.size(); ++i) {
    run.add(fmt::format("{}_low", kRougeNames[i]), intervals[i].low);
    run.add(fmt::format("{}_high", kRougeNames[i]), intervals[i].high);
  }
}

}  // namespace

const Task& sequence_to_sequence() {
  static const SequenceToSequence task;
  return task;
}

Tensor DecoderHead::logits(const ops::Context&, const EncoderStates&) const {
  fail("logits: expected a head that needs no text, found a decoder");
}

models::Batch DecoderHead::shifted(const Targets& targets) const {
  models::Batch texts;
  texts.starts = {0};
  for (const DocumentTarget& target : targets.documents) {
    require(!target.labels.empty(), "labels: expected a text for each document, found none");
    std::vector<std::int32_t> text = target.labels;
    std::replace(text.begin(), text.end(), kIgnoredLabel, padding_);
    texts.ids.push_back(config_.first_token(text, padding_));
    texts.ids.insert(texts.ids.end(), text.begin(), text.end() - 1);
    texts.starts.push_back(std::ssize(texts.ids));
  }
  return texts;
}

Tensor DecodedHead::decoded(const ops::Context& context, const EncoderStates& states) const {
  models::Batch texts;
  texts.starts = states.batch.starts;
  texts.ids = states.batch.ids;
  for (Index i = 0; i < texts.documents(); ++i) {
    const auto begin = texts.ids.begin() + texts.starts[at(i)];
    const auto end = texts.ids.begin() + texts.starts[at(i + 1)];
    const std::int32_t first = config_.first_token({begin, end}, padding_);
    std::move_backward(begin, end - 1, end);
    *begin = first;
  }
  return decoder_.forward(context, texts, {states.hidden, states.batch.starts, states.batch.mask});
}

double DecoderHead::weight(const Targets& targets) const {
  return labels_that_count(labels_of(targets));
}

ops::LossSum DecoderHead::loss(const ops::Context& context, const EncoderStates& states,
                               const Targets& targets, const HeadLossOptions& options) const {
  check_count(targets.documents.size(), states.batch.documents(), "texts");
  const std::vector<std::int32_t> labels = labels_of(targets);
  check_labels(labels, decoder_.vocabulary_size());
  const Tensor hidden = decoder_.forward(context, shifted(targets),
                                         {states.hidden, states.batch.starts, states.batch.mask});
  return decoder_.loss(context, hidden, labels, mean_of(labels_that_count(labels), options));
}

}  // namespace longformer::tasks
