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

/// The default of the head, told by where the texts stand: a text that contains separators of its
/// own must not move it. Empty, so that the head decides, when there are no such tokens.
std::vector<std::int32_t> mask_of(const Encoding& tokens, const std::vector<Index>& positions) {
  if (positions.empty()) return {};
  std::vector<std::int32_t> mask(tokens.ids.size(), 0);
  for (const Index position : positions) mask[static_cast<std::size_t>(position)] = 1;
  return mask;
}

constexpr std::string_view kCandidates = "candidate-scoring";

/// A question as segments: one pair for every choice.
class PairReader {
 public:
  PairReader(const Model& model, const Tokenizer& tokenizer, const ChooseOptions& options)
      : model_(model), tokenizer_(tokenizer), options_(options) {}

  void read(const ChoiceQuestion& question, SegmentedDocument& document) const {
    for (const std::string& choice : question.choices) add_pair(question, choice, document);
  }

 private:
  void add_pair(const ChoiceQuestion& question, const std::string& choice,
                SegmentedDocument& document) const {
    const auto [first, second] = tasks::choice_texts(question, choice);
    const std::int64_t limit = model_.info().max_tokens;
    EncodeOptions options;
    options.strategy = TruncationStrategy::only_first;
    if (options_.too_long == TooLong::truncate) options.max_length = limit;
    Segment& segment = document.segments.emplace_back();
    segment.tokens = tokenizer_.encode_pair(first, second, options);
    const auto tokens = static_cast<std::int64_t>(segment.tokens.ids.size());
    require(tokens <= limit,
            "expected at most {} tokens, found {} (--truncate keeps the first ones of the {})",
            limit, tokens, question.context.empty() ? "question" : "context");
    document.tokens = std::max(document.tokens, tokens + segment.tokens.truncated);
    document.truncated = std::max(document.truncated, segment.tokens.truncated);
    if (options_.global_attention) {
      segment.global_mask = options_.global_attention->mask(model_, segment.tokens, second);
    } else if (model_.info().has_global_attention) {
      segment.global_mask = mask_of(segment.tokens, tasks::from_second_text(segment.tokens));
    }
  }

  const Model& model_;
  const Tokenizer& tokenizer_;
  const ChooseOptions& options_;
};

/// A question as segments: all candidates, and a part of the supports in each.
class TogetherReader {
 public:
  TogetherReader(const Model& model, const Tokenizer& tokenizer, const ChooseOptions& options)
      : model_(model),
        options_(options),
        reader_(tokenizer, {.max_tokens = model.info().max_tokens,
                            .too_long = options.too_long,
                            .stride = options.stride}) {
    if (options.global_attention) tasks::check_candidate_rule(options.global_attention->rule());
  }

  void read(const ChoiceQuestion& question, SegmentedDocument& document) const {
    tasks::CandidateRows rows = reader_.rows(reader_.tokens(question));
    document.tokens = rows.tokens;
    document.truncated = rows.truncated;
    document.places = std::move(rows.places);
    for (Encoding& row : rows.rows) {
      Segment& segment = document.segments.emplace_back();
      segment.tokens = std::move(row);
      if (options_.global_attention) {
        segment.global_mask = options_.global_attention->mask(model_, segment.tokens, "");
      } else if (model_.info().has_global_attention) {
        segment.global_mask = mask_of(segment.tokens, tasks::of_candidate_part(segment.tokens));
      }
    }
  }

 private:
  const Model& model_;
  const ChooseOptions& options_;
  tasks::CandidateReader reader_;
};

template <typename Reader>
SegmentedDocument read_question(const Reader& reader, const ChoiceQuestion& question) {
  SegmentedDocument document;
  try {
    require(!question.choices.empty(), "expected at least one choice, found none");
    require(!question.context.empty() || !question.question.empty(),
            "expected a context or a question, found neither");
    reader.read(question, document);
  } catch (const Error& error) {
    document.segments.clear();
    document.error = error.what();
  }
  return document;
}

/// One for each choice: that of its own document, or the sum of its places in all of them.
std::vector<float> choice_logits(const SegmentedDocument& document,
                                 std::span<const DocumentOutput> outputs) {
  std::vector<float> logits(document.places.size(), 0.0f);
  for (const DocumentOutput& output : outputs) {
    if (document.places.empty()) logits.push_back(output.logits.at(0));
    for (std::size_t i = 0; i < document.places.size(); ++i) {
      logits[i] += output.logits.at(static_cast<std::size_t>(document.places[i]));
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
  require(!options.global_attention || model_.info().has_global_attention,
          "global attention: expected a Longformer model, found {}", model_.info().model_type);
  check_too_long_choices(model_, options.too_long);
  std::optional<PairReader> pairs;
  std::optional<TogetherReader> together;
  if (model_.info().head == kCandidates) {
    together.emplace(model_, tokenizer_, options);
  } else {
    pairs.emplace(model_, tokenizer_, options);
  }
  const auto next = [&]() -> std::optional<SegmentedDocument> {
    const std::optional<ChoiceQuestion> question = source();
    if (!question) return std::nullopt;
    return together ? read_question(*together, *question) : read_question(*pairs, *question);
  };
  const auto done = [&](const SegmentedDocument& document,
                        std::span<const DocumentOutput> outputs) {
    ChoiceOutcome outcome;
    outcome.error = document.error;
    ChoiceAnswer& answer = outcome.answer;
    answer.tokens = document.tokens;
    answer.truncated = document.truncated;
    if (!document.places.empty()) answer.segments = static_cast<std::int64_t>(outputs.size());
    answer.logits = choice_logits(document, outputs);
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
        require(outcome.error.empty(), "question {}: {}", answers.size(), outcome.error);
        answers.push_back(outcome.answer);
      },
      options);
  return answers;
}

}  // namespace longformer
