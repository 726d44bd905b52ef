#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "core/error.h"
#include "engine/reading/passages.h"
#include "engine/run/document_states.h"
#include "engine/run/document_stream.h"
#include "engine/run/model_implementation.h"
#include "engine/run/task_folder.h"
#include "formats/json.h"
#include "longformer/tasks.h"
#include "longformer/text.h"
#include "tasks/multi_hop/multi_hop.h"
#include "text/basic_words.h"

namespace longformer {
namespace {

double log_sum_exp(std::span<const float> values) {
  const auto highest = static_cast<double>(*std::max_element(values.begin(), values.end()));
  double sum = 0;
  for (const float value : values) sum += std::exp(static_cast<double>(value) - highest);
  return highest + std::log(sum);
}

void fill(const tasks::MultiHopDecision& decision, const tasks::MultiHopLogits& logits,
          MultiHopOutcome& outcome) {
  constexpr std::array<const char*, 3> kTypes = {"span", "yes", "no"};
  const auto type = static_cast<std::size_t>(decision.type);
  outcome.answer = decision.answer;
  outcome.type = kTypes[type];
  outcome.logit = logits.types[type];
  double log_score = static_cast<double>(outcome.logit) - log_sum_exp(logits.types);
  if (decision.type == tasks::AnswerType::span && decision.span) {
    const tasks::MultiHopSpan& span = *decision.span;
    outcome.span = {span.paragraph, span.sentence, span.characters};
    outcome.logit = span.logit;
    log_score +=
        static_cast<double>(span.logit) - log_sum_exp(logits.starts) - log_sum_exp(logits.ends);
  }
  outcome.score = static_cast<float>(std::exp(log_score));
  for (const tasks::EvidenceSentence& one : decision.evidence) {
    outcome.evidence.push_back({one.paragraph, one.sentence, one.logit});
  }
  outcome.paragraph_logits = decision.paragraphs;
}

NamedMultiHopQuestion named(std::string_view text, engine::Record record) {
  const engine::Json object = formats::parse_json_data(text, record.place);
  try {
    require(object.is_object(), "expected a JSON object, found {}", formats::shown(object));
    record.id_number = engine::id_number(object, text);
    const engine::Origin origin = engine::origin_of(object, record);
    return {.id = origin.id,
            .id_json = origin.id_json(),
            .line = origin.line,
            .record = origin.record,
            .question = tasks::multi_hop_question(object)};
  } catch (const Error& error) {
    fail("{}: {}", record.place, error.what());
  }
}

/// Throws Error for a tokenizer whose rows the model cannot take.
void check_reader(const Tokenizer& tokenizer, const Model& model) {
  [[maybe_unused]] const tasks::MultiHopReader reader(tokenizer,
                                                      {.max_tokens = model.info().max_tokens});
}

}  // namespace

MultiHopAnswerer::MultiHopAnswerer(Model model, Tokenizer tokenizer)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {
  require_task(model_, "model", tasks::multi_hop());
  check_reader(tokenizer_, model_);
}

MultiHopAnswerer MultiHopAnswerer::load(const std::string& folder, const LoadOptions& options) {
  Model model = load_for_task(folder, options, tasks::multi_hop());
  require_task(model, folder, tasks::multi_hop());
  Tokenizer tokenizer = matching_tokenizer(model, folder);
  return {std::move(model), std::move(tokenizer)};
}

bool MultiHopAnswerer::is_one(const std::string& folder) {
  return engine::task_named(models::read_config(folder + "/config.json")) == &tasks::multi_hop();
}

MultiHopOutcome MultiHopAnswerer::answer(const MultiHopQuestion& question,
                                         const MultiHopAnswerOptions& options) const {
  require(options.max_answer_tokens >= 1,
          "answer: expected a longest answer of at least 1 token, found {}",
          options.max_answer_tokens);
  require(options.evidence_paragraphs >= 0,
          OptionName("evidence_paragraphs", "evidence paragraphs"), "expected at least 0, found {}",
          options.evidence_paragraphs);
  require(options.batch_tokens > 0, OptionName("batch_tokens", "batch tokens"),
          "expected more than 0, found {}", options.batch_tokens);
  const tasks::MultiHopReader reader(tokenizer_, reading_options(model_, options));
  const tasks::AnswerRules rules = {.top_k = 1, .max_tokens = options.max_answer_tokens};
  MultiHopOutcome outcome;
  const Document document = read_document([&] {
    tasks::MultiHopReading read = reader.read(question);
    const Model::Implementation& model = model_.implementation();
    const Tensor states =
        states_of(model, read.reading.rows, {.batch_tokens = options.batch_tokens});
    const auto turn = model.turn();
    const tasks::MultiHopLogits logits =
        tasks::multi_hop_logits(model.context(), model.task_head(), states, read);
    fill(tasks::decide(question, read, logits, rules, options.evidence_paragraphs), logits,
         outcome);
    return std::move(read.reading);
  });
  outcome.error = document.error;
  outcome.remedies = document.remedies;
  outcome.tokens = document.reading.tokens;
  outcome.truncated = document.reading.truncated;
  outcome.segments = std::ssize(document.reading.rows);
  return outcome;
}

std::vector<MultiHopOutcome> MultiHopAnswerer::answer(std::span<const MultiHopQuestion> questions,
                                                      const MultiHopAnswerOptions& options) const {
  std::vector<MultiHopOutcome> results;
  for (const MultiHopQuestion& question : questions) {
    results.push_back(answer(question, options));
    const MultiHopOutcome& outcome = results.back();
    require(outcome.error.empty(), outcome.remedies, TextIndex{"question", results.size() - 1},
            "{}", outcome.error);
  }
  return results;
}

Paragraph paragraph_of(std::string title, const std::string& text) {
  const std::vector<CharacterSpan> words = text::basic_words(text);
  const std::vector<std::size_t> starts = character_starts(text);
  Paragraph paragraph = {.title = std::move(title), .sentences = {}};
  std::size_t begin = 0;
  for (const Index sentence : engine::sentence_starts(text, words)) {
    const std::size_t next = sentence == 0 ? 0 : starts[at(words[at(sentence)].begin)];
    if (next > begin) paragraph.sentences.push_back(text.substr(begin, next - begin));
    begin = next;
  }
  if (begin < text.size()) paragraph.sentences.push_back(text.substr(begin));
  return paragraph;
}

std::vector<NamedMultiHopQuestion> parse_multi_hop_questions(std::string_view text,
                                                             const std::string& name) {
  std::vector<NamedMultiHopQuestion> questions;
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  require(begin != std::string_view::npos, "{}: expected questions as JSON, found an empty text",
          name);
  if (text[begin] == '[') {
    // The whole text must be JSON before its parts are taken.
    static_cast<void>(formats::parse_json_data(text, name));
    for (const std::string_view object : json_elements(text)) {
      const std::int64_t number = std::ssize(questions) + 1;
      questions.push_back(
          named(object, {.number = number, .place = fmt::format("{}: record {}", name, number)}));
    }
    return questions;
  }
  JsonValues values(TextLines(name, std::make_shared<const std::string>(text)));
  for (std::string one; values.next(one, is_json_value);) {
    questions.push_back(named(one, engine::record_at(values, name)));
  }
  return questions;
}

}  // namespace longformer
