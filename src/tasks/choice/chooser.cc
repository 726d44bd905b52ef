#include <algorithm>
#include <utility>

#include "core/error.h"
#include "engine/frame/scores.h"
#include "engine/run/document_stream.h"
#include "engine/run/model_implementation.h"
#include "engine/run/task_folder.h"
#include "formats/json.h"
#include "longformer/report.h"
#include "longformer/tasks.h"
#include "tasks/choice/candidate_scoring.h"
#include "tasks/choice/choice_data.h"
#include "tasks/choice/multiple_choice.h"

namespace longformer {
namespace {

bool reads_together(const Model& model) {
  return model.implementation().task == &tasks::candidate_scoring();
}

/// Questions as rows: a pair for every choice, or all candidates with a part of the supports each.
class QuestionReader {
 public:
  QuestionReader(const Model& model, const Tokenizer& tokenizer, const ChooseOptions& options) {
    engine::ReadingOptions reading = reading_options(model, options);
    if (reads_together(model)) {
      together_.emplace(tokenizer, std::move(reading));
    } else {
      pairs_.emplace(tokenizer, std::move(reading));
    }
  }

  engine::Reading read(const ChoiceQuestion& question) const {
    tasks::check_question(question);
    return together_ ? together_->read(together_->tokens(question)) : pairs_->read(question);
  }

 private:
  std::optional<engine::RowReader> pairs_;
  std::optional<tasks::CandidateReader> together_;
};

void require_choice_head(const Model& model, const std::string& folder) {
  if (!reads_together(model)) require_task(model, folder, tasks::multiple_choice());
}

}  // namespace

ChoiceQuestion parse_choice_question(std::string_view json) {
  const engine::Json object = formats::parse_json_data(json, "question");
  require(object.is_object(), "expected a JSON object with context, question and choices, found {}",
          formats::shown(object));
  return tasks::choice_question(object);
}

std::string to_json(const ChoiceAnswer& answer, std::span<const std::string> choices) {
  JsonLine json;
  json.add("tokens", answer.tokens).add("truncated", answer.truncated);
  json.add("segments", answer.segments).add("best", answer.best);
  json.add("choice", choices[static_cast<std::size_t>(answer.best)]);
  json.add("probabilities", std::span<const float>(answer.probabilities));
  return json.add("logits", std::span<const float>(answer.logits)).object();
}

Chooser::Chooser(Model model, Tokenizer tokenizer)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {
  require_choice_head(model_, "model");
}

Chooser Chooser::load(const std::string& folder, const LoadOptions& options) {
  Model model = load_for_task(folder, options, tasks::multiple_choice());
  require_choice_head(model, folder);
  Tokenizer tokenizer = matching_tokenizer(model, folder);
  return {std::move(model), std::move(tokenizer)};
}

void Chooser::choose(const Source& source, const Sink& sink, const ChooseOptions& options) const {
  const QuestionReader reader(model_, tokenizer_, options);
  const auto next = [&]() -> std::optional<Document> {
    const std::optional<ChoiceQuestion> question = source();
    if (!question) return std::nullopt;
    return read_document([&] { return reader.read(*question); });
  };
  const auto done = [&](const Document& document) {
    ChoiceOutcome outcome;
    outcome.error = document.error;
    outcome.remedies = document.remedies;
    ChoiceAnswer& answer = outcome.answer;
    answer.tokens = document.reading.tokens;
    answer.truncated = document.reading.truncated;
    if (!document.reading.places.empty()) {
      answer.segments = static_cast<std::int64_t>(document.outputs.size());
    }
    answer.logits = tasks::choice_logits(document);
    answer.probabilities = engine::softmax(answer.logits);
    answer.best =
        std::max_element(answer.logits.begin(), answer.logits.end()) - answer.logits.begin();
    sink(outcome);
  };
  stream_documents(model_, {.batch_tokens = options.batch_tokens}, next, done);
}

std::vector<ChoiceAnswer> Chooser::choose(std::span<const ChoiceQuestion> questions,
                                          const ChooseOptions& options) const {
  std::vector<ChoiceAnswer> answers;
  choose(
      source_over(questions),
      [&](const ChoiceOutcome& outcome) {
        require(outcome.error.empty(), outcome.remedies, TextIndex{"question", answers.size()},
                "{}", outcome.error);
        answers.push_back(outcome.answer);
      },
      options);
  return answers;
}

}  // namespace longformer
