#include <algorithm>
#include <utility>

#include "core/error.h"
#include "engine/reading/document.h"
#include "engine/run/document_states.h"
#include "engine/run/model_implementation.h"
#include "engine/run/task_folder.h"
#include "longformer/report.h"
#include "longformer/tasks.h"
#include "tasks/coreference/coreference.h"

namespace longformer {
namespace {

tasks::CoreferenceReader reader_of(const Model& model, const Tokenizer& tokenizer,
                                   const ResolveOptions& options) {
  require(options.batch_tokens > 0, OptionName("batch_tokens", "batch tokens"),
          "expected more than 0, found {}", options.batch_tokens);
  const models::EncoderConfig& config = model.implementation().config;
  engine::ReadingOptions reading = {.max_tokens = model.info().max_tokens};
  if (options.stride) {
    reading.too_long = TooLong::split;
    reading.stride = *options.stride;
  }
  return {tokenizer,
          engine::with_globals(config, tasks::coreference(), "document", reading),
          {.segments = options.segments, .max_segment_tokens = options.max_segment_tokens},
          tasks::coreference_config(config)};
}

std::vector<WordCluster> clusters_of(const Model& public_model,
                                     const tasks::CoreferenceReading& read,
                                     const ResolveOptions& options) {
  const Model::Implementation& model = public_model.implementation();
  const Tensor states =
      states_of(model, read.reading.rows,
                {.batch_tokens = options.batch_tokens, .progress = options.progress});
  const auto turn = model.turn();
  auto clusters = dynamic_cast<const tasks::CoreferenceHead&>(model.task_head())
                      .resolve(model.context(), states, read.words)
                      .clusters;
  if (options.without_singletons) {
    std::erase_if(clusters, [](const WordCluster& cluster) { return cluster.size() < 2; });
  }
  return clusters;
}

std::vector<std::vector<Mention>> mentions_of(const std::vector<WordCluster>& clusters,
                                              const std::vector<CharacterSpan>& words,
                                              const std::string& text) {
  const std::vector<std::size_t> starts = character_starts(text);
  std::vector<std::vector<Mention>> all;
  for (const WordCluster& cluster : clusters) {
    std::vector<Mention>& mentions = all.emplace_back();
    for (const WordSpan& span : cluster) {
      const CharacterSpan characters = {words[at(span.first)].begin, words[at(span.last)].end};
      const std::size_t begin = starts[at(characters.begin)];
      mentions.push_back(
          {span, characters, text.substr(begin, starts[at(characters.end)] - begin)});
    }
  }
  return all;
}

}  // namespace

std::string to_json(const CoreferenceOutcome& result) {
  JsonLine json;
  json.add("tokens", result.tokens).add("segments", result.segments);
  json.add("words", std::ssize(result.words));
  std::string clusters;
  for (const std::vector<Mention>& cluster : result.clusters) {
    std::string mentions;
    for (const Mention& mention : cluster) {
      JsonLine row;
      row.add("begin", mention.span.begin).add("end", mention.span.end).add("text", mention.text);
      mentions += (mentions.empty() ? "" : ", ") + row.object();
    }
    clusters += (clusters.empty() ? "[" : ", [") + mentions + "]";
  }
  return json.add_json("clusters", "[" + clusters + "]").object();
}

CoreferenceResolver::CoreferenceResolver(Model model, Tokenizer tokenizer)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {
  require_task(model_, "model", tasks::coreference());
}

CoreferenceResolver CoreferenceResolver::load(const std::string& folder,
                                              const LoadOptions& options) {
  Model model = load_for_task(folder, options, tasks::coreference());
  require_task(model, folder, tasks::coreference());
  Tokenizer tokenizer = matching_tokenizer(model, folder);
  return {std::move(model), std::move(tokenizer)};
}

CoreferenceOutcome CoreferenceResolver::resolve(const std::string& text,
                                                const ResolveOptions& options) const {
  const tasks::CoreferenceReader reader = reader_of(model_, tokenizer_, options);
  CoreferenceOutcome outcome;
  tasks::TextWords words = tasks::words_of_text(text);
  std::vector<WordCluster> clusters;
  const engine::Document document = engine::read_document([&] {
    tasks::CoreferenceReading read = reader.read(words.words);
    clusters = clusters_of(model_, read, options);
    return std::move(read.reading);
  });
  outcome.error = document.error;
  outcome.remedies = document.remedies;
  if (!document.error.empty()) return outcome;
  outcome.tokens = document.reading.tokens;
  outcome.segments = std::ssize(document.reading.rows);
  outcome.sentences = std::move(words.words.sentences);
  outcome.clusters = mentions_of(clusters, words.characters, text);
  outcome.words = std::move(words.characters);
  return outcome;
}

std::vector<CoreferenceOutcome> CoreferenceResolver::resolve(std::span<const std::string> texts,
                                                             const ResolveOptions& options) const {
  std::vector<CoreferenceOutcome> results;
  for (const std::string& text : texts) {
    results.push_back(resolve(text, options));
    const CoreferenceOutcome& outcome = results.back();
    require(outcome.error.empty(), outcome.remedies, TextIndex{"document", results.size() - 1},
            "{}", outcome.error);
  }
  return results;
}

std::string conll_text(const std::string& text, const CoreferenceOutcome& found,
                       const std::string& key) {
  const std::vector<std::size_t> starts = character_starts(text);
  tasks::CoreferenceExample document;
  document.origin.id = key;
  document.words.sentences = found.sentences;
  for (const CharacterSpan& word : found.words) {
    const std::size_t begin = starts[at(word.begin)];
    document.words.words.push_back(text.substr(begin, starts[at(word.end)] - begin));
  }
  std::vector<WordCluster> clusters;
  for (const std::vector<Mention>& cluster : found.clusters) {
    WordCluster& mentions = clusters.emplace_back();
    for (const Mention& mention : cluster) mentions.push_back(mention.words);
  }
  return tasks::conll_text(document, clusters);
}

}  // namespace longformer
