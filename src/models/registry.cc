#include "models/registry.h"

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/words.h"
#include "models/attention/attention.h"
#include "models/biased_families.h"
#include "models/block_families.h"
#include "models/funnel_family.h"
#include "models/language_model_config.h"
#include "models/modernbert.h"
#include "models/reformer_family.h"
#include "models/rms_families.h"
#include "models/rotary_families.h"
#include "models/sequence_families.h"
#include "text/encoder_folder.h"

namespace longformer::models {
namespace {

using Rename = TensorNames::Rename;
using KeyName = std::pair<std::string_view, std::string_view>;

// Old folders of one family may have the prefix of another, from which they were made.
constexpr std::array<std::string_view, 3> kLongformer = {"longformer.", "bert.", "roberta."};
constexpr std::array<std::string_view, 3> kBert = {"bert.", "longformer.", "roberta."};
constexpr std::array<std::string_view, 3> kRoberta = {"roberta.", "longformer.", "bert."};
constexpr std::array<std::string_view, 1> kDistilBert = {"distilbert."};
constexpr std::array<std::string_view, 1> kElectra = {"electra."};

constexpr MaskedLmNames kBertMaskedLm = {
    .dense = "cls.predictions.transform.dense",
    .norm = "cls.predictions.transform.LayerNorm",
    .decoder = "cls.predictions.decoder",
    .bias = {"cls.predictions.decoder.bias", "cls.predictions.bias"},
    .activation = std::nullopt};
/// The head of RoBERTa and Longformer uses GELU whatever the configuration says.
constexpr MaskedLmNames kRobertaMaskedLm = {.dense = "lm_head.dense",
                                            .norm = "lm_head.layer_norm",
                                            .decoder = "lm_head.decoder",
                                            .bias = {"lm_head.decoder.bias", "lm_head.bias"}};
constexpr MaskedLmNames kDistilBertMaskedLm = {
    .dense = "vocab_transform",
    .norm = "vocab_layer_norm",
    .decoder = "vocab_projector",
    .bias = {"vocab_projector.bias", "vocab_projector.bias"},
    .activation = std::nullopt};

/// The head of the generator.
constexpr MaskedLmNames kElectraMaskedLm = {
    .dense = "generator_predictions.dense",
    .norm = "generator_predictions.LayerNorm",
    .decoder = "generator_lm_head",
    .bias = {"generator_lm_head.bias", "generator_lm_head.bias"}};

/// BERT's next-sentence head.
constexpr std::array<std::string_view, 2> kBertUnread = {"cls.seq_relationship.weight",
                                                         "cls.seq_relationship.bias"};
/// The discriminator's head, which tells tokens that were replaced.
constexpr std::array<std::string_view, 4> kElectraUnread = {
    "discriminator_predictions.dense.weight", "discriminator_predictions.dense.bias",
    "discriminator_predictions.dense_prediction.weight",
    "discriminator_predictions.dense_prediction.bias"};

// The attention output comes first, because the end of its name is that of the feed-forward's.
constexpr std::array<Rename, 9> kDistilBertNames = {{
    {"encoder.layer.", "transformer.layer."},
    {".attention.self.query.", ".attention.q_lin."},
    {".attention.self.key.", ".attention.k_lin."},
    {".attention.self.value.", ".attention.v_lin."},
    {".attention.output.dense.", ".attention.out_lin."},
    {".attention.output.LayerNorm.", ".sa_layer_norm."},
    {".intermediate.dense.", ".ffn.lin1."},
    {".output.dense.", ".ffn.lin2."},
    {".output.LayerNorm.", ".output_layer_norm."},
}};
constexpr std::array<KeyName, 8> kDistilBertKeys = {
    {{"hidden_size", "dim"},
     {"num_hidden_layers", "n_layers"},
     {"num_attention_heads", "n_heads"},
     {"intermediate_size", "hidden_dim"},
     {"hidden_act", "activation"},
     {"hidden_dropout_prob", "dropout"},
     {"attention_probs_dropout_prob", "attention_dropout"},
     {"layer_norm_eps", ""}}};
/// Sizes by the names of BERT.
constexpr std::array<std::string_view, 3> kSizeAliases = {"hidden_size", "num_hidden_layers",
                                                          "num_attention_heads"};
constexpr std::array<KeyName, 2> kElectraFixed = {
    {{"summary_type", "first"}, {"summary_activation", "gelu"}}};

/// RoBERTa, whatever its language.
EncoderTraits roberta(Index vocab_size, std::string_view tokenizer_class) {
  return {.defaults = {.vocab_size = vocab_size, .pad_token_id = 1},
          .positions_follow_padding = true,
          .attention = dense_attention,
          .document_layer = {.name = "classifier.dense"},
          .document_classifier = "classifier.out_proj",
          .masked_lm = kRobertaMaskedLm,
          .document_dropout = {"classifier_dropout"},
          .tokenizer_class = tokenizer_class};
}

EncoderTraits bert() {
  return {.attention = dense_attention,
          .masked_lm = kBertMaskedLm,
          .unread = kBertUnread,
          .document_dropout = {"classifier_dropout"},
          .choice_dropout = {"classifier_dropout"}};
}

/// Traits that differ only in the attention.
EncoderTraits with_projections(EncoderTraits traits) {
  traits.attention = linformer_attention;
  traits.has_projections = true;
  return traits;
}
EncoderTraits with_features(EncoderTraits traits) {
  traits.attention = performer_attention;
  traits.has_features = true;
  return traits;
}

/// The layer that all heads of ModernBERT have; its activation is in config.json.
constexpr DocumentLayer kModernBertHead = {.name = "head.dense",
                                           .activation = Activation::gelu,
                                           .drops_input = false,
                                           .norm = "head.norm"};
constexpr std::array<std::string_view, 1> kModernBert = {"model."};
constexpr std::array<Rename, 10> kModernBertNames = {{
    {"embeddings.word_embeddings.", "embeddings.tok_embeddings."},
    {"embeddings.LayerNorm.", "embeddings.norm."},
    {"encoder.layer.", "layers."},
    {".attention.self.query_key_value.", ".attn.Wqkv."},
    {".attention.output.dense.", ".attn.Wo."},
    {".attention.output.LayerNorm.", ".attn_norm."},
    {".intermediate.dense.", ".mlp.Wi."},
    {".output.dense.", ".mlp.Wo."},
    {".output.LayerNorm.", ".mlp_norm."},
    {"encoder.final_norm.", "final_norm."},
}};
constexpr std::array<KeyName, 4> kModernBertKeys = {
    {{"hidden_act", "hidden_activation"},
     {"layer_norm_eps", "norm_eps"},
     {"hidden_dropout_prob", "embedding_dropout"},
     {"attention_probs_dropout_prob", "attention_dropout"}}};

constexpr std::array<std::string_view, 1> kNomicBert = {"nomic_bert."};
constexpr std::array<Rename, 9> kNomicBertNames = {{
    {"embeddings.LayerNorm.", "emb_ln."},
    {"encoder.layer.", "encoder.layers."},
    {".attention.self.query_key_value.", ".attn.Wqkv."},
    {".attention.output.dense.", ".attn.out_proj."},
    {".attention.output.LayerNorm.", ".norm1."},
    {".intermediate.first.", ".mlp.fc11."},
    {".intermediate.second.", ".mlp.fc12."},
    {".output.dense.", ".mlp.fc2."},
    {".output.LayerNorm.", ".norm2."},
}};
// Names of modules in `transformers`, which packs projections and gates in files alone.
constexpr std::array<std::string_view, 3> kProjectionModules = {
    ".attention.self.query", ".attention.self.key", ".attention.self.value"};
constexpr std::array<std::string_view, 2> kGateModules = {".intermediate.first",
                                                          ".intermediate.second"};
constexpr std::array<TensorNames::Packed, 2> kPackedLayers = {{
    {".attention.self.query_key_value", kProjectionModules},
    {".intermediate.dense", kGateModules},
}};
constexpr std::span<const TensorNames::Packed> kPackedProjections =
    std::span<const TensorNames::Packed>(kPackedLayers).first(1);
constexpr std::array<Rename, 10> kNomicBertModules = {{
    {"encoder.layer.", "layers."},
    {".attention.self.query.", ".self_attn.q_proj."},
    {".attention.self.key.", ".self_attn.k_proj."},
    {".attention.self.value.", ".self_attn.v_proj."},
    {".attention.output.dense.", ".self_attn.o_proj."},
    {".attention.output.LayerNorm.", ".post_attention_layernorm."},
    {".intermediate.first.", ".mlp.up_proj."},
    {".intermediate.second.", ".mlp.gate_proj."},
    {".output.dense.", ".mlp.down_proj."},
    {".output.LayerNorm.", ".post_mlp_layernorm."},
}};
constexpr std::array<KeyName, 8> kOldNomicBertKeys = {
    {{"n_embd", "hidden_size"},
     {"n_head", "num_attention_heads"},
     {"n_inner", "intermediate_size"},
     {"n_layer", "num_hidden_layers"},
     {"n_positions", "max_position_embeddings"},
     {"layer_norm_epsilon", "layer_norm_eps"},
     {"resid_pdrop", "hidden_dropout_prob"},
     {"attn_pdrop", "attention_probs_dropout_prob"}}};
constexpr MaskedLmNames kNomicBertMaskedLm = {
    .dense = "cls.predictions.transform.dense",
    .norm = "cls.predictions.transform.layer_norm",
    .decoder = "cls.predictions.decoder",
    .bias = {"cls.predictions.decoder.bias", "cls.predictions.bias"},
    .activation = std::nullopt};

constexpr std::array<std::string_view, 2> kGte = {"gte.", "new."};
constexpr std::array<std::string_view, 2> kNew = {"new.", "gte."};
constexpr std::array<Rename, 6> kGteNames = {{
    {".attention.self.query_key_value.", ".attention.qkv_proj."},
    {".attention.output.dense.", ".attention.o_proj."},
    {".attention.output.LayerNorm.", ".attn_ln."},
    {".intermediate.dense.", ".mlp.up_gate_proj."},
    {".output.dense.", ".mlp.down_proj."},
    {".output.LayerNorm.", ".mlp_ln."},
}};
/// Those of nomic_bert, and a norm of the masked-LM head.
constexpr std::array<Rename, 11> kGteModules = {{
    kNomicBertModules[0],
    kNomicBertModules[1],
    kNomicBertModules[2],
    kNomicBertModules[3],
    kNomicBertModules[4],
    kNomicBertModules[5],
    kNomicBertModules[6],
    kNomicBertModules[7],
    kNomicBertModules[8],
    kNomicBertModules[9],
    {"lm_head.norm.", "lm_head.layer_norm."},
}};
constexpr MaskedLmNames kGteMaskedLm = {.dense = "lm_head.dense",
                                        .norm = "lm_head.norm",
                                        .decoder = "lm_head.decoder",
                                        .bias = {"lm_head.decoder.bias", "lm_head.bias"}};

EncoderTraits gte() {
  return {.defaults = {.vocab_size = 250048,
                       .pad_token_id = 1,
                       .max_position_embeddings = 8192,
                       .types = 1,
                       .attention_dropout = 0},
          .position_type = "rope",
          .attention = dense_attention,
          .read = read_gte,
          .masked_lm = kGteMaskedLm,
          .document_dropout = {"classifier_dropout"},
          .choice_dropout = {"classifier_dropout"},
          .tokenizer_class = "XLMRobertaTokenizer"};
}

constexpr std::array<std::string_view, 1> kJinaV3 = {"roberta."};
constexpr std::array<Rename, 8> kJinaV3Names = {{
    {"embeddings.LayerNorm.", "emb_ln."},
    {"encoder.layer.", "encoder.layers."},
    {".attention.self.query_key_value.", ".mixer.Wqkv."},
    {".attention.output.dense.", ".mixer.out_proj."},
    {".attention.output.LayerNorm.", ".norm1."},
    {".intermediate.dense.", ".mlp.fc1."},
    {".output.dense.", ".mlp.fc2."},
    {".output.LayerNorm.", ".norm2."},
}};

constexpr std::array<Rename, 9> kJinaV3Modules = {{
    {"encoder.layer.", "layers."},
    {".attention.self.query.", ".self_attn.q_proj."},
    {".attention.self.key.", ".self_attn.k_proj."},
    {".attention.self.value.", ".self_attn.v_proj."},
    {".attention.output.dense.", ".self_attn.o_proj."},
    {".attention.output.LayerNorm.", ".post_attention_layernorm."},
    {".intermediate.dense.", ".mlp.fc1."},
    {".output.dense.", ".mlp.fc2."},
    {".output.LayerNorm.", ".post_mlp_layernorm."},
}};

/// RoBERTa's heads on layers with rotary positions.
EncoderTraits jina_v3() {
  EncoderTraits traits = roberta(250002, "XLMRobertaTokenizer");
  traits.defaults.hidden_size = 1024;
  traits.defaults.layers = 24;
  traits.defaults.heads = 16;
  traits.defaults.intermediate_size = 4096;
  traits.defaults.max_position_embeddings = 8194;
  traits.defaults.types = 1;
  traits.defaults.layer_norm_eps = 1e-5;
  traits.positions_follow_padding = false;
  traits.read = read_jina_v3;
  return traits;
}

const std::array<Family, 40> kFamilies = {{
    {.model_type = "longformer",
     .class_prefix = "Longformer",
     .names = {.prefixes = kLongformer},
     .encoder = EncoderTraits{.defaults = {.pad_token_id = 1},
                              .positions_follow_padding = true,
                              .has_windows = true,
                              .has_global_attention = true,
                              .attention = longformer_attention,
                              .document_layer = {.name = "classifier.dense"},
                              .document_classifier = "classifier.out_proj",
                              .masked_lm = kRobertaMaskedLm,
                              .tokenizer_class = "RobertaTokenizer"}},
    {.model_type = "bert", .class_prefix = "Bert", .names = {.prefixes = kBert}, .encoder = bert()},
    jina_v2(bert(), true),
    jina_v2(bert(), false),
    {.model_type = "roberta",
     .class_prefix = "Roberta",
     .names = {.prefixes = kRoberta},
     .encoder = roberta(50265, "RobertaTokenizer")},
    {.model_type = "xlm-roberta",
     .class_prefix = "XLMRoberta",
     .names = {.prefixes = kRoberta},
     .encoder = roberta(30522, "XLMRobertaTokenizer")},
    {.model_type = "camembert",
     .class_prefix = "Camembert",
     .names = {.prefixes = kRoberta},
     .encoder = roberta(30522, "CamembertTokenizer")},
    {.model_type = "distilbert",
     .class_prefix = "DistilBert",
     .names = {.prefixes = kDistilBert, .renames = kDistilBertNames},
     .encoder = EncoderTraits{.defaults = {.layers = 6},
                              .keys = kDistilBertKeys,
                              .aliases = kSizeAliases,
                              .has_token_types = false,
                              .attention = dense_attention,
                              .document_layer = {.name = "pre_classifier",
                                                 .activation = Activation::relu,
                                                 .drops_input = false},
                              .choice_layer = {.name = "pre_classifier",
                                               .activation = Activation::relu,
                                               .drops_input = false},
                              .masked_lm = kDistilBertMaskedLm,
                              .document_dropout = {"seq_classif_dropout", 0.2},
                              .choice_dropout = {"seq_classif_dropout", 0.2},
                              .span_dropout = {"qa_dropout", 0.1},
                              .tokens_drop_as_layers = true,
                              .drops_attention_output = false,
                              .tokenizer_class = "DistilBertTokenizer"}},
    {.model_type = "electra",
     .class_prefix = "Electra",
     .names = {.prefixes = kElectra},
     .encoder =
         EncoderTraits{
             .defaults = {.hidden_size = 256, .heads = 4, .intermediate_size = 1024},
             .fixed_keys = kElectraFixed,
             .projects_embeddings = true,
             .attention = dense_attention,
             .document_layer = {.name = "classifier.dense", .activation = Activation::gelu},
             .document_classifier = "classifier.out_proj",
             .choice_layer = {.name = "sequence_summary.summary",
                              .activation = Activation::gelu,
                              .drops_input = false},
             .masked_lm = kElectraMaskedLm,
             .unread = kElectraUnread,
             .document_dropout = {"classifier_dropout"},
             .choice_dropout = {"summary_last_dropout", 0.1},
             .tokenizer_class = "ElectraTokenizer"}},
    {.model_type = "modernbert",
     .class_prefix = "ModernBert",
     .names = {.prefixes = kModernBert, .renames = kModernBertNames},
     .encoder = EncoderTraits{.defaults = {.vocab_size = 50368,
                                           .pad_token_id = 50283,
                                           .layers = 22,
                                           .intermediate_size = 1152,
                                           .max_position_embeddings = 8192,
                                           .layer_norm_eps = 1e-5,
                                           .hidden_dropout = 0,
                                           .attention_dropout = 0},
                              .keys = kModernBertKeys,
                              .has_token_types = false,
                              .attention = dense_attention,
                              .read = read_modernbert,
                              .document_layer = kModernBertHead,
                              .choice_layer = kModernBertHead,
                              .token_layer = kModernBertHead,
                              .span_classifier = "classifier",
                              .masked_lm = MaskedLmNames{.dense = "head.dense",
                                                         .norm = "head.norm",
                                                         .decoder = "decoder",
                                                         .bias = {"decoder.bias", "decoder.bias"},
                                                         .activation = std::nullopt,
                                                         .is_shared = true},
                              .document_dropout = {"classifier_dropout", 0.0},
                              .choice_dropout = {"classifier_dropout", 0.0},
                              .span_dropout = {"classifier_dropout", 0.0},
                              .tokenizer_class = "PreTrainedTokenizerFast"}},
    {.model_type = "nomic_bert",
     .class_prefix = "NomicBert",
     .names = {.prefixes = kNomicBert,
               .renames = kNomicBertNames,
               .module_renames = kNomicBertModules,
               .packed = kPackedProjections},
     .encoder = EncoderTraits{.defaults = {.vocab_size = 30528,
                                           .max_position_embeddings = 2048,
                                           .hidden_dropout = 0,
                                           .attention_dropout = 0},
                              .older_keys = kOldNomicBertKeys,
                              .attention = dense_attention,
                              .read = read_nomic_bert,
                              .masked_lm = kNomicBertMaskedLm,
                              .document_dropout = {"classifier_dropout"},
                              .choice_dropout = {"classifier_dropout"}}},
    {.model_type = "gte",
     .class_prefix = "Gte",
     .names = {.prefixes = kGte,
               .renames = kGteNames,
               .module_renames = kGteModules,
               .packed = kPackedLayers},
     .encoder = gte()},
    {.model_type = "new",
     .class_prefix = "New",
     .names = {.prefixes = kNew,
               .renames = kGteNames,
               .module_renames = kGteModules,
               .packed = kPackedLayers},
     .encoder = gte()},
    {.model_type = "jina_embeddings_v3",
     .class_prefix = "JinaEmbeddingsV3",
     .names = {.prefixes = kJinaV3,
               .renames = kJinaV3Names,
               .module_renames = kJinaV3Modules,
               .packed = kPackedProjections},
     .encoder = jina_v3()},
    big_bird(bert()),
    funnel_family(),
    reformer_family(),
    mpnet(roberta(30527, "MPNetTokenizer")),
    deberta_v2(true),
    deberta_v2(false),
    eurobert_family(),
    neobert_family(),
    qwen3_family(),
    gemma3_family(),
    {.model_type = "linformer",
     .base = "bert",
     .class_prefix = "Linformer",
     .names = {.prefixes = kBert},
     .encoder = with_projections(bert())},
    {.model_type = "linformer",
     .base = "roberta",
     .class_prefix = "Linformer",
     .names = {.prefixes = kRoberta},
     .encoder = with_projections(roberta(50265, "RobertaTokenizer"))},
    {.model_type = "performer",
     .base = "bert",
     .class_prefix = "Performer",
     .names = {.prefixes = kBert},
     .encoder = with_features(bert())},
    {.model_type = "performer",
     .base = "roberta",
     .class_prefix = "Performer",
     .names = {.prefixes = kRoberta},
     .encoder = with_features(roberta(50265, "RobertaTokenizer"))},
    {.model_type = "blockwise",
     .base = "bert",
     .class_prefix = "Blockwise",
     .names = {.prefixes = kBert},
     .encoder = with_shifted_blocks(bert())},
    {.model_type = "blockwise",
     .base = "roberta",
     .class_prefix = "Blockwise",
     .names = {.prefixes = kRoberta},
     .encoder = with_shifted_blocks(roberta(50265, "RobertaTokenizer"))},
    {.model_type = "sparse",
     .base = "bert",
     .class_prefix = "Sparse",
     .names = {.prefixes = kBert},
     .encoder = with_sparse_keys(bert())},
    {.model_type = "sparse",
     .base = "roberta",
     .class_prefix = "Sparse",
     .names = {.prefixes = kRoberta},
     .encoder = with_sparse_keys(roberta(50265, "RobertaTokenizer"))},
    led_family(),
    bart_family(),
    bigbird_pegasus_family(),
    pegasus_family(),
    pegasus_x_family(),
    mbart_family(),
    {.model_type = kLanguageModelType, .class_prefix = "", .names = {}, .encoder = std::nullopt},
    {.model_type = kCharacterLmType, .class_prefix = "", .names = {}, .encoder = std::nullopt},
}};

/// Models that are known to many and not run here: why, and what a user could do instead.
struct Stranger {
  std::string_view model_type, advice;
};

constexpr std::string_view kDecoder =
    "it is a decoder, which writes text; for vectors or labels of texts take an encoder";
constexpr std::string_view kEncoderDecoder =
    "its encoder and decoder are not run, those of LED, BART, Pegasus and mBART are; for vectors "
    "or "
    "labels of texts take an encoder such as FacebookAI/roberta-base";
constexpr std::string_view kLongEncoderDecoder =
    "its encoder and decoder are not run, those of LED, BigBird-Pegasus and PegasusX are; for "
    "vectors or labels of long documents take allenai/longformer-base-4096";
constexpr std::string_view kOtherLong =
    "its attention is another one than Longformer's; for documents as long take "
    "allenai/longformer-base-4096, or a BERT converted to as many tokens";
constexpr std::string_view kDisentangled =
    "its disentangled attention is not computed here; a RoBERTa or ELECTRA fine-tuned for the same "
    "task does what it does";
constexpr std::string_view kPreNorm =
    "it normalises before its layers, not behind them; a BERT or RoBERTa of the same language does "
    "what it does";
constexpr std::string_view kOtherEncoder =
    "it differs from BERT in its layers; a BERT, RoBERTa or ELECTRA of the same language does what "
    "it does";
constexpr std::string_view kAlbert =
    "its layers share one set of weights, which is not computed here; a BERT, DistilBERT or "
    "RoBERTa of the same language does what it does";

constexpr std::string_view kTable =
    "it is a table of tokens without layers, which makes vectors (embed, search, serve) and is "
    "neither trained nor converted here";

constexpr std::string_view kTransformerXl =
    "it is a language model, of which `longformer convert SOURCE TARGET --to longformer-lm` makes "
    "one that runs here";

constexpr std::array<Stranger, 39> kStrangers = {{
    {"transfo-xl", kTransformerXl},
    {"model2vec", kTable},
    {"nystromformer", kOtherLong},
    {"yoso", kOtherLong},
    {"xlnet", kOtherLong},
    {"canine", kOtherEncoder},
    {"longt5", kLongEncoderDecoder},
    {"deberta", kDisentangled},
    {"albert", kAlbert},
    {"ernie", kOtherEncoder},
    {"convbert", kOtherEncoder},
    {"mobilebert", kOtherEncoder},
    {"squeezebert", kOtherEncoder},
    {"rembert", kOtherEncoder},
    {"fnet", kOtherEncoder},
    {"ibert", kOtherEncoder},
    {"luke", kOtherEncoder},
    {"xlm", kOtherEncoder},
    {"flaubert", kOtherEncoder},
    {"data2vec-text", kOtherEncoder},
    {"megatron-bert", kPreNorm},
    {"xlm-roberta-xl", kPreNorm},
    {"roberta-prelayernorm", kPreNorm},
    {"xmod", kOtherEncoder},
    {"t5", kEncoderDecoder},
    {"mt5", kEncoderDecoder},
    {"umt5", kEncoderDecoder},
    {"marian", kEncoderDecoder},
    {"encoder-decoder", kEncoderDecoder},
    {"gpt2", kDecoder},
    {"gpt_neo", kDecoder},
    {"gpt_neox", kDecoder},
    {"opt", kDecoder},
    {"llama", kDecoder},
    {"mistral", kDecoder},
    {"phi3", kDecoder},
    {"qwen2", kDecoder},
    {"gemma2", kDecoder},
    {"bloom", kDecoder},
}};

std::string names_of(bool (*chosen)(const Family&)) {
  std::vector<std::string_view> names;
  for (const Family& family : kFamilies) {
    const bool is_named = !names.empty() && names.back() == family.model_type;
    if (chosen(family) && !is_named) names.push_back(family.model_type);
  }
  return alternatives(names);
}

/// Null for a model_type that is not in the table.
const Family* find(std::string_view model_type, std::string_view base = {}) {
  const auto* found = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family& family) {
    return family.model_type == model_type && (base.empty() || family.base == base);
  });
  return found == kFamilies.end() ? nullptr : found;
}

