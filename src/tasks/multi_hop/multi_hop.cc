#include "tasks/multi_hop/multi_hop.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "engine/frame/evaluation_run.h"
#include "engine/frame/split.h"
#include "models/attention/attention.h"
#include "tasks/engine_names.h"
#include "tasks/question_answering/answer_matching.h"
#include "tasks/question_answering/question_answering.h"

namespace longformer::tasks {
namespace {

constexpr const char* kTellingLayer = "sentence_scorer.dense.weight";
/// The layer of a folder for answers in one document, which are spans all the same.
constexpr const char* kSpanLayer = "qa_outputs";

constexpr Counter kMissingFacts = {
    .name = "missing_facts",
    .meaning =
        "questions over paragraphs: supporting facts of sentences that there are not, which "
        "count as not found",
    .evaluation =
        {.one = "{n} supporting fact is of a sentence that there is not, and counts as not found",
         .many =
             "{n} supporting facts are of sentences that there are not, and count as not found"},
    .training = {.one = "{n} supporting fact is of a sentence that there is not",
                 .many = "{n} supporting facts are of sentences that there are not"},
    .scope = CountScope::parts};

constexpr std::string_view kUnreadEvidence =
    "{unread_paragraphs|paragraph} and {unread_sentences|sentence} were not read, and count as no "
    "evidence";
constexpr std::string_view kUnreadInTraining =
    "{unread_paragraphs|paragraph} and {unread_sentences|sentence} are not read";
constexpr Counter kUnreadParagraphs = {
    .name = "unread_paragraphs",
    .meaning = "questions over paragraphs: paragraphs whose mark truncation cut off",
    .evaluation = {.one = kUnreadEvidence, .many = kUnreadEvidence},
    .training = {.one = kUnreadInTraining, .many = kUnreadInTraining},
    .scope = CountScope::parts,
    .is_of_model = true};
constexpr Counter kUnreadSentences = {
    .name = "unread_sentences",
    .meaning = "questions over paragraphs: sentences whose mark truncation cut off",
    .evaluation = kUnreadParagraphs.evaluation,
    .training = kUnreadParagraphs.training,
    .scope = CountScope::parts,
    .is_of_model = true};

/// A place in a title or sentence that holds the answer.
struct AnswerPlace {
  Index paragraph = 0, sentence = kTitle;
  CharacterSpan characters;
};

const std::string& text_at(const MultiHopExample& example, Index paragraph, Index sentence) {
  const Paragraph& one = example.question.paragraphs[at(paragraph)];
  return sentence == kTitle ? one.title : one.sentences[at(sentence)];
}

/// Places where `find` finds the answer in titles of evidence and in its supporting sentences.
template <typename Find>
std::vector<AnswerPlace> places_in_evidence(const MultiHopExample& example, bool all_sentences,
                                            const Find& find) {
  std::vector<AnswerPlace> places;
  const auto& paragraphs = example.question.paragraphs;
  for (Index p = 0; p < std::ssize(paragraphs); ++p) {
    const Paragraph& paragraph = paragraphs[at(p)];
    if (!example.is_evidence(paragraph.title)) continue;
    for (Index s = kTitle; s < std::ssize(paragraph.sentences); ++s) {
      const bool counts = s == kTitle || all_sentences || example.is_fact({paragraph.title, s});
      if (!counts) continue;
      for (const CharacterSpan& span : find(text_at(example, p, s))) places.push_back({p, s, span});
    }
  }
  return places;
}

/// The characters at which the answer stands as it is.
std::vector<CharacterSpan> exact_places(const std::string& answer, const std::string& text) {
  std::vector<CharacterSpan> places;
  const auto size = std::ssize(character_starts(answer)) - 1;
  for (std::size_t at = text.find(answer); at != std::string::npos && !answer.empty();
       at = text.find(answer, at + answer.size())) {
    const auto begin = std::ssize(character_starts(std::string_view(text).substr(0, at))) - 1;
    places.push_back({begin, begin + size});
  }
  return places;
}

/// Its words in the facts and in titles of evidence; without any there, in all sentences of these
/// paragraphs; without any there, the answer as it stands, also inside words.
std::vector<AnswerPlace> answer_places(const MultiHopExample& example) {
  const std::string& answer = *example.answer;
  const AnswerMatcher matcher({&answer, 1});
  const auto words = [&](const std::string& text) { return matcher.find(text); };
  std::vector<AnswerPlace> places = places_in_evidence(example, false, words);
  if (places.empty()) places = places_in_evidence(example, true, words);
  if (!places.empty()) return places;
  return places_in_evidence(example, true,
                            [&](const std::string& text) { return exact_places(answer, text); });
}

/// Whether the answer was read, and where.
bool add_span(const MultiHopExample& example, const MultiHopReading& reading,
              MultiHopTarget& target) {
  for (const AnswerPlace& place : answer_places(example)) {
    const auto text =
        std::find_if(reading.texts.begin(), reading.texts.end(), [&](const ReadText& one) {
          return one.paragraph == place.paragraph && one.sentence == place.sentence;
        });
    if (text == reading.texts.end()) continue;
    const auto tokens = answer_tokens(text->offsets, {0, text->read}, place.characters);
    if (!tokens) continue;
    target.starts.push_back(text->first + tokens->begin);
    target.ends.push_back(text->first + tokens->end - 1);
  }
  sort_and_unite(target.starts);
  sort_and_unite(target.ends);
  return !target.starts.empty();
}

/// Whether there is nothing to be found in the text, or it was read.
bool reaches_answer(const MultiHopExample& example, const MultiHopReading& reading) {
  MultiHopTarget target;
  return !example.answer || answer_type(*example.answer) != AnswerType::span ||
         add_span(example, reading, target);
}

void add_evidence(const MultiHopExample& example, const MultiHopReading& reading,
                  MultiHopTarget& target) {
  const MultiHopPlaces places = reading.places();
  target.paragraphs = places.paragraphs;
  target.sentences = places.sentences;
  const auto& paragraphs = example.question.paragraphs;
  for (Index p = 0; p < std::ssize(paragraphs); ++p) {
    const std::string& title = paragraphs[at(p)].title;
    if (reading.paragraphs[at(p)] != kUnread) {
      target.paragraph_labels.push_back(example.is_evidence(title) ? 1.0f : 0.0f);
    }
    const std::vector<Index>& marks = reading.sentences[at(p)];
    for (Index s = 0; s < std::ssize(marks); ++s) {
      if (marks[at(s)] == kUnread) continue;
      target.sentence_labels.push_back(example.is_fact({title, s}) ? 1.0f : 0.0f);
    }
  }
}

/// The records with the paragraphs that a second stage reads, as one JSON list, and how many
/// paragraphs with facts are among them.
class Selection {
 public:
  void add(const EvaluationRun& run, const MultiHopExample& example,
           const std::vector<float>& logits) {
    const auto chosen = selected_paragraphs(logits, run.options.data.multi_hop);
    write(run, with_paragraphs(example, chosen));
    if (!example.facts) return;
    const auto& paragraphs = example.question.paragraphs;
    std::int64_t gold = 0, kept = 0;
    for (Index p = 0; p < std::ssize(paragraphs); ++p) {
      if (!example.is_evidence(paragraphs[at(p)].title)) continue;
      ++gold;
      kept += std::binary_search(chosen.begin(), chosen.end(), p) ? 1 : 0;
    }
    if (gold == 0) return;
    gold_ += gold;
    kept_ += kept;
    ++with_gold_;
    whole_ += kept == gold ? 1 : 0;
  }

