#include "tasks/question_answering/question_answering.h"

#include <algorithm>

#include "core/error.h"
#include "engine/frame/evaluation_run.h"
#include "engine/frame/predictions.h"
#include "engine/frame/split.h"
#include "models/attention/attention.h"
#include "tasks/engine_names.h"
#include "tasks/question_answering/answer_metrics.h"
#include "tasks/question_answering/trivia_answering.h"
#include "tasks/question_answering/trivia_data.h"
#include "tasks/writing/sequence_to_sequence.h"
#include "text/boundaries.h"

namespace longformer::tasks {
namespace {

using Strings = std::vector<std::string>;

/// The rows of a batch that one softmax goes over, and the documents that they are of: one
/// document, or all rows of one where it was read in several.
struct AnswerRows {
  ops::RowRange rows;
  std::size_t first_document = 0, end_document = 0;
};

std::vector<AnswerRows> answer_rows(const models::Batch& batch, const Targets& targets) {
  std::vector<AnswerRows> all;
  const auto add = [&](std::size_t first, std::size_t end) {
    all.push_back({{batch.starts[first], batch.starts[end]}, first, end});
  };
  const std::size_t documents = targets.documents.size();
  if (targets.questions.empty()) {
    for (std::size_t i = 0; i < documents; ++i) add(i, i + 1);
    return all;
  }
  std::size_t first = 0;
  for (const Index rows : targets.questions) {
    require(rows > 0 && at(rows) <= documents - first,
            "loss: expected rows of all questions, found {} documents", documents);
    add(first, first + at(rows));
    first += at(rows);
  }
  check_count(first, std::ssize(targets.documents), "documents of questions");
  return all;
}

/// Half the mean loss of the starts, half that of the ends.
class AnswerHead final : public ClassifierHead {
 public:
  AnswerHead(const HeadParts& parts, const models::EncoderConfig& config,
             const models::LayerSource& source, std::string_view name)
      : ClassifierHead(parts, source, config.last_size(), name) {
    if (config.traits().hides_questions) separator_ = config.sep_token_id;
  }

  Tensor logits(const ops::Context& context, const EncoderStates& states) const override {
    Tensor all = ClassifierHead::logits(context, states);
    if (!separator_) return all;
    constexpr float kHidden = 1e6F;
    return ops::lowered_rows(context, all, questions(states.batch), kHidden);
  }

 private:
  /// The tokens of each document up to its first separator, without the first one.
  std::vector<ops::RowRange> questions(const models::Batch& batch) const {
    std::vector<ops::RowRange> ranges;
    for (Index i = 0; i < batch.documents(); ++i) {
      const auto begin = batch.ids.begin() + batch.starts[at(i)];
      const auto end = batch.ids.begin() + batch.starts[at(i) + 1];
      const auto found = std::find(begin, end, static_cast<std::int32_t>(*separator_));
      if (found == end || found == begin) continue;
      const Index first = batch.starts[at(i)] + 1;
      ranges.push_back({first, first + (found - begin)});
    }
    return ranges;
  }

  ops::LossSum loss_of(const ops::Context& context, const Tensor& logits,
                       const models::Batch& batch, const Targets& targets,
                       const HeadLossOptions& options) const override {
    const std::vector<AnswerRows> questions = answer_rows(batch, targets);
    ops::LossSum total;
    Index column = 0;
    for (const auto member : {&DocumentTarget::starts, &DocumentTarget::ends}) {
      std::vector<ops::RowChoice> choices;
      double count = 0;
      for (const AnswerRows& question : questions) {
        ops::RowChoice choice = {.range = question.rows, .right = {}};
        for (std::size_t i = question.first_document; i < question.end_document; ++i) {
          for (const Index token : targets.documents[i].*member) {
            const Index row = batch.starts[i] + token;
            if (token >= 0 && row < batch.starts[i + 1]) choice.right.push_back(row);
          }
        }
        count += choice.right.empty() ? 0 : 1;
        choices.push_back(std::move(choice));
      }
      const HeadLossOptions half = {.scale = options.scale / 2};
      const ops::LossSum loss =
          ops::row_cross_entropy(context, logits, column++, choices, mean_of(count, half));
      if (loss.weight > 0) total.sum += loss.sum / loss.weight / 2;
    }
    // A mean already: its weight makes it one of so many documents.
    total.weight = static_cast<double>(questions.size());
    total.sum *= total.weight;
    return total;
  }

  /// The end of questions that are hidden; absent where none is.
  std::optional<Index> separator_;
};

/// Logits of the tokens of a row, apart: [n] that an answer starts, and that it ends.
struct StartsAndEnds {
  std::vector<float> starts, ends;

