#include "longformer/question_answering.h"

#include "api/document_stream.h"
#include "api/task_folder.h"
#include "core/error.h"
#include "tasks/answers.h"

namespace longformer {
namespace {

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

std::vector<tasks::SegmentLogits> logits_of(const tasks::Reading& reading,
                                            std::span<const StartsAndEnds> rows) {
  std::vector<tasks::SegmentLogits> segments;
  for (std::size_t s = 0; s < rows.size(); ++s) {
    const auto prefix = static_cast<std::size_t>(reading.prefix);
    const auto size = static_cast<std::size_t>(reading.ranges[s].size());
    segments.push_back({.range = reading.ranges[s],
                        .start = std::span(rows[s].starts).subspan(prefix, size),
                        .end = std::span(rows[s].ends).subspan(prefix, size),
                        .no_answer_start = rows[s].starts[0],
                        .no_answer_end = rows[s].ends[0]});
  }
  return segments;
}

void find_answers(const tasks::Reading& document, std::span<const StartsAndEnds> rows,
                  const AnswerOptions& options, AnswerOutcome& outcome) {
  const auto& offsets = document.encoding.offsets;
  auto inside_word = tasks::begins_inside_word(document.text, offsets);
  inside_word.resize(static_cast<std::size_t>(document.read()));
  const tasks::Answers found =
      tasks::best_answers(logits_of(document, rows), inside_word,
                          {.top_k = options.top_k, .max_tokens = options.max_answer_tokens});
  const std::vector<std::size_t> starts = character_starts(document.text);
  for (const tasks::AnswerSpan& span : found.spans) {
    const CharacterSpan characters = {offsets[static_cast<std::size_t>(span.tokens.begin)].begin,
                                      offsets[static_cast<std::size_t>(span.tokens.end - 1)].end};
    const std::size_t begin = starts[static_cast<std::size_t>(characters.begin)];
    const std::size_t end = starts[static_cast<std::size_t>(characters.end)];
    outcome.answers.push_back(
        {span.score, span.logit, characters, document.text.substr(begin, end - begin)});
  }
  outcome.no_answer_score = found.none.score;
  outcome.no_answer_logit = found.none.logit;
}

}  // namespace

QuestionAnswerer::QuestionAnswerer(Model model, Tokenizer tokenizer)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {
  require_head(model_, "model", "question-answering", "ForQuestionAnswering");
}

QuestionAnswerer QuestionAnswerer::load(const std::string& folder, const LoadOptions& options) {
  Model model = Model::load(folder, options);
  require_head(model, folder, "question-answering", "ForQuestionAnswering");
  Tokenizer tokenizer = matching_tokenizer(model, folder);
  return {std::move(model), std::move(tokenizer)};
}

void QuestionAnswerer::answer(const Source& source, const Sink& sink,
                              const AnswerOptions& options) const {
  require(options.top_k >= 1, "top k: expected at least 1, found {}", options.top_k);
  require(options.max_answer_tokens >= 1,
          "answer: expected a longest answer of at least 1 token, found {}",
          options.max_answer_tokens);
  require(options.too_long != TooLong::split || options.stride >= options.max_answer_tokens,
          "stride: expected at least the {} tokens of the longest answer, found {}",
          options.max_answer_tokens, options.stride);
  const tasks::RowReader reader(tokenizer_, reading_options(model_, options));
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
    if (document.error.empty()) {
      const std::vector<StartsAndEnds> rows(document.outputs.begin(), document.outputs.end());
      find_answers(document.reading, rows, options, outcome);
    }
    sink(outcome);
  };
  stream_documents(model_, {.batch_tokens = options.batch_tokens}, next, done);
}

std::vector<AnswerOutcome> QuestionAnswerer::answer(std::span<const Question> questions,
                                                    const AnswerOptions& options) const {
  std::vector<AnswerOutcome> results;
  answer(
      source_over(questions),
      [&](const AnswerOutcome& outcome) {
        require(outcome.error.empty(), outcome.remedies, "question {}: {}", results.size(),
                outcome.error);
        results.push_back(outcome);
      },
      options);
  return results;
}

}  // namespace longformer
