// config.json of encoders: the class defaults of `transformers`, what is written, and the error of
// each bad value.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "error_testing.h"
#include "fixtures.h"
#include "formats/json.h"
#include "models/config.h"
#include "models/registry.h"

namespace longformer::models::encoder_config_test {
namespace {

using Json = nlohmann::ordered_json;

EncoderConfig parsed(const std::string& text) {
  const Json object = formats::parse_json(text, "config.json");
  return parse_config(formats::ConfigReader(object, "config.json"));
}

TEST(EncoderConfig, TakesTheClassDefaultsOfTransformers) {
  const EncoderConfig bert = parsed(R"({"model_type": "bert"})");
  EXPECT_EQ(bert.vocab_size, 30522);
  EXPECT_EQ(bert.pad_token_id, 0);
  EXPECT_EQ(bert.max_tokens(), 512);
  EXPECT_TRUE(bert.windows().empty());
  const EncoderConfig roberta = parsed(R"({"model_type": "roberta"})");
  EXPECT_EQ(roberta.vocab_size, 50265);
  EXPECT_EQ(roberta.pad_token_id, 1);
  EXPECT_EQ(roberta.max_tokens(), 510);
  const EncoderConfig longformer = parsed(R"({"model_type": "longformer"})");
  EXPECT_EQ(longformer.vocab_size, 30522);
  EXPECT_EQ(longformer.pad_token_id, 1);
  EXPECT_EQ(longformer.max_tokens(), 510);
  EXPECT_EQ(longformer.windows(), std::vector<Index>(12, 512));
  for (const EncoderConfig& config : {bert, roberta, longformer}) {
    EXPECT_EQ(config.hidden_size, 768);
    EXPECT_EQ(config.layers, 12);
    EXPECT_EQ(config.heads, 12);
    EXPECT_EQ(config.head_size(), 64);
    EXPECT_EQ(config.intermediate_size, 3072);
    EXPECT_EQ(config.activation, Activation::gelu);
    EXPECT_EQ(config.max_position_embeddings, 512);
    EXPECT_EQ(config.type_vocab_size, 2);
    EXPECT_EQ(config.layer_norm_eps, 1e-12);
    EXPECT_EQ(config.recipe.initial.deviation, 0.02);
    EXPECT_TRUE(config.tie_word_embeddings);
    EXPECT_EQ(config.architecture, "");
  }
}

TEST(EncoderConfig, TakesTheClassDefaultsOfTheOtherFamilies) {
  for (const char* kind : {"xlm-roberta", "camembert"}) {
    const EncoderConfig config = parsed(fmt::format(R"({{"model_type": "{}"}})", kind));
    EXPECT_EQ(config.vocab_size, 30522);
    EXPECT_EQ(config.pad_token_id, 1);
    EXPECT_EQ(config.max_tokens(), 510);
    EXPECT_EQ(config.hidden_size, 768);
    EXPECT_EQ(config.layers, 12);
    EXPECT_EQ(config.type_vocab_size, 2);
    EXPECT_EQ(config.layer_norm_eps, 1e-12);
  }
  const EncoderConfig distilbert = parsed(R"({"model_type": "distilbert"})");
  EXPECT_EQ(distilbert.vocab_size, 30522);
  EXPECT_EQ(distilbert.pad_token_id, 0);
  EXPECT_EQ(distilbert.max_tokens(), 512);
  EXPECT_EQ(distilbert.hidden_size, 768);
  EXPECT_EQ(distilbert.layers, 6);
  EXPECT_EQ(distilbert.heads, 12);
  EXPECT_EQ(distilbert.intermediate_size, 3072);
  EXPECT_EQ(distilbert.layer_norm_eps, 1e-12);
  const EncoderConfig electra = parsed(R"({"model_type": "electra"})");
  EXPECT_EQ(electra.vocab_size, 30522);
  EXPECT_EQ(electra.pad_token_id, 0);
  EXPECT_EQ(electra.max_tokens(), 512);
  EXPECT_EQ(electra.embedding_size, 128);
  EXPECT_EQ(electra.hidden_size, 256);
  EXPECT_EQ(electra.layers, 12);
  EXPECT_EQ(electra.heads, 4);
  EXPECT_EQ(electra.intermediate_size, 1024);
  EXPECT_EQ(electra.type_vocab_size, 2);
}

TEST(EncoderConfig, ReadsTheKeysOfDistilBert) {
  const EncoderConfig config = parsed(
      R"({"model_type": "distilbert", "dim": 80, "n_layers": 3, "n_heads": 5, "hidden_dim": 96,
          "activation": "mish", "dropout": 0.25, "attention_dropout": 0.5,
          "layer_norm_eps": 0.5})");
  EXPECT_EQ(config.hidden_size, 80);
  EXPECT_EQ(config.layers, 3);
  EXPECT_EQ(config.heads, 5);
  EXPECT_EQ(config.intermediate_size, 96);
  EXPECT_EQ(config.activation, Activation::mish);
  EXPECT_EQ(config.hidden_dropout, 0.25);
  EXPECT_EQ(config.attention_dropout, 0.5);
  // transformers asks for no other epsilon.
  EXPECT_EQ(config.layer_norm_eps, 1e-12);
  // The name of the other families counts where both stand there, as in transformers.
  EXPECT_EQ(parsed(R"({"model_type": "distilbert", "dim": 80, "hidden_size": 96})").hidden_size,
            96);
  expect_error(error_of([] { parsed(R"({"model_type": "distilbert", "activation": "sine"})"); }),
               {"config.json: activation", "quick_gelu or mish", "\"sine\""});
  expect_error(error_of([] { parsed(R"({"model_type": "distilbert", "dim": 100})"); }),
               {"config.json: dim: expected a multiple of n_heads = 12", "found 100"});
}

/// Rates of the classes of `transformers`.
TEST(EncoderConfig, RatesOfDropoutInHeads) {
  struct Rates {
    const char* text;
    HeadDropout expected;
  };
  const std::vector<Rates> cases = {
      {R"({"model_type": "longformer", "classifier_dropout": 0.4})", {0.1, 0.1, 0.1, 0}},
      {R"({"model_type": "bert", "hidden_dropout_prob": 0.3})", {0.3, 0.3, 0.3, 0}},
      {R"({"model_type": "bert", "classifier_dropout": 0.4})", {0.4, 0.4, 0.4, 0}},
      {R"({"model_type": "roberta", "classifier_dropout": 0.4})", {0.4, 0.1, 0.4, 0}},
      {R"({"model_type": "xlm-roberta", "classifier_dropout": 0.4})", {0.4, 0.1, 0.4, 0}},
      {R"({"model_type": "camembert", "classifier_dropout": 0.4})", {0.4, 0.1, 0.4, 0}},
      {R"({"model_type": "distilbert", "dropout": 0.3})", {0.2, 0.2, 0.3, 0.1}},
      {R"({"model_type": "distilbert", "seq_classif_dropout": 0.4, "qa_dropout": 0.5})",
       {0.4, 0.4, 0.1, 0.5}},
      {R"({"model_type": "electra", "hidden_dropout_prob": 0.3})", {0.3, 0.1, 0.3, 0}},
      {R"({"model_type": "electra", "classifier_dropout": 0.4, "summary_last_dropout": 0.5})",
       {0.4, 0.5, 0.4, 0}},
  };
  for (const auto& [text, expected] : cases) {
    SCOPED_TRACE(text);
    const HeadDropout found = parsed(text).head_dropout;
    EXPECT_EQ(found.documents, expected.documents);
    EXPECT_EQ(found.choices, expected.choices);
    EXPECT_EQ(found.tokens, expected.tokens);
    EXPECT_EQ(found.spans, expected.spans);
  }
}

TEST(EncoderConfig, KeysOfNomicBertOfBeforeMeanTheSame) {
  for (const std::string folder : {"tiny_nomic_bert", "tiny_nomic_bert_dynamic"}) {
    const std::string path = (fixtures_folder() / folder).string();
    const EncoderConfig now = read_config(path + "/config.json");
    const EncoderConfig before = read_config(path + "/config_hub.json");
    EXPECT_EQ(before.unused_keys, "") << folder;
    EXPECT_EQ(before.hidden_size, now.hidden_size);
    EXPECT_EQ(before.layers, now.layers);
    EXPECT_EQ(before.heads, now.heads);
    EXPECT_EQ(before.intermediate_size, now.intermediate_size);
    EXPECT_EQ(before.activation, now.activation);
    EXPECT_EQ(before.layer_norm_eps, now.layer_norm_eps);
    EXPECT_EQ(before.recipe.rotations, now.recipe.rotations) << folder;
  }
  const std::string old = R"({"model_type": "nomic_bert", "n_embd": 24, "n_head": 2, )";
  expect_error(error_of([&] { parsed(old + R"("prenorm": true})"); }), {"prenorm: expected false"});
  expect_error(error_of([&] { parsed(old + R"("rotary_emb_fraction": 0.5})"); }),
               {"rotary_emb_fraction"});
}

TEST(EncoderConfig, WindowsAndAnglesOfModernBert) {
  const std::string begin = R"({"model_type": "modernbert", "num_hidden_layers": 4)";
  const EncoderConfig usual = parsed(begin + "}");
  EXPECT_EQ(usual.windows(), (std::vector<Index>{0, 128, 128, 0}));
  EXPECT_EQ(usual.recipe.rotations[0].theta, 160000);
  EXPECT_EQ(usual.recipe.rotations[1].theta, 10000);
  // Without a θ of its own the window takes that of the whole text, as before rope_parameters.
  const EncoderConfig old =
      parsed(begin + R"(, "global_rope_theta": 80000, "local_rope_theta": null})");
  EXPECT_EQ(old.recipe.rotations[1].theta, 80000);
  EXPECT_EQ(parsed(begin + R"(, "local_rope_theta": null})").recipe.rotations[1].theta, 160000);
  const EncoderConfig whole = parsed(begin + R"(, "rope_parameters":
      {"full_attention": {"rope_type": "yarn", "factor": 4, "truncate": false}}})");
  EXPECT_TRUE(whole.recipe.rotations[0].truncates);
  const EncoderConfig both =
      parsed(begin + R"(, "global_rope_theta": 5, "local_attention": 9, "rope_parameters":
      {"full_attention": {"rope_type": "yarn", "rope_theta": 7, "factor": 4}}})");
  EXPECT_EQ(both.windows()[1], 8);
  EXPECT_EQ(both.recipe.rotations[0].theta, 7);
  EXPECT_EQ(both.recipe.rotations[0].scaling, RotaryScaling::yarn);
  const auto refused = [&](const std::string& keys, const char* part) {
    expect_error(error_of([&] { parsed(begin + ", " + keys + "}"); }), {"config.json", part});
  };
  refused(R"("layer_types": ["full_attention"])", "layer_types: expected 4 names");
  refused(R"("layer_types": ["full_attention", "a", "a", "a"])", "layer_types: expected full");
  refused(R"("local_attention": -2)", "local_attention");
  refused(R"("hidden_size": 36, "num_attention_heads": 12)", "num_attention_heads");
  refused(R"("rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 1}})",
          "rope_theta");
  refused(R"("classifier_pooling": "max")", "classifier_pooling");
  refused(R"("rope_parameters": {"rope_theta": 5})", "rope_parameters");
  refused(R"("rope_parameters": {"full_attention": {"rope_type": "longrope"}})", "rope_type");
  refused(R"("rope_parameters": {"full_attention": {"rope_theta": 0}})", "rope_theta");
}

