// Vectors: /embed, /embed_all, /embed_passages, /similarity.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "failure.h"
#include "inputs.h"
#include "schemas.h"

namespace longformer::server {
namespace {

/// Options by their descriptions; routes read the size of vectors and their scaling as their
/// clients know them.
OptionFields options_of_requests(EmbedOptions& options) {
  return without(request_options(fields(options)), {"truncate_dim", "normalize"});
}

/// The options that all of these routes have.
EmbedOptions options_of(const Api& api, const ApiCall& call, const Embedder& embedder,
                        const Json& where) {
  EmbedOptions options = embed_options_of(api, call, embedder, where);
  // A prompt of the request counts, not that of a flag.
  if (member(where, "prompt_name") != nullptr) options.prompt.reset();
  read_fields(options_of_requests(options), where);
  return options;
}

void refuse_token_vectors(const EmbedOptions& options) {
  if (options.pooling == Pooling::tokens) {
    refuse("`pooling`: expected one vector for each text, found tokens: see /embed_all");
  }
}

/// Vectors get `dimensions` elements.
void set_size(EmbedOptions& options, const Embedder& embedder, const Json& where) {
  options.truncate_dim = whole_of(where, "dimensions", 1, embedder.embedding_size(options));
}

/// The end of each text that is too long, where `where` asks for it.
void cut_left(const Embedder& embedder, const EmbedOptions& options, const Json& where,
              std::vector<Input>& inputs, ApiCall& call) {
  if (!cuts_left(where) || options.too_long != TooLong::truncate) return;
  const Tokenizer& tokenizer = embedder.tokenizer();
  const auto prompt = std::ssize(encoded(tokenizer, embedder.prompt(options), false).ids);
  const std::int64_t most = embedder.max_length(options) - prompt;
  for (Input& input : inputs) {
    input = without_begin(tokenizer, std::move(input), most, call.lengths.truncated);
  }
}

std::vector<ApiField> text_fields() {
  std::vector<ApiField> all = {{"inputs", inputs_schema(), true},
                               truncate_field(),
                               truncation_direction_field(),
                               model_field()};
  EmbedOptions options;
  append_options(all, without(options_of_requests(options), {"pooling"}));
  return all;
}

std::vector<ApiField> embed_fields() {
  std::vector<ApiField> all = text_fields();
  all.push_back({"normalize", optional_schema("boolean")});
  all.push_back({"dimensions", optional_whole_schema(1)});
  EmbedOptions options;
  append_options(all, only(fields(options), {"pooling"}));
  return all;
}

std::optional<HttpResponse> embed(Api& api, ApiCall& call) {
  const Embedder& embedder = *api.model_for(call, Ability::embed).embedder;
  EmbedOptions options = options_of(api, call, embedder, call.body);
  options.normalize = truth_of(call.body, "normalize").value_or(true);
  refuse_token_vectors(options);
  set_size(options, embedder, call.body);
  auto texts = inputs_of(api, call, call.body, "inputs", embedder.tokenizer());
  cut_left(embedder, options, call.body, texts, call);
  const auto found = embedded(embedder, texts, options, call, "inputs");
  return json_response(json_list(
      found, [](std::string& json, const Embedding& one) { append_numbers(json, one.values); }));
}

std::optional<HttpResponse> embed_all(Api& api, ApiCall& call) {
  const Embedder& embedder = *api.model_for(call, Ability::embed).embedder;
  EmbedOptions options = options_of(api, call, embedder, call.body);
  options.pooling = Pooling::tokens;
  auto texts = inputs_of(api, call, call.body, "inputs", embedder.tokenizer());
  cut_left(embedder, options, call.body, texts, call);
  const bool is_cut = options.too_long == TooLong::truncate;
  check_numbers(embedder.tokenizer(), texts, is_cut ? embedder.max_length(options) : INT64_MAX,
                static_cast<double>(embedder.embedding_size(options)));
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
  std::vector<ApiField> all = {{"inputs", inputs_schema(), true},
                               {"overlapping", optional_schema("boolean")},
                               {"normalize", optional_schema("boolean")},
                               model_field()};
  EmbedOptions options;
  append_options(all, options_of_requests(options));
  Embedder::PassageOptions passages;
  append_options(all, without(fields(passages), {"overlapping_passages"}));
  return all;
}

std::optional<HttpResponse> embed_passages(Api& api, ApiCall& call) {
  const Embedder& embedder = *api.model_for(call, Ability::embed).embedder;
  Embedder::PassageOptions passages;
  passages.context = PassageContext::document;
  passages.passage_tokens = std::min<std::int64_t>(128, embedder.max_length() / 4);
  read_fields(without(fields(passages), {"overlapping_passages"}), call.body);
  passages.overlapping_passages = truth_of(call.body, "overlapping").value_or(false);
  EmbedOptions options = options_of(api, call, embedder, call.body);
  options.normalize = truth_of(call.body, "normalize").value_or(true);
  auto inputs = inputs_of(api, call, call.body, "inputs", embedder.tokenizer());
  // Passages end where a reader would stop, half as long at worst.
  const double vectors = 2 / static_cast<double>(passages.passage_tokens);
  check_numbers(embedder.tokenizer(), inputs, INT64_MAX,
                vectors * static_cast<double>(embedder.embedding_size(options)));
  const auto texts = texts_alone(std::move(inputs), "inputs");
  // Each passage is read behind it, and has at least so many bytes.
  std::size_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size();
  check_repeated(embedder.prompt(options),
                 texts.size() + bytes / static_cast<std::size_t>(passages.passage_tokens),
                 "prompt");
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
    const Offsets offsets(call.request, text);
    out += json_list(found.spans, [&](std::string& list, const CharacterSpan& span) {
      const auto [start, end] = offsets.of(span);
      fmt::format_to(std::back_inserter(list), R"({{"start":{},"end":{},"embedding":)", start, end);
      append_numbers(list, std::span(found.values).subspan(row++ * width, width));
      list += '}';
    });
  });
  return json_response(std::move(json));
}

std::vector<ApiField> similarity_fields() {
  const Json inputs = {
      {"type", "object"},
      {"required", {"source_sentence", "sentences"}},
      {"properties", {{"source_sentence", text_schema()}, {"sentences", texts_schema()}}}};
  return {{"inputs", inputs, true}, {"parameters", optional_schema("object")}, model_field()};
}

std::optional<HttpResponse> similarities(Api& api, ApiCall& call) {
  const Embedder& embedder = *api.model_for(call, Ability::embed).embedder;
  const Json* inputs = member(call.body, "inputs");
  if (inputs == nullptr) refuse_missing("inputs");
  if (!inputs->is_object()) refuse_type("inputs", "an object", *inputs);
  const Json none = Json::object();
  const Json* parameters = member(call.body, "parameters");
  if (parameters != nullptr && !parameters->is_object())
    refuse_type("parameters", "an object", *parameters);
  const Json& where = parameters == nullptr ? none : *parameters;
  EmbedOptions options = options_of(api, call, embedder, where);
  options.normalize = true;
  refuse_token_vectors(options);
  const std::string source = needed_text(*inputs, "source_sentence");
  if (const Json* list = member(*inputs, "sentences"); list != nullptr && !list->is_array()) {
    refuse_type("sentences", "a list of strings", *list);
  }
  auto texts = inputs_of(api, call, *inputs, "sentences", embedder.tokenizer());
  call.lengths.characters += characters_of(source);
  texts.push_back({.text = source});
  cut_left(embedder, options, where, texts, call);
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
