#include "models/convert/convert.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "formats/torch_file.h"
#include "longformer/text.h"
#include "models/config.h"
#include "models/config_limits.h"
#include "models/convert/files.h"
#include "models/convert/int8.h"
#include "models/convert/led.h"
#include "models/convert/lengthened.h"
#include "models/convert/original_config.h"
#include "models/convert/reattended.h"
#include "models/convert/reformer.h"
#include "models/convert/targets.h"
#include "models/convert/tensors.h"
#include "models/convert/transformer_xl.h"
#include "models/language_model_config.h"
#include "models/registry.h"
#include "models/trained_folder.h"
#include "models/weights.h"
#include "text/byte_tokens.h"
#include "text/tokenizer_spec.h"

namespace longformer::models {
namespace {

namespace fs = std::filesystem;
using formats::quote;
using Json = nlohmann::ordered_json;

constexpr Index kMaxTarget = Index{1} << 24;
constexpr std::string_view kInt8 = "int8";

/// Source and target of a conversion.
struct Conversion {
  fs::path source;
  fs::path target;
  ConvertOptions options;
  /// Configuration of the source, as `transformers` would write it.
  Json source_json;
  EncoderConfig config;
  /// It was of the first implementation of Longformer.
  bool is_original = false;
  WeightPlan plan;