TEST(EncoderConfig, GroupedKeysAndWidthsOfHeads) {
  const EncoderConfig euro = parsed(R"({"model_type": "eurobert", "num_key_value_heads": 3})");
  EXPECT_EQ(euro.key_heads(), 3);
  EXPECT_EQ(euro.query_width(), 768);
  EXPECT_EQ(euro.key_width(), 192);
  EXPECT_FALSE(euro.tie_word_embeddings);
  EXPECT_EQ(euro.head.pooling, DocumentPooling::late);
  EXPECT_EQ(parsed(R"({"model_type": "eurobert"})").key_heads(), 12);
  EXPECT_EQ(parsed(R"({"model_type": "eurobert", "clf_pooling": "bos"})").head.pooling,
            DocumentPooling::first);
  const EncoderConfig neo = parsed(R"({"model_type": "neobert"})");
  EXPECT_EQ(neo.intermediate_size, 2048);
  EXPECT_EQ(neo.max_tokens(), 4096);
  const EncoderConfig qwen = parsed(R"({"model_type": "qwen3", "num_key_value_heads": null})");
  EXPECT_EQ(qwen.key_heads(), 32);
  EXPECT_EQ(qwen.head_size(), 128);
  EXPECT_TRUE(qwen.windows().empty() && qwen.recipe.is_causal && !qwen.has_global_attention());
  const std::string gemma = R"({"model_type": "gemma3_text", "num_hidden_layers": 6, )";
  const EncoderConfig both = parsed(gemma + R"("use_bidirectional_attention": true})");
  EXPECT_EQ(both.windows(), (std::vector<Index>{4096, 4096, 4096, 4096, 4096, 0}));
  EXPECT_EQ(both.recipe.rotations[1].theta, 10000);
  EXPECT_TRUE(both.has_global_attention());
  EXPECT_EQ(parsed(gemma + R"("sliding_window": 8})").windows()[0], 7);
  const auto refused = [&](const std::string& text, const char* part) {
    expect_error(error_of([&] { parsed(text); }), {"config.json", part});
  };
  refused(R"({"model_type": "eurobert", "num_key_value_heads": 5})", "num_key_value_heads");
  refused(R"({"model_type": "eurobert", "classifier_pooling": "cls"})", "classifier_pooling");
  refused(R"({"model_type": "eurobert", "head_dim": 1048576})", "head_dim");
  refused(R"({"model_type": "neobert", "dim_head": 32})", "dim_head: expected 64");
  refused(gemma + R"("attn_logit_softcapping": 50})", "attn_logit_softcapping");
  refused(gemma + R"("layer_types": ["full_attention"]})", "layer_types: expected 6");
}

