// The order of texts by their relevance to a query: /rerank, and the forms of Cohere and Jina.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "failure.h"
#include "inputs.h"
#include "routes_classes.h"
#include "schemas.h"

namespace longformer::server {
namespace {

/// Tokens of a passage whose relevance is told, where the model is long enough for it.
constexpr std::int64_t kPassageTokens = 128;

/// A part of a document with its own score.
struct RelevantSpan {
  CharacterSpan span;
  float score = 0;
};

/// A document of a request to rerank.
struct Ranked {
  std::size_t index = 0;
  /// Best of the segments of a document that is longer than the model.
  float score = 0;
  std::vector<RelevantSpan> spans = {};
};

/// `relevant_spans` of a request.
struct SpanChoice {
  double threshold = 0.1;
  std::int64_t most = INT64_MAX;
  /// The scores of the spans are logits. The threshold is for probabilities all the same.
  bool is_raw = false;
};

/// One request to rerank.
struct Ranking {
  const Classifier& classifier;
  std::string query;
  std::vector<std::string> texts;
  /// The name of the texts in messages.
  const char* list;
};

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

/// The logit of each text.
std::vector<float> relevance(ApiCall& call, const Ranking& ranking,
                             std::span<const std::string> texts, const ClassifyOptions& options) {
  std::vector<ClassifyInput> inputs;
  for (const std::string& text : texts) inputs.push_back({.text = ranking.query, .pair = text});
  std::vector<float> logits;
  for (const Classification& one :
       classified(call, ranking.classifier, inputs, options, ranking.list)) {
    logits.push_back(one.logits[0]);
  }
  return logits;
}

ClassifyOptions options_of(const Api& api, const ApiCall& call, const Classifier& classifier) {
  cuts_left(call.body);
  ClassifyOptions options = classify_options_of(api, call, classifier, call.body);
  options.merge = SegmentMerge::max;
  return options;
}

std::vector<Ranked> ranked(const Api& api, ApiCall& call, const Ranking& ranking, bool is_raw) {
  check_batch_size(api, ranking.texts.size());
  call.lengths.inputs = std::ssize(ranking.texts);
  for (const std::string& text : ranking.texts) {
    call.lengths.characters += characters_of(ranking.query) + characters_of(text);
  }
  const ClassifyOptions options = options_of(api, call, ranking.classifier);
  std::vector<Ranked> order;
  for (const float logit : relevance(call, ranking, ranking.texts, options)) {
    order.push_back({order.size(), is_raw ? logit : sigmoid(logit)});
  }
  std::ranges::stable_sort(order, std::ranges::greater(), &Ranked::score);
  return order;
}

/// Only so many tokens of each document count.
void cut_documents(ApiCall& call, Ranking& ranking, std::int64_t most) {
  for (std::string& text : ranking.texts) {
    const Encoding tokens = encoded(ranking.classifier.tokenizer(), text, false);
    const std::int64_t excess = std::ssize(tokens.ids) - most;
    if (excess <= 0) continue;
    const std::int64_t end = tokens.offsets[static_cast<std::size_t>(most - 1)].end;
    text.resize(character_starts(text)[static_cast<std::size_t>(end)]);
    count(call.lengths, excess, excess, 0);
  }
}

/// `raw_scores`.
bool wants_logits(const Json& body) { return truth_of(body, "raw_scores").value_or(false); }

/// `relevant_spans`; nothing where it is absent or disabled.
std::optional<SpanChoice> spans_of(const Json& body) {
  const Json* wanted = member(body, "relevant_spans");
  if (wanted == nullptr) return std::nullopt;
  if (!wanted->is_object()) refuse_type("relevant_spans", "an object", *wanted);
  const auto mode = text_of(*wanted, "mode");
  if (!mode) refuse_missing("relevant_spans.mode");
  if (*mode != "enabled" && *mode != "disabled") {
    refuse("`relevant_spans.mode`: expected enabled or disabled, found '" + *mode + "'");
  }
  SpanChoice choice;
  choice.threshold = number_of(*wanted, "threshold", 0, 1).value_or(choice.threshold);
  choice.most = whole_of(*wanted, "max_spans", 1, 1 << 30).value_or(choice.most);
  choice.is_raw = wants_logits(body);
  return *mode == "enabled" ? std::optional(choice) : std::nullopt;
}

/// The part of a document that is read when it is cut to one length of the model.
std::string truncated(const Ranking& ranking, const std::string& text) {
  EncodeOptions options;
  options.max_length = ranking.classifier.model().info().max_tokens;
  const Encoding pair = ranking.classifier.tokenizer().encode_pair(ranking.query, text, options);
  if (pair.truncated == 0) return text;
  std::int64_t end = 0;
  for (std::size_t i = 0; i < pair.ids.size(); ++i) {
    if (pair.sequence_ids[i] == 1) end = std::max(end, pair.offsets[i].end);
  }
  return text.substr(0, character_starts(text)[static_cast<std::size_t>(end)]);
}

/// The passages of a document that are relevant, best first.
std::vector<RelevantSpan> relevant_spans(const Api& api, ApiCall& call, const Ranking& ranking,
                                         const std::string& whole, const SpanChoice& choice) {
  ClassifyOptions options = options_of(api, call, ranking.classifier);
  const std::string text =
      options.too_long == TooLong::truncate ? truncated(ranking, whole) : whole;
  const Tokenizer& tokenizer = ranking.classifier.tokenizer();
  const auto beside = std::ssize(tokenizer.encode_pair(ranking.query, "").ids);
  const std::int64_t room = ranking.classifier.model().info().max_tokens - beside;
  constexpr std::int64_t kLeastRoom = 4;
  if (room < kLeastRoom) refuse("`query`: it leaves no room for passages (relevant_spans)");
  const auto spans = passages_of(tokenizer, text, std::min(room, kPassageTokens));
  const auto starts = character_starts(text);
  std::vector<std::string> passages;
  for (const CharacterSpan& span : spans) {
    const std::size_t begin = starts[static_cast<std::size_t>(span.begin)];
    passages.push_back(text.substr(begin, starts[static_cast<std::size_t>(span.end)] - begin));
  }
  // A word that a passage ends in may have more tokens where it is cut.
  if (options.too_long == TooLong::refuse) options.too_long = TooLong::split;
  // The tokens of the documents count once, in their scores.
  const Lengths lengths = call.lengths;
  const auto logits = relevance(call, ranking, passages, options);
  call.lengths = lengths;
  std::vector<RelevantSpan> found;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const float score = sigmoid(logits[i]);
    if (score < static_cast<float>(choice.threshold)) continue;
    found.push_back({spans[i], choice.is_raw ? logits[i] : score});
  }
  std::ranges::stable_sort(found, std::ranges::greater(), &RelevantSpan::score);
  if (std::ssize(found) > choice.most) found.resize(static_cast<std::size_t>(choice.most));
  return found;
}

/// `documents`: texts, or objects with a text.
std::vector<std::string> documents_of(const Json& body, const char* key) {
  const Json* list = member(body, key);
  if (list == nullptr) refuse_missing(key);
  if (!list->is_array()) refuse_type(key, "a list", *list);
  if (list->empty()) refuse_empty(key);
  std::vector<std::string> texts;
  for (const Json& one : *list) {
    const std::string name = fmt::format("{}[{}]", key, texts.size());
    const Json* text = one.is_object() ? member(one, "text") : &one;
    if (text == nullptr || !text->is_string()) refuse_type(name, "a text", one);
    texts.push_back(text->get<std::string>());
    if (texts.back().empty()) refuse_empty(name);
  }
  return texts;
}

Ranking ranking_of(const Classifier& classifier, const Json& body, const char* list) {
  return {.classifier = classifier,
          .query = needed_text(body, "query"),
          .texts = documents_of(body, list),
          .list = list};
}

std::vector<ApiField> text_pair_fields() {
  return {{"query", text_schema(), true},
          truncate_field(),
          truncation_direction_field(),
          {"raw_scores", optional_schema("boolean")},
          model_field()};
}

Json reranked_schema() {
  const Json text = text_schema();
  const Json object = {
      {"type", "object"}, {"required", {"text"}}, {"properties", {{"text", text}}}};
  return {{"type", "array"}, {"minItems", 1}, {"items", {{"oneOf", {text, object}}}}};
}

/// Members of the form of Cohere besides the texts.
void add_cohere_fields(std::vector<ApiField>& all) {
  const Json mode = {{"type", "string"}, {"enum", {"enabled", "disabled"}}};
  const Json threshold = {{"type", "number"}, {"minimum", 0}, {"maximum", 1}, {"nullable", true}};
  const Json most = {{"type", "integer"}, {"minimum", 1}, {"maximum", 1 << 30}, {"nullable", true}};
  const Json spans = {
      {"type", "object"},
      {"required", {"mode"}},
      {"properties", {{"mode", mode}, {"threshold", threshold}, {"max_spans", most}}}};
  all.push_back({"top_n", optional_whole_schema(1)});
  all.push_back({"return_documents", optional_schema("boolean")});
  all.push_back({"max_tokens_per_doc", optional_whole_schema(1)});
  all.push_back({"priority", {{"description", "read and ignored"}}});
  all.push_back({"relevant_spans", optional_schema(spans)});
}

std::vector<ApiField> rerank_fields() {
  std::vector<ApiField> all = text_pair_fields();
  for (const char* name : {"texts", "documents"}) {
    all.push_back({name, {{"oneOf", {reranked_schema(), {{"type", "null"}}}}}});
  }
  all.push_back({"return_text", optional_schema("boolean")});
  add_cohere_fields(all);
  return all;
}

std::vector<ApiField> rerank_document_fields() {
  std::vector<ApiField> all = text_pair_fields();
  all.push_back({"documents", reranked_schema(), true});
  add_cohere_fields(all);
  return all;
}

std::string spans_json(std::span<const RelevantSpan> spans, const Offsets& offsets) {
  return json_list(spans, [&](std::string& json, const RelevantSpan& one) {
    const auto [start, end] = offsets.of(one.span);
    JsonLine row;
    json += row.add("start", start).add("end", end).add("score", one.score).object();
  });
}

/// The form of Cohere, Jina and vLLM.
std::optional<HttpResponse> rerank_documents(Api& api, ApiCall& call) {
  const ServedModel& model = api.model_or_first(call, Ability::rerank);
  Ranking ranking = ranking_of(*model.classifier, call.body, "documents");
  const std::optional<SpanChoice> choice = spans_of(call.body);
  const bool with_text = truth_of(call.body, "return_documents").value_or(false);
  const auto top_n = whole_of(call.body, "top_n", 1, 1 << 30);
  const auto most_tokens = whole_of(call.body, "max_tokens_per_doc", 1, 1 << 30);
  const auto whole = with_text ? ranking.texts : std::vector<std::string>();
  if (most_tokens) cut_documents(call, ranking, *most_tokens);
  auto order = ranked(api, call, ranking, wants_logits(call.body));
  if (top_n) order.resize(std::min(order.size(), static_cast<std::size_t>(*top_n)));
  std::vector<JsonLine> results;
  for (const Ranked& one : order) {
    JsonLine& row = results.emplace_back();
    row.add("index", static_cast<std::int64_t>(one.index)).add("relevance_score", one.score);
    if (with_text) row.add_json("document", JsonLine().add("text", whole[one.index]).object());
    if (!choice) continue;
    const std::string& text = ranking.texts[one.index];
    row.add_json("relevant_spans", spans_json(relevant_spans(api, call, ranking, text, *choice),
                                              Offsets(call.request, text)));
  }
  const std::int64_t used = call.lengths.tokens - call.lengths.truncated;
  JsonLine usage, json;
  usage.add("prompt_tokens", used).add("total_tokens", used);
  json.add("id", call.id);
  json.add("model", model.name).add_objects("results", results);
  json.add_json("usage", usage.object());
  return json_response(json.add_json("meta", R"({"api_version":{"version":"2"}})").object());
}

std::optional<HttpResponse> rerank(Api& api, ApiCall& call) {
  if (member(call.body, "documents") != nullptr) {
    if (member(call.body, "texts") != nullptr) {
      refuse("expected `texts` or `documents`, found both");
    }
    return rerank_documents(api, call);
  }
  const ServedModel& model = api.model_for(call, Ability::rerank);
  const Ranking ranking = ranking_of(*model.classifier, call.body, "texts");
  const bool with_text = truth_of(call.body, "return_text").value_or(false);
  const auto order = ranked(api, call, ranking, wants_logits(call.body));
  return json_response(json_list(order, [&](std::string& json, const Ranked& one) {
    JsonLine row;
    row.add("index", static_cast<std::int64_t>(one.index));
    if (with_text) row.add("text", ranking.texts[one.index]);
    json += row.add("score", one.score).object();
  }));
}

}  // namespace

std::vector<Route> rerank_routes() {
  return {{.method = "POST",
           .path = "/rerank",
           .summary = "Texts in the order of their relevance to a query.",
           .handler = rerank,
           .ability = Ability::rerank,
           .fields = rerank_fields,
           .one_of = {"texts", "documents"}},
          {.method = "POST",
           .path = "/v1/rerank",
           .summary = "The same in the form of Cohere and Jina.",
           .handler = rerank_documents,
           .ability = Ability::rerank,
           .fields = rerank_document_fields},
          {.method = "POST",
           .path = "/v2/rerank",
           .summary = "The same in the form of Cohere and Jina.",
           .handler = rerank_documents,
           .ability = Ability::rerank,
           .fields = rerank_document_fields}};
}

}  // namespace longformer::server
