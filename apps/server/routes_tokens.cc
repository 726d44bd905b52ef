// Tokens: /tokenize and /decode.
#include <fmt/format.h>

#include "failure.h"
#include "inputs.h"
#include "schemas.h"

namespace longformer::server {
namespace {

std::vector<ApiField> tokenize_fields() {
  const Json text = text_schema();
  return {
      {"inputs", {{"oneOf", {text, {{"type", "array"}, {"minItems", 1}, {"items", text}}}}}, true},
      {"add_special_tokens", optional_schema("boolean")},
      {"prompt_name", optional_schema("string")},
      model_field()};
}

/// TEI counts bytes here; elsewhere offsets are characters.
std::string tokens_json(const Tokenizer& tokenizer, const std::string& text, bool with_special) {
  const Encoding tokens = encoded(tokenizer, text, with_special);
  const std::vector<std::size_t> starts = character_starts(text);
  std::string json = "[";
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    if (i > 0) json += ',';
    const bool is_special = tokens.special_tokens_mask[i] != 0;
    const auto begin = starts[static_cast<std::size_t>(tokens.offsets[i].begin)];
    const auto end = starts[static_cast<std::size_t>(tokens.offsets[i].end)];
    JsonLine row;
    row.add("id", std::int64_t{tokens.ids[i]});
    row.add("text", is_special ? tokenizer.token(tokens.ids[i]) : text.substr(begin, end - begin));
    row.add("special", is_special);
    if (is_special) {
      row.add_null("start").add_null("stop");
    } else {
      row.add("start", static_cast<std::int64_t>(begin))
          .add("stop", static_cast<std::int64_t>(end));
    }
    json += row.object();
  }
  return json + "]";
}

std::optional<HttpResponse> tokenize(Api& api, ApiCall& call) {
  const ServedModel& model = api.models().named(call.wanted_model());
  const bool with_special = truth_of(call.body, "add_special_tokens").value_or(true);
  const auto prompt_name = text_of(call.body, "prompt_name");
  std::string prompt;
  if (prompt_name) {
    if (!model.embedder) refuse("`prompt_name`: expected a model with prompts, found one without");
    try {
      EmbedOptions options;
      options.prompt_name = prompt_name;
      prompt = model.embedder->prompt(options);
    } catch (const Error& error) {
      throw Failure(422, "Validation", fmt::format("`prompt_name`: {}", error.reason()));
    }
  }
  const auto texts =
      texts_alone(inputs_of(api, call, call.body, "inputs", model.tokenizer()), "inputs");
  return json_response(json_list(texts, [&](std::string& json, const std::string& text) {
    json += tokens_json(model.tokenizer(), prompt + text, with_special);
  }));
}

std::vector<ApiField> decode_fields() {
  const Json ids = {{"type", "array"}, {"items", {{"type", "integer"}, {"minimum", 0}}}};
  return {{"ids", {{"oneOf", {ids, {{"type", "array"}, {"items", ids}}}}}, true},
          {"skip_special_tokens", optional_schema("boolean")},
          model_field()};
}

std::optional<HttpResponse> decode(Api& api, ApiCall& call) {
  const Tokenizer& tokenizer = api.models().named(call.wanted_model()).tokenizer();
  const bool skips = truth_of(call.body, "skip_special_tokens").value_or(true);
  const Json* value = member(call.body, "ids");
  if (value == nullptr) refuse_missing("ids");
  if (!value->is_array()) refuse_type("ids", "a list of ids", *value);
  if (value->empty()) refuse_empty("ids");
  std::vector<Json> lists;
  if (value->front().is_array()) {
    lists.assign(value->begin(), value->end());
  } else {
    lists.push_back(*value);
  }
  std::vector<std::string> texts;
  for (const Json& list : lists) {
    if (!list.is_array()) refuse_type("ids", "a list of ids", list);
    std::vector<std::int32_t> ids;
    for (const Json& id : list) {
      if (!id.is_number_unsigned() ||
          id.get<std::uint64_t>() >= static_cast<std::uint64_t>(tokenizer.vocabulary_size())) {
        throw Failure(422, "Tokenizer",
                      fmt::format("`ids`: expected ids from 0 to {}, found {}",
                                  tokenizer.vocabulary_size() - 1, id.dump()));
      }
      ids.push_back(id.get<std::int32_t>());
    }
    texts.push_back(tokenizer.decode(ids, skips));
  }
  return json_response(json_list(texts, [](std::string& json, const std::string& text) {
    json += Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  }));
}

}  // namespace

std::vector<Route> token_routes() {
  return {{.method = "POST",
           .path = "/tokenize",
           .summary = "The tokens of each text; start and stop count bytes.",
           .handler = tokenize,
           .fields = tokenize_fields},
          {.method = "POST",
           .path = "/decode",
           .summary = "The text of ids.",
           .handler = decode,
           .fields = decode_fields}};
}

}  // namespace longformer::server