TEST(EncoderConfig, KeysInsideRopeParametersAreReadToldOrRefused) {
  const auto with = [](const std::string& model, const std::string& keys) {
    return parsed(
        fmt::format(R"({{"model_type": "{}", "num_hidden_layers": 2, {}}})", model, keys));
  };
  const std::string told =
      with("gte", R"("rope_parameters": {"rope_theta": 5, "thing": 1}, "other": 2)").unused_keys;
  expect_error(told, {"rope_parameters: ignored", "\"thing\": 1", "\"other\": 2"});
  EXPECT_NE(with("modernbert", R"("rope_scaling": {"rope_type": "linear", "factor": 2, "b": 1})")
                .unused_keys.find("\"b\": 1"),
            std::string::npos);
  for (const char* model : {"gte", "nomic_bert", "eurobert", "qwen3", "modernbert"}) {
    expect_error(error_of([&] { with(model, R"("partial_rotary_factor": 0.5)"); }),
                 {"partial_rotary_factor: expected 1"});
  }
  expect_error(
      error_of([&] { with("eurobert", R"("rope_parameters": {"partial_rotary_factor": 0.5})"); }),
      {"rope_parameters: partial_rotary_factor: expected 1"});
}

TEST(EncoderConfig, BiasesByDistance) {
  const EncoderConfig mpnet = parsed(R"({"model_type": "mpnet"})");
  EXPECT_EQ(mpnet.vocab_size, 30527);
  EXPECT_EQ(mpnet.max_tokens(), 510);
  EXPECT_EQ(mpnet.recipe.distance_bias, DistanceBias::buckets);
  EXPECT_EQ(mpnet.recipe.bucket_rows, 32);
  EXPECT_FALSE(mpnet.recipe.has_type_table);
  const auto refused = [](const std::string& text, const char* part) {
    expect_error(error_of([&] { parsed(text); }), {"config.json", part});
  };
  refused(R"({"model_type": "mpnet", "relative_attention_num_buckets": 16})",
          "relative_attention_num_buckets");
  refused(R"({"model_type": "mpnet", "pad_token_id": 0})", "pad_token_id: expected 1 in an mpnet");

  const std::string begin = R"({"model_type": "bert", "position_embedding_type": "alibi")";
  const EncoderConfig gated = parsed(begin + R"(, "feed_forward_type": "geglu",
      "emb_pooler": "mean", "max_position_embeddings": 8192, "hidden_act": "relu"})");
  EXPECT_EQ(gated.recipe.distance_bias, DistanceBias::slopes);
  EXPECT_TRUE(gated.recipe.is_gated && !gated.recipe.up_bias && gated.recipe.down_bias);
  EXPECT_FALSE(gated.recipe.has_position_table);
  EXPECT_EQ(gated.activation, Activation::gelu);
  EXPECT_EQ(gated.head.activation, Activation::relu);
  EXPECT_EQ(gated.max_tokens(), 8192);
  EXPECT_EQ(gated.unused_keys, "");
  EXPECT_EQ(gated.family->names.file_name("encoder.layer.0.attention.output.dense.weight"),
            "encoder.layer.0.attention.output.dense.weight");
  EXPECT_EQ(gated.family->names.file_name("encoder.layer.0.output.LayerNorm.bias"),
            "encoder.layer.0.mlp.layernorm.bias");
  const EncoderConfig plain = parsed(begin + R"(, "hidden_act": "relu"})");
  EXPECT_FALSE(plain.recipe.is_gated);
  EXPECT_EQ(plain.activation, Activation::relu);
  EXPECT_TRUE(plain.family->names.renames.empty());
  refused(begin + R"(, "feed_forward_type": "reglu"})", "feed_forward_type: expected geglu");
  refused(begin + R"(, "emb_pooler": "max"})", "emb_pooler: expected mean");
  refused(begin + R"(, "auto_map": {"AutoModel": "jinaai/jina-bert-v2-qk-post-norm--a.B"}})",
          "qk-post-norm");
}