  explicit StartsAndEnds(std::span<const float> logits) {
    for (std::size_t i = 0; i < logits.size(); i += 2) {
      starts.push_back(logits[i]);
      ends.push_back(logits[i + 1]);
    }
  }
};

std::vector<SegmentLogits> logits_of(const Reading& reading, std::span<const StartsAndEnds> rows) {
  std::vector<SegmentLogits> segments;
  for (std::size_t s = 0; s < rows.size(); ++s) {
    const std::size_t prefix = at(reading.prefix);
    const std::size_t size = at(reading.ranges[s].size());
    segments.push_back({.range = reading.ranges[s],
                        .start = std::span(rows[s].starts).subspan(prefix, size),
                        .end = std::span(rows[s].ends).subspan(prefix, size),
                        .no_answer_start = rows[s].starts[0],
                        .no_answer_end = rows[s].ends[0]});
  }
  return segments;
}

class QuestionSet final : public DataSet {
 public:
  explicit QuestionSet(QuestionData data) : data_(std::move(data)) {}

  bool has_one_class() const override { return false; }

  DataReport report() const override { return data_.report; }
  Strings metric_names() const override {
    Strings names = {"f1", "exact_match"};
    if (data_.unanswerable == 0) return names;
    if (data_.report.examples > data_.unanswerable) {
      names.insert(names.end(), {"has_answer_f1", "has_answer_exact_match"});
    }
    names.emplace_back("no_answer_exact_match");
    return names;
  }

  std::vector<SplitRecord> split_records() const override {
    return engine::split_records(data_.examples,
                                 [](const auto& one) { return split_keys({}, *one.context); });
  }
  std::unique_ptr<DataSet> split_off(std::span<const Index> examples) override {
    auto part = engine::split_off(*this, &QuestionSet::data_, examples);
    for (QuestionSet* one : {this, part.get()}) {
      one->data_.unanswerable = std::ranges::count_if(
          one->data_.examples, [](const QuestionExample& two) { return two.answers.empty(); });
    }
    return part;
  }

  std::unique_ptr<TrainingSet> collate(const CollationSetup& setup) const override {
    return collated(data_, setup, [&](Collator& rows, const QuestionExample& example) {
      return tasks::collate(rows, example, data_.unanswerable > 0);
    });
  }

  void evaluate(EvaluationRun& run) const override {
    const RowReader reader(run.model.tokenizer(), run.options.reading);
    const AnswerRules rules = {.top_k = 1, .max_tokens = run.options.max_answer_tokens};
    check_answer_rules(rules, reader.options());
    AnswerCounter counter;
    AnswersById published;
    const auto read = [&](const QuestionExample& example) {
      return reader.read(example.question, *example.context);
    };
    const auto score = [&](const QuestionExample& example, const Document& document,
                           Json& prediction) {
      const Answers found = answers_of(document, rules);
      const bool silent = found.spans.empty() ||
                          (data_.unanswerable > 0 && found.none.logit - found.spans[0].logit >
                                                         run.options.no_answer_threshold);
      const std::string answer =
          silent ? std::string() : tasks::text_of(document.reading, found.spans[0].tokens);
      Strings right;
      for (const GoldAnswer& gold : example.answers) right.push_back(gold.text);
      counter.add(answer, right);
      published[example.origin.id] = answer;
      const AnswerScores scores = score_answer(answer, right);
      prediction["answers"] = right;
      prediction["prediction"] = answer;
      prediction["exact_match"] = scores.exact_match;
      prediction["f1"] = scores.f1;
      prediction["logit"] = found.spans.empty() ? Json() : Json(found.spans[0].logit);
      prediction["no_answer_logit"] = found.none.logit;
    };
    run.each(data_.examples, read, score);
    add_metrics(counter, run.result);
    run.publish(answers_text(published));
  }

  bool has_published_form() const override { return true; }

  void score(const std::string& predictions, Evaluation& result) const override {
    const AnswersById answers = read_answers(predictions);
    AnswerCounter counter;
    for (const QuestionExample& example : data_.examples) {
      Strings right;
      for (const GoldAnswer& gold : example.answers) right.push_back(gold.text);
      const auto found = answers.find(example.origin.id);
      if (found == answers.end()) ++result.counts[kMissing];
      // A missing prediction is wrong, even if an empty answer would be right.
      const bool is_missing_right = found == answers.end() && right.empty();
      counter.add(is_missing_right ? "?" : found == answers.end() ? "" : found->second, right);
    }
    result.examples = counter.questions();
    add_metrics(counter, result);
  }

 private:
  static void add_metrics(const AnswerCounter& answers, Evaluation& result) {
    const auto add = [&](const char* name, double value) {
      result.metrics.emplace_back(name, value);
    };
    add("f1", answers.all().f1);
    add("exact_match", answers.all().exact_match);
    if (answers.unanswerable() == 0) return;
    if (answers.questions() > answers.unanswerable()) {
      add("has_answer_f1", answers.answerable_scores().f1);
      add("has_answer_exact_match", answers.answerable_scores().exact_match);
    }
    add("no_answer_exact_match", answers.unanswerable_scores().exact_match);
  }

  QuestionData data_;
};

class QuestionAnswering final : public Task {
 public:
  const TaskNames& names() const override {
    static constexpr TaskNames names = {
        .head = "question-answering", .verb = "qa", .class_ending = "ForQuestionAnswering"};
    return names;
  }

  bool has_span_logits() const override { return true; }
  std::vector<const Counter*> counters() const override {
    return official_counters({&kUnreachedAnswers});
  }