  bool writes_texts() const { return config.decoder.has_value(); }
  bool keeps_attention() const { return conversion_target(options.target).set == nullptr; }
  std::vector<Index> windows() const {
    const auto layers = static_cast<std::size_t>(config.layers);
    const Index usual = writes_texts() ? 1024 : 512;
    if (options.windows.size() == 1) return std::vector<Index>(layers, options.windows[0]);
    if (!options.windows.empty()) return options.windows;
    const std::vector<Index> own = config.windows();
    return own.empty() ? std::vector<Index>(layers, usual) : own;
  }
  /// attention_dilation of the result, for each layer one number or one for each head; null where
  /// it stays that of the source.
  Json dilations() const {
    if (options.dilations.empty()) return nullptr;
    Json all = Json::array();
    for (Index layer = 0; layer < config.layers; ++layer) {
      const Index dilation = options.dilations.size() == 1
                                 ? options.dilations[0]
                                 : options.dilations[static_cast<std::size_t>(layer)];
      const Index dilated = options.dilated_heads.value_or(config.heads);
      std::vector<Index> heads(static_cast<std::size_t>(config.heads - dilated), 1);
      heads.resize(static_cast<std::size_t>(config.heads), dilation);
      all.push_back(dilated == config.heads ? Json(dilation) : Json(heads));
    }
    return all;
  }
  bool is_dilated() const {
    if (!options.dilations.empty()) return std::ranges::max(options.dilations) > 1;
    return std::any_of(config.patterns.begin(), config.patterns.end(), [](const auto& heads) {
      return std::any_of(heads.begin(), heads.end(),
                         [](const HeadPattern& head) { return head.dilation > 1; });
    });
  }
};

bool makes_language_model(const ConvertOptions& options) {
  return options.target == kLanguageModelType;
}

/// The ids that LongformerConfig knows: BERT's config.json has none, so they come from its
/// tokenizer.
void set_special_ids(const Conversion& conversion, Json& json) {
  const EncoderTraits& traits = conversion.config.traits();
  if (traits.has_global_attention && !conversion.is_original) return;
  if (traits.positions_follow_padding) {
    const formats::ConfigReader reader(json, "config.json");
    json["bos_token_id"] = reader.integer("bos_token_id", 0, 0, kMaxTarget);
    json["eos_token_id"] = reader.integer("eos_token_id", 2, 0, kMaxTarget);
    json["sep_token_id"] = reader.integer("sep_token_id", json["eos_token_id"], 0, kMaxTarget);
    return;
  }
  if (!text::has_tokenizer(conversion.source)) return;
  const SpecialTokens tokens = Tokenizer::load(conversion.source.string()).special_tokens();
  if (tokens.cls) json["bos_token_id"] = *tokens.cls;
  if (tokens.sep) json["sep_token_id"] = *tokens.sep;
  if (tokens.sep) json["eos_token_id"] = *tokens.sep;
}

void set_dtype(const Conversion& conversion, Json& json) {
  if (const auto& dtype = conversion.plan.dtype) {
    const std::string_view name = *dtype == DType::f32   ? "float32"
                                  : *dtype == DType::f16 ? "float16"
                                                         : "bfloat16";
    // The key has another name in older versions.
    json[json.contains("torch_dtype") ? "torch_dtype" : "dtype"] = name;
  }
}

Json longformer_config(const Conversion& conversion) {
  const EncoderConfig& config = conversion.config;
  Json json = conversion.source_json;
  for (const auto& [key, own] : config.traits().keys) {
    const auto found = json.find(std::string(own));
    if (found != json.end()) json[std::string(key)] = Json(*found);
    json.erase(std::string(own));
  }
  // Keys of the source class, and of the file's own history.
  for (const char* key : {"_name_or_path",
                          "transformers_version",
                          "position_embedding_type",
                          "use_cache",
                          "is_decoder",
                          "add_cross_attention",
                          "classifier_dropout",
                          "gradient_checkpointing",
                          "auto_map",
                          "sinusoidal_pos_embds",
                          "seq_classif_dropout",
                          "qa_dropout",
                          "embedding_size",
                          "summary_type",
                          "summary_use_proj",
                          "summary_activation",
                          "summary_last_dropout",
                          "attention_type",
                          "block_size",
                          "num_random_blocks",
                          "use_bias",
                          "rescale_embeddings",
                          "base_model_type"}) {
    json.erase(key);
  }
  for (const std::string& key : own_keys(config)) json.erase(key);
  json["model_type"] = "longformer";
  json["attention_window"] = conversion.windows();
  if (!conversion.options.dilations.empty()) json["attention_dilation"] = conversion.dilations();
  if (!conversion.is_dilated()) json.erase("attention_dilation");
  json["max_position_embeddings"] = conversion.plan.max_positions + config.pad_token_id + 1;
  // The class defaults of Longformer differ from those of the source, so every size is written.
  json["vocab_size"] = config.vocab_size;
  json["hidden_size"] = config.hidden_size;
  json["num_hidden_layers"] = config.layers;
  json["num_attention_heads"] = config.heads;
  json["intermediate_size"] = config.intermediate_size;
  json["hidden_act"] = name_of(config.activation);
  json["type_vocab_size"] = config.type_vocab_size;
  json["layer_norm_eps"] = config.layer_norm_eps;
  json["pad_token_id"] = config.pad_token_id;
  json["tie_word_embeddings"] = config.tie_word_embeddings;
  set_special_ids(conversion, json);
  return json;
}

Json target_config(const Conversion& conversion, const std::string& architecture) {
  if (!conversion.keeps_attention()) {
    Json json =
        reattended_config(conversion.source.string(), conversion.source_json, conversion.config,
                          conversion.options, conversion.plan.max_positions);
    if (conversion.options.target == "big_bird") set_special_ids(conversion, json);
    set_dtype(conversion, json);
    return json;
  }
  Json json = conversion.writes_texts()
                  ? led_config(conversion.source_json, conversion.config, conversion.windows(),
                               conversion.plan.max_positions)
                  : longformer_config(conversion);
  if (const auto& rows = conversion.options.cross_attention_rows) json[kSourceRowsKey] = *rows;
  json["architectures"] = {architecture};
  set_dtype(conversion, json);
  return json;
}

void check_options(const ConvertOptions& options) {
  // A token between the two special ones of a text.
  constexpr Index kLeastPositions = 3;
  const auto positions = options.max_positions.value_or(kLeastPositions);
  require(positions >= kLeastPositions && positions <= kMaxTarget,
          OptionName("max_positions", "max positions"), "expected a number from {} to {}, found {}",
          kLeastPositions, kMaxTarget, positions);
  for (const Index window : options.windows) {
    require(window >= 2 && window % 2 == 0 && window <= 2 * kMaxTarget, OptionName("window"),
            "expected even numbers from 2 to {} (half on each side), found {}", 2 * kMaxTarget,
            window);
  }
  for (const Index dilation : options.dilations) {
    require(dilation >= 1 && dilation <= kMaxDilation, OptionName("dilation"),
            "expected numbers from 1 to {}, found {}", kMaxDilation, dilation);
  }
  require(!options.dilated_heads || !options.dilations.empty(),
          OptionName("dilated_heads", "dilated heads"),
          "expected a dilation beside it, found none");
  require(options.format == "safetensors" || options.format == "bin", OptionName("format"),
          "expected safetensors or bin, found {}", quote(options.format));
  const bool int8 = options.dtype == kInt8;
  require(!int8 || options.format == "safetensors", OptionName("format"),
          "expected safetensors for int8, found {}", quote(options.format));
  require(int8 || options.int8_skip.empty(), OptionName("int8_skip"),
          "expected dtype int8 beside it, found {}",
          options.dtype.empty() ? "none" : options.dtype);
}

/// Dtype of a weight in the target; absent if it keeps its dtype.
std::optional<DType> dtype_of(const std::string& name) {
  // Matrices of layers are turned at the end.
  if (name.empty() || name == kInt8) return std::nullopt;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    if (name == name_of(dtype)) return dtype;
  }
  fail(OptionName("dtype"), "expected fp32, fp16, bf16 or int8, found {}", quote(name));
}

/// Without a trailing slash, so that a name can be formed beside it.
fs::path target_folder_of(const std::string& target) {
  fs::path folder = fs::path(target).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  return fs::is_symlink(folder) ? fs::canonical(folder) : folder;
}

void check_target(const Conversion& conversion) {
  const std::string target = conversion.target.string();
  require(!target.empty(), "target folder: expected a name, found none");
  if (!fs::exists(conversion.target)) return;
  require(fs::is_directory(conversion.target), "{}: expected a folder or a new name, found a file",
          target);
  require(!fs::equivalent(conversion.source, conversion.target),
          "{}: expected a target other than the source folder, found the same", target);
  require(conversion.options.overwrite || fs::is_empty(conversion.target),
          "{}: expected an empty folder or a new name, found files: ask to overwrite them", target);
}

void check_source_rows(const Conversion& conversion) {
  const auto& rows = conversion.options.cross_attention_rows;
  if (!rows) return;
  require(*rows >= 1 && *rows <= kMaxTarget, OptionName("cross_attention_rows"),
          "expected a number from 1 to {}, found {}", kMaxTarget, *rows);
  require(conversion.writes_texts() && conversion.keeps_attention(),
          OptionName("cross_attention_rows"),
          "expected a model that writes texts, which becomes an LED, found a {}",
          conversion.config.model_type());
}

void check_dilations(const Conversion& conversion) {
  const EncoderConfig& config = conversion.config;
  const std::size_t dilations = conversion.options.dilations.size();
  if (dilations == 0) return;
  require(!conversion.writes_texts(), OptionName("dilation"),
          "expected none for an LED, whose windows are not dilated, found {}",
          fmt::join(conversion.options.dilations, ","));
  require(dilations == 1 || dilations == static_cast<std::size_t>(config.layers),
          OptionName("dilation"), "expected one number, or {} for the {} layers, found {}",
          config.layers, config.layers, dilations);
  const Index heads = conversion.options.dilated_heads.value_or(config.heads);
  require(heads == config.heads || config.edges.empty(),
          OptionName("dilated_heads", "dilated heads"),
          "expected all {} heads of a model with edges, found {}", config.heads, heads);
  require(heads >= 1 && heads <= config.heads, OptionName("dilated_heads", "dilated heads"),
          "expected a number from 1 to the {} heads of a layer, found {}", config.heads, heads);
}

Conversion read_source(const std::string& source, const std::string& target,
                       const ConvertOptions& options) {
  require(fs::is_directory(source), "{}: expected a model folder, found {}", source,
          fs::exists(source) ? "a file" : "none");
  Conversion conversion;
  conversion.source = source;
  conversion.target = target_folder_of(target);
  conversion.options = options;
  const std::string path = config_file(conversion.source.string(), {});
  conversion.source_json = formats::read_json(path);
  conversion.is_original = is_original_config(conversion.source_json, path);
  if (conversion.is_original) update_original_config(conversion.source_json, path);
  if (is_original_led(conversion.source_json, path)) {
    update_original_led(conversion.source_json, path);
    conversion.is_original = true;
  }
  conversion.config = parse_config(formats::ConfigReader(conversion.source_json, path));
  conversion.source_json.erase(kQuantizationKey);
  const Index usual = conversion.writes_texts() ? 16384 : 4096;
  const bool keeps_length =
      conversion.config.has_global_projections() || conversion_target(options.target).keeps_length;
  const Index positions = keeps_length ? conversion.config.max_tokens() : usual;
  const std::size_t windows = options.windows.size();
  require(windows <= 1 || windows == static_cast<std::size_t>(conversion.config.layers),
          OptionName("window"), "expected one number, or {} for the {} layers, found {}",
          conversion.config.layers, conversion.config.layers, windows);
  check_dilations(conversion);
  check_source_rows(conversion);
  conversion.plan = {.max_positions = options.max_positions.value_or(positions),
                     .dtype = dtype_of(options.dtype)};
  return conversion;
}

ConvertedWeights target_weights(const Conversion& conversion, const Weights& source) {
  const EncoderConfig& config = conversion.config;
  if (!conversion.keeps_attention()) {
    const Json json = target_config(conversion, "");
    const EncoderConfig target =
        parse_config(formats::ConfigReader(json, conversion.target.string()));
    return reattended_weights(config, source, target, conversion.plan, conversion.options.seed);
  }
  return conversion.writes_texts() ? convert_led_weights(config, source, conversion.plan)
                                   : convert_weights(config, source, conversion.plan);
}

ConvertedFrom convert_language_model(const std::string& source, const std::string& target,
                                     const ConvertOptions& options) {
  require(fs::is_directory(source), "{}: expected a model folder, found {}", source,
          fs::exists(source) ? "a file" : "none");
  Conversion conversion;
  conversion.source = source;
  conversion.target = target_folder_of(target);
  conversion.options = options;
  require(options.dtype != kInt8, OptionName("dtype"),
          "expected fp32, fp16 or bf16 for a language model, found {}", quote(options.dtype));
  check_target(conversion);
  const StagingFolder staging(conversion.target);
  const std::string path = source + "/config.json";
  const Json json = formats::read_json(path);
  const bool is_reformer = formats::ConfigReader(json, path).string("model_type", "") == "reformer";
  const ConvertedFrom from = is_reformer ? convert_reformer(source, staging.path(), options)
                                         : convert_transformer_xl(source, staging.path(), options);
  staging.commit();
  return from;
}

void write_weights(const fs::path& folder, const std::string& format,
                   const std::vector<std::pair<std::string, Tensor>>& tensors) {
  if (format == "bin") {
    formats::write_torch_file((folder / "pytorch_model.bin").string(), tensors);
  } else {
    formats::write_safetensors((folder / "model.safetensors").string(), tensors);
  }
}

/// Turns matrices of layers into 8-bit whole numbers, and says so in config.json, if that is asked
/// for.
void finish_int8(const EncoderConfig& config, const Weights& source, const ConvertOptions& options,
                 Json& json, std::vector<std::pair<std::string, Tensor>>& tensors) {
  if (options.dtype == kInt8) {
    json[kQuantizationKey] = make_int8(config, source, options.int8_skip, tensors);
  }
}

/// The tensors of a model with those of an adapter, under the names of `transformers`.
std::vector<std::pair<std::string, Tensor>> merged_tensors(
    const Weights& weights, std::optional<DType> dtype,
    const std::function<std::string(const std::string& name)>& name_of) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const std::string& name : weights.names()) {
    if (weights.is_buffer(name)) continue;
    const Tensor tensor = weights.stored(name, weights.shape(name));
    tensors.emplace_back(name_of(name), tensor.to(dtype.value_or(weights.dtype(name))));
  }
  return tensors;
}

