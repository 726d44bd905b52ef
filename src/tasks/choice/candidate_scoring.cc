#include "tasks/choice/candidate_scoring.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/random.h"
#include "engine/frame/collation.h"
#include "engine/frame/evaluation_run.h"
#include "engine/frame/labels.h"
#include "engine/frame/predictions.h"
#include "engine/frame/split.h"
#include "models/attention/attention.h"
#include "ops/embedding.h"
#include "tasks/choice/multiple_choice.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {
namespace {

/// The rows of a batch at which candidates stand, one in every document of their question.
struct CandidateRows {
  std::vector<Index> rows;
  /// The elements of `rows` that are of one candidate.
  std::vector<ops::RowRange> of_candidate;
  /// How many candidates each question has.
  std::vector<Index> counts;
};

/// Adds the candidates of a question that has the documents from `first` up to `end`.
void add_candidates(const models::Batch& batch, std::span<const DocumentTarget> documents,
                    std::size_t first, std::size_t end, CandidateRows& all) {
  const std::size_t count = documents[first].candidates.size();
  for (std::size_t d = first; d < end; ++d) {
    const Index tokens = batch.starts[d + 1] - batch.starts[d];
    const auto& places = documents[d].candidates;
    const bool inside = std::all_of(places.begin(), places.end(),
                                    [&](Index place) { return place >= 0 && place < tokens; });
    require(places.size() == count && inside,
            "loss: document {}: expected {} candidates in its {} tokens, found {}", d, count,
            tokens, fmt::join(places, ", "));
  }
  for (std::size_t c = 0; c < count; ++c) {
    const auto begin = static_cast<Index>(all.rows.size());
    for (std::size_t d = first; d < end; ++d) {
      all.rows.push_back(batch.starts[d] + documents[d].candidates[c]);
    }
    all.of_candidate.push_back({begin, static_cast<Index>(all.rows.size())});
  }
  all.counts.push_back(static_cast<Index>(count));
}

/// A candidate's logit is the sum of those at its places; the loss is that of a choice.
class CandidateHead final : public ClassifierHead {
 public:
  using ClassifierHead::ClassifierHead;

 private:
  ops::LossSum loss_of(const ops::Context& context, const Tensor& logits,
                       const models::Batch& batch, const Targets& targets,
                       const HeadLossOptions& options) const override {
    CandidateRows candidates;
    std::size_t document = 0;
    for (const Index question : targets.questions) {
      const std::size_t end = document + static_cast<std::size_t>(question);
      require(question > 0 && end <= targets.documents.size(),
              "loss: expected documents of all questions, found {} documents",
              targets.documents.size());
      add_candidates(batch, targets.documents, document, end, candidates);
      document = end;
    }
    const Tensor chosen = ops::select_rows(context, logits, candidates.rows);
    const Tensor sums = ops::sum_rows(context, chosen, candidates.of_candidate);
    return choice_loss(context, sums, candidates.counts, labels_of(targets), options);
  }
};

Example with_targets(Example example, const std::vector<Index>& places, std::int32_t label) {
  for (DocumentTarget& target : example.targets) target.candidates = places;
  example.targets[0].labels = {label};
  return example;
}

/// Candidates and supports come in another order in every epoch.
class ShuffledQuestions final : public CollatedExamples {
 public:
  ShuffledQuestions(const ChoiceData& data, const CollationSetup& setup)
      : CollatedExamples(setup, data.report), reader_(setup.tokenizer, setup.reading) {
    for (const ChoiceExample& record : data.examples) {
      add(place_of(data.path, record.origin), setup.data, [&](Collator& rows) {
        const std::int32_t label = right_choice(record);
        CandidateTokens tokens = reader_.tokens(record.question);
        Reading reading = reader_.read(tokens);
        questions_.push_back(std::move(tokens));
        labels_.push_back(label);
        Example whole = with_targets(rows.example_of(reading), reading.places, label);
        rows.keep(std::move(reading).counts());
        return std::vector<Example>{std::move(whole)};
      });
    }
  }

 private:
  Example example(Index index, const Epoch& epoch) const override {
    if (epoch.number == kUnchanged.number) return CollatedExamples::example(index, epoch);
    const std::uint64_t seed =
        random_bits(random_bits(epoch.seed, static_cast<std::uint64_t>(epoch.number)), at(index));
    const auto mixed = shuffled(questions_[at(index)], labels_[at(index)], seed);
    Reading reading = reader_.read(mixed.tokens);
    return with_targets(one_example(reading), reading.places, mixed.label);
  }

