// The order of texts by their relevance to a query: /rerank, and the forms of Cohere and Jina.
#include "routes_rerank.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "failure.h"
#include "inputs.h"
#include "schemas.h"

namespace longformer::server {
namespace {

RerankOptions options_of(const Api& api, const ApiCall& call, const Reranker& reranker) {
  cuts_left(call.body);
  RerankOptions options;
  options.too_long = too_long_of(api, call, call.body);
  options.batch_tokens = batch_tokens_of(api, reranker.model());
  read_fields(only(fields(options), {"raw_scores", "global_attention"}), call.body);
  return options;
}

}  // namespace

std::vector<RankedText> ranked(const Api& api, ApiCall& call, const Ranking& ranking) {
  call.lengths.inputs += std::ssize(ranking.texts);
  check_repeated(ranking.query, ranking.texts.size(), "query");
  for (const std::string& text : ranking.texts) {
    call.lengths.characters += characters_of(ranking.query) + characters_of(text);
  }
  try {
    auto order = ranking.reranker.rank(ranking.query, ranking.texts,
                                       options_of(api, call, ranking.reranker));
    for (const RankedText& one : order) {
      count(call.lengths, one.outcome.tokens, one.outcome.truncated, one.outcome.segments);
    }
    return order;
  } catch (const Error& error) {
    throw failure_of(error, ranking.list);
  }
}

namespace {

/// Only so many tokens of each document count.
void cut_documents(ApiCall& call, Ranking& ranking, std::int64_t most) {
  for (std::string& text : ranking.texts) {
    const Encoding tokens = encoded(ranking.reranker.tokenizer(), text, false);
    const std::int64_t excess = std::ssize(tokens.ids) - most;
    if (excess <= 0) continue;
    const std::int64_t end = tokens.offsets[static_cast<std::size_t>(most - 1)].end;
    text.resize(character_starts(text)[static_cast<std::size_t>(end)]);
    count(call.lengths, excess, excess, 0);
  }
}

/// `relevant_spans`: options for them; nothing where it is absent or disabled.
std::optional<RerankOptions> span_options_of(const Api& api, const ApiCall& call,
                                             const Reranker& reranker) {
  const Json* wanted = member(call.body, "relevant_spans");
  if (wanted == nullptr) return std::nullopt;
  if (!wanted->is_object()) refuse_type("relevant_spans", "an object", *wanted);
  const auto mode = text_of(*wanted, "mode");
  if (!mode) refuse_missing("relevant_spans.mode");
  if (*mode != "enabled" && *mode != "disabled") {
    refuse("`relevant_spans.mode`: expected enabled or disabled, found '" + *mode + "'");
  }
  RerankOptions options = options_of(api, call, reranker);
  options.span_threshold = number_of(*wanted, "threshold", 0, 1).value_or(options.span_threshold);
  options.relevant_spans = whole_of(*wanted, "max_spans", 1, 1 << 30).value_or(INT64_MAX);
  return *mode == "enabled" ? std::optional(options) : std::nullopt;
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

Ranking ranking_of(const Api& api, const Reranker& reranker, const Json& body, const char* list) {
  Ranking ranking = {.reranker = reranker,
                     .query = needed_text(body, "query"),
                     .texts = documents_of(body, list),
                     .list = list};
  check_batch_size(api, ranking.texts.size());
  return ranking;
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
  Ranking ranking = ranking_of(api, *model.reranker, call.body, "documents");
  const auto spans = span_options_of(api, call, ranking.reranker);
  const bool with_text = truth_of(call.body, "return_documents").value_or(false);
  const auto top_n = whole_of(call.body, "top_n", 1, 1 << 30);
  const auto most_tokens = whole_of(call.body, "max_tokens_per_doc", 1, 1 << 30);
  const auto whole = with_text ? ranking.texts : std::vector<std::string>();
  if (most_tokens) cut_documents(call, ranking, *most_tokens);
  auto order = ranked(api, call, ranking);
  if (top_n) order.resize(std::min(order.size(), static_cast<std::size_t>(*top_n)));
  std::vector<JsonLine> results;
  for (const RankedText& one : order) {
    JsonLine& row = results.emplace_back();
    row.add("index", static_cast<std::int64_t>(one.index));
    row.add("relevance_score", one.outcome.score);
    if (with_text) row.add_json("document", JsonLine().add("text", whole[one.index]).object());
    if (!spans) continue;
    const std::string& text = ranking.texts[one.index];
    const auto found = ranking.reranker.relevant_spans(ranking.query, text, *spans);
    row.add_json("relevant_spans", spans_json(found, Offsets(call.request, text)));
  }
  const std::int64_t used = call.lengths.tokens - call.lengths.truncated;
  JsonLine usage, json;
  usage.add("prompt_tokens", used).add("total_tokens", used);
  json.add("id", call.id);
  json.add("model", model.name).add_objects("results", results);
  json.add_json("usage", usage.object());
  return json_response(json.add_json("meta", R"({"api_version":{"version":"2"}})").object());
}

/// A member that only one of both forms knows would be ignored in the other.
void refuse_beside(const char* list, const char* name, bool is_asked) {
  if (is_asked) refuse(fmt::format("`{}`: expected none beside `{}`, found one", name, list));
}

std::optional<HttpResponse> rerank(Api& api, ApiCall& call) {
  const auto is_true = [&call](const char* name) {
    return truth_of(call.body, name).value_or(false);
  };
  if (member(call.body, "documents") != nullptr) {
    if (member(call.body, "texts") != nullptr) {
      refuse("expected `texts` or `documents`, found both");
    }
    refuse_beside("documents", "return_text", is_true("return_text"));
    return rerank_documents(api, call);
  }
  const ServedModel& model = api.model_for(call, Ability::rerank);
  const Ranking ranking = ranking_of(api, *model.reranker, call.body, "texts");
  for (const char* name : {"top_n", "max_tokens_per_doc"}) {
    refuse_beside("texts", name, member(call.body, name) != nullptr);
  }
  refuse_beside("texts", "return_documents", is_true("return_documents"));
  refuse_beside("texts", "relevant_spans",
                span_options_of(api, call, ranking.reranker).has_value());
  const bool with_text = is_true("return_text");
  const auto order = ranked(api, call, ranking);
  return json_response(json_list(order, [&](std::string& json, const RankedText& one) {
    JsonLine row;
    row.add("index", static_cast<std::int64_t>(one.index));
    if (with_text) row.add("text", ranking.texts[one.index]);
    json += row.add("score", one.outcome.score).object();
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