  std::optional<HeadParts> parts(const models::EncoderConfig& config) const override {
    const std::string name(config.traits().span_classifier);
    HeadParts parts = {.classifier = name,
                       .outputs = 2,
                       .dropout = config.head_dropout.spans,
                       .is_unmistakable = name != "classifier"};
    parts.read_spans(config);
    return parts;
  }

  std::unique_ptr<Head> make_head(const models::EncoderConfig& config,
                                  const models::Weights& weights, DType dtype) const override {
    auto head = std::make_unique<AnswerHead>(
        *parts(config), config, models::layer_source(config, weights, dtype), names().head);
    if (!config.decoder) return head;
    require(config.family->decoder->answers_questions,
            "{} head: expected a model for which transformers has one, found {}", names().head,
            config.model_type());
    return std::make_unique<DecodedHead>(config, weights, dtype, std::move(head));
  }

  /// A decoder reads the document too.
  Index longest_document(const models::EncoderConfig& config) const override {
    const Index most = config.max_tokens();
    return config.decoder ? std::min(most, config.decoder->max_tokens()) : most;
  }

  std::vector<Index> globals_of_ids(const models::EncoderConfig& config,
                                    std::span<const std::int32_t> ids,
                                    const std::string& name) const override {
    // `transformers` gives those with a decoder none.
    if (config.decoder) return {};
    return positions_between(0, first_separator(config, ids, name));
  }

  std::unique_ptr<DataSet> read(const std::string& path, const DataOptions& options,
                                const KnownLabels& known) const override {
    if (is_trivia_data(path, options)) return trivia_answering().read(path, options, known);
    return std::make_unique<QuestionSet>(read_questions(path, options));
  }

  bool recognises(std::string_view beginning) const override {
    return beginning.find("\"paragraphs\"") != std::string_view::npos;
  }
};

}  // namespace

const Task& question_answering() {
  static const QuestionAnswering task;
  return task;
}

void sort_and_unite(std::vector<Index>& positions) {
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
}

std::vector<Example> collate(Collator& rows, const QuestionExample& example,
                             bool has_unanswerable) {
  Reading reading = rows.reader().read(example.question, *example.context);
  std::vector<Example> examples = rows.examples_of(reading);
  bool reached = example.answers.empty();
  for (std::size_t r = 0; r < examples.size(); ++r) {
    DocumentTarget& target = examples[r].targets[0];
    const Index shift = reading.prefix - reading.ranges[r].begin;
    for (const GoldAnswer& answer : example.answers) {
      const auto tokens = answer_tokens(reading.encoding.offsets, reading.ranges[r], answer.span);
      if (!tokens) continue;
      target.starts.push_back(tokens->begin + shift);
      target.ends.push_back(tokens->end - 1 + shift);
    }
    reached = reached || !target.starts.empty();
    if (target.starts.empty() && has_unanswerable) target.starts = target.ends = {0};
    sort_and_unite(target.starts);
    sort_and_unite(target.ends);
  }
  if (!reached) ++rows.report().counts[kUnreachedAnswers];
  rows.keep(std::move(reading));
  return examples;
}

void check_answer_rules(const AnswerRules& rules, const ReadingOptions& reading) {
  require(rules.top_k >= 1, OptionName("top_k", "top k"), "expected at least 1, found {}",
          rules.top_k);
  require(rules.max_tokens >= 1, "answer: expected a longest answer of at least 1 token, found {}",
          rules.max_tokens);
  require(reading.too_long != TooLong::split || reading.stride >= rules.max_tokens,
          OptionName("stride"), "expected at least the {} tokens of the longest answer, found {}",
          rules.max_tokens, reading.stride);
}

Answers answers_of(const Document& document, const AnswerRules& rules) {
  const Reading& reading = document.reading;
  const std::vector<StartsAndEnds> rows(document.outputs.begin(), document.outputs.end());
  auto inside_word = begins_inside_word(reading.text, reading.encoding.offsets);
  inside_word.resize(at(reading.read()));
  return best_answers(logits_of(reading, rows), inside_word, rules);
}

std::optional<AnswerSpan> best_answer(const Document& document, Index max_tokens) {
  const Reading& reading = document.reading;
  const std::vector<StartsAndEnds> rows(document.outputs.begin(), document.outputs.end());
  return best_of_rows(logits_of(reading, rows),
                      begins_inside_word(reading.text, reading.encoding.offsets), max_tokens);
}

std::string text_of(const Reading& reading, TokenRange tokens) {
  const std::vector<std::size_t> starts = character_starts(reading.text);
  const CharacterSpan span = characters_of(reading, starts, tokens);
  const std::size_t begin = starts[at(span.begin)];
  return reading.text.substr(begin, starts[at(span.end)] - begin);
}

CharacterSpan characters_of(const Reading& reading, std::span<const std::size_t> starts,
                            TokenRange tokens) {
  const auto& offsets = reading.encoding.offsets;
  return text::whole_graphemes(reading.text, starts,
                               {offsets[at(tokens.begin)].begin, offsets[at(tokens.end - 1)].end});
}

}  // namespace longformer::tasks