/// The names of tensors in files of the model as `transformers` writes it.
std::function<std::string(const std::string&)> names_in_files(const EncoderConfig& config) {
  const bool is_alone = config.architecture.empty() || config.architecture.ends_with("Model");
  return [&config, is_alone](const std::string& name) {
    return is_alone ? config.family->names.file_name(name) : written_name(config, name);
  };
}

/// The folder of sentence-transformers' files of a merged model: the adapter's, else the model's.
/// Empty for an adapter with a head of its own: its model does not make vectors any more.
fs::path folder_of_modules(const Conversion& conversion) {
  fs::path adapter = conversion.options.merge_adapter;
  if (fs::exists(adapter / "modules.json")) return adapter;
  const char* const key = "architectures";
  const Json model = formats::read_json(config_file(conversion.source.string(), {}));
  const Json none;
  const bool has_own_head = conversion.source_json.value(key, none) != model.value(key, none);
  return has_own_head ? fs::path() : conversion.source;
}

ConvertedFrom merge_adapter(const std::string& source, const std::string& target,
                            const ConvertOptions& options) {
  require(options.target == "longformer", OptionName("merge_adapter"),
          "expected no other attention beside it: convert the folder with the merged weights");
  Conversion conversion;
  conversion.source = source;
  conversion.target = target_folder_of(target);
  conversion.options = options;
  conversion.plan.dtype = dtype_of(options.dtype);
  check_target(conversion);
  const bool is_language = is_language_model(source);
  const std::string path =
      is_language ? source + "/config.json" : config_file(source, options.merge_adapter);
  conversion.source_json = formats::read_json(path);
  set_dtype(conversion, conversion.source_json);
  const StagingFolder staging(conversion.target);
  ConvertedFrom from;
  std::vector<std::pair<std::string, Tensor>> tensors;
  if (is_language) {
    require(options.dtype != kInt8, OptionName("dtype"),
            "expected fp32, fp16 or bf16 for a language model, found {}", quote(options.dtype));
    const Weights weights = Weights::open(source, {}, options.merge_adapter);
    from.model_type = kLanguageModelType;
    tensors = merged_tensors(weights, conversion.plan.dtype,
                             [](const std::string& name) { return name; });
    weights.tell_nonfinite(options.note);
  } else {
    const EncoderConfig config = parse_config(formats::ConfigReader(conversion.source_json, path));
    conversion.source_json.erase(kQuantizationKey);
    const Weights weights = Weights::open(source, config.family->names, options.merge_adapter);
    from = {.model_type = std::string(config.model_type()), .max_tokens = config.max_tokens()};
    tensors = merged_tensors(weights, conversion.plan.dtype, names_in_files(config));
    weights.tell_nonfinite(options.note);
    finish_int8(config, weights, options, conversion.source_json, tensors);
  }
  write_json(staging.path() / "config.json", conversion.source_json);
  const fs::path generation = conversion.source / "generation_config.json";
  if (fs::exists(generation)) fs::copy_file(generation, staging.path() / generation.filename());
  // An adapter may have added tokens.
  copy_tokenizer_files(tokenizer_folder(source, options.merge_adapter), staging.path());
  const fs::path modules = folder_of_modules(conversion);
  if (!modules.empty()) {
    copy_sentence_transformers(
        {.source = modules, .target = staging.path(), .tokenizer_class = {}});
  }
  write_weights(staging.path(), options.format, tensors);
  staging.commit();
  return from;
}

