#include "generation_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "longformer/error.h"
#include "output.h"

namespace longformer::cli {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::array<std::pair<std::string_view, std::string_view>, 36> kDescriptions = {{
    {"max_length", "most tokens with the start token"},
    {"max_new_tokens",
     "most tokens to write; counts before --max-length (summarize 512, generate 20)"},
    {"min_length", "fewest tokens with the start token"},
    {"min_new_tokens", "fewest tokens to write; counts before --min-length"},
    {"max_time", "seconds after which texts end"},
    {"stop_strings", "a text ends behind it; may be repeated"},
    {"num_beams", "texts that are followed at a time (1)"},
    {"num_return_sequences", "texts for each document (1)"},
    {"length_penalty", "beams: scores are divided by length to this power (1)"},
    {"early_stopping", "beams: true, false or never (false)"},
    {"do_sample", "draw tokens instead of taking the likeliest"},
    {"temperature", "divides the logits before drawing (1)"},
    {"top_k", "draw from so many of the likeliest tokens; 0 from all (50)"},
    {"top_p", "draw from the likeliest tokens of this mass (1)"},
    {"min_p", "draw from tokens at least this part as likely as the likeliest"},
    {"typical_p", "draw from the most typical tokens of this mass (1)"},
    {"top_h", "draw from the likeliest tokens up to this part of the entropy"},
    {"epsilon_cutoff", "draw from tokens at least so likely (0)"},
    {"eta_cutoff", "as --epsilon-cutoff, lower if many tokens are likely (0)"},
    {"repetition_penalty", "over 1: tokens of the text become less likely (1)"},
    {"encoder_repetition_penalty", "over 1: tokens of the document become likelier (1)"},
    {"no_repeat_ngram_size", "no so many tokens occur twice in a text; 0 is off (0)"},
    {"encoder_no_repeat_ngram_size",
     "no so many tokens are copied from the document; 0 is off (0)"},
    {"bad_words_ids", "ids such as 5,81 that do not follow each other; may be repeated"},
    {"sequence_bias", "ids and what is added to the last logit: 5,81=-2.5; may be repeated"},
    {"suppress_tokens", "ids such as 3,17 that are never written"},
    {"begin_suppress_tokens", "ids that no text begins with"},
    {"forced_bos_token_id", "the first token to write"},
    {"forced_eos_token_id", "ids of which one is the last token at the limit"},
    {"exponential_decay_length_penalty", "behind N tokens the end becomes likelier by F: N,F"},
    {"remove_invalid_values", "take logits that are no numbers for 0"},
    {"renormalize_logits", "probabilities sum to 1 behind all of this"},
    {"decoder_start_token_id", "the token that texts begin with"},
    {"bos_token_id", "start token without --decoder-start-token-id"},
    {"pad_token_id", "not used: nothing is padded"},
    {"eos_token_id", "ids that end a text"},
}};

std::string description_of(std::string_view name) {
  for (const auto& [known, description] : kDescriptions) {
    if (known == name) return std::string(description);
  }
  return "";
}

[[noreturn]] void refuse(const std::string& option, std::string_view expected,
                         std::string_view text) {
  throw UsageError(option, fmt::format("expected {}, found {}", expected, in_quotes(text)));
}

double real(const std::string& option, std::string_view text, const char* expected) {
  const auto value = real_number(text);
  if (!value) refuse(option, expected, text);
  return *value;
}

std::int64_t whole(const std::string& option, std::string_view text, const char* expected) {
  const auto value = whole_number(text);
  if (!value) refuse(option, expected, text);
  return *value;
}

Ids ids_of(const std::string& option, const std::string& text) {
  constexpr const char* kExpected = "token ids such as 5,81";
  Ids ids;
  for (const std::string& part : CLI::detail::split(text, ',')) {
    const std::int64_t id = whole(option, part, kExpected);
    if (!std::in_range<std::int32_t>(id)) refuse(option, kExpected, part);
    ids.push_back(static_cast<std::int32_t>(id));
  }
  if (ids.empty()) refuse(option, kExpected, text);
  return ids;
}

/// Adds the flag of one option, by its type.
struct FlagAdder {
  CLI::App& verb;

  template <typename Value>
  void operator()(const char* name, std::optional<Value>& option) const {
    std::string flag = "--" + std::string(name);
    std::replace(flag.begin(), flag.end(), '_', '-');
    add(flag, option, description_of(name));
  }

  /// An option that takes a text and reads it.
  template <typename Read>
  CLI::Option* add_text(const std::string& flag, const std::string& type,
                        const std::string& description, Read read) const {
    return verb
        .add_option_function<std::vector<std::string>>(
            flag,
            [read](const std::vector<std::string>& texts) {
              for (const std::string& text : texts) read(text);
            },
            description)
        ->expected(1)
        ->allow_extra_args(false)
        ->type_name(type);
  }

