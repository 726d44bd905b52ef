#include "longformer/choice.h"

#include <algorithm>
#include <utility>

#include "api/document_stream.h"
#include "api/task_folder.h"
#include "core/error.h"
#include "formats/json.h"
#include "tasks/candidates.h"
#include "tasks/choice_data.h"
#include "tasks/collation.h"
#include "tasks/scores.h"

namespace longformer {
namespace {

constexpr std::string_view kCandidates = "candidate-scoring";

/// How rows are made of a question. What the head attends to globally is told by where the texts
/// stand: a text that contains separators of its own must not move it.
tasks::ReadingOptions reading_of(const Model& model, const ChooseOptions& options) {
  tasks::ReadingOptions reading = reading_options(model, options);
  if (reading.global_positions || !model.info().has_global_attention) return reading;
  const bool together = model.info().head == kCandidates;
  reading.global_positions = [together](const Encoding& tokens, std::string_view) {
    auto positions = together ? tasks::of_candidate_part(tokens) : tasks::from_second_text(tokens);
    // Without such tokens the head decides.
    return positions.empty() ? std::nullopt : std::optional(std::move(positions));
  };
  return reading;
}

/// Questions as rows: a pair for every choice, or all candidates with a part of the supports each.
class QuestionReader {
 public:
  QuestionReader(const Model& model, const Tokenizer& tokenizer, const ChooseOptions& options) {
    if (model.info().head != kCandidates) {
      pairs_.emplace(tokenizer, reading_of(model, options));
      return;
    }
    if (options.global_attention) tasks::check_candidate_rule(options.global_attention->rule());
    together_.emplace(tokenizer, reading_of(model, options));
  }

  tasks::Reading read(const ChoiceQuestion& question) const {
    require(!question.choices.empty(), "expected at least one choice, found none");
    require(!question.context.empty() || !question.question.empty(),
            "expected a context or a question, found neither");
    return together_ ? together_->read(together_->tokens(question)) : pairs_->read(question);
  }

 private:
  std::optional<tasks::RowReader> pairs_;
  std::optional<tasks::CandidateReader> together_;
};

/// One for each choice: that of its own row, or the sum of its places in all of them.
std::vector<float> choice_logits(const Document& document) {
  const std::vector<Index>& places = document.reading.places;
  std::vector<float> logits(places.size(), 0.0f);
  for (const std::vector<float>& output : document.outputs) {
    if (places.empty()) logits.push_back(output.at(0));
    for (std::size_t i = 0; i < places.size(); ++i) {
      logits[i] += output.at(static_cast<std::size_t>(places[i]));
    }
  }
  return logits;
}

void require_choice_head(const Model& model, const std::string& folder) {
  if (model.info().head == kCandidates) return;
  require_head(model, folder, "multiple-choice", "ForMultipleChoice");
}

}  // namespace

ChoiceQuestion parse_choice_question(std::string_view json) {
  const tasks::Json object = formats::parse_json(json, "question");
  require(object.is_object(), "expected a JSON object with context, question and choices, found {}",
          formats::shown(object));
  return tasks::choice_question(object);
}

Chooser::Chooser(Model model, Tokenizer tokenizer)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {
  require_choice_head(model_, "model");
}

Chooser Chooser::load(const std::string& folder, const LoadOptions& options) {
  Model model = Model::load(folder, options);
  require_choice_head(model, folder);
  Tokenizer tokenizer = matching_tokenizer(model, folder);
  return {std::move(model), std::move(tokenizer)};
}

void Chooser::choose(const Source& source, const Sink& sink, const ChooseOptions& options) const {
  check_too_long_choices(model_, options.too_long);
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
    answer.logits = choice_logits(document);
    answer.probabilities = tasks::softmax(answer.logits);
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
        require(outcome.error.empty(), outcome.remedies, "question {}: {}", answers.size(),
                outcome.error);
        answers.push_back(outcome.answer);
      },
      options);
  return answers;
}

}  // namespace longformer