/// The same model for documents of another length: its weights stay.
ConvertedFrom lengthen(Conversion& conversion) {
  const EncoderConfig& config = conversion.config;
  const ConvertOptions& options = conversion.options;
  require(conversion.keeps_attention() && options.windows.empty() && options.dilations.empty(),
          "{}: expected a model with a table of positions, which has another attention or other "
          "windows in the result too, found {}",
          conversion.source.string(), config.model_type());
  check_target(conversion);
  Json json = conversion.source_json;
  if (options.max_positions) {
    json = lengthened_config(json, config, *options.max_positions, options);
  }
  conversion.plan.max_positions = options.max_positions.value_or(0);
  set_dtype(conversion, json);
  const Weights weights = Weights::open(conversion.source.string(), config.family->names);
  auto tensors = merged_tensors(weights, conversion.plan.dtype, names_in_files(config));
  weights.tell_nonfinite(options.note);
  finish_int8(config, weights, options, json, tensors);
  const StagingFolder staging(conversion.target);
  const TokenizerCopy files = {.source = conversion.source,
                               .target = staging.path(),
                               .max_tokens = conversion.plan.max_positions,
                               .tokenizer_class = std::string(config.traits().tokenizer_class)};
  write_json(staging.path() / "config.json", json);
  if (options.max_positions) {
    copy_tokenizer(files);
  } else {
    copy_tokenizer_files(conversion.source, staging.path());
  }
  copy_sentence_transformers(files);
  write_weights(staging.path(), options.format, tensors);
  staging.commit();
  return {.model_type = std::string(config.model_type()), .max_tokens = config.max_tokens()};
}

