// Other vectors of a text than one of its own: /embed_sparse, /embed_multi.
#include <fmt/format.h>

#include <iterator>

#include "failure.h"
#include "inputs.h"
#include "schemas.h"

namespace longformer::server {
namespace {

/// Options by their descriptions, for one kind.
OptionFields options_of_requests(KindOptions& options) {
  OptionFields all =
      without(request_options(fields(options.text)), {"pooling", "truncate_dim", "normalize"});
  OptionFields own = fields(options);
  if (!options.kinds.sparse) own = without(std::move(own), {"top_k"});
  std::ranges::move(own, std::back_inserter(all));
  return all;
}

std::vector<ApiField> fields_of_kind(const VectorKinds& kinds) {
  std::vector<ApiField> all = {{"inputs", inputs_schema(), true}, truncate_field(), model_field()};
  KindOptions options = {.kinds = kinds};
  append_options(all, options_of_requests(options));
  return all;
}

/// The vectors of one kind, one for each text; counts their lengths.
std::vector<TextVectors> vectors_of(const Api& api, ApiCall& call, const Embedder& embedder,
                                    const VectorKinds& kinds, std::span<const Input> texts) {
  KindOptions options = {.kinds = kinds};
  options.text.too_long = too_long_of(api, call, call.body);
  options.text.batch_tokens = batch_tokens_of(api, embedder.model());
  read_fields(options_of_requests(options), call.body);
  check_repeated(options.text.prompt.value_or(""), texts.size(), "prompt");
  std::vector<EmbedInput> inputs;
  for (const Input& text : texts) inputs.push_back({.text = text.text, .ids = text.ids});
  try {
    std::vector<TextVectors> found = embedder.vectors(inputs, options);
    for (const TextVectors& one : found) {
      Embedding lengths;
      lengths.tokens = kinds.sparse ? one.sparse.tokens : one.multi.tokens;
      lengths.truncated = kinds.sparse ? one.sparse.truncated : one.multi.truncated;
      count(call.lengths, embedder, options.text, lengths);
    }
    return found;
  } catch (const Error& error) {
    throw failure_of(error, "inputs");
  }
}

std::vector<ApiField> sparse_fields() { return fields_of_kind({.sparse = true}); }

std::optional<HttpResponse> embed_sparse(Api& api, ApiCall& call) {
  const Embedder& embedder = *api.model_for(call, Ability::embed).embedder;
  const auto texts = inputs_of(api, call, call.body, "inputs", embedder.tokenizer());
  const bool is_asked = api.options().is_sparse && embedder.model().info().has_masked_lm_head;
  if (!embedder.kinds().sparse && !is_asked) {
    refuse_head("Model is not an embedding model with SPLADE pooling");
  }
  const auto found = vectors_of(api, call, embedder, {.sparse = true}, texts);
  return json_response(json_list(found, [](std::string& json, const TextVectors& one) {
    json += json_list(one.sparse.weights, [](std::string& list, const TokenWeight& weight) {
      fmt::format_to(std::back_inserter(list), R"({{"index":{},"value":{}}})", weight.token,
                     weight.weight);
    });
  }));
}

std::vector<ApiField> multi_fields() { return fields_of_kind({.multi = true}); }

std::optional<HttpResponse> embed_multi(Api& api, ApiCall& call) {
  const Embedder& embedder = *api.model_for(call, Ability::embed_tokens).embedder;
  const auto texts = inputs_of(api, call, call.body, "inputs", embedder.tokenizer());
  const auto width = static_cast<std::size_t>(embedder.multi_size());
  const bool is_cut = too_long_of(api, call, call.body) == TooLong::truncate;
  check_numbers(embedder.tokenizer(), texts, is_cut ? embedder.max_length() : INT64_MAX,
                static_cast<double>(width));
  const auto found = vectors_of(api, call, embedder, {.multi = true}, texts);
  std::size_t number = 0;
  return json_response(json_list(found, [&](std::string& json, const TextVectors& one) {
    const Input& text = texts[number++];
    // Ids have no places in a text.
    const Offsets offsets(call.request, text.ids.empty() ? text.text : std::string());
    std::size_t row = 0;
    json += json_list(one.multi.spans, [&](std::string& list, const CharacterSpan& span) {
      const auto [start, end] = text.ids.empty() ? offsets.of(span) : CharacterSpan();
      fmt::format_to(std::back_inserter(list), R"({{"start":{},"end":{},"embedding":)", start, end);
      append_numbers(list, std::span(one.multi.values).subspan(row++ * width, width));
      list += '}';
    });
  }));
}

}  // namespace

std::vector<Route> kind_routes() {
  return {{.method = "POST",
           .path = "/embed_sparse",
           .summary = "A weight for each entry of the vocabulary that a text means (SPLADE).",
           .handler = embed_sparse,
           .ability = Ability::embed,
           .fields = sparse_fields},
          {.method = "POST",
           .path = "/embed_multi",
           .summary = "A vector for each token of a text that counts, with its place (ColBERT).",
           .handler = embed_multi,
           .ability = Ability::embed_tokens,
           .fields = multi_fields}};
}

}  // namespace longformer::server