  CandidateReader reader_;
  std::vector<CandidateTokens> questions_;
  std::vector<std::int32_t> labels_;
};

class CandidateSet final : public DataSet {
 public:
  explicit CandidateSet(ChoiceData data) : data_(std::move(data)) {}

  DataReport report() const override { return data_.report; }
  std::vector<std::string> metric_names() const override { return {"accuracy"}; }

  std::vector<SplitRecord> split_records() const override {
    return engine::split_records(data_.examples, [](const auto& one) {
      return split_keys(one.origin, one.question.context + one.question.question);
    });
  }
  std::unique_ptr<DataSet> split_off(std::span<const Index> examples) override {
    return engine::split_off(*this, &CandidateSet::data_, examples);
  }

  std::unique_ptr<TrainingSet> collate(const CollationSetup& setup) const override {
    return std::make_unique<ShuffledQuestions>(data_, setup);
  }

  void evaluate(EvaluationRun& run) const override {
    const CandidateReader reader(run.model.tokenizer(), run.options.reading);
    evaluate_choices(run, data_, [&](const ChoiceQuestion& question) {
      return reader.read(reader.tokens(question));
    });
  }

  bool has_published_form() const override { return true; }

  void score(const std::string& predictions, Evaluation& result) const override {
    require(data_.is_answered(),
            "{}: expected questions with the right choice in the member \"answer\", found none",
            data_.path);
    const AnswersById answers = read_answers(predictions);
    std::int64_t right = 0;
    for (const ChoiceExample& example : data_.examples) {
      const auto found = answers.find(example.origin.id);
      if (found == answers.end()) {
        ++result.counts[kMissing];
      } else {
        // Who wrote the answer may compose its letters otherwise, and choices may be equal.
        const std::vector<std::string>& choices = example.question.choices;
        const auto place = place_of_label(choices, found->second);
        right += place && choices[*place] == choices[at(example.label)] ? 1 : 0;
      }
    }
    result.examples = std::ssize(data_.examples);
    result.metrics.emplace_back("accuracy",
                                static_cast<double>(right) / static_cast<double>(result.examples));
  }

 private:
  ChoiceData data_;
};

class CandidateScoring final : public Task {
 public:
  const TaskNames& names() const override {
    static constexpr TaskNames names = {
        .head = "candidate-scoring", .verb = "candidates", .class_ending = "ForCandidateScoring"};
    return names;
  }

  /// There is no bias, which a softmax would not see.
  std::optional<HeadParts> parts(const models::EncoderConfig&) const override {
    return HeadParts{.classifier = "candidate_scorer",
                     .outputs = 1,
                     .has_bias = false,
                     .per_token = true,
                     .is_unmistakable = true};
  }

  std::unique_ptr<Head> make_head(const models::EncoderConfig& config,
                                  const models::Weights& weights, DType dtype) const override {
    return std::make_unique<CandidateHead>(*parts(config),
                                           models::layer_source(config, weights, dtype),
                                           config.last_size(), names().head);
  }

  std::vector<Index> globals_of_ids(const models::EncoderConfig& config,
                                    std::span<const std::int32_t> ids,
                                    const std::string& name) const override {
    return positions_between(0, first_separator(config, ids, name));
  }

  std::vector<Index> globals_of_texts(const models::EncoderConfig& config, const Encoding& tokens,
                                      const std::string& name) const override {
    auto positions = of_candidate_part(tokens);
    return positions.empty() ? globals_of_ids(config, tokens.ids, name) : positions;
  }

  void check_global_rule(const std::string& rule) const override {
    require(rule.find("sentences") == std::string::npos,
            OptionName("global_attention", "global attention"),
            "expected a rule without sentences for candidates, found {}", rule);
  }

  std::span<const std::string> marks() const override { return kCandidateMarks; }
  std::vector<const Counter*> counters() const override { return official_counters(); }

  std::unique_ptr<DataSet> read(const std::string& path, const DataOptions& options,
                                const KnownLabels&) const override {
    return std::make_unique<CandidateSet>(read_choices(path, options));
  }

  bool recognises(std::string_view beginning) const override {
    return beginning.find("\"candidates\"") != std::string_view::npos &&
           beginning.find("\"supports\"") != std::string_view::npos;
  }
};

}  // namespace

const Task& candidate_scoring() {
  static const CandidateScoring task;
  return task;
}

}  // namespace longformer::tasks
