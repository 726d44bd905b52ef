// Classes: /predict, /classify and /rerank.
#include "routes_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "failure.h"
#include "inputs.h"
#include "schemas.h"

namespace longformer::server {

namespace {

std::optional<ScoreFunction> function_of(const Json& where) {
  if (truth_of(where, "raw_scores").value_or(false)) return ScoreFunction::none;
  const auto name = text_of(where, "function_to_apply");
  if (!name) return std::nullopt;
  if (*name == "softmax") return ScoreFunction::softmax;
  if (*name == "sigmoid") return ScoreFunction::sigmoid;
  if (*name == "none") return ScoreFunction::none;
  refuse("`function_to_apply`: expected softmax, sigmoid or none, found '" + *name + "'");
}

/// A text, or a list of one text or of a pair.
ClassifyInput input_of(const Json& value, const std::string& name) {
  ClassifyInput input;
  if (value.is_string()) {
    input.text = value.get<std::string>();
  } else if (value.is_array() && !value.empty() && value.size() <= 2 &&
             std::ranges::all_of(value, [](const Json& one) { return one.is_string(); })) {
    input.text = value[0].get<std::string>();
    if (value.size() == 2) input.pair = value[1].get<std::string>();
  } else {
    refuse_type(name, "a text, or a list of a text or a pair of texts", value);
  }
  if (input.text.empty()) refuse_empty(name);
  return input;
}

}  // namespace

std::vector<Classification> classified(const Api& api, ApiCall& call, const Classifier& classifier,
                                       std::vector<ClassifyInput> inputs, const Json& where,
                                       const char* list) {
  ClassifyOptions options;
  options.function = function_of(where);
  options.too_long = too_long_of(api, call, where);
  options.stride = usual_stride(classifier.model(), options.stride);
  options.batch_tokens = batch_tokens_of(api, classifier.model());
  if (cuts_left(where) && options.too_long == TooLong::truncate) {
    for (ClassifyInput& input : inputs) {
      if (input.pair) continue;
      input.text = without_begin(classifier.tokenizer(), input.text,
                                 classifier.model().info().max_tokens, call.lengths.truncated);
    }
  }
  for (const ClassifyInput& input : inputs) {
    call.lengths.characters += characters_of(input.text) + characters_of(input.pair.value_or(""));
  }
  call.lengths.inputs = std::ssize(inputs);
  std::vector<Classification> found;
  const auto sink = [&](const ClassifyOutcome& outcome) {
    if (!outcome.error.empty()) {
      throw failure_of(Error(ErrorParts{.reason = outcome.error,
                                        .document = std::ssize(found),
                                        .remedies = outcome.remedies}),
                       list);
    }
    found.push_back(outcome.classification);
    count(call.lengths, found.back().tokens, found.back().truncated, found.back().segments);
  };
  classifier.classify(source_over(std::span<const ClassifyInput>(inputs)), sink, options);
  return found;
}

std::string scores_json(const Classification& found, std::int64_t top_k) {
  const std::size_t kept = top_k == 0
                               ? found.scores.size()
                               : std::min(found.scores.size(), static_cast<std::size_t>(top_k));
  return json_list(std::span(found.scores).first(kept),
                   [](std::string& json, const ClassScore& one) {
                     json += JsonLine().add("score", one.score).add("label", one.label).object();
                   });
}

namespace {

std::vector<ApiField> predict_fields() {
  const Json text = text_schema();
  const Json one = {{"type", "array"}, {"items", text}, {"minItems", 1}, {"maxItems", 2}};
  const Json many = {{"type", "array"}, {"items", one}, {"minItems", 1}};
  return {{"inputs", {{"oneOf", {text, one, many}}}, true},
          truncate_field(),
          truncation_direction_field(),
          {"raw_scores", optional_schema("boolean")},
          {"top_k", optional_whole_schema(1)},
          {"function_to_apply",
           {{"type", "string"}, {"enum", {"softmax", "sigmoid", "none"}}, {"nullable", true}}},
          model_field()};
}

std::optional<HttpResponse> predict(Api& api, ApiCall& call) {
  const Classifier& classifier = *api.model_for(call, Ability::classify).classifier;
  const Json* value = member(call.body, "inputs");
  if (value == nullptr) refuse_missing("inputs");
  if (value->empty()) refuse_empty("inputs");
  const bool is_batch = value->is_array() && value->front().is_array();
  std::vector<ClassifyInput> inputs;
  if (is_batch) {
    check_batch_size(api, value->size());
    for (const Json& one : *value) {
      inputs.push_back(input_of(one, fmt::format("inputs[{}]", inputs.size())));
    }
  } else {
    inputs.push_back(input_of(*value, "inputs"));
  }
  const std::int64_t top_k = whole_of(call.body, "top_k", 1, 1 << 30).value_or(0);
  const auto found = classified(api, call, classifier, std::move(inputs), call.body, "inputs");
  if (!is_batch) return json_response(scores_json(found[0], top_k));
  return json_response(json_list(found, [&](std::string& json, const Classification& one) {
    json += scores_json(one, top_k);
  }));
}

/// A document of a request to rerank, with its best score.
struct Ranked {
  std::size_t index = 0;
  float score = 0;
};

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

std::vector<Ranked> ranked(const Api& api, ApiCall& call, const Classifier& classifier,
                           const std::string& query, std::span<const std::string> texts,
                           bool is_raw) {
  std::vector<ClassifyInput> inputs;
  for (const std::string& text : texts) inputs.push_back({.text = query, .pair = text});
  // Logits are wanted; texts of the body are not copied.
  Json where = {{"raw_scores", true}};
  for (const char* key : {"truncate", "truncation_direction"}) {
    if (const Json* value = member(call.body, key)) where[key] = *value;
  }
  const char* list = call.body.contains("texts") ? "texts" : "documents";
  const auto found = classified(api, call, classifier, std::move(inputs), where, list);
  std::vector<Ranked> order;
  for (std::size_t i = 0; i < found.size(); ++i) {
    order.push_back({i, is_raw ? found[i].logits[0] : sigmoid(found[i].logits[0])});
  }
  std::ranges::stable_sort(order, std::ranges::greater(), &Ranked::score);
  return order;
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

std::vector<ApiField> text_pair_fields() {
  return {{"query", text_schema(), true},
          truncate_field(),
          truncation_direction_field(),
          model_field()};
}

Json reranked_schema() {
  const Json text = text_schema();
  const Json object = {
      {"type", "object"}, {"required", {"text"}}, {"properties", {{"text", text}}}};
  return {{"type", "array"}, {"minItems", 1}, {"items", {{"oneOf", {text, object}}}}};
}

std::vector<ApiField> rerank_fields() {
  std::vector<ApiField> all = text_pair_fields();
  for (const char* name : {"texts", "documents"}) {
    all.push_back({name, {{"oneOf", {reranked_schema(), {{"type", "null"}}}}}});
  }
  all.push_back({"raw_scores", optional_schema("boolean")});
  all.push_back({"return_text", optional_schema("boolean")});
  return all;
}

std::vector<ApiField> rerank_document_fields() {
  std::vector<ApiField> all = text_pair_fields();
  all.push_back({"documents", reranked_schema(), true});
  all.push_back({"top_n", optional_whole_schema(1)});
  all.push_back({"return_documents", optional_schema("boolean")});
  return all;
}

/// The form of Cohere, Jina and vLLM.
std::optional<HttpResponse> rerank_documents(Api& api, ApiCall& call) {
  const ServedModel& model = api.model_or_first(call, Ability::rerank);
  const std::string query = needed_text(call.body, "query");
  const auto texts = documents_of(call.body, "documents");
  check_batch_size(api, texts.size());
  auto order = ranked(api, call, *model.classifier, query, texts, false);
  const auto most = whole_of(call.body, "top_n", 1, 1 << 30).value_or(std::ssize(order));
  order.resize(std::min(order.size(), static_cast<std::size_t>(most)));
  const bool with_text = truth_of(call.body, "return_documents").value_or(false);
  std::vector<JsonLine> results;
  for (const Ranked& one : order) {
    JsonLine& row = results.emplace_back();
    row.add("index", static_cast<std::int64_t>(one.index)).add("relevance_score", one.score);
    if (with_text) row.add_json("document", JsonLine().add("text", texts[one.index]).object());
  }
  JsonLine usage, json;
  usage.add("prompt_tokens", call.lengths.tokens).add("total_tokens", call.lengths.tokens);
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
  const std::string query = needed_text(call.body, "query");
  const auto texts = documents_of(call.body, "texts");
  check_batch_size(api, texts.size());
  const bool is_raw = truth_of(call.body, "raw_scores").value_or(false);
  const bool with_text = truth_of(call.body, "return_text").value_or(false);
  const auto order = ranked(api, call, *model.classifier, query, texts, is_raw);
  return json_response(json_list(order, [&](std::string& json, const Ranked& one) {
    JsonLine row;
    row.add("index", static_cast<std::int64_t>(one.index));
    if (with_text) row.add("text", texts[one.index]);
    json += row.add("score", one.score).object();
  }));
}

}  // namespace

std::vector<Route> class_routes() {
  return {
      {.method = "POST",
       .path = "/predict",
       .summary = "The classes of a text or of a pair, best first; of a list of lists, of each.",
       .handler = predict,
       .ability = Ability::classify,
       .fields = predict_fields},
      {.method = "POST",
       .path = "/classify",
       .summary = "The same as /predict.",
       .handler = predict,
       .ability = Ability::classify,
       .fields = predict_fields},
      {.method = "POST",
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