  /// Paragraphs that the model could not read stay unchanged, so that the second stage counts them
  /// too.
  void add_unread(const EvaluationRun& run, const MultiHopExample& example) {
    std::vector<Index> all(example.question.paragraphs.size());
    std::iota(all.begin(), all.end(), Index{0});
    write(run, with_paragraphs(example, all));
  }

  void finish(EvaluationRun& run) const {
    run.options.selected(count_ == 0 ? "[]\n" : "]\n");
    if (gold_ == 0) return;
    run.add("selected_gold_recall", static_cast<double>(kept_) / static_cast<double>(gold_));
    run.add("selected_all_gold", static_cast<double>(whole_) / static_cast<double>(with_gold_));
  }

 private:
  void write(const EvaluationRun& run, const Json& record) {
    run.options.selected((count_++ == 0 ? "[" : ",\n") +
                         record.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  std::int64_t count_ = 0, gold_ = 0, kept_ = 0, with_gold_ = 0, whole_ = 0;
};

void describe(const MultiHopExample& example, const MultiHopDecision& decision,
              const MultiHopAnswer& said, Json& prediction) {
  constexpr std::array<const char*, 3> kTypes = {"span", "yes", "no"};
  prediction["answer"] = example.answer ? Json(*example.answer) : Json();
  prediction["prediction"] = decision.answer;
  prediction["type"] = kTypes[static_cast<std::size_t>(decision.type)];
  prediction["supporting_facts"] = example.facts ? facts_json(*example.facts) : Json();
  prediction["predicted_facts"] = facts_json(*said.facts);
  const auto score = [&](const char* name, const PrecisionRecall& scores) {
    prediction[std::string(name) + "em"] = scores.exact_match;
    prediction[std::string(name) + "f1"] = scores.f1;
  };
  if (example.answer) score("", score_words(decision.answer, *example.answer));
  if (example.facts) score("sp_", score_facts(*said.facts, *example.facts));
  Json logits = Json::array();
  // −∞ has no form in JSON.
  for (const float logit : decision.paragraphs) {
    logits.push_back(std::isfinite(logit) ? Json(logit) : Json());
  }
  prediction["paragraph_logits"] = std::move(logits);
}

class MultiHopSet final : public DataSet {
 public:
  MultiHopSet(MultiHopData data, const MultiHopOptions& options)
      : data_(std::move(data)), options_(options) {}

  bool has_one_class() const override { return false; }

  Json encoder_settings(const models::EncoderConfig& config) const override {
    if (options_.edges.empty()) return Json::object();
    const std::string expected = models::expected_edge_kinds(options_.edges);
    require(expected.empty(), OptionName("edges"), "expected {}, found {}", expected,
            fmt::join(options_.edges, ","));
    require(models::can_have_edges(config), OptionName("edges"),
            "expected a Longformer, found a {}", config.model_type());
    return {{models::kEdgesKey, options_.edges}};
  }

  DataReport report() const override { return data_.report; }
  std::vector<std::string> metric_names() const override {
    std::vector<std::string> names;
    for (const auto& [name, value] : MultiHopCounter().named()) names.push_back(name);
    return names;
  }

  std::vector<SplitRecord> split_records() const override {
    return engine::split_records(data_.examples, [](const auto& one) {
      return split_keys(one.origin, one.question.question);
    });
  }
  std::unique_ptr<DataSet> split_off(std::span<const Index> examples) override {
    auto part = engine::split_off(*this, &MultiHopSet::data_, examples);
    for (MultiHopSet* one : {this, part.get()}) {
      one->data_.missing_facts = 0;
      for (const MultiHopExample& two : one->data_.examples) {
        one->data_.missing_facts += two.missing_facts();
      }
    }
    return part;
  }

  std::unique_ptr<TrainingSet> collate(const CollationSetup& setup) const override {
    const bool teaches =
        std::any_of(data_.examples.begin(), data_.examples.end(),
                    [](const MultiHopExample& one) { return one.answer || one.facts; });
    require(teaches, "{}: expected answers or supporting facts to learn from, found none",
            data_.path);
    const MultiHopReader reader(setup.tokenizer, setup.reading);
    return collated(data_, setup, [&](Collator& rows, const MultiHopExample& example) {
      rows.report().counts[kMissingFacts] += example.missing_facts();
      return tasks::collate(rows, reader, example, options_);
    });
  }

  void evaluate(EvaluationRun& run) const override {
    run.result.counts[kMissingFacts] = data_.missing_facts;
    const MultiHopReader reader(run.model.tokenizer(), run.options.reading);
    const AnswerRules rules = {.top_k = 1, .max_tokens = run.options.max_answer_tokens};
    MultiHopCounter counter;
    MultiHopPredictions published;
    Selection selection;
    for (std::size_t number = 0; number < data_.examples.size(); ++number) {
      const MultiHopExample& example = data_.examples[number];
      MultiHopReading read;
      MultiHopDecision found;
      bool is_reached = true;
      const Document document = read_document([&] {
        const auto* kept = run.kept<MultiHopReading>(number);
        read = kept != nullptr ? *kept : reader.read(example.question);
        run.with_states(
            number, read.reading.rows,
            [&](const ops::Context& context, const Head& head, const Tensor& hidden) {
              const MultiHopLogits logits = multi_hop_logits(context, head, hidden, read);
              found = decide(example.question, read, logits, rules, options_.evidence_paragraphs);
            });
        is_reached = reaches_answer(example, read);
        return std::move(read.reading);
      });
      const bool is_read = run.one(example.origin, document, [&](Json& prediction) {
        run.result.counts[kUnreadParagraphs] += read.unread_paragraphs;
        run.result.counts[kUnreadSentences] += read.unread_sentences;
        run.result.counts[kUnreachedAnswers] += is_reached ? 0 : 1;
        const MultiHopAnswer said = {found.answer, facts_of(example.question, found.evidence)};
        counter.add(said, {example.answer, example.facts});
        describe(example, found, said, prediction);
        if (run.publishes()) {
          published.answers[example.origin.id] = *said.answer;
          published.facts[example.origin.id] = *said.facts;
        }
        if (run.options.selected) selection.add(run, example, found.paragraphs);
      });
      if (is_read) continue;
      ++run.result.counts[kMissing];
      counter.add({}, {example.answer, example.facts});
      if (run.options.selected) selection.add_unread(run, example);
    }
    run.finish();
    for (const auto& [name, value] : counter.named()) run.add(name, value);
    if (run.options.selected) selection.finish(run);
    if (run.publishes()) run.publish(text_of(published));
  }

  bool has_published_form() const override { return true; }
  bool selects_paragraphs() const override { return true; }

  void score(const std::string& predictions, Evaluation& result) const override {
    const MultiHopPredictions predicted = read_multi_hop_predictions(predictions);
    MultiHopCounter counter;
    for (const MultiHopExample& example : data_.examples) {
      MultiHopAnswer said;
      const auto answer = predicted.answers.find(example.origin.id);
      if (answer != predicted.answers.end()) said.answer = answer->second;
      const auto facts = predicted.facts.find(example.origin.id);
      if (facts != predicted.facts.end()) said.facts = facts->second;
      result.counts[kMissing] += said.answer && said.facts ? 0 : 1;
      counter.add(said, {example.answer, example.facts});
    }
    result.examples = std::ssize(data_.examples);
    result.counts[kMissingFacts] = data_.missing_facts;
    result.metrics = counter.named();
  }

 private:
  MultiHopData data_;
  MultiHopOptions options_;
};

class MultiHop final : public Task {
 public:
  const TaskNames& names() const override {
    static constexpr TaskNames names = {.head = "multi-hop-question-answering",
                                        .verb = "multihop",
                                        .class_ending = "ForMultiHopQuestionAnswering"};
    return names;
  }

  OptionFields options(DataOptions& data, OptionUse use) const override {
    return multi_hop_fields(data.multi_hop, use);
  }

  std::optional<HeadParts> parts(const models::EncoderConfig&) const override { return {}; }

  std::vector<std::string> kept_layers() const override { return multi_hop_layers(); }

  bool is_present(const models::EncoderConfig&, const models::Weights& weights) const override {
    return weights.has(kTellingLayer);
  }

  std::unique_ptr<Head> make_head(const models::EncoderConfig& config,
                                  const models::Weights& weights, DType dtype) const override {
    return std::make_unique<MultiHopHead>(config, models::layer_source(config, weights, dtype));
  }

  bool begins_with(const std::string& tensor) const override {
    return tensor.starts_with(std::string(kSpanLayer) + ".");
  }

  /// Ids alone do not tell where the marks are.
  std::vector<Index> globals_of_ids(const models::EncoderConfig&, std::span<const std::int32_t>,
                                    const std::string&) const override {
    return {0};
  }

  std::vector<Index> globals_of_texts(const models::EncoderConfig&, const Encoding& tokens,
                                      const std::string&) const override {
    return multi_hop_globals(tokens);
  }

  void check_global_rule(const std::string& rule) const override {
    require(rule == "question" || rule == "none",
            OptionName("global_attention", "global attention"),
            "expected question or none for questions over paragraphs, found {}", rule);
  }

  std::span<const std::string> marks() const override { return kMultiHopMarks; }
  std::vector<const Counter*> counters() const override {
    return official_counters(
        {&kMissingFacts, &kUnreadParagraphs, &kUnreadSentences, &kUnreachedAnswers});
  }

  std::unique_ptr<DataSet> read(const std::string& path, const DataOptions& options,
                                const KnownLabels&) const override {
    return std::make_unique<MultiHopSet>(read_multi_hop(path, options), options.multi_hop);
  }

  bool recognises(std::string_view beginning) const override {
    return beginning.find("\"supporting_facts\"") != std::string_view::npos;
  }
};

}  // namespace

const Task& multi_hop() {
  static const MultiHop task;
  return task;
}

std::vector<Example> collate(Collator& rows, const MultiHopReader& reader,
                             const MultiHopExample& example, const MultiHopOptions& options) {
  MultiHopReading reading = reader.read(example.question);
  Counts& counts = rows.report().counts;
  counts[kUnreadParagraphs] += reading.unread_paragraphs;
  counts[kUnreadSentences] += reading.unread_sentences;
  MultiHopTarget target = {.loss_weights = options.loss_weights};
  if (example.answer) {
    const AnswerType type = answer_type(*example.answer);
    target.answer_type = static_cast<std::int32_t>(type);
    if (type == AnswerType::span && !add_span(example, reading, target)) {
      ++counts[kUnreachedAnswers];
    }
  }
  if (example.facts) add_evidence(example, reading, target);
  Example one = rows.example_of(reading.reading);
  one.targets[0].multi_hop = std::move(target);
  reading.reading = std::move(reading.reading).counts();
  rows.keep(std::move(reading));
  return {std::move(one)};
}

MultiHopLogits multi_hop_logits(const ops::Context& context, const Head& head, const Tensor& hidden,
                                const MultiHopReading& reading) {
  return dynamic_cast<const MultiHopHead&>(head).score(context, hidden, reading.places());
}

}  // namespace longformer::tasks