TEST(EncoderConfig, KeysOfDistances) {
  const std::string begin = R"({"model_type": "deberta-v2", "relative_attention": true)";
  const EncoderConfig third = parsed(begin + R"(, "position_buckets": 256, "pos_att_type":
      ["p2c", "c2p"], "share_att_key": true, "norm_rel_ebd": "layer_norm", "type_vocab_size": 0,
      "position_biased_input": false, "max_relative_positions": -1})");
  const DistanceKeyRecipe& keys = *third.recipe.distance_keys;
  EXPECT_TRUE(keys.has_keys && keys.has_queries && keys.has_table && keys.has_norm);
  EXPECT_TRUE(keys.shares_projections);
  EXPECT_EQ(keys.buckets.count, 256);
  EXPECT_EQ(keys.buckets.most, 512);
  EXPECT_FALSE(third.recipe.has_position_table || third.recipe.has_type_table);
  EXPECT_EQ(third.unused_keys, "");
  const EncoderConfig second = parsed(begin + R"(, "pos_att_type": "c2p|p2c"})");
  EXPECT_TRUE(second.recipe.distance_keys->has_queries);
  EXPECT_EQ(second.recipe.distance_keys->buckets.span(), 512);
  EXPECT_EQ(second.traits().masked_lm->dense, "cls.predictions.transform.dense");
  const EncoderConfig now = parsed(begin + R"(, "legacy": false})");
  EXPECT_EQ(now.traits().masked_lm->dense, "lm_predictions.lm_head.dense");
  EXPECT_FALSE(now.recipe.convolution);
  const EncoderConfig xlarge = parsed(begin + R"(, "conv_kernel_size": 3, "conv_act": "gelu"})");
  EXPECT_EQ(xlarge.recipe.convolution->taps, 3);
  EXPECT_EQ(xlarge.recipe.convolution->groups, 1);
  EXPECT_EQ(xlarge.recipe.convolution->activation, Activation::gelu);
  const EncoderConfig usual = parsed(begin + R"(, "conv_kernel_size": 1})");
  EXPECT_EQ(usual.recipe.convolution->activation, Activation::tanh);
  const auto refused = [&](const std::string& keys, const char* part) {
    expect_error(error_of([&] { parsed(begin + ", " + keys + "}"); }), {"config.json", part});
  };
  refused(R"("conv_kernel_size": 4)", "conv_kernel_size: expected an odd number");
  refused(R"("conv_kernel_size": 3, "conv_groups": 5)", "conv_groups: expected a divisor");
  refused(R"("embedding_size": 128)", "embedding_size: expected 1536");
  refused(R"("pooler_dropout": 0.1)", "pooler_dropout");
  refused(R"("position_buckets": 2000)", "max_relative_positions: expected more than half");
}

