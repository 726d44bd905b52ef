// The routes of Ollama that a server of vectors has: /api/embed, /api/tags, /api/version.
#include <chrono>

#include "failure.h"
#include "inputs.h"
#include "schemas.h"
#include "version.h"

namespace longformer::server {
namespace {

/// Ollama's clients complete a name without a tag.
constexpr std::string_view kTag = ":latest";

std::vector<ApiField> ollama_fields() {
  return {{"input", inputs_schema(), true},
          model_field(),
          truncate_field(),
          {"dimensions", optional_whole_schema(1)},
          {"keep_alive", {{"description", "read and ignored"}}},
          {"options", {{"description", "read and ignored"}}}};
}

std::optional<HttpResponse> ollama_embed(Api& api, ApiCall& call) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string asked = text_of(call.body, "model").value_or("");
  if (asked.ends_with(kTag)) call.model_name = asked.substr(0, asked.size() - kTag.size());
  const Embedder& embedder = *api.model_or_first(call, Ability::embed).embedder;
  EmbedOptions options = embed_options_of(api, call, embedder, call.body);
  options.normalize = true;
  options.truncate_dim = whole_of(call.body, "dimensions", 1, embedder.embedding_size(options));
  const auto inputs = inputs_of(api, call, call.body, "input", embedder.tokenizer());
  const std::vector<Embedding> found = embedded(embedder, inputs, options, call, "input");
  const std::string vectors = json_list(
      found, [](std::string& json, const Embedding& one) { append_numbers(json, one.values); });
  const auto lasted = std::chrono::steady_clock::now() - begin;
  JsonLine json;
  json.add("model", asked.empty() ? call.used_model : asked).add_json("embeddings", vectors);
  json.add("total_duration", std::int64_t{std::chrono::nanoseconds(lasted).count()});
  json.add("load_duration", std::int64_t{0});
  json.add("prompt_eval_count", call.lengths.tokens - call.lengths.truncated);
  return json_response(json.object());
}

std::optional<HttpResponse> tags(Api& api, ApiCall&) {
  std::vector<JsonLine> models;
  for (const auto& one : api.models().all) {
    if (!one->can(Ability::embed)) continue;
    JsonLine details;
    details.add("format", "safetensors").add("family", one->model()->info().model_type);
    details.add("quantization_level", one->dtype == "fp32"   ? "F32"
                                      : one->dtype == "bf16" ? "BF16"
                                                             : "I8");
    JsonLine& row = models.emplace_back();
    row.add("name", one->name).add("model", one->name);
    row.add("modified_at", "1970-01-01T00:00:00Z").add("size", std::int64_t{0});
    row.add("digest", "").add_json("details", details.object());
  }
  return json_response(JsonLine().add_objects("models", models).object());
}

std::optional<HttpResponse> version(Api&, ApiCall&) {
  return json_response(JsonLine().add("version", kVersion).object());
}

}  // namespace

std::vector<Route> ollama_routes() {
  return {{.method = "POST",
           .path = "/api/embed",
           .summary = "A vector for each text, in the form of Ollama.",
           .handler = ollama_embed,
           .ability = Ability::embed,
           .fields = ollama_fields},
          {.method = "GET",
           .path = "/api/tags",
           .summary = "The models of vectors, in the form of Ollama.",
           .handler = tags},
          {.method = "GET",
           .path = "/api/version",
           .summary = "The version of the server, in the form of Ollama.",
           .handler = version}};
}

}  // namespace longformer::server
