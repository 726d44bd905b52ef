// The texts of a request, and arrays of numbers in its answer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api.h"
#include "offsets.h"

namespace longformer::server {

/// `long` of the address, else `truncate` of the request, else the server's way.
TooLong too_long_of(const Api& api, const ApiCall& call, const Json& where);
/// Tokens of a pass; see pass_tokens().
std::int64_t batch_tokens_of(const Api& api, const Model& model);
/// The overlap of segments where a request names none: that of the verbs, as far as the model and
/// the request's `max_length` are long enough for it.
std::int64_t usual_stride(const Model& model, const Json& where, std::int64_t of_verbs);
/// `truncation_direction`.
bool cuts_left(const Json& where);

/// A text of a request, and its tokens without special ones where the request gave those.
struct Input {
  std::string text;
  std::vector<std::int32_t> ids = {};
};

/// Inputs of a member: a text, ids of one, or a list of these. Throws Failure: 400 for none and for
/// an empty one, 422 for too many, for other types, and for ids of another tokenizer.
std::vector<Input> inputs_of(const Api& api, ApiCall& call, const Json& where, const char* key,
                             const Tokenizer& tokenizer);
/// Texts of a route that runs no ids: those stand for the text that they are decoded to.
std::vector<std::string> texts_alone(std::vector<Input> inputs, const char* key);

/// A vector for each input, or one for each token; counts their lengths. `list` names the inputs in
/// messages. Throws Failure.
std::vector<Embedding> embedded(const Embedder& embedder, std::span<const Input> inputs,
                                const EmbedOptions& options, ApiCall& call, const char* list);

/// Throws Failure for more inputs than one request may have.
void check_batch_size(const Api& api, std::size_t size);

/// Throws Failure, 422, for a text that is read so often that it stands for more text than the
/// largest body has.
void check_repeated(std::string_view text, std::size_t times, std::string_view name);

/// Throws Failure, 422, for an answer of more than 1 GiB, by estimate: a small request must not
/// take the memory of all others.
void check_answer_size(double bytes, std::string_view name);
/// Likewise for so many numbers of each token of texts that are cut behind `most_tokens`.
void check_numbers(const Tokenizer& tokenizer, std::span<const Input> inputs,
                   std::int64_t most_tokens, double numbers_of_token);

/// Whether the answer is to be a stream of events: by `stream`, else by the header Accept.
bool wants_stream(const ApiCall& call);

/// The text of a member, or that of the document of the library that `document` names.
std::string text_or_document(Api& api, ApiCall& call, const char* key);

/// Source of a streaming call of the library, over a list that outlives it.
template <typename Input>
auto source_over(std::span<const Input> inputs) {
  return [inputs, next = std::size_t{0}]() mutable -> std::optional<Input> {
    if (next == inputs.size()) return std::nullopt;
    return inputs[next++];
  };
}

/// Without its first tokens, so that the rest has at most so many with the special ones. Adds what
/// it cuts to `cut`.
std::string without_begin(const Tokenizer& tokenizer, const std::string& text,
                          std::int64_t max_tokens, std::int64_t& cut);
Input without_begin(const Tokenizer& tokenizer, Input input, std::int64_t max_tokens,
                    std::int64_t& cut);

/// Ids of a text, alone or in the template of the tokenizer.
Encoding encoded(const Tokenizer& tokenizer, std::string_view text, bool with_special);
/// Ids of an input as a model reads them, of which too many are cut off.
Encoding encoded(const Tokenizer& tokenizer, const Input& input,
                 std::optional<std::int64_t> max_tokens);

/// Ids without the special tokens at their ends, and the text of them. Throws Failure for ids that
/// this tokenizer does not make of that text.
Input input_of_ids(const Tokenizer& tokenizer, std::vector<std::int32_t> ids,
                   std::string_view name);

/// Options of vectors with what the server's flags say; the handling of long texts is that of
/// `where`.
EmbedOptions embed_options_of(const Api& api, const ApiCall& call, const Embedder& embedder,
                              const Json& where);
/// The lengths of one text of an embedder.
void count(Lengths& lengths, const Embedder& embedder, const EmbedOptions& options,
           const Embedding& found);
void count(Lengths& lengths, std::int64_t tokens, std::int64_t truncated, std::int64_t segments);

/// [0.5,1] with the fewest digits that give the same floats again.
void append_numbers(std::string& json, std::span<const float> values);
/// Elements of a list, which `write` appends.
template <typename Range, typename Write>
std::string json_list(const Range& range, Write&& write) {
  std::string json = "[";
  for (const auto& one : range) {
    if (json.size() > 1) json += ',';
    write(json, one);
  }
  return json + "]";
}

}  // namespace longformer::server