TEST(EncoderConfig, ModelsWhoseNormsComeFirst) {
  const EncoderConfig blocks = parsed(R"({"model_type": "bigbird_pegasus"})");
  EXPECT_EQ(blocks.vocab_size, 96103);
  EXPECT_EQ(blocks.layers, 16);
  EXPECT_EQ(blocks.decoder->layers, 16);
  EXPECT_EQ(blocks.max_tokens(), 4096);
  EXPECT_EQ(blocks.decoder->max_tokens(), 4096);
  EXPECT_EQ(blocks.embedding_scale, 32);
  EXPECT_EQ(blocks.activation, Activation::gelu_tanh);
  EXPECT_EQ(blocks.decoder->start_token_id, 2);
  EXPECT_FALSE(blocks.recipe.attention_bias || blocks.decoder->attention_bias);
  ASSERT_TRUE(blocks.recipe.blocks);
  EXPECT_EQ(blocks.recipe.blocks->size, 64);
  EXPECT_FALSE(parsed(R"({"model_type": "bigbird_pegasus", "attention_type": "original_full"})")
                   .recipe.blocks);
  const EncoderConfig pegasus = parsed(
      R"({"model_type": "pegasus", "normalize_before": true, "add_final_layer_norm": true,
          "static_position_embeddings": true, "extra_pos_embeddings": 1})");
  EXPECT_EQ(pegasus.vocab_size, 50265);
  EXPECT_EQ(pegasus.decoder->start_token_id, 0);
  EXPECT_EQ(pegasus.embedding_scale, 1);
  EXPECT_EQ(pegasus.recipe.position_rows, PositionRows::sinusoids);
  EXPECT_EQ(pegasus.unused_keys, "");
  const EncoderConfig longer = parsed(R"({"model_type": "pegasus_x", "encoder_layers": 3})");
  ASSERT_TRUE(longer.recipe.global_local);
  EXPECT_EQ(longer.recipe.global_local->block, 512);
  EXPECT_EQ(longer.recipe.global_local->globals, 32);
  EXPECT_TRUE(longer.recipe.global_local->is_staggered(1));
  EXPECT_FALSE(longer.recipe.global_local->is_staggered(2));
  EXPECT_EQ(longer.max_tokens(), 16384);
  EXPECT_EQ(longer.embedding_scale, 32);
  const EncoderConfig languages = parsed(R"({"model_type": "mbart", "normalize_before": true})");
  EXPECT_EQ(languages.max_tokens(), 1024);
  EXPECT_TRUE(languages.recipe.norms_embeddings && languages.decoder->norms_embeddings);
  EXPECT_EQ(languages.pad_token_id, 1);
  for (const EncoderConfig* config : {&blocks, &pegasus, &longer, &languages}) {
    EXPECT_TRUE(config->recipe.norm_first && config->recipe.has_final_norm);
    EXPECT_TRUE(config->decoder->norm_first);
    EXPECT_EQ(config->layer_norm_eps, 1e-5);
  }
}

