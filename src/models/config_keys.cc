#include "models/config_keys.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "longformer/options.h"

namespace longformer::models {
namespace {

constexpr std::array<std::string_view, 8> kBookkeeping = {
    "_name_or_path", "architectures",        "dtype",  "model_type", "name_or_path",
    "torch_dtype",   "transformers_version", "version"};

/// Keys that choose what is returned, how it is computed or stored, or that no class reads.
constexpr std::array<std::string_view, 51> kAlways = {
    // Keys that choose results and the way of computing them.
    "_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal",
    "attn_implementation", "chunk_size_feed_forward", "gradient_checkpointing",
    "is_encoder_decoder", "onnx_export", "output_attentions", "output_hidden_states", "output_past",
    "output_scores", "return_dict", "return_dict_in_generate", "torchscript", "use_bfloat16",
    "use_cache", "use_return_dict", "low_memory",
    // Tokens that only the tokenizer, or only generation, knows.
    "cls_token_id", "decoder_start_token_id", "mask_token_id", "sep_token_id", "unk_token_id",
    "tokenizer_class", "force_bos_token_to_be_generated",
    // Names and tasks: id2label is what counts.
    "_num_labels", "finetuning_task", "label2id", "task_specific_params",
    // Activations of a CrossEncoder of sentence-transformers, which Reranker reads.
    "sbert_ce_default_activation_function", "sentence_transformers",
    // Values for initialisation, which weights of a file replace.
    "initializer_factor", "sinusoidal_pos_embds", "tie_weights_",
    // Heads that are not run here, and rates of dropout of theirs.
    "classif_dropout", "classifier_dropout",
    // Left over from training scripts and from conversions of other formats.
    "attention_mode", "directionality", "extra_pos_embeddings", "ignore_attention_mask",
    "normalize_embedding", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
    "pooler_size_per_head", "pooler_type", "save_step", "total_flos", "vocab_type", "xla_device"};

constexpr std::array<std::pair<std::string_view, std::string_view>, 19> kWithValue = {{
    {"add_bias_logits", "false"},
    {"add_final_layer_norm", "false"},
    {"decoder_layerdrop", "0"},
    {"diversity_penalty", "0"},
    {"encoder_layerdrop", "0"},
    {"guidance_scale", "1"},
    {"normalize_before", "false"},
    {"num_beam_groups", "1"},
    {"output_logits", "false"},
    {"penalty_alpha", "0"},
    {"prefix", "\"\""},
    {"pruned_heads", "{}"},
    {"scale_embedding", "false"},
    {"static_position_embeddings", "false"},
    {"summary_use_proj", "true"},
    {"tf_legacy_loss", "false"},
    {"tie_encoder_decoder", "false"},
    {"token_healing", "false"},
    {"use_mtp", "false"},
}};

std::vector<std::string_view> all_harmless() {
  std::vector<std::string_view> keys(kAlways.begin(), kAlways.end());
  keys.insert(keys.end(), kBookkeeping.begin(), kBookkeeping.end());
  // An encoder writes no text, and generation reads these by itself.
  const GenerationOptions options;
  for_each_generation_option(
      [&keys](const char* name, const char*, const auto&) { keys.emplace_back(name); }, options);
  return keys;
}

}  // namespace

std::span<const std::string_view> bookkeeping_keys() { return kBookkeeping; }

const formats::HarmlessKeys& harmless_config_keys() {
  static const std::vector<std::string_view> always = all_harmless();
  static const formats::HarmlessKeys harmless = {.always = always, .with_value = kWithValue};
  return harmless;
}

}  // namespace longformer::models
