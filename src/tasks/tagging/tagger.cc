#include <algorithm>

#include "core/error.h"
#include "engine/frame/labels.h"
#include "engine/run/document_stream.h"
#include "engine/run/task_folder.h"
#include "longformer/report.h"
#include "longformer/tasks.h"
#include "tasks/tagging/entities.h"
#include "tasks/tagging/tagging.h"
#include "text/boundaries.h"

namespace longformer {
namespace {

std::vector<Entity> entities_of(const engine::Reading& document,
                                std::span<const std::uint8_t> continues_word,
                                std::span<const float> logits, std::span<const std::string> labels,
                                const TagOptions& options) {
  const std::vector<std::size_t> starts = character_starts(document.text);
  const auto byte = [&](std::int64_t character) {
    return starts[static_cast<std::size_t>(character)];
  };
  std::vector<Entity> entities;
  for (const auto& found :
       tasks::group_entities({.logits = logits, .labels = labels, .continues_word = continues_word},
                             options.aggregation)) {
    const auto& ignored = options.ignored_labels;
    if (engine::place_of_label(ignored, found.label)) continue;
    const auto& offsets = document.encoding.offsets;
    Entity entity;
    entity.label = found.label;
    entity.score = found.score;
    entity.span = {offsets[static_cast<std::size_t>(found.tokens.begin)].begin,
                   offsets[static_cast<std::size_t>(found.tokens.end - 1)].end};
    if (options.aggregation != Aggregation::none) {
      entity.span = text::whole_graphemes(document.text, starts, entity.span);
    }
    entity.text = document.text.substr(byte(entity.span.begin),
                                       byte(entity.span.end) - byte(entity.span.begin));
    entity.first_token = found.tokens.begin;
    entity.end_token = found.tokens.end;
    entities.push_back(std::move(entity));
  }
  return entities;
}

}  // namespace

std::string to_json(const TagOutcome& result, bool with_tokens) {
  JsonLine json;
  json.add("tokens", result.tokens).add("truncated", result.truncated);
  json.add("segments", result.segments);
  std::vector<JsonLine> entities;
  for (const Entity& entity : result.entities) {
    JsonLine& row = entities.emplace_back();
    row.add("label", entity.label).add("score", entity.score);
    row.add("begin", entity.span.begin).add("end", entity.span.end).add("text", entity.text);
    if (with_tokens) row.add("token", entity.first_token);
  }
  return json.add_objects("entities", entities).object();
}

Tagger::Tagger(Model model, Tokenizer tokenizer)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {
  require_task(model_, "model", tasks::tagging());
}

Tagger Tagger::load(const std::string& folder, const LoadOptions& options) {
  Model model = load_for_task(folder, options, tasks::tagging());
  require_task(model, folder, tasks::tagging());
  Tokenizer tokenizer = matching_tokenizer(model, folder);
  return {std::move(model), std::move(tokenizer)};
}

void Tagger::tag(const Source& source, const Sink& sink, const TagOptions& options) const {
  const engine::RowReader reader(tokenizer_, reading_options(model_, options));
  const auto next = [&]() -> std::optional<Document> {
    std::optional<std::string> text = source();
    if (!text) return std::nullopt;
    return read_document([&] { return reader.read(std::move(*text)); });
  };
  const auto& labels = model_.info().labels;
  const auto done = [&](const Document& document) {
    const engine::Reading& reading = document.reading;
    TagOutcome outcome;
    outcome.error = document.error;
    outcome.remedies = document.remedies;
    outcome.tokens = reading.tokens;
    outcome.truncated = reading.truncated;
    outcome.segments = static_cast<std::int64_t>(reading.rows.size());
    if (document.error.empty() && reading.read() > 0) {
      const auto logits = tasks::token_logits(document, labels.size());
      auto continues = tasks::continues_word(tokenizer_, reading.encoding, reading.text);
      continues.resize(logits.size() / labels.size());
      outcome.entities = entities_of(reading, continues, logits, labels, options);
    }
    sink(outcome);
  };
  stream_documents(model_, {.batch_tokens = options.batch_tokens}, next, done);
}

void Tagger::label_words(const WordSource& source, const WordSink& sink,
                         const TagOptions& options) const {
  const engine::RowReader reader(tokenizer_, reading_options(model_, options));
  const auto next = [&]() -> std::optional<Document> {
    const std::optional<std::vector<std::string>> words = source();
    if (!words) return std::nullopt;
    return read_document([&] { return reader.read(*words); });
  };
  const std::size_t classes = model_.info().labels.size();
  const auto done = [&](const Document& document) {
    const engine::Reading& reading = document.reading;
    WordLabels result = {document.error,
                         {},
                         reading.tokens,
                         reading.truncated,
                         static_cast<std::int64_t>(reading.rows.size()),
                         document.remedies};
    if (document.error.empty()) result.labels = tasks::word_labels(document, classes);
    sink(result);
  };
  stream_documents(model_, {.batch_tokens = options.batch_tokens}, next, done);
}

std::vector<std::vector<Entity>> Tagger::tag(std::span<const std::string> texts,
                                             const TagOptions& options) const {
  std::vector<std::vector<Entity>> results;
  tag(
      source_over(texts),
      [&](const TagOutcome& outcome) {
        require(outcome.error.empty(), outcome.remedies, TextIndex{"document", results.size()},
                "{}", outcome.error);
        results.push_back(outcome.entities);
      },
      options);
  return results;
}

}  // namespace longformer
