#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "engine/frame/scores.h"
#include "engine/run/document_stream.h"
#include "formats/json.h"
#include "longformer/embedding.h"
#include "longformer/report.h"
#include "longformer/reranking.h"
#include "models/adapter.h"

namespace longformer {
namespace {

/// Tokens of a passage whose relevance is reported, where the model is long enough for it.
constexpr std::int64_t kSpanTokens = 128;
/// Fewest tokens of a passage.
constexpr std::int64_t kLeastSpanTokens = 4;

/// The class of torch that a folder names, as "torch.nn.modules.activation.Sigmoid".
RerankActivation activation_named(const nlohmann::ordered_json& value, const std::string& place) {
  const std::string name = value.is_string() ? value.get<std::string>() : std::string();
  const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);
  const bool is_torch = name.starts_with("torch.");
  if (is_torch && last == "Sigmoid") return RerankActivation::sigmoid;
  if (is_torch && last == "Identity") return RerankActivation::identity;
  fail("{}: expected Sigmoid or Identity of torch.nn, found {}", place, formats::shown(value));
}

/// Value of a key of an object; null where it is absent or null.
const nlohmann::ordered_json* named_value(const nlohmann::ordered_json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

/// The activation that config.json names.
RerankActivation activation_of_config(const std::string& path) {
  const auto config = formats::read_json(path);
  if (const auto* ours = named_value(config, "sentence_transformers")) {
    if (const auto* named = named_value(*ours, "activation_fn")) {
      return activation_named(*named, path + ": sentence_transformers: activation_fn");
    }
  }
  // The key of versions before 4.
  constexpr const char* kOldKey = "sbert_ce_default_activation_function";
  if (const auto* named = named_value(config, kOldKey)) {
    return activation_named(*named, fmt::format("{}: {}", path, kOldKey));
  }
  return RerankActivation::sigmoid;
}

/// The settings of a folder, in the order of sentence-transformers.
RerankSettings settings_of_folder(const std::string& folder, const std::string& adapter) {
  const std::string path = folder + "/config_sentence_transformers.json";
  RerankSettings settings;
  const auto object =
      std::filesystem::exists(path) ? formats::read_json(path) : nlohmann::ordered_json::object();
  if (const auto* named = named_value(object, "activation_fn")) {
    settings.activation = activation_named(*named, path + ": activation_fn");
  } else {
    settings.activation = activation_of_config(models::config_file(folder, adapter));
  }
  const auto* name = named_value(object, "default_prompt_name");
  if (name == nullptr) return settings;
  const auto* prompts = named_value(object, "prompts");
  const bool has_prompt = name->is_string() && prompts != nullptr && prompts->is_object() &&
                          prompts->contains(name->get<std::string>());
  require(has_prompt && prompts->at(name->get<std::string>()).is_string(),
          "{}: default_prompt_name: expected the name of a prompt, found {}", path,
          formats::shown(*name));
  settings.prompt = prompts->at(name->get<std::string>()).get<std::string>();
  return settings;
}

float probability_of(float logit) { return engine::sigmoid({&logit, 1})[0]; }

/// The part of a text that is read when the pair is cut to one length of the model.
std::string part_that_is_read(const Reranker& reranker, const std::string& query,
                              const std::string& text, std::int64_t max_tokens) {
  EncodeOptions options;
  options.max_length = max_tokens;
  const Encoding pair = reranker.tokenizer().encode_pair(query, text, options);
  if (pair.truncated == 0) return text;
  std::int64_t end = 0;
  for (std::size_t i = 0; i < pair.ids.size(); ++i) {
    if (pair.sequence_ids[i] == 1) end = std::max(end, pair.offsets[i].end);
  }
  return text.substr(0, character_starts(text)[static_cast<std::size_t>(end)]);
}

}  // namespace

std::string to_json(const RankedText& text, bool with_spans) {
  const RerankOutcome& outcome = text.outcome;
  JsonLine json;
  json.add("score", outcome.score).add("tokens", outcome.tokens);
  json.add("truncated", outcome.truncated).add("segments", outcome.segments);
  if (!with_spans) return json.object();
  std::vector<JsonLine> spans;
  for (const RelevantSpan& one : text.spans) {
    JsonLine& row = spans.emplace_back();
    row.add("begin", one.span.begin).add("end", one.span.end).add("score", one.score);
  }
  return json.add_objects("relevant_spans", spans).object();
}

Reranker::Reranker(Classifier classifier, RerankSettings settings)
    : classifier_(std::move(classifier)), settings_(std::move(settings)) {
  const std::size_t classes = model().info().labels.size();
  require(classes == 1, "reranker: expected a head of one class, found one of {}", classes);
}

Reranker Reranker::of(Classifier classifier, const std::string& folder,
                      const std::string& adapter) {
  return Reranker(std::move(classifier), settings_of_folder(folder, adapter));
}

Reranker Reranker::load(const std::string& folder, const LoadOptions& options) {
  return of(Classifier::load(folder, options), folder, options.adapter);
}

void Reranker::score(const Source& source, const Sink& sink, const RerankOptions& options) const {
  const ClassifyOptions how = {
      .function = ScoreFunction::none,
      .too_long = options.too_long,
      .stride = std::min(options.stride, longest_document(model(), options.max_length) / 4),
      .merge = SegmentMerge::max,
      .global_attention = options.global_attention,
      .batch_tokens = options.batch_tokens,
      .max_length = options.max_length};
  const bool is_logit = options.raw_scores || settings_.activation == RerankActivation::identity;
  classifier_.classify(
      [&]() -> std::optional<ClassifyInput> {
        std::optional<QueryText> pair = source();
        if (!pair) return std::nullopt;
        return ClassifyInput{.text = settings_.prompt + pair->query, .pair = std::move(pair->text)};
      },
      [&](const ClassifyOutcome& found) {
        const Classification& result = found.classification;
        RerankOutcome outcome = {.error = found.error,
                                 .tokens = result.tokens,
                                 .truncated = result.truncated,
                                 .segments = result.segments,
                                 .remedies = found.remedies};
        if (!result.logits.empty()) {
          outcome.logit = result.logits[0];
          outcome.score = is_logit ? outcome.logit : probability_of(outcome.logit);
        }
        sink(outcome);
      },
      how);
}

namespace {

/// The outcomes of all pairs. Throws Error for one without a score.
std::vector<RerankOutcome> outcomes_of(const Reranker& reranker, const Reranker::Source& source,
                                       const RerankOptions& options) {
  std::vector<RerankOutcome> outcomes;
  reranker.score(
      source,
      [&](const RerankOutcome& outcome) {
        require(outcome.error.empty(), outcome.remedies, TextIndex{"text", outcomes.size()}, "{}",
                outcome.error);
        outcomes.push_back(outcome);
      },
      options);
  return outcomes;
}

/// The same query before each of some texts, which outlive the source.
Reranker::Source before_each(const std::string& query, std::span<const std::string> texts) {
  return [&query, next = source_over(texts)]() mutable -> std::optional<QueryText> {
    std::optional<std::string> text = next();
    if (!text) return std::nullopt;
    return QueryText{.query = query, .text = std::move(*text)};
  };
}

}  // namespace

std::vector<float> Reranker::predict(std::span<const QueryText> pairs,
                                     const RerankOptions& options) const {
  std::vector<float> scores;
  for (const RerankOutcome& one : outcomes_of(*this, source_over(pairs), options)) {
    scores.push_back(one.score);
  }
  return scores;
}

std::vector<RankedText> Reranker::rank(const std::string& query, std::span<const std::string> texts,
                                       const RerankOptions& options) const {
  require(options.top_n.value_or(1) >= 1, OptionName("top_n", "top-n"),
          "expected at least 1, found {}", options.top_n.value_or(0));
  std::vector<RankedText> ranked;
  for (RerankOutcome& one : outcomes_of(*this, before_each(query, texts), options)) {
    ranked.push_back({.index = ranked.size(), .outcome = std::move(one)});
  }
  std::ranges::stable_sort(ranked, std::ranges::greater(),
                           [](const RankedText& one) { return one.outcome.logit; });
  if (options.top_n) {
    ranked.resize(std::min(ranked.size(), static_cast<std::size_t>(*options.top_n)));
  }
  if (options.relevant_spans > 0) {
    for (RankedText& one : ranked) one.spans = relevant_spans(query, texts[one.index], options);
  }
  return ranked;
}

std::vector<RelevantSpan> Reranker::relevant_spans(const std::string& query,
                                                   const std::string& whole,
                                                   const RerankOptions& given) const {
  const std::int64_t most = longest_document(model(), given.max_length);
  const std::string text = given.too_long == TooLong::truncate
                               ? part_that_is_read(*this, settings_.prompt + query, whole, most)
                               : whole;
  const std::int64_t room =
      most - std::ssize(tokenizer().encode_pair(settings_.prompt + query, "").ids);
  require(room >= kLeastSpanTokens, OptionName("query"),
          "expected one that leaves room for passages of {} tokens, found one that leaves {}",
          kLeastSpanTokens, std::max<std::int64_t>(room, 0));
  const auto spans = passages_of(tokenizer(), text, std::min(room, kSpanTokens));
  const auto starts = character_starts(text);
  std::vector<std::string> passages;
  for (const CharacterSpan& span : spans) {
    const std::size_t begin = starts[static_cast<std::size_t>(span.begin)];
    passages.push_back(text.substr(begin, starts[static_cast<std::size_t>(span.end)] - begin));
  }
  RerankOptions options = given;
  // A word that a passage ends in may have more tokens where it is cut.
  if (options.too_long == TooLong::refuse) options.too_long = TooLong::split;
  const auto outcomes = outcomes_of(*this, before_each(query, passages), options);
  std::vector<RelevantSpan> found;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (probability_of(outcomes[i].logit) < static_cast<float>(options.span_threshold)) continue;
    found.push_back({spans[i], outcomes[i].score});
  }
  std::ranges::stable_sort(found, std::ranges::greater(), &RelevantSpan::score);
  if (std::ssize(found) > options.relevant_spans) {
    found.resize(static_cast<std::size_t>(options.relevant_spans));
  }
  return found;
}

}  // namespace longformer