/// The family of a folder or of a config.json; null for what cannot be read.
const Family* family_in(const std::string& folder_or_file) {
  namespace fs = std::filesystem;
  try {
    const fs::path path = fs::is_directory(folder_or_file)
                              ? fs::path(text::encoder_folder(folder_or_file)) / "config.json"
                              : fs::path(folder_or_file);
    if (!fs::is_regular_file(path)) return nullptr;
    const auto json = formats::read_json(path.string());
    return find(formats::ConfigReader(json, path.string()).string("model_type", ""));
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

std::string encoder_names() {
  return names_of([](const Family& family) { return family.encoder && !family.decoder; });
}

std::string encoder_decoder_names() {
  return names_of([](const Family& family) { return family.decoder.has_value(); });
}

const Family& family_of(std::string_view model_type, const std::string& name,
                        std::string_view base) {
  if (const Family* family = find(model_type)) {
    if (family->base.empty()) return *family;
    const Family* own = find(model_type, base);
    require(own != nullptr && !base.empty(),
            "{}: base_model_type: expected bert or roberta for a {}, found {}", name, model_type,
            base.empty() ? "none" : formats::quote(base));
    return *own;
  }
  for (const Stranger& stranger : kStrangers) {
    require(stranger.model_type != model_type, "{}: model_type: expected {}, found {}: {}", name,
            encoder_names(), formats::quote(model_type), stranger.advice);
  }
  fail("{}: model_type: expected {}, found {}", name, encoder_names(), formats::quote(model_type));
}

const Family& told_apart(const Family& family, const formats::ConfigReader& config) {
  const auto has = [&](const KeyName& told) {
    const std::string key(told.first);
    if (!config.has(key)) return false;
    const auto& value = config.at(key);
    return (value.is_string() ? value.get<std::string>() : value.dump()) == told.second;
  };
  for (const Family& other : kFamilies) {
    const auto& values = other.told_by;
    if (other.model_type != family.model_type || values.empty()) continue;
    if (std::all_of(values.begin(), values.end(), has)) return other;
  }
  return family;
}

bool is_language_model(const std::string& folder_or_file) {
  const Family* family = family_in(folder_or_file);
  return family != nullptr && !family->encoder;
}

bool is_encoder_decoder(const std::string& folder_or_file) {
  const Family* family = family_in(folder_or_file);
  return family != nullptr && family->decoder;
}

}  // namespace longformer::models