/// A BigBird keeps its weights, and gets another attention, which is said.
void check_blocks(const Conversion& conversion) {
  const EncoderConfig& config = conversion.config;
  const std::string source = conversion.source.string();
  require(conversion.writes_texts() || config.embedding_scale == 1,
          "{}: rescale_embeddings: expected false, as Longformer scales none, found true", source);
  require(config.recipe.attention_bias,
          "{}: use_bias: expected true, as Longformer's projections have biases, found false",
          source);
  if (!config.recipe.blocks || !conversion.options.note) return;
  conversion.options.note(fmt::format(
      "{}: the result has another attention than the source: windows and global tokens instead of "
      "blocks of {} tokens with the first and the last block; it is not trained with it",
      conversion.target.string(), config.recipe.blocks->size));
}

/// Says of a source that attends otherwise, and of edges, what the result does not have.
void tell_other_attention(const Conversion& conversion) {
  const EncoderConfig& config = conversion.config;
  if (!conversion.options.note) return;
  const std::string target = conversion.target.string();
  if (!conversion.keeps_attention()) {
    if (config.edges.empty()) return;
    return conversion.options.note(
        fmt::format("{}: the result has no edges between {}, which the source has", target,
                    fmt::join(config.edges, " and ")));
  }
  if (own_keys(config).empty()) return;
  conversion.options.note(fmt::format(
      "{}: the result has another attention than the source: windows and global tokens instead of "
      "that of {}; it is not trained with it",
      target, config.model_type()));
}