  void add(const std::string& flag, std::optional<std::int64_t>& to,
           const std::string& description) const {
    add_text(flag, "N", description,
             [flag, &to](const std::string& text) { to = whole(flag, text, "an integer"); });
  }
  void add(const std::string& flag, std::optional<double>& to,
           const std::string& description) const {
    add_text(flag, "X", description,
             [flag, &to](const std::string& text) { to = real(flag, text, "a number"); });
  }
  void add(const std::string& flag, std::optional<bool>& to, const std::string& description) const {
    verb.add_flag_function(
        flag + ",!--no-" + flag.substr(2), [&to](std::int64_t count) { to = count > 0; },
        description);
  }
  void add(const std::string& flag, std::optional<std::string>& to,
           const std::string& description) const {
    verb.add_option_function<std::string>(
            flag, [&to](const std::string& text) { to = text; }, description)
        ->check(CLI::IsMember({"true", "false", "never"}).description(""))
        ->type_name("WHEN");
  }
  void add(const std::string& flag, std::optional<std::vector<std::string>>& to,
           const std::string& description) const {
    repeatable(flag, "TEXT", description, to, [](const std::string& text) { return text; });
  }
  void add(const std::string& flag, std::optional<Ids>& to, const std::string& description) const {
    add_text(flag, "IDS", description,
             [flag, &to](const std::string& text) { to = ids_of(flag, text); });
  }
  void add(const std::string& flag, std::optional<std::vector<Ids>>& to,
           const std::string& description) const {
    repeatable(flag, "IDS", description, to,
               [flag](const std::string& text) { return ids_of(flag, text); });
  }
  void add(const std::string& flag, std::optional<std::vector<SequenceBias>>& to,
           const std::string& description) const {
    repeatable(flag, "IDS=X", description, to, [flag](const std::string& text) {
      const std::size_t sign = text.find('=');
      if (sign == std::string::npos) {
        refuse(flag, "ids and a number such as 5,81=-2.5", text);
      }
      return SequenceBias{ids_of(flag, text.substr(0, sign)),
                          real(flag, text.substr(sign + 1), "a number behind =")};
    });
  }
  void add(const std::string& flag, std::optional<std::pair<std::int64_t, double>>& to,
           const std::string& description) const {
    add_text(flag, "N,F", description, [flag, &to](const std::string& text) {
      const std::vector<std::string> parts = CLI::detail::split(text, ',');
      if (parts.size() != 2) refuse(flag, "N,F", text);
      to = {whole(flag, parts[0], "N,F"), real(flag, parts[1], "N,F")};
    });
  }
  template <typename Item, typename Read>
  void repeatable(const std::string& flag, const std::string& type, const std::string& description,
                  std::optional<std::vector<Item>>& to, Read read) const {
    add_text(flag, type, description, [&to, read](const std::string& text) {
      if (!to) to.emplace();
      to->push_back(read(text));
    })->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
};

/// The value of an option as its flag takes it.
struct Shown {
  static std::string of(bool value) { return value ? "true" : "false"; }
  static std::string of(std::int64_t value) { return std::to_string(value); }
  static std::string of(std::int32_t value) { return std::to_string(value); }
  static std::string of(double value) { return fmt::format("{}", value); }
  static std::string of(const std::string& value) { return value; }
  static std::string of(const Ids& ids) { return fmt::format("{}", fmt::join(ids, ",")); }
  static std::string of(const std::pair<std::int64_t, double>& value) {
    return fmt::format("{},{}", value.first, value.second);
  }
  static std::string of(const SequenceBias& bias) {
    return fmt::format("{}={}", of(bias.ids), bias.bias);
  }
  template <typename Item>
  static std::string of(const std::vector<Item>& items) {
    std::string text;
    for (const Item& item : items) text += (text.empty() ? "" : " ") + of(item);
    return text;
  }
};

}  // namespace

void add_generation_options(CLI::App& verb, GenerationOptions& options) {
  for_each_generation_option(FlagAdder{verb}, options);
}

std::vector<std::pair<std::string, std::string>> described(const GenerationOptions& options) {
  std::vector<std::pair<std::string, std::string>> rows;
  for_each_generation_option(
      [&rows](const char* name, const auto& option) {
        if (option) rows.emplace_back(name, Shown::of(*option));
      },
      options);
  return rows;
}

void add_writing(CLI::App& verb, WritingFlags& flags) {
  add_number(verb, "--seed", flags.seed, {}, "another seed draws another text (1)");
  add_global_attention(verb, flags.global_attention);
  CLI::Option* truncate = verb.add_flag("--truncate", flags.truncate,
                                        "of long documents read the first tokens that fit");
  CLI::Option* extend = verb.add_flag("--extend", flags.extend,
                                      "read long documents whole, with positions again and again")
                            ->excludes(truncate);
  verb.add_flag("--refuse", flags.refuse,
                "a long document is an error (it is read in overlapping segments, and the text is "
                "about all of them)")
      ->excludes(truncate)
      ->excludes(extend);
  add_number(verb, "--max-source-length", flags.max_source_tokens, {.least = 1},
             "longest document in tokens with special ones (the model's)");
  add_number(verb, "--stride", flags.stride, {}, "overlap of segments in tokens (1024)");
  add_number(verb, "--together", flags.together, {.least = 1, .most = 1024},
             "most documents that are written at a time (8)");
  verb.add_flag("--stream", flags.stream,
                "with --json: before the line of a document a line with every new piece of its "
                "text, in \"delta\"");
}

GenerationRequest WritingFlags::request() const {
  GenerationRequest request;
  request.options = options;
  request.seed = static_cast<std::uint64_t>(seed);
  request.global_attention = cli::global_attention(global_attention);
  request.too_long = truncate ? TooLong::truncate : refuse ? TooLong::refuse : TooLong::split;
  request.extend = extend;
  request.stride = stride;
  request.max_source_tokens = max_source_tokens;
  request.together = together;
  return request;
}

}  // namespace longformer::cli