TEST(EncoderConfig, BlocksAndSinesThatDoNotFitAreRefused) {
  const auto error = [](const std::string& rest) {
    return error_of([&] { parsed(R"({"model_type": )" + rest + "}"); });
  };
  expect_error(error(R"("pegasus_x", "block_size": 7)"), {"block_size", "even", "found 7"});
  expect_error(error(R"("pegasus_x", "num_global_tokens": 0)"), {"num_global_tokens", "found 0"});
  expect_error(error(R"("pegasus_x", "d_model": 2, "encoder_attention_heads": 1)"),
               {"d_model", "at least 4", "found 2"});
  expect_error(error(R"("pegasus", "d_model": 15, "encoder_attention_heads": 1)"),
               {"d_model", "even", "found 15"});
  expect_error(error(R"("bigbird_pegasus", "attention_type": "full")"), {"attention_type"});
  expect_error(error(R"("bart", "normalize_before": true)"), {"normalize_before", "bart"});
}

TEST(EncoderConfig, TextsOfAnMBartBeginWithTheirLanguage) {
  const DecoderConfig decoder = *parsed(R"({"model_type": "mbart"})").decoder;
  EXPECT_EQ(decoder.first_token(std::vector<std::int32_t>{7, 8, 2, 30, 1, 1}, 1), 30);
  // `transformers` counts tokens, wherever padding is.
  EXPECT_EQ(decoder.first_token(std::vector<std::int32_t>{7, 1, 2, 30}, 1), 2);
  const DecoderConfig bart = *parsed(R"({"model_type": "bart"})").decoder;
  EXPECT_EQ(bart.first_token(std::vector<std::int32_t>{7, 8, 2, 30}, 1), 2);
}