ConvertedFrom convert_checked(const std::string& source_folder, const std::string& target_folder,
                              const ConvertOptions& options, const PlanHead& plan_head) {
  if (!options.merge_adapter.empty()) return merge_adapter(source_folder, target_folder, options);
  if (makes_language_model(options)) {
    return convert_language_model(source_folder, target_folder, options);
  }
  Conversion conversion = read_source(source_folder, target_folder, options);
  conversion.plan.head = plan_head;
  if (!conversion.config.recipe.has_position_table) return lengthen(conversion);
  require(options.rotary.empty(), OptionName("rotary"),
          "expected a model with rotary positions, found {}", conversion.config.model_type());
  require(
      conversion.config.recipe.distance_bias == DistanceBias::none &&
          !conversion.config.recipe.distance_keys,
      "{}: expected a model whose scores have no terms of distances, as Longformer's have none, "
      "found {}",
      source_folder, conversion.config.model_type());
  // An encoder of bytes says in config.json where its norms are, and so does the result.
  require(
      !conversion.config.recipe.norm_first || text::reads_bytes(conversion.source),
      "{}: model_type: expected a model that normalises behind its layers, as Longformer and LED "
      "do, found {}",
      source_folder, conversion.config.model_type());
  check_blocks(conversion);
  check_target(conversion);
  tell_other_attention(conversion);
  const EncoderConfig& config = conversion.config;
  const Weights source = Weights::open(source_folder, config.family->names);
  ConvertedWeights weights = target_weights(conversion, source);
  source.tell_nonfinite(options.note);
  Json json = target_config(conversion, weights.architecture);
  const std::string config_path = conversion.target.string() + "/config.json";
  finish_int8(parse_config(formats::ConfigReader(json, config_path)), source, options, json,
              weights.tensors);
  if (conversion.is_dilated() && conversion.keeps_attention() && options.note) {
    options.note(fmt::format(
        "{}: attention_dilation {}, which transformers does not know: it would run the same "
        "windows without dilation",
        target_folder,
        options.dilations.empty() ? "is kept" : "is new: the result has to be trained with it"));
  }
  if (options.cross_attention_rows && options.note) {
    options.note(fmt::format(
        "{}: cross_attention_rows is another attention than the source's, and has to be trained; "
        "transformers does not know it",
        target_folder));
  }
  // RoBERTa's and Longformer's head always use the exact GELU, BERT's the model's activation.
  const auto& masked_lm = config.traits().masked_lm;
  require(weights.architecture != "LongformerForMaskedLM" || masked_lm->activation ||
              config.activation == Activation::gelu,
          "{}: hidden_act: expected gelu, which the masked-LM head of Longformer uses, found {}",
          source_folder, name_of(config.activation));

  const StagingFolder staging(conversion.target);
  const TokenizerCopy files = {.source = conversion.source,
                               .target = staging.path(),
                               .max_tokens = conversion.plan.max_positions,
                               .tokenizer_class = std::string(config.traits().tokenizer_class)};
  write_json(staging.path() / "config.json", json);
  if (conversion.writes_texts()) {
    write_json(staging.path() / "generation_config.json",
               generation_config(source_folder, conversion.source_json, conversion.config));
  }
  copy_tokenizer(files);
  copy_sentence_transformers(files);
  write_weights(staging.path(), options.format, weights.tensors);
  staging.commit();
  return {.model_type =
              fmt::format("{}{}", conversion.is_original ? "original " : "", config.model_type()),
          .max_tokens = config.max_tokens()};
}

}  // namespace

ConvertedFrom convert_folder(const std::string& source_folder, const std::string& target_folder,
                             const ConvertOptions& options, const PlanHead& plan_head) {
  check_options(options);
  try {
    return convert_checked(source_folder, target_folder, options, plan_head);
  } catch (const fs::filesystem_error& error) {
    fail("{}: could not be written: {}", target_folder, error.code().message());
  }
}

}  // namespace longformer::models
