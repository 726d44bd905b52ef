// Vectors as OpenAI's clients ask for them: /v1/embeddings and /v1/models.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "base64.h"
#include "failure.h"
#include "inputs.h"
#include "schemas.h"

namespace longformer::server {
namespace {

std::vector<ApiField> embeddings_fields() {
  return {
      {"input", inputs_schema(), true},
      model_field(),
      {"user", {{"description", "read and ignored"}}},
      {"encoding_format", {{"type", "string"}, {"enum", {"float", "base64"}}, {"nullable", true}}},
      {"dimensions", optional_whole_schema(1)},
      {"late_chunking", optional_schema("boolean")},
      {"task", optional_schema("string")}};
}

bool has_prompt(const Embedder& embedder, const std::string& name) {
  EmbedOptions options;
  options.prompt_name = name;
  try {
    embedder.prompt(options);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Jina's `task` names a prompt: `retrieval.query` and `retrieval.passage` stand for the prompts
/// `query` and `document` of a folder that has none of the whole name.
void set_task(EmbedOptions& options, const Embedder& embedder, const Json& body) {
  const auto task = text_of(body, "task");
  if (!task) return;
  const std::string last = task->substr(task->rfind('.') + 1);
  const std::array names = {*task, last, last == "passage" ? std::string("document") : last};
  const auto found =
      std::ranges::find_if(names, [&](const auto& name) { return has_prompt(embedder, name); });
  options.prompt.reset();
  // The library refuses a name that nobody knows.
  options.prompt_name = found == names.end() ? *task : *found;
}

/// The texts are the passages of one document, and each is read in its context.
std::vector<Embedding> chunked_late(const Embedder& embedder, std::span<const std::string> texts,
                                    const EmbedOptions& options, ApiCall& call) {
  std::string document;
  std::vector<CharacterSpan> spans;
  std::int64_t characters = 0;
  for (const std::string& text : texts) {
    if (!document.empty()) {
      document += ' ';
      ++characters;
    }
    const std::int64_t size = characters_of(text);
    spans.push_back({characters, characters + size});
    document += text;
    characters += size;
  }
  Embedding all;
  try {
    all = embedder.embed_spans(document, spans, options);
  } catch (const Error& error) {
    throw failure_of(error, "input");
  }
  std::vector<Embedding> found(texts.size());
  const std::size_t width = all.values.size() / texts.size();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto begin = all.values.begin() + static_cast<std::ptrdiff_t>(i * width);
    found[i].values.assign(begin, begin + static_cast<std::ptrdiff_t>(width));
  }
  found[0].tokens = all.tokens;
  for (const Embedding& one : found) count(call.lengths, embedder, options, one);
  return found;
}

std::optional<HttpResponse> embeddings(Api& api, ApiCall& call) {
  const ServedModel& model = api.model_or_first(call, Ability::embed);
  const Embedder& embedder = *model.embedder;
  EmbedOptions options = embed_options_of(api, call, embedder, call.body);
  set_task(options, embedder, call.body);
  options.normalize = true;
  options.truncate_dim = whole_of(call.body, "dimensions", 1, embedder.embedding_size(options));
  const std::string format = text_of(call.body, "encoding_format").value_or("float");
  if (format != "float" && format != "base64") {
    refuse("`encoding_format`: expected float or base64, found '" + format + "'");
  }
  auto inputs = inputs_of(api, call, call.body, "input", embedder.tokenizer());
  const std::vector<Embedding> found =
      truth_of(call.body, "late_chunking").value_or(false)
          ? chunked_late(embedder, texts_alone(std::move(inputs), "input"), options, call)
          : embedded(embedder, inputs, options, call, "input");
  std::int64_t index = 0;
  std::string data = json_list(found, [&](std::string& json, const Embedding& one) {
    fmt::format_to(std::back_inserter(json), R"({{"object":"embedding","index":{},"embedding":)",
                   index++);
    if (format == "base64") {
      static_assert(std::endian::native == std::endian::little);
      json += '"' + base64(std::as_bytes(std::span(one.values))) + '"';
    } else {
      append_numbers(json, one.values);
    }
    json += '}';
  });
  const std::int64_t used = call.lengths.tokens - call.lengths.truncated;
  JsonLine usage, json;
  usage.add("prompt_tokens", used).add("total_tokens", used);
  json.add("object", "list").add_json("data", data);
  json.add("model", text_of(call.body, "model").value_or(model.name));
  return json_response(json.add_json("usage", usage.object()).object());
}

std::optional<HttpResponse> models(Api& api, ApiCall&) {
  std::vector<JsonLine> data;
  for (const auto& model : api.models().all) {
    data.emplace_back()
        .add("id", model->name)
        .add("object", "model")
        .add("created", std::int64_t{0});
    data.back().add("owned_by", "longformer");
  }
  JsonLine json;
  return json_response(json.add("object", "list").add_objects("data", data).object());
}

}  // namespace

std::vector<Route> openai_routes() {
  return {{.method = "POST",
           .path = "/v1/embeddings",
           .summary = "A vector for each text, in the form of OpenAI.",
           .handler = embeddings,
           .ability = Ability::embed,
           .fields = embeddings_fields},
          {.method = "POST",
           .path = "/embeddings",
           .summary = "The same as /v1/embeddings.",
           .handler = embeddings,
           .ability = Ability::embed,
           .fields = embeddings_fields},
          {.method = "GET",
           .path = "/v1/models",
           .summary = "The models that are served.",
           .handler = models}};
}

}  // namespace longformer::server