TEST(EncoderConfig, SaysWhatToDoWithModelsThatAreNotRun) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"nystromformer", "longformer-base-4096"},
      {"transfo-xl", "--to longformer-lm"},
      {"deberta", "RoBERTa or ELECTRA"},
      {"albert", "DistilBERT"},
      {"t5", "those of LED, BART, Pegasus and mBART are"},
      {"gpt2", "take an encoder"},
      {"xlnet", "longformer-base-4096"},
      {"ernie", "BERT, RoBERTa"}};
  for (const auto& [kind, advice] : cases) {
    const std::string json = fmt::format(R"({{"model_type": "{}"}})", kind);
    const std::string said = error_of([&] { parsed(json); });
    expect_error(said,
                 {"config.json: model_type: expected longformer, bert",
                  "linformer, performer, blockwise or sparse, found \"" + kind + "\": ", advice});
    EXPECT_EQ(said.find('\n'), std::string::npos);
  }
  const std::string unknown = error_of([] { parsed(R"({"model_type": "mamba"})"); });
  EXPECT_TRUE(unknown.ends_with("found \"mamba\"")) << unknown;
}

TEST(EncoderConfig, ReadsWhatIsWritten) {
  const EncoderConfig config = parsed(
      R"({"model_type": "longformer", "architectures": ["LongformerForMaskedLM"],
          "attention_window": [2, 64, 8], "num_hidden_layers": 3, "num_attention_heads": 5,
          "hidden_size": 80, "hidden_act": "gelu_pytorch_tanh", "max_position_embeddings": 4098,
          "pad_token_id": null, "type_vocab_size": 1, "layer_norm_eps": 1e-05,
          "tie_word_embeddings": false})");
  EXPECT_EQ(config.windows(), (std::vector<Index>{2, 64, 8}));
  EXPECT_EQ(config.head_size(), 16);
  EXPECT_EQ(config.activation, Activation::gelu_tanh);
  EXPECT_EQ(config.max_tokens(), 4096);
  EXPECT_EQ(config.layer_norm_eps, 1e-5);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_EQ(config.architecture, "LongformerForMaskedLM");
}

