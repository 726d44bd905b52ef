#include "tasks/writing/settings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>

#include "core/error.h"

namespace longformer::tasks {
namespace {

using Json = nlohmann::ordered_json;
using formats::ConfigReader;
using Ids = std::vector<std::int32_t>;

/// Reads the value of one option, by its type. Throws Error that says what was expected.
struct OptionReader {
  const std::string& file;
  std::string key;
  const Json& value;

  [[noreturn]] void expected(const char* what) const {
    fail("{}: {}: expected {}, found {}", file, key, what, formats::shown(value));
  }
  void read(bool& to) const {
    if (!value.is_boolean()) expected("true or false");
    to = value.get<bool>();
  }
  /// A list of one integer stands for it: transformers takes one for each document.
  void read(std::int64_t& to) const {
    if (value.is_array() && value.size() == 1) {
      return OptionReader{file, key, value[0]}.read(to);
    }
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    const bool good = value.is_number_integer() && value >= -kMost && value <= kMost;
    if (!good) expected("an integer");
    to = value.get<std::int64_t>();
  }
  void read(double& to) const {
    if (!formats::is_finite_number(value)) expected("a number");
    to = value.get<double>();
  }
  void read(std::string& to) const {
    if (value.is_boolean()) {
      to = value.get<bool>() ? "true" : "false";
    } else if (value.is_string()) {
      to = value.get<std::string>();
    } else {
      expected("true, false or \"never\"");
    }
  }
  static bool is_id(const Json& id) {
    return id.is_number_integer() && id >= 0 && id <= std::numeric_limits<std::int32_t>::max();
  }
  /// One number stands for a list of one.
  void read(Ids& to) const {
    const Json list = value.is_array() ? value : Json::array({value});
    if (!std::all_of(list.begin(), list.end(), is_id)) expected("token ids");
    to = list.get<Ids>();
  }
  void read(std::vector<std::string>& to) const {
    const Json list = value.is_array() ? value : Json::array({value});
    const auto is_text = [](const Json& text) { return text.is_string() && text != ""; };
    if (!std::all_of(list.begin(), list.end(), is_text)) expected("texts");
    to = list.get<std::vector<std::string>>();
  }
  void read(std::vector<Ids>& to) const {
    if (!value.is_array()) expected("lists of token ids");
    for (const Json& word : value) {
      const bool good =
          word.is_array() && !word.empty() && std::all_of(word.begin(), word.end(), is_id);
      if (!good) expected("lists of token ids");
      to.push_back(word.get<Ids>());
    }
  }
  void read(std::vector<SequenceBias>& to) const {
    if (!value.is_array()) expected("pairs of token ids and a number");
    for (const Json& pair : value) {
      const bool good = pair.is_array() && pair.size() == 2 && pair[0].is_array() &&
                        !pair[0].empty() && formats::is_finite_number(pair[1]) &&
                        std::all_of(pair[0].begin(), pair[0].end(), is_id);
      if (!good) expected("pairs of token ids and a number");
      to.push_back({pair[0].get<Ids>(), pair[1].get<double>()});
    }
  }
  void read(std::pair<std::int64_t, double>& to) const {
    const bool good = value.is_array() && value.size() == 2 && value[0].is_number_integer() &&
                      formats::is_finite_number(value[1]);
    if (!good) expected("a number of tokens and a factor");
    to = {value[0].get<std::int64_t>(), value[1].get<double>()};
  }
};

/// Options that only random choice reads.
constexpr std::array<std::string_view, 8> kSampling = {
    "temperature", "top_k", "top_p", "min_p", "typical_p", "top_h", "epsilon_cutoff", "eta_cutoff"};

/// Throws Error for a number outside the range; an absent one is in it.
template <typename Number>
void require_within(const std::optional<Number>& value, double least, double most, const char* name,
                    const char* expected) {
  if (!value) return;
  const bool good = static_cast<double>(*value) >= least && static_cast<double>(*value) <= most;
  require(good, OptionName(name), "expected {}, found {}", expected, *value);
}

/// Scores are fp32: beyond these a factor is 0 or infinite.
constexpr double kSmallest = std::numeric_limits<float>::min();
constexpr double kAny = std::numeric_limits<float>::max();

void check_sampling(const GenerationOptions& options, bool do_sample) {
  if (do_sample) {
    require_within(options.temperature, kSmallest, kAny, "temperature", "more than 0");
  } else {
    // Temperature 0 says what happens anyway.
    require_within(options.temperature, 0, kAny, "temperature", "at least 0");
  }
  require_within(options.top_k, 0, kAny, "top_k", "at least 0");
  require_within(options.top_p, 0, kAny, "top_p", "at least 0");
  require_within(options.min_p, 0, 1, "min_p", "0 to 1");
  require_within(options.top_h, kSmallest, 1, "top_h", "more than 0 and at most 1");
  require_within(options.typical_p, kSmallest, kAny, "typical_p", "more than 0");
}

void check_values(const GenerationOptions& options) {
  require_within(options.max_new_tokens, 1, kAny, "max_new_tokens", "at least 1");
  require_within(options.max_length, 1, kAny, "max_length", "at least 1");
  require_within(options.min_length, 0, kAny, "min_length", "at least 0");
  require_within(options.min_new_tokens, 0, kAny, "min_new_tokens", "at least 0");
  require_within(options.max_time, kSmallest, kAny, "max_time", "more than 0 seconds");
  require_within(options.num_beams, 1, 64, "num_beams", "1 to 64");
  require_within(options.num_return_sequences, 1, 1024, "num_return_sequences", "1 to 1024");
  require_within(options.repetition_penalty, kSmallest, kAny, "repetition_penalty", "more than 0");
  require_within(options.encoder_repetition_penalty, kSmallest, kAny, "encoder_repetition_penalty",
                 "more than 0");
  require_within(options.no_repeat_ngram_size, 0, kAny, "no_repeat_ngram_size", "at least 0");
  require_within(options.encoder_no_repeat_ngram_size, 0, kAny, "encoder_no_repeat_ngram_size",
                 "at least 0");
  require_within(options.length_penalty, -kAny, kAny, "length_penalty", "a number of fp32");
  if (options.exponential_decay_length_penalty) {
    const std::optional<double> factor = options.exponential_decay_length_penalty->second;
    require_within(factor, -kAny, kAny, "exponential_decay_length_penalty", "a factor of fp32");
  }
  if (options.early_stopping) {
    const std::string& value = *options.early_stopping;
    require(value == "true" || value == "false" || value == "never", OptionName("early_stopping"),
            "expected true, false or never, found {}", formats::quote(value));
  }
}

void check_ids(const GenerationOptions& options, Index vocab_size) {
  const auto check = [vocab_size](const Ids& ids, const char* name) {
    for (const std::int32_t id : ids) {
      require(id >= 0 && id < vocab_size, OptionName(name), "expected ids from 0 to {}, found {}",
              vocab_size - 1, id);
    }
  };
  const auto check_one = [&](const std::optional<std::int64_t>& id, const char* name) {
    require(!id || (*id >= 0 && *id < vocab_size), OptionName(name),
            "expected an id from 0 to {}, found {}", vocab_size - 1, id.value_or(0));
  };
  if (options.bad_words_ids) {
    require(!options.bad_words_ids->empty(), OptionName("bad_words_ids"),
            "expected lists of ids, found none");
    for (const Ids& word : *options.bad_words_ids) {
      require(!word.empty(), OptionName("bad_words_ids"),
              "expected lists of ids, found an empty one");
      check(word, "bad_words_ids");
    }
  }
  if (options.sequence_bias) {
    for (const SequenceBias& one : *options.sequence_bias) {
      require_within(std::optional(one.bias), -kAny, kAny, "sequence_bias", "biases of fp32");
      require(!one.ids.empty(), OptionName("sequence_bias"), "expected ids, found none");
      check(one.ids, "sequence_bias");
    }
  }
  check(options.forced_eos_token_id.value_or(Ids()), "forced_eos_token_id");
  check(options.eos_token_id.value_or(Ids()), "eos_token_id");
  check(options.suppress_tokens.value_or(Ids()), "suppress_tokens");
  check(options.begin_suppress_tokens.value_or(Ids()), "begin_suppress_tokens");
  check_one(options.forced_bos_token_id, "forced_bos_token_id");
  check_one(options.decoder_start_token_id, "decoder_start_token_id");
  const Ids suppressed = options.suppress_tokens.value_or(Ids());
  const auto is_suppressed = [&](std::int32_t id) {
    return std::find(suppressed.begin(), suppressed.end(), id) != suppressed.end();
  };
  Ids forced = options.forced_eos_token_id.value_or(Ids());
  if (!forced.empty()) {
    require(!std::all_of(forced.begin(), forced.end(), is_suppressed),
            OptionName("suppress_tokens"),
            "expected one of forced_eos_token_id not to be among them");
  }
  if (options.forced_bos_token_id) {
    require(!is_suppressed(static_cast<std::int32_t>(*options.forced_bos_token_id)),
            OptionName("suppress_tokens"), "expected forced_bos_token_id {} not to be among them",
            *options.forced_bos_token_id);
  }
}

/// Names of options that were given and stand in a list.
std::vector<std::string> given_among(const GenerationOptions& options,
                                     std::span<const std::string_view> names) {
  std::vector<std::string> given;
  for_each_generation_option(
      [&](const char* name, const char*, const auto& option) {
        if (option && std::find(names.begin(), names.end(), name) != names.end()) {
          given.emplace_back(name);
        }
      },
      options);
  return given;
}

void tell_without_effect(const GenerationOptions& call, const GenerationOptions& folder,
                         const GenerationSettings& settings,
                         const std::function<void(const std::string&)>& note) {
  constexpr std::array<std::string_view, 2> kBeams = {"length_penalty", "early_stopping"};
  if (!note) return;
  if (!settings.do_sample) {
    // Such a value would stop random choice, but there is none.
    try {
      check_sampling(folder, true);
    } catch (const Error& error) {
      note(fmt::format("{}: without effect, since there is no do_sample", error.what()));
    }
  }
  const auto tell = [&](std::span<const std::string_view> names, const char* needed) {
    const auto given = given_among(call, names);
    if (!given.empty()) {
      note(fmt::format("{}: without effect, since there is no {}", fmt::join(given, ", "), needed));
    }
  };
  if (!settings.do_sample) tell(kSampling, "do_sample");
  if (settings.num_beams == 1) tell(kBeams, "search with num_beams over 1");
}

Index limit_of(const GenerationOptions& options, const GenerationModel& model) {
  const Index prompt = model.prompt_tokens;
  constexpr Index kUsual = 20;
  Index limit = prompt + std::min(kUsual, model.max_tokens - prompt);
  if (options.max_new_tokens) {
    const Index most = model.max_tokens - prompt;
    require(*options.max_new_tokens <= most, OptionName("max_new_tokens"),
            "expected at most {}, as the decoder has {} positions and {} of them begin the text, "
            "found {}",
            most, model.max_tokens, prompt, *options.max_new_tokens);
    limit = prompt + *options.max_new_tokens;
  } else if (options.max_length) {
    limit = *options.max_length;
    require(prompt < limit, OptionName("max_length"),
            "expected more than the {} tokens of the prompt, found {}", prompt, limit);
  }
  require(limit <= model.max_tokens, OptionName("max_length"),
          "expected at most {} tokens in all, the positions of the decoder, found {}",
          model.max_tokens, limit);
  return limit;
}

}  // namespace

bool GenerationSettings::is_end(std::int32_t id) const {
  return std::find(ends.begin(), ends.end(), id) != ends.end();
}

GenerationOptions parse_generation_options(const ConfigReader& config) {
  GenerationOptions options;
  for_each_generation_option(
      [&](const char* name, const char*, auto& option) {
        if (!config.has(name)) return;
        OptionReader{config.name(), name, config.at(name)}.read(option.emplace());
      },
      options);
  // The key that versions before 4.12 wrote for BART.
  const bool forces_start = config.boolean("force_bos_token_to_be_generated", false);
  if (!options.forced_bos_token_id && forces_start) {
    options.forced_bos_token_id = options.bos_token_id;
  }
  return options;
}

const formats::HarmlessKeys& harmless_generation_keys() {
  // Keys of results, of ways of computing, and of models that only assist another one.
  static constexpr std::array<std::string_view, 25> kAlways = {"_from_model_config",
                                                               "transformers_version",
                                                               "use_cache",
                                                               "cache_config",
                                                               "max_cache_len",
                                                               "output_attentions",
                                                               "output_hidden_states",
                                                               "output_scores",
                                                               "output_logits",
                                                               "return_dict_in_generate",
                                                               "compile_config",
                                                               "disable_compile",
                                                               "continuous_batching_config",
                                                               "low_memory",
                                                               "prefill_chunk_size",
                                                               "is_assistant",
                                                               "num_assistant_tokens",
                                                               "num_assistant_tokens_schedule",
                                                               "assistant_confidence_threshold",
                                                               "assistant_early_exit",
                                                               "assistant_lookbehind",
                                                               "assistant_ensemble_weight",
                                                               "target_lookbehind",
                                                               "max_matching_ngram_size",
                                                               "speculation_type"};
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kWithValue = {
      {{"cache_implementation", "\"dynamic\""},
       {"cache_implementation", "\"static\""},
       {"diversity_penalty", "0"},
       {"guidance_scale", "1"},
       {"num_beam_groups", "1"},
       {"penalty_alpha", "0"},
       {"token_healing", "false"},
       {"use_mtp", "false"}}};
  static constexpr formats::HarmlessKeys kHarmless = {.always = kAlways, .with_value = kWithValue};
  return kHarmless;
}

GenerationOptions folder_generation_options(const std::string& folder,
                                            const std::function<void(const std::string&)>& note) {
  namespace fs = std::filesystem;
  const fs::path own = fs::path(folder) / "generation_config.json";
  const bool has_own = fs::exists(own);
  const std::string path = has_own ? own.string() : (fs::path(folder) / "config.json").string();
  const Json object = formats::read_json(path);
  const ConfigReader config(object, path);
  const GenerationOptions options = parse_generation_options(config);
  // Those of a whole config.json are the model's to tell.
  const std::string unused =
      has_own ? formats::unused_keys_note(config, harmless_generation_keys()) : "";
  if (note && !unused.empty()) note(unused);
  return options;
}

GenerationSettings generation_settings(const GenerationOptions& call,
                                       const GenerationOptions& folder,
                                       const GenerationModel& model,
                                       const std::function<void(const std::string&)>& note) {
  GenerationSettings settings;
  settings.options = folder;
  for_each_generation_option(
      [](const char*, const char*, auto& mine, const auto& of_call) {
        if (of_call) mine = of_call;
      },
      settings.options, call);
  GenerationOptions& options = settings.options;
  check_values(options);
  settings.do_sample = options.do_sample.value_or(false);
  check_sampling(settings.do_sample ? options : call, settings.do_sample);
  check_ids(options, model.vocab_size);
  settings.num_beams = options.num_beams.value_or(1);
  settings.num_return_sequences = options.num_return_sequences.value_or(1);
  settings.length_penalty = static_cast<float>(options.length_penalty.value_or(1));
  const std::string stopping = options.early_stopping.value_or("false");
  using Stopping = GenerationSettings::Stopping;
  settings.stopping = stopping == "true"    ? Stopping::early
                      : stopping == "never" ? Stopping::never
                                            : Stopping::usual;
  const Index returned = settings.num_return_sequences;
  require(settings.num_beams == 1 || returned <= settings.num_beams,
          OptionName("num_return_sequences"), "expected at most num_beams = {}, found {}",
          settings.num_beams, returned);
  require(returned == 1 || settings.num_beams > 1 || settings.do_sample,
          OptionName("num_return_sequences"),
          "expected 1 without num_beams and do_sample, found {}", returned);
  const auto start =
      options.decoder_start_token_id ? options.decoder_start_token_id : options.bos_token_id;
  require(start.has_value(), OptionName("decoder_start_token_id"),
          "expected it, or bos_token_id, in the folder or the call, found "
          "neither");
  settings.start_token = static_cast<std::int32_t>(*start);
  settings.ends = options.eos_token_id.value_or(Ids());
  const Index candidates =
      std::max<Index>(2, 1 + static_cast<Index>(settings.ends.size())) * settings.num_beams;
  require(settings.num_beams == 1 || candidates <= settings.num_beams * model.vocab_size,
          OptionName("num_beams"), "expected fewer than {} of a vocabulary of {}",
          settings.num_beams, model.vocab_size);
  settings.limit = limit_of(options, model);
  // Beyond the limit all are alike.
  const auto least_new = std::min(options.min_new_tokens.value_or(0), model.max_tokens);
  settings.least =
      options.min_new_tokens ? model.prompt_tokens + least_new : options.min_length.value_or(0);
  tell_without_effect(call, folder, settings, note);
  return settings;
}

}  // namespace longformer::tasks
