// Vectors: /embed, /embed_all, /embed_passages, /similarity.
#include <fmt/format.h>

#include "failure.h"
#include "inputs.h"

namespace longformer::server {
namespace {

/// What all of these routes read besides their texts.
EmbedOptions options_of(const Api& api, const ApiCall& call, const Json& where) {
  EmbedOptions options;
  options.too_long = too_long_of(api, call, where);
  options.batch_tokens = api.options().batch_tokens;
  options.pooling = api.options().pooling;
  options.prompt_name = text_of(where, "prompt_name");
  if (!options.prompt_name) {
    options.prompt_name = api.options().prompt_name;
    options.prompt = api.options().prompt;
  }
  return options;
}

/// With `dimensions` of them.
void set_size(EmbedOptions& options, const Embedder& embedder, const Json& where) {
  options.truncate_dim = whole_of(where, "dimensions", 1, embedder.embedding_size(options));
}

void cut_left(const Embedder& embedder, EmbedOptions& options, std::vector<std::string>& texts,
              ApiCall& call) {
  if (options.too_long != TooLong::truncate) return;
  for (std::string& text : texts) {
    text = without_begin(embedder.tokenizer(), text, embedder.max_length(options),
                         call.lengths.truncated);
  }
}

std::vector<Embedding> embedded(const Embedder& embedder, std::span<const std::string> texts,
                                const EmbedOptions& options, ApiCall& call, const char* list) {
  try {
    std::vector<Embedding> found = embedder.embed(texts, options);
    const std::int64_t most = embedder.max_length(options);
    for (const Embedding& one : found) {
      const std::int64_t read = one.tokens - one.truncated;
      count(call.lengths, one.tokens, one.truncated, read <= most ? 1 : (read + most - 1) / most);
    }
    return found;
  } catch (const Error& error) {
    throw failure_of(error, list);
  }
}

std::vector<ApiField> text_fields() {
  return {{"inputs", {{"$ref", "#/components/schemas/Inputs"}}, true},
          {"truncate", {{"type", "boolean"}, {"nullable", true}}},
          {"truncation_direction",
           {{"type", "string"}, {"enum", {"left", "right", "Left", "Right"}}, {"nullable", true}}},
          {"prompt_name", {{"type", "string"}, {"nullable", true}}},
          {"model", {{"type", "string"}, {"nullable", true}}}};
}

std::vector<ApiField> embed_fields() {
  std::vector<ApiField> fields = text_fields();
  fields.push_back({"normalize", {{"type", "boolean"}, {"nullable", true}}});
  fields.push_back({"dimensions", {{"type", "integer"}, {"minimum", 1}, {"nullable", true}}});
  return fields;
}

std::optional<HttpResponse> embed(Api& api, ApiCall& call) {
  const Embedder& embedder = *api.model_for(call, Ability::embed).embedder;
  EmbedOptions options = options_of(api, call, call.body);
  options.normalize = truth_of(call.body, "normalize").value_or(true);
  set_size(options, embedder, call.body);
  auto texts = inputs_of(api, call, call.body, "inputs", embedder.tokenizer());
  if (cuts_left(call.body)) cut_left(embedder, options, texts, call);
  const auto found = embedded(embedder, texts, options, call, "inputs");
  return json_response(json_list(
      found, [](std::string& json, const Embedding& one) { append_numbers(json, one.values); }));
}

std::optional<HttpResponse> embed_all(Api& api, ApiCall& call) {
  const Embedder& embedder = *api.model_for(call, Ability::embed).embedder;
  EmbedOptions options = options_of(api, call, call.body);
  options.pooling = Pooling::tokens;
  auto texts = inputs_of(api, call, call.body, "inputs", embedder.tokenizer());
  if (cuts_left(call.body)) cut_left(embedder, options, texts, call);
  const auto found = embedded(embedder, texts, options, call, "inputs");
  return json_response(json_list(found, [](std::string& json, const Embedding& one) {
    const auto width = static_cast<std::size_t>(
        one.rows == 0 ? 0 : static_cast<std::int64_t>(one.values.size()) / one.rows);
    json += '[';
    for (std::size_t row = 0; row < static_cast<std::size_t>(one.rows); ++row) {
      if (row > 0) json += ',';
      append_numbers(json, std::span(one.values).subspan(row * width, width));
    }
    json += ']';
  }));
}

std::vector<ApiField> passage_fields() {
  return {{"inputs", {{"$ref", "#/components/schemas/Inputs"}}, true},
          {"passage_tokens", {{"type", "integer"}, {"minimum", 1}, {"nullable", true}}},
          {"overlapping", {{"type", "boolean"}, {"nullable", true}}},
          {"model", {{"type", "string"}, {"nullable", true}}}};
}

std::optional<HttpResponse> embed_passages(Api& api, ApiCall& call) {
  const Embedder& embedder = *api.model_for(call, Ability::embed).embedder;
  Embedder::PassageOptions passages;
  passages.context = PassageContext::document;
  passages.passage_tokens = whole_of(call.body, "passage_tokens", 1, 1 << 20).value_or(128);
  passages.overlapping_passages = truth_of(call.body, "overlapping").value_or(false);
  EmbedOptions options = options_of(api, call, call.body);
  options.normalize = true;
  const auto texts = inputs_of(api, call, call.body, "inputs", embedder.tokenizer());
  std::string json = json_list(texts, [&](std::string& out, const std::string& text) {
    Embedding found;
    try {
      found = embedder.embed_passages(text, passages, options);
    } catch (const Error& error) {
      throw failure_of(error, "inputs");
    }
    count(call.lengths, found.tokens, found.truncated, 1);
    const std::size_t width = found.spans.empty() ? 0 : found.values.size() / found.spans.size();
    std::size_t row = 0;
    out += json_list(found.spans, [&](std::string& list, const CharacterSpan& span) {
      fmt::format_to(std::back_inserter(list), R"({{"start":{},"end":{},"embedding":)", span.begin,
                     span.end);
      append_numbers(list, std::span(found.values).subspan(row++ * width, width));
      list += '}';
    });
  });
  return json_response(std::move(json));
}

std::vector<ApiField> similarity_fields() {
  const Json inputs = {{"type", "object"},
                       {"required", {"source_sentence", "sentences"}},
                       {"properties",
                        {{"source_sentence", {{"type", "string"}, {"minLength", 1}}},
                         {"sentences",
                          {{"type", "array"},
                           {"minItems", 1},
                           {"items", {{"type", "string"}, {"minLength", 1}}}}}}}};
  return {{"inputs", inputs, true},
          {"parameters", {{"type", "object"}, {"nullable", true}}},
          {"model", {{"type", "string"}, {"nullable", true}}}};
}

std::optional<HttpResponse> similarities(Api& api, ApiCall& call) {
  const Embedder& embedder = *api.model_for(call, Ability::embed).embedder;
  const Json* inputs = member(call.body, "inputs");
  if (inputs == nullptr) refuse("missing field `inputs`");
  if (!inputs->is_object()) refuse_type("inputs", "an object", *inputs);
  const Json none = Json::object();
  const Json* parameters = member(call.body, "parameters");
  if (parameters != nullptr && !parameters->is_object())
    refuse_type("parameters", "an object", *parameters);
  const Json& where = parameters == nullptr ? none : *parameters;
  EmbedOptions options = options_of(api, call, where);
  options.normalize = true;
  const std::string source = needed_text(*inputs, "source_sentence");
  if (const Json* list = member(*inputs, "sentences"); list != nullptr && !list->is_array()) {
    refuse_type("sentences", "a list of strings", *list);
  }
  auto texts = inputs_of(api, call, *inputs, "sentences", embedder.tokenizer());
  call.lengths.characters += characters_of(source);
  texts.push_back(source);
  if (cuts_left(where)) cut_left(embedder, options, texts, call);
  const auto found = embedded(embedder, texts, options, call, "sentences");
  std::vector<float> cosines;
  for (std::size_t i = 0; i + 1 < found.size(); ++i) {
    cosines.push_back(similarity(Similarity::cosine, found.back().values, found[i].values));
  }
  std::string json;
  append_numbers(json, cosines);
  return json_response(std::move(json));
}

}  // namespace

std::vector<Route> embedding_routes() {
  return {{.method = "POST",
           .path = "/embed",
           .summary = "A vector for each text.",
           .handler = embed,
           .ability = Ability::embed,
           .fields = embed_fields},
          {.method = "POST",
           .path = "/embed_all",
           .summary = "A vector for each token of each text.",
           .handler = embed_all,
           .ability = Ability::embed,
           .fields = text_fields},
          {.method = "POST",
           .path = "/embed_passages",
           .summary = "Vectors of the passages of each text, read in its context.",
           .handler = embed_passages,
           .ability = Ability::embed,
           .fields = passage_fields},
          {.method = "POST",
           .path = "/similarity",
           .summary = "The cosine of each sentence with the source sentence.",
           .handler = similarities,
           .ability = Ability::embed,
           .fields = similarity_fields}};
}

}  // namespace longformer::server
