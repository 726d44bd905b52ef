// How texts are written: the options of transformers' generate(), under their names
// (docs/spec/led-and-generation.md#b6 to #b11).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace longformer {

/// Tokens that follow each other, and what is added to the logit of the last one.
struct SequenceBias {
  std::vector<std::int32_t> ids;
  double bias = 0;
};

/// What is absent is as the folder says (generation_config.json, else config.json), else as
/// `transformers` has it. Lengths count tokens and the start token; max_new_tokens and
/// min_new_tokens do not count it and come before max_length and min_length.
struct GenerationOptions {
  std::optional<std::int64_t> max_length = {}, max_new_tokens = {};
  std::optional<std::int64_t> min_length = {}, min_new_tokens = {};
  /// Seconds after which a text ends behind the token that is being written.
  std::optional<double> max_time = {};
  std::optional<std::vector<std::string>> stop_strings = {};

  std::optional<std::int64_t> num_beams = {}, num_return_sequences = {};
  std::optional<double> length_penalty = {};
  /// "true", "false" or "never".
  std::optional<std::string> early_stopping = {};

  std::optional<bool> do_sample = {};
  std::optional<double> temperature = {}, top_p = {}, min_p = {}, typical_p = {}, top_h = {};
  std::optional<double> epsilon_cutoff = {}, eta_cutoff = {};
  std::optional<std::int64_t> top_k = {};

  std::optional<double> repetition_penalty = {}, encoder_repetition_penalty = {};
  std::optional<std::int64_t> no_repeat_ngram_size = {}, encoder_no_repeat_ngram_size = {};
  std::optional<std::vector<std::vector<std::int32_t>>> bad_words_ids = {};
  std::optional<std::vector<SequenceBias>> sequence_bias = {};
  std::optional<std::vector<std::int32_t>> suppress_tokens = {}, begin_suppress_tokens = {};
  std::optional<std::int64_t> forced_bos_token_id = {};
  std::optional<std::vector<std::int32_t>> forced_eos_token_id = {};
  /// Tokens behind which the end becomes likelier, and the factor for each of them.
  std::optional<std::pair<std::int64_t, double>> exponential_decay_length_penalty = {};
  std::optional<bool> remove_invalid_values = {}, renormalize_logits = {};

  std::optional<std::int64_t> decoder_start_token_id = {}, bos_token_id = {}, pad_token_id = {};
  std::optional<std::vector<std::int32_t>> eos_token_id = {};
};

/// Calls visit(name, option) for every option of one or of several of them in step.
template <typename Visit, typename... Options>
void for_each_generation_option(Visit&& visit, Options&... options) {
  visit("max_length", options.max_length...);
  visit("max_new_tokens", options.max_new_tokens...);
  visit("min_length", options.min_length...);
  visit("min_new_tokens", options.min_new_tokens...);
  visit("max_time", options.max_time...);
  visit("stop_strings", options.stop_strings...);
  visit("num_beams", options.num_beams...);
  visit("num_return_sequences", options.num_return_sequences...);
  visit("length_penalty", options.length_penalty...);
  visit("early_stopping", options.early_stopping...);
  visit("do_sample", options.do_sample...);
  visit("temperature", options.temperature...);
  visit("top_k", options.top_k...);
  visit("top_p", options.top_p...);
  visit("min_p", options.min_p...);
  visit("typical_p", options.typical_p...);
  visit("top_h", options.top_h...);
  visit("epsilon_cutoff", options.epsilon_cutoff...);
  visit("eta_cutoff", options.eta_cutoff...);
  visit("repetition_penalty", options.repetition_penalty...);
  visit("encoder_repetition_penalty", options.encoder_repetition_penalty...);
  visit("no_repeat_ngram_size", options.no_repeat_ngram_size...);
  visit("encoder_no_repeat_ngram_size", options.encoder_no_repeat_ngram_size...);
  visit("bad_words_ids", options.bad_words_ids...);
  visit("sequence_bias", options.sequence_bias...);
  visit("suppress_tokens", options.suppress_tokens...);
  visit("begin_suppress_tokens", options.begin_suppress_tokens...);
  visit("forced_bos_token_id", options.forced_bos_token_id...);
  visit("forced_eos_token_id", options.forced_eos_token_id...);
  visit("exponential_decay_length_penalty", options.exponential_decay_length_penalty...);
  visit("remove_invalid_values", options.remove_invalid_values...);
  visit("renormalize_logits", options.renormalize_logits...);
  visit("decoder_start_token_id", options.decoder_start_token_id...);
  visit("bos_token_id", options.bos_token_id...);
  visit("pad_token_id", options.pad_token_id...);
  visit("eos_token_id", options.eos_token_id...);
}

}  // namespace longformer