/// The table of the file would be left out, without a word.
TEST(EncoderConfig, TablesOfTokenTypesHaveRows) {
  for (const char* type : {"bert", "roberta", "electra", "longformer", "big_bird", "linformer",
                           "performer", "blockwise", "sparse"}) {
    SCOPED_TRACE(type);
    const std::string config = fmt::format(
        R"({{"model_type": "{}", "type_vocab_size": 0, "projected_length": 8, "pattern": "fixed", "stride": 8,
             "summary": 2, "blocks": 2, "base_model_type": "bert"}})",
        type);
    expect_error(error_of([&] { parsed(config); }), {"type_vocab_size", "found 0"});
  }
  for (const char* type : {"nomic_bert", "deberta-v2"}) {
    EXPECT_FALSE(parsed(fmt::format(R"({{"model_type": "{}", "type_vocab_size": 0}})", type))
                     .recipe.has_type_table)
        << type;
  }
}

TEST(EncoderConfig, ReportsEachBadValue) {
  const auto error = [](const std::string& rest) {
    return error_of(
        [&] { parsed(R"({"model_type": "longformer", "num_hidden_layers": 2, )" + rest + "}"); });
  };
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {R"("attention_window": 7)", {"attention_window: expected even", "found 7"}},
      {R"("attention_window": 0)", {"attention_window", "found 0"}},
      {R"("attention_window": -4)", {"attention_window", "found -4"}},
      {R"("attention_window": 18446744073709551614)", {"attention_window"}},
      {R"("attention_window": "512")", {"attention_window", "found \"512\""}},
      {R"("attention_window": [8])", {"one number, or 2 for the 2 layers", "found [8]"}},
      {R"("attention_window": [8, 9])", {"attention_window", "found 9"}},
      {R"("attention_window": [8, [8]])", {"attention_window", "found [8]"}},
      {R"("hidden_size": 100)", {"hidden_size: expected a multiple", "= 12", "found 100"}},
      {R"("num_attention_heads": 0)", {"num_attention_heads", "found 0"}},
      {R"("hidden_size": 1e3)", {"hidden_size: expected an integer", "found 1000.0"}},
      {R"("intermediate_size": 99999999999)", {"intermediate_size", "99999999999"}},
      {R"("hidden_act": "laplace")", {"hidden_act", "found \"laplace\""}},
      {R"("hidden_act": 3)", {"hidden_act: expected a string"}},
      {R"("layer_norm_eps": -1e-5)", {"layer_norm_eps", "found -1e-05"}},
      {R"("layer_norm_eps": 1e30)", {"layer_norm_eps", "found 1e+30"}},
      {R"("pad_token_id": 30522)", {"pad_token_id", "from 0 to 30521", "found 30522"}},
      {R"("max_position_embeddings": 2)", {"max_position_embeddings: expected more than 2"}},
      {R"("type_vocab_size": 0)", {"type_vocab_size", "found 0"}},
      {R"("position_embedding_type": "relative_key")", {"\"absolute\"", "\"relative_key\""}},
      {R"("is_decoder": true)", {"is_decoder", "decoders are not supported"}},
      {R"("add_cross_attention": true)", {"add_cross_attention"}},
      {R"("tie_word_embeddings": 1)", {"tie_word_embeddings: expected true or false"}},
      {R"("architectures": "Bert")", {"architectures: expected a list"}},
  };
  for (const auto& [rest, message] : cases) {
    SCOPED_TRACE(rest);
    expect_error(error(rest), message);
  }
}

}  // namespace
}  // namespace longformer::models::encoder_config_test
