#include "inputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "failure.h"
#include "pass_size.h"

namespace longformer::server {

TooLong too_long_of(const Api& api, const ApiCall& call, const Json& where) {
  const std::string_view asked = call.request.query_value("long").value_or("");
  if (asked == "split") return TooLong::split;
  if (asked == "truncate") return TooLong::truncate;
  if (asked == "refuse") return TooLong::refuse;
  const auto truncate = truth_of(where, "truncate");
  if (!truncate) return api.options().too_long;
  return *truncate ? TooLong::truncate : TooLong::refuse;
}

bool cuts_left(const Json& where) {
  const std::string direction = text_of(where, "truncation_direction").value_or("right");
  if (direction == "left" || direction == "Left") return true;
  if (direction == "right" || direction == "Right") return false;
  refuse("`truncation_direction`: expected left or right, found '" + direction + "'");
}

std::int64_t batch_tokens_of(const Api& api, const Model& model) {
  return pass_tokens(model, api.options().batch_tokens);
}

std::int64_t usual_stride(const Model& model, const Json& where, std::int64_t of_verbs) {
  std::int64_t longest = model.info().max_tokens;
  const Json* given = member(where, "max_length");
  if (given != nullptr && given->is_number_integer() && *given > 0 && *given < longest) {
    longest = given->get<std::int64_t>();
  }
  return std::min(of_verbs, longest / 4);
}

namespace {

std::vector<std::int32_t> ids_of(const Json& list, const Tokenizer& tokenizer,
                                 const std::string& name) {
  std::vector<std::int32_t> ids;
  for (const Json& one : list) {
    const bool is_id =
        one.is_number_unsigned() &&
        one.get<std::uint64_t>() < static_cast<std::uint64_t>(tokenizer.vocabulary_size());
    if (!is_id) {
      refuse(
          fmt::format("`{}`: expected ids from 0 to {}, found {}. LangChain: "
                      "check_embedding_ctx_length=False",
                      name, tokenizer.vocabulary_size() - 1, one.dump()));
    }
    ids.push_back(one.get<std::int32_t>());
  }
  return ids;
}

}  // namespace

Encoding encoded(const Tokenizer& tokenizer, std::string_view text, bool with_special) {
  EncodeOptions options;
  options.add_special_tokens = with_special;
  return tokenizer.encode(text, options);
}

Encoding encoded(const Tokenizer& tokenizer, const Input& input,
                 std::optional<std::int64_t> max_tokens) {
  EncodeOptions options;
  options.max_length = max_tokens;
  if (input.ids.empty()) return tokenizer.encode(input.text, options);
  // The template is that of a text of one token.
  Encoding whole = tokenizer.encode("a");
  const auto is_special = [](std::uint8_t mark) { return mark != 0; };
  const auto& marks = whole.special_tokens_mask;
  const auto before = std::ranges::find_if_not(marks, is_special) - marks.begin();
  const auto around = std::ranges::count_if(marks, is_special);
  std::span<const std::int32_t> ids = input.ids;
  const std::int64_t room = max_tokens.value_or(std::ssize(ids) + around) - around;
  whole.truncated = std::max<std::int64_t>(0, std::ssize(ids) - room);
  ids = ids.first(ids.size() - static_cast<std::size_t>(whole.truncated));
  const auto splice = [&](auto& all, const auto& middle) {
    all.erase(all.begin() + before, all.end() - (around - before));
    all.insert(all.begin() + before, middle.begin(), middle.end());
  };
  const std::int32_t type = whole.type_ids[static_cast<std::size_t>(before)];
  splice(whole.type_ids, std::vector<std::int32_t>(ids.size(), type));
  splice(whole.offsets, std::vector<CharacterSpan>(ids.size()));
  splice(whole.sequence_ids, std::vector<std::int8_t>(ids.size(), 0));
  splice(whole.ids, ids);
  splice(whole.special_tokens_mask, std::vector<std::uint8_t>(ids.size(), 0));
  return whole;
}

Input input_of_ids(const Tokenizer& tokenizer, std::vector<std::int32_t> ids,
                   std::string_view name) {
  // Special tokens of an own encoding stand at the ends of it.
  const SpecialTokens& special = tokenizer.special_tokens();
  const auto is_special = [&](std::int32_t id) {
    return id == special.cls || id == special.sep || id == special.bos || id == special.eos;
  };
  while (!ids.empty() && is_special(ids.back())) ids.pop_back();
  ids.erase(ids.begin(), std::ranges::find_if_not(ids, is_special));
  Input input = {.text = tokenizer.decode(ids)};
  std::vector<std::int32_t> again = encoded(tokenizer, input.text, false).ids;
  // A cut may go through a word, so the ids at each end may be others.
  const auto ends = static_cast<std::ptrdiff_t>(std::min<std::size_t>(8, ids.size() / 4));
  std::vector<std::int32_t> plain(ids.begin() + ends, ids.end() - ends);
  std::erase_if(plain, is_special);
  // Nobody can decode the unknown token.
  const auto is_unknown = [&](std::int32_t id) { return id == special.unk; };
  std::erase_if(plain, is_unknown);
  std::erase_if(again, is_unknown);
  // Few ids stand before them. A search at every place could take hours.
  constexpr std::size_t kMostBefore = 256;
  bool is_own = plain.empty();
  for (std::size_t before = 0; !is_own && before <= kMostBefore; ++before) {
    if (before + plain.size() > again.size()) break;
    is_own =
        std::equal(plain.begin(), plain.end(), again.begin() + static_cast<std::ptrdiff_t>(before));
  }
  if (!is_own) {
    refuse(
        fmt::format("`{}`: expected ids of this model's tokenizer, found those of another. "
                    "LangChain: check_embedding_ctx_length=False",
                    name));
  }
  input.ids = std::move(ids);
  return input;
}

void check_batch_size(const Api& api, std::size_t size) {
  const auto most = static_cast<std::size_t>(api.options().most_inputs);
  if (size <= most) return;
  refuse(fmt::format("batch size {} > maximum allowed batch size {}", size, most));
}

namespace {

constexpr double kMostAnswerBytes = 1 << 30;

}  // namespace

void check_repeated(std::string_view text, std::size_t times, std::string_view name) {
  constexpr double kMost = 64 << 20;
  if (static_cast<double>(text.size()) * static_cast<double>(times) <= kMost) return;
  refuse(fmt::format("`{}`: expected at most {:.0f} bytes where {} texts have it, found {}", name,
                     kMost / static_cast<double>(times), times, text.size()));
}

void check_answer_size(double bytes, std::string_view name) {
  if (bytes <= kMostAnswerBytes) return;
  refuse(
      fmt::format("`{}`: expected what is answered with at most 1 GiB, found about {:.1f} GiB; ask "
                  "for less, or in several requests",
                  name, bytes / kMostAnswerBytes));
}

void check_numbers(const Tokenizer& tokenizer, std::span<const Input> inputs,
                   std::int64_t most_tokens, double numbers_of_token) {
  constexpr double kNumberBytes = 12;
  std::int64_t most = 0;
  for (const Input& input : inputs) most += std::ssize(input.text) + std::ssize(input.ids);
  // A token has at least one byte, so few texts have to be read for it.
  if (static_cast<double>(most) * numbers_of_token * kNumberBytes <= kMostAnswerBytes) return;
  std::int64_t tokens = 0;
  for (const Input& input : inputs) {
    const std::int64_t own = input.ids.empty()
                                 ? std::ssize(encoded(tokenizer, input.text, false).ids)
                                 : std::ssize(input.ids);
    tokens += std::min(own, most_tokens);
  }
  check_answer_size(static_cast<double>(tokens) * numbers_of_token * kNumberBytes, "inputs");
}

bool wants_stream(const ApiCall& call) {
  const auto accept = call.request.header("accept").value_or("");
  return truth_of(call.body, "stream").value_or(accept == "text/event-stream");
}

std::string text_or_document(Api& api, ApiCall& call, const char* key) {
  std::string text;
  if (const auto id = text_of(call.body, "document")) {
    CharacterSpan all = {0, std::int64_t{1} << 40};
    text = api.library().text(*id, all);
  } else {
    text = needed_text(call.body, key);
  }
  call.lengths.characters += characters_of(text);
  return text;
}

std::vector<Input> inputs_of(const Api& api, ApiCall& call, const Json& where, const char* key,
                             const Tokenizer& tokenizer) {
  const Json* value = member(where, key);
  if (value == nullptr) refuse_missing(key);
  std::vector<Input> inputs;
  const auto add = [&](const Json& one, const std::string& name) {
    if (one.is_string()) {
      inputs.push_back({.text = one.get<std::string>()});
    } else if (one.is_array()) {
      inputs.push_back(input_of_ids(tokenizer, ids_of(one, tokenizer, name), name));
    } else {
      refuse_type(name, "a text or ids of one", one);
    }
    if (inputs.back().text.empty() && inputs.back().ids.empty()) refuse_empty(name);
    call.lengths.characters += characters_of(inputs.back().text);
  };
  const bool is_one =
      value->is_string() || (value->is_array() && !value->empty() && value->front().is_number());
  if (is_one) {
    add(*value, key);
  } else if (!value->is_array()) {
    refuse_type(key, "a text, ids of one, or a list of these", *value);
  } else if (value->empty()) {
    refuse_empty(key);
  } else {
    check_batch_size(api, value->size());
    for (const Json& one : *value) add(one, fmt::format("{}[{}]", key, inputs.size()));
  }
  call.lengths.inputs = std::ssize(inputs);
  return inputs;
}

std::vector<std::string> texts_alone(std::vector<Input> inputs, const char* key) {
  std::vector<std::string> texts;
  for (Input& input : inputs) {
    if (input.text.empty()) refuse_empty(key);
    texts.push_back(std::move(input.text));
  }
  return texts;
}

std::vector<Embedding> embedded(const Embedder& embedder, std::span<const Input> inputs,
                                const EmbedOptions& options, ApiCall& call, const char* list) {
  std::vector<EmbedInput> views;
  for (const Input& input : inputs) views.push_back({.text = input.text, .ids = input.ids});
  try {
    check_repeated(embedder.prompt(options), inputs.size(), "prompt");
    std::vector<Embedding> found = embedder.embed(views, options);
    for (const Embedding& one : found) count(call.lengths, embedder, options, one);
    return found;
  } catch (const Error& error) {
    throw failure_of(error, list);
  }
}

std::string without_begin(const Tokenizer& tokenizer, const std::string& text,
                          std::int64_t max_tokens, std::int64_t& cut) {
  std::string rest = text;
  while (true) {
    const Encoding tokens = tokenizer.encode(rest);
    const auto n = static_cast<std::int64_t>(tokens.ids.size());
    if (n <= max_tokens) return rest;
    // The first token that stays, behind the special ones of the template.
    std::int64_t first = n - max_tokens;
    while (first < n && tokens.special_tokens_mask[static_cast<std::size_t>(first)] != 0) ++first;
    std::int64_t prefix = 0;
    while (prefix < n && tokens.special_tokens_mask[static_cast<std::size_t>(prefix)] != 0)
      ++prefix;
    first = std::min(first + prefix, n - 1);
    cut += first - prefix;
    const auto begin = tokens.offsets[static_cast<std::size_t>(first)].begin;
    rest = rest.substr(character_starts(rest)[static_cast<std::size_t>(begin)]);
    if (begin == 0) return rest;
  }
}

Input without_begin(const Tokenizer& tokenizer, Input input, std::int64_t max_tokens,
                    std::int64_t& cut) {
  if (input.ids.empty()) {
    input.text = without_begin(tokenizer, input.text, max_tokens, cut);
    return input;
  }
  const std::int64_t room = max_tokens - std::ssize(encoded(tokenizer, "", true).ids);
  const std::int64_t excess =
      std::clamp<std::int64_t>(std::ssize(input.ids) - room, 0, std::ssize(input.ids) - 1);
  input.ids.erase(input.ids.begin(), input.ids.begin() + excess);
  cut += excess;
  return input;
}

EmbedOptions embed_options_of(const Api& api, const ApiCall& call, const Embedder& embedder,
                              const Json& where) {
  EmbedOptions options;
  options.too_long = too_long_of(api, call, where);
  options.batch_tokens = batch_tokens_of(api, embedder.model());
  options.pooling = api.options().pooling;
  options.prompt_name = api.options().prompt_name;
  options.prompt = api.options().prompt;
  return options;
}

void count(Lengths& lengths, const Embedder& embedder, const EmbedOptions& options,
           const Embedding& found) {
  const std::int64_t read = found.tokens - found.truncated, most = embedder.max_length(options);
  count(lengths, found.tokens, found.truncated, (read + most - 1) / most);
}

void count(Lengths& lengths, std::int64_t tokens, std::int64_t truncated, std::int64_t segments) {
  lengths.tokens += tokens;
  lengths.truncated += truncated;
  lengths.segments += segments;
}

void append_numbers(std::string& json, std::span<const float> values) {
  json += '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) json += ',';
    fmt::format_to(std::back_inserter(json), "{}", values[i]);
  }
  json += ']';
}

}  // namespace longformer::server
