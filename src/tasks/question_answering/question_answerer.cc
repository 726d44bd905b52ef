#include <algorithm>
#include <optional>

#include "core/error.h"
#include "engine/run/document_stream.h"
#include "engine/run/task_folder.h"
#include "longformer/report.h"
#include "longformer/tasks.h"
#include "tasks/question_answering/question_answering.h"

namespace longformer {
namespace {

void find_answers(const Document& document, const tasks::AnswerRules& rules,
                  AnswerOutcome& outcome) {
  const engine::Reading& reading = document.reading;
  const tasks::Answers found = tasks::answers_of(document, rules);
  const std::vector<std::size_t> starts = character_starts(reading.text);
  for (const tasks::AnswerSpan& span : found.spans) {
    const CharacterSpan characters = tasks::characters_of(reading, starts, span.tokens);
    const std::size_t begin = starts[static_cast<std::size_t>(characters.begin)];
    const std::size_t end = starts[static_cast<std::size_t>(characters.end)];
    outcome.answers.push_back(
        {span.score, span.logit, characters, reading.text.substr(begin, end - begin)});
  }
  outcome.no_answer_score = found.none.score;
  outcome.no_answer_logit = found.none.logit;
}

}  // namespace

BestAnswers::BestAnswers(std::int64_t most) : most_(static_cast<std::size_t>(most)) {
  require(most >= 1, "best answers: expected at least 1, found {}", most);
}

void BestAnswers::add(std::size_t document, std::span<const Answer> answers) {
  for (const Answer& answer : answers) {
    const auto place = std::find_if(
        answers_.begin(), answers_.end(),
        [&](const DocumentAnswer& other) { return answer.logit > other.answer.logit; });
    answers_.insert(place, {document, answer});
    if (answers_.size() > most_) answers_.pop_back();
  }
}

namespace {

JsonLine line_of(const Answer& answer) {
  JsonLine json;
  json.add("score", answer.score).add("logit", answer.logit);
  json.add("begin", answer.span.begin).add("end", answer.span.end);
  if (answer.place) json.add_json("place", to_json(*answer.place));
  return json.add("text", answer.text);
}

}  // namespace

std::string to_json(const Answer& answer) { return line_of(answer).object(); }

std::string to_json(const AnswerOutcome& result) {
  JsonLine json;
  json.add("tokens", result.tokens).add("truncated", result.truncated);
  json.add("segments", result.segments);
  std::vector<JsonLine> answers;
  for (const Answer& answer : result.answers) answers.push_back(line_of(answer));
  json.add_objects("answers", answers).add("no_answer_score", result.no_answer_score);
  return json.add("no_answer_logit", result.no_answer_logit).object();
}

QuestionAnswerer::QuestionAnswerer(Model model, Tokenizer tokenizer)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {
  require_task(model_, "model", tasks::question_answering());
}

QuestionAnswerer QuestionAnswerer::load(const std::string& folder, const LoadOptions& options) {
  Model model = load_for_task(folder, options, tasks::question_answering());
  require_task(model, folder, tasks::question_answering());
  Tokenizer tokenizer = matching_tokenizer(model, folder);
  return {std::move(model), std::move(tokenizer)};
}

void QuestionAnswerer::answer(const Source& source, const Sink& sink,
                              const AnswerOptions& options) const {
  const engine::RowReader reader(tokenizer_, reading_options(model_, options));
  const tasks::AnswerRules rules = {.top_k = options.top_k,
                                    .max_tokens = options.max_answer_tokens};
  tasks::check_answer_rules(rules, reader.options());
  const auto next = [&]() -> std::optional<Document> {
    std::optional<Question> question = source();
    if (!question) return std::nullopt;
    return read_document(
        [&] { return reader.read(question->question, std::move(question->text)); });
  };
  const auto done = [&](const Document& document) {
    AnswerOutcome outcome;
    outcome.error = document.error;
    outcome.remedies = document.remedies;
    outcome.tokens = document.reading.tokens;
    outcome.truncated = document.reading.truncated;
    outcome.segments = static_cast<std::int64_t>(document.reading.rows.size());
    if (document.error.empty()) find_answers(document, rules, outcome);
    sink(outcome);
  };
  stream_documents(model_, {.batch_tokens = options.batch_tokens}, next, done);
}

std::vector<DocumentAnswer> QuestionAnswerer::best_answers(const std::string& question,
                                                           std::span<const std::string> documents,
                                                           const AnswerOptions& options) const {
  BestAnswers best(options.top_k);
  std::size_t asked = 0, answered = 0;
  const auto source = [&]() -> std::optional<Question> {
    if (asked == documents.size()) return std::nullopt;
    return Question{question, documents[asked++]};
  };
  const auto sink = [&](const AnswerOutcome& outcome) {
    require(outcome.error.empty(), outcome.remedies, TextIndex{"document", answered}, "{}",
            outcome.error);
    best.add(answered++, outcome.answers);
  };
  answer(source, sink, options);
  return best.answers();
}

std::vector<AnswerOutcome> QuestionAnswerer::answer(std::span<const Question> questions,
                                                    const AnswerOptions& options) const {
  std::vector<AnswerOutcome> results;
  answer(
      source_over(questions),
      [&](const AnswerOutcome& outcome) {
        require(outcome.error.empty(), outcome.remedies, TextIndex{"question", results.size()},
                "{}", outcome.error);
        results.push_back(outcome);
      },
      options);
  return results;
}

}  // namespace longformer
