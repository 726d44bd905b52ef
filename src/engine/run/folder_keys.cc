#include "engine/run/folder_keys.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "formats/json.h"
#include "formats/unused_keys.h"

namespace longformer {
namespace {

namespace fs = std::filesystem;
using formats::ConfigReader;
using formats::HarmlessKeys;
using Json = nlohmann::ordered_json;
using KeyValue = std::pair<std::string_view, std::string_view>;

/// Keys that are read here, by the file that has them.
constexpr std::array<std::string_view, 19> kTokenizerKeys = {"add_prefix_space",
                                                             "added_tokens_decoder",
                                                             "additional_special_tokens",
                                                             "bos_token",
                                                             "cls_token",
                                                             "do_lower_case",
                                                             "eos_token",
                                                             "extra_special_tokens",
                                                             "mask_token",
                                                             "model_max_length",
                                                             "pad_token",
                                                             "sep_token",
                                                             "strip_accents",
                                                             "tokenize_chinese_chars",
                                                             "tokenizer_class",
                                                             "trim_offsets",
                                                             "truncation_side",
                                                             "unk_token",
                                                             "model_input_names"};
constexpr std::array<std::string_view, 16> kModelKeys = {"prompts",
                                                         "default_prompt_name",
                                                         "similarity_fn_name",
                                                         "truncate_dim",
                                                         "passage_context",
                                                         "query_prefix",
                                                         "document_prefix",
                                                         "query_length",
                                                         "document_length",
                                                         "query_expansion",
                                                         "do_query_expansion",
                                                         "attend_to_expansion_tokens",
                                                         "attend_to_mask_tokens",
                                                         "skiplist_words",
                                                         "max_active_dims",
                                                         "activation_fn"};
constexpr std::array<std::string_view, 5> kTextKeys = {
    "max_seq_length", "do_lower_case", "query_length", "document_length", "query_expansion"};
constexpr std::array<std::string_view, 8> kPoolingKeys = {"pooling_mode",
                                                          "include_prompt",
                                                          "pooling_mode_cls_token",
                                                          "pooling_mode_max_tokens",
                                                          "pooling_mode_mean_tokens",
                                                          "pooling_mode_mean_sqrt_len_tokens",
                                                          "pooling_mode_weightedmean_tokens",
                                                          "pooling_mode_lasttoken"};
constexpr std::array<std::string_view, 7> kDenseKeys = {
    "in_features",       "out_features",      "bias", "activation_function", "use_residual",
    "module_input_name", "module_output_name"};
constexpr std::array<std::string_view, 5> kListKeys = {"idx", "name", "path", "type", "kwargs"};

/// Lengths and padding, which the options of a call decide; where files come from; decoding, which
/// no encoder does; and what the classes in use ignore.
constexpr std::array<std::string_view, 37> kTokenizerAlways = {"_commit_hash",
                                                               "_name_or_path",
                                                               "backend",
                                                               "chat_template",
                                                               "clean_up_tokenization_spaces",
                                                               "device_map",
                                                               "do_basic_tokenize",
                                                               "full_tokenizer_file",
                                                               "is_local",
                                                               "legacy",
                                                               "local_files_only",
                                                               "max_len",
                                                               "max_length",
                                                               "max_model_input_sizes",
                                                               "merges_file",
                                                               "model_max_len",
                                                               "name_or_path",
                                                               "never_split",
                                                               "pad_to_multiple_of",
                                                               "pad_token_id",
                                                               "pad_token_type_id",
                                                               "padding",
                                                               "padding_side",
                                                               "processor_class",
                                                               "return_tensors",
                                                               "sp_model_kwargs",
                                                               "spaces_between_special_tokens",
                                                               "special_tokens_map_file",
                                                               "spm_file",
                                                               "stride",
                                                               "tokenizer_file",
                                                               "trust_remote_code",
                                                               "truncation",
                                                               "truncation_strategy",
                                                               "use_fast",
                                                               "verbose",
                                                               "vocab_file"};
constexpr std::array<KeyValue, 15> kTokenizerValues = {{
    {"add_bos_token", "false"},
    {"add_eos_token", "false"},
    {"add_special_tokens", "true"},
    {"clean_text", "true"},
    {"do_split_on_punc", "true"},
    {"errors", "\"replace\""},
    {"keep_accents", "false"},
    {"remove_space", "true"},
    {"split_special_tokens", "false"},
    {"subword_tokenizer_type", "\"wordpiece\""},
    {"tokenizer_type", "\"bert\""},
    {"use_token_type_ids", "true"},
    {"word_tokenizer_type", "\"basic\""},
    {"wordpieces_prefix", "\"##\""},
    {"continuing_subword_prefix", "\"##\""},
}};
constexpr std::array<std::string_view, 1> kModelAlways = {"__version__"};
constexpr std::array<KeyValue, 5> kModelValues = {{{"model_type", "\"SentenceTransformer\""},
                                                   {"model_type", "\"CrossEncoder\""},
                                                   {"model_type", "\"SparseEncoder\""},
                                                   {"model_type", "\"MultiVectorEncoder\""},
                                                   {"model_type", "\"ColBERT\""}}};
constexpr std::array<std::string_view, 3> kTextAlways = {"cache_dir", "tokenizer_name_or_path",
                                                         "unpad_inputs"};
constexpr std::array<KeyValue, 10> kTextValues = {{
    {"transformer_task", "\"fill-mask\""},
    {"modality_config", R"({"text": {"method": "forward", "method_output_name": "logits"}})"},
    {"config_args", "{}"},
    {"modality_config",
     R"({"text": {"method": "forward", "method_output_name": "last_hidden_state"}})"},
    {"model_args", "{}"},
    {"module_output_name", "\"token_embeddings\""},
    {"processing_kwargs", "{}"},
    {"processor_args", "{}"},
    {"tokenizer_args", "{}"},
    {"transformer_task", "\"feature-extraction\""},
}};
constexpr std::array<std::string_view, 2> kPoolingAlways = {"word_embedding_dimension",
                                                            "embedding_dimension"};

/// The line of one object of a file.
std::string note_of(const Json& object, const std::string& name,
                    std::span<const std::string_view> read, const HarmlessKeys& harmless) {
  const ConfigReader reader(object, name);
  for (const std::string_view key : read) reader.note_asked(std::string(key));
  return formats::unused_keys_note(reader, harmless);
}

std::string note_of_file(const std::string& path, std::span<const std::string_view> read,
                         const HarmlessKeys& harmless) {
  if (!fs::exists(path)) return {};
  return note_of(formats::read_json(path), path, read, harmless);
}

/// BERT's token types of a pair are 0 where the folder leaves them out of a model's inputs.
std::string token_type_note(const Json& config, const std::string& folder,
                            const std::string& path) {
  const auto inputs = config.find("model_input_names");
  if (inputs == config.end() || !inputs->is_array()) return {};
  if (std::find(inputs->begin(), inputs->end(), "token_type_ids") != inputs->end()) return {};
  const std::string model_file = folder + "/config.json";
  if (!fs::exists(model_file)) return {};
  const Json model = formats::read_json(model_file);
  const std::string type = ConfigReader(model, model_file).string("model_type", "");
  if (type != "bert" && type != "electra") return {};
  return fmt::format(
      "{}: model_input_names: no token_type_ids, so that transformers gives both texts of a pair "
      "the type 0; the types of the tokenizer are used here",
      path);
}

/// Another program may have filled a snapshot of the Hub's cache without modules.json.
std::string missing_modules_note(const std::string& folder) {
  const fs::path snapshot = fs::path(folder + "/").lexically_normal().parent_path();
  const fs::path repository = snapshot.parent_path().parent_path();
  constexpr std::string_view kBegin = "models--";
  const std::string name = repository.filename().string();
  const bool is_of_cache =
      snapshot.parent_path().filename() == "snapshots" && name.starts_with(kBegin);
  if (!is_of_cache) return {};
  if (fs::exists(repository / ".no_exist" / snapshot.filename() / "modules.json")) return {};
  return fmt::format(
      "{}: no modules.json in the cache, which does not say that the Hub has none: pooling and "
      "further layers of vectors may be missing; longformer pull fetches them",
      folder);
}

}  // namespace

std::string unused_tokenizer_keys(const std::string& folder) {
  const std::string path = folder + "/tokenizer_config.json";
  if (!fs::exists(path)) return {};
  const Json config = formats::read_json(path);
  std::string note = note_of(config, path, kTokenizerKeys,
                             {.always = kTokenizerAlways, .with_value = kTokenizerValues});
  const std::string types = token_type_note(config, folder, path);
  if (!types.empty()) note += (note.empty() ? "" : "; ") + types;
  return note;
}

std::vector<std::string> unused_sentence_keys(const std::string& folder) {
  std::vector<std::string> notes;
  const auto add = [&notes](std::string note) {
    if (!note.empty()) notes.push_back(std::move(note));
  };
  add(note_of_file(folder + "/config_sentence_transformers.json", kModelKeys,
                   {.always = kModelAlways, .with_value = kModelValues}));
  const auto add_text_keys = [&](const std::string& of) {
    add(note_of_file(of + "/sentence_bert_config.json", kTextKeys,
                     {.always = kTextAlways, .with_value = kTextValues}));
  };
  const std::string file = folder + "/modules.json";
  const HarmlessKeys pooling = {.always = kPoolingAlways};
  if (!fs::exists(file)) {
    add(missing_modules_note(folder));
    add_text_keys(folder);
    add(note_of_file(folder + "/1_Pooling/config.json", kPoolingKeys, pooling));
    return notes;
  }
  const Json list = formats::read_json(file);
  if (!list.is_array()) return notes;
  for (const Json& module : list) {
    if (!module.is_object()) continue;
    add(note_of(module, file, kListKeys, {}));
    const ConfigReader reader(module, file);
    const std::string type = reader.string("type", ""), path = reader.string("path", "");
    // The reader of the modules refuses paths that lead out of the folder.
    if (path.find_first_of("/\\") != std::string::npos || path.starts_with("..")) continue;
    if (type.ends_with(".Transformer")) {
      add_text_keys(path.empty() ? folder : (fs::path(folder) / path).string());
    }
    // The settings of the folder itself are those of the encoder.
    if (path.empty()) continue;
    const std::string options = (fs::path(folder) / path / "config.json").string();
    if (type.ends_with(".Pooling")) add(note_of_file(options, kPoolingKeys, pooling));
    if (type.ends_with(".Dense")) add(note_of_file(options, kDenseKeys, {}));
    if (type.ends_with(".Normalize")) add(note_of_file(options, kDenseKeys, {}));
  }
  return notes;
}

}  // namespace longformer
