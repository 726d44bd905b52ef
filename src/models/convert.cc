#include "models/convert.h"

#include <unistd.h>

#include <filesystem>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "longformer/tokenizer.h"
#include "models/checkpoint.h"
#include "models/config.h"
#include "models/tensor_names.h"
#include "ops/rows.h"

namespace longformer::models {
namespace {

namespace fs = std::filesystem;
using formats::quote;
using Json = nlohmann::ordered_json;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

constexpr Index kMaxTarget = Index{1} << 24;

/// What the source is, and what is made of it.
struct Conversion {
  fs::path source;
  fs::path target;
  ConvertOptions options;
  Json source_json;
  EncoderConfig config;
  bool has_head = false;

  /// Position row of the first token in the target, which counts like RoBERTa.
  Index first_position() const { return config.pad_token_id + 1; }
  Index position_rows() const { return options.max_positions + first_position(); }
};

/// The tensors of the source, taken out one by one, so that what is left over is known.
class SourceTensors {
 public:
  explicit SourceTensors(const std::string& folder)
      : folder_(folder), checkpoint_(Checkpoint::open(folder)) {
    for (const std::string& name : checkpoint_.names()) left_.insert(name);
  }

  bool has(const std::string& name) const { return checkpoint_.has(name); }
  void drop(const std::string& name) { left_.erase(name); }

  Tensor take(const std::string& name, const Shape& shape) {
    drop(name);
    return checkpoint_.get(name, shape);
  }

  /// Whatever was not taken belongs to a head that Longformer has not.
  void require_empty(const std::string& architecture) const {
    if (left_.empty()) return;
    fail("{}: expected an encoder, with a masked-LM head or none, found a tensor {}{}{}", folder_,
         quote(*left_.begin()), architecture.empty() ? "" : " of ", architecture);
  }

 private:
  std::string folder_;
  Checkpoint checkpoint_;
  std::set<std::string> left_;
};

/// Collects the target's tensors in the order of the model.
class WeightConverter {
 public:
  WeightConverter(Conversion& conversion, SourceTensors& source)
      : conversion_(conversion),
        config_(conversion.config),
        head_(masked_lm_names(config_.model_type)),
        source_(source) {
    conversion_.has_head = source_.has(head_.dense + ".weight");
    prefix_ = conversion_.has_head ? "longformer." : "";
  }

  NamedTensors convert() {
    for (const auto& [name, shape] : encoder_tensors(config_)) encoder_tensor(name, shape);
    if (source_.has("pooler.dense.weight")) {
      for (const auto& [name, shape] : pooler_tensors(config_)) encoder_tensor(name, shape);
    }
    if (conversion_.has_head) head();
    // Buffers that old files carry, and BERT's next-sentence head, which Longformer has not.
    for (const char* name : {"embeddings.position_ids", "embeddings.token_type_ids",
                             "cls.seq_relationship.weight", "cls.seq_relationship.bias"}) {
      source_.drop(name);
    }
    source_.require_empty(config_.architecture);
    return std::move(result_);
  }

 private:
  void encoder_tensor(const std::string& name, const Shape& shape) {
    Tensor tensor = source_.take(name, shape);
    if (name == kPositionEmbeddings) {
      tensor = ops::tile_rows(tensor, {.source_reserved = config_.first_position(),
                                       .target_reserved = conversion_.first_position(),
                                       .count = conversion_.options.max_positions});
    }
    result_.emplace_back(prefix_ + name, tensor);
    for (const std::string projection : {"self.query", "self.key", "self.value"}) {
      const std::size_t place = name.find(projection);
      if (place == std::string::npos) continue;
      std::string global = prefix_ + name;
      global.insert(prefix_.size() + place + projection.size(), "_global");
      result_.emplace_back(global, tensor);
    }
  }

  void head() {
    const Index width = config_.hidden_size;
    const Index vocabulary = config_.vocab_size;
    const auto move = [&](const std::string& from, const std::string& to, const Shape& shape) {
      result_.emplace_back("lm_head." + to, source_.take(from, shape));
    };
    move(head_.dense + ".weight", "dense.weight", {width, width});
    move(head_.dense + ".bias", "dense.bias", {width});
    move(head_.norm + ".weight", "layer_norm.weight", {width});
    move(head_.norm + ".bias", "layer_norm.bias", {width});
    const Tensor bias = source_.take(head_.bias[source_.has(head_.bias[0]) ? 0 : 1], {vocabulary});
    source_.drop(head_.bias[1]);
    result_.emplace_back("lm_head.bias", bias);
    const std::string decoder = head_.decoder + ".weight";
    if (config_.tie_word_embeddings) {
      source_.drop(decoder);
      return;
    }
    move(decoder, "decoder.weight", {vocabulary, width});
    result_.emplace_back("lm_head.decoder.bias", bias);
  }

  Conversion& conversion_;
  const EncoderConfig& config_;
  MaskedLmNames head_;
  SourceTensors& source_;
  std::string prefix_;
  NamedTensors result_;
};

bool has_tokenizer(const fs::path& folder) {
  return fs::exists(folder / "tokenizer.json") || fs::exists(folder / "vocab.txt") ||
         fs::exists(folder / "vocab.json");
}

/// The ids that LongformerConfig knows: BERT's config.json has none, so they come from its
/// tokenizer.
void set_special_ids(const Conversion& conversion, Json& json) {
  if (conversion.config.model_type == ModelType::roberta) {
    const formats::ConfigReader reader(json, "config.json");
    json["bos_token_id"] = reader.integer("bos_token_id", 0, 0, kMaxTarget);
    json["eos_token_id"] = reader.integer("eos_token_id", 2, 0, kMaxTarget);
    json["sep_token_id"] = reader.integer("sep_token_id", json["eos_token_id"], 0, kMaxTarget);
    return;
  }
  if (!has_tokenizer(conversion.source)) return;
  const SpecialTokens tokens = Tokenizer::load(conversion.source.string()).special_tokens();
  if (tokens.cls) json["bos_token_id"] = *tokens.cls;
  if (tokens.sep) json["sep_token_id"] = *tokens.sep;
  if (tokens.sep) json["eos_token_id"] = *tokens.sep;
}

Json target_config(const Conversion& conversion) {
  const EncoderConfig& config = conversion.config;
  Json json = conversion.source_json;
  // Keys of the source class, and of the file's own history.
  for (const char* key : {"_name_or_path", "transformers_version", "position_embedding_type",
                          "use_cache", "is_decoder", "add_cross_attention", "classifier_dropout",
                          "gradient_checkpointing", "auto_map"}) {
    json.erase(key);
  }
  json["architectures"] = {conversion.has_head ? "LongformerForMaskedLM" : "LongformerModel"};
  json["model_type"] = "longformer";
  json["attention_window"] = std::vector<Index>(static_cast<std::size_t>(config.layers),
                                                static_cast<Index>(conversion.options.window));
  json["max_position_embeddings"] = conversion.position_rows();
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

void write_json(const fs::path& path, const Json& value) {
  formats::write_file(path.string(), value.dump(2) + "\n");
}

/// An object of a file that may be absent: empty then.
Json read_object(const fs::path& path) {
  if (!fs::exists(path)) return Json::object();
  Json value = formats::read_json(path.string());
  [[maybe_unused]] const formats::ConfigReader object(value, path.string());
  return value;
}

void copy_if_present(const fs::path& from, const fs::path& to) {
  if (fs::exists(from)) formats::write_file(to.string(), formats::read_file(from.string()));
}

void write_tokenizer(const Conversion& conversion, const fs::path& folder) {
  if (!has_tokenizer(conversion.source)) return;
  for (const char* name :
       {"vocab.txt", "vocab.json", "merges.txt", "special_tokens_map.json", "added_tokens.json"}) {
    copy_if_present(conversion.source / name, folder / name);
  }
  const fs::path tokenizer = conversion.source / "tokenizer.json";
  if (fs::exists(tokenizer)) {
    formats::write_file((folder / "tokenizer.json").string(),
                        formats::with_null_members(formats::read_file(tokenizer.string()),
                                                   {"truncation", "padding"}, tokenizer.string()));
  }
  Json config = read_object(conversion.source / "tokenizer_config.json");
  for (const char* key : {"max_len", "max_length", "name_or_path", "auto_map"}) config.erase(key);
  config["model_max_length"] = conversion.options.max_positions;
  // Without it transformers would take the class that belongs to model_type, which is RoBERTa's.
  if (!config.contains("tokenizer_class")) {
    config["tokenizer_class"] =
        conversion.config.model_type == ModelType::bert ? "BertTokenizer" : "RobertaTokenizer";
  }
  write_json(folder / "tokenizer_config.json", config);
}

/// A folder of modules.json: one plain name, because the file may not lead out of its folder.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of("/\\") == std::string::npos;
}

void write_sentence_transformers(const Conversion& conversion, const fs::path& folder) {
  const fs::path modules = conversion.source / "modules.json";
  if (!fs::exists(modules)) return;
  for (const char* name : {"modules.json", "config_sentence_transformers.json"}) {
    copy_if_present(conversion.source / name, folder / name);
  }
  Json config = read_object(conversion.source / "sentence_bert_config.json");
  config["max_seq_length"] = conversion.options.max_positions;
  write_json(folder / "sentence_bert_config.json", config);
  const Json list = formats::read_json(modules.string());
  require(list.is_array(), "{}: expected a list of modules, found {}", modules.string(),
          formats::shown(list));
  for (const Json& module : list) {
    const formats::ConfigReader reader(module, modules.string());
    const std::string name = reader.string("path", "");
    if (name.empty()) continue;
    require(is_plain_name(name), "{}: path: expected the name of a folder beside it, found {}",
            modules.string(), quote(name));
    if (!fs::is_directory(conversion.source / name)) continue;
    fs::create_directories(folder / name);
    for (const auto& entry : fs::directory_iterator(conversion.source / name)) {
      if (!entry.is_regular_file()) continue;
      copy_if_present(entry.path(), folder / name / entry.path().filename());
    }
  }
}

/// A folder beside the target that is removed unless it takes the target's place.
class StagingFolder {
 public:
  explicit StagingFolder(fs::path target)
      : target_(std::move(target)), path_(fmt::format("{}.tmp{}", target_.string(), ::getpid())) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~StagingFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  StagingFolder(const StagingFolder&) = delete;
  StagingFolder& operator=(const StagingFolder&) = delete;

  const fs::path& path() const { return path_; }

  /// Renames into place. In a folder that has files already they are replaced one by one, so that
  /// whatever else is there stays.
  void commit() const {
    if (!fs::exists(target_) || fs::is_empty(target_)) {
      fs::remove(target_);
      fs::rename(path_, target_);
      return;
    }
    for (const auto& entry : fs::recursive_directory_iterator(path_)) {
      const fs::path place = target_ / fs::relative(entry.path(), path_);
      if (entry.is_directory()) {
        fs::create_directories(place);
      } else {
        fs::rename(entry.path(), place);
      }
    }
  }

 private:
  fs::path target_;
  fs::path path_;
};

void check_options(const ConvertOptions& options) {
  require(options.max_positions >= 1 && options.max_positions <= kMaxTarget,
          "max positions: expected a number from 1 to {}, found {}", kMaxTarget,
          options.max_positions);
  require(options.window >= 2 && options.window % 2 == 0 && options.window <= 2 * kMaxTarget,
          "window: expected an even number from 2 to {} (half on each side), found {}",
          2 * kMaxTarget, options.window);
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

Conversion read_source(const std::string& source, const std::string& target,
                       const ConvertOptions& options) {
  require(fs::is_directory(source), "{}: expected a model folder, found {}", source,
          fs::exists(source) ? "a file" : "none");
  Conversion conversion;
  conversion.source = source;
  // Without a trailing slash, so that a name can be formed beside it.
  conversion.target = fs::path(target).lexically_normal();
  if (!conversion.target.has_filename()) conversion.target = conversion.target.parent_path();
  conversion.options = options;
  const std::string path = (conversion.source / "config.json").string();
  conversion.source_json = formats::read_json(path);
  conversion.config = parse_config(formats::ConfigReader(conversion.source_json, path));
  require(conversion.config.model_type != ModelType::longformer,
          "{}: model_type: expected bert or roberta, found \"longformer\": it needs no conversion",
          path);
  return conversion;
}

void convert_checked(const std::string& source_folder, const std::string& target_folder,
                     const ConvertOptions& options) {
  Conversion conversion = read_source(source_folder, target_folder, options);
  check_target(conversion);
  SourceTensors source(source_folder);
  const NamedTensors tensors = WeightConverter(conversion, source).convert();
  // RoBERTa's and Longformer's head always use the exact GELU, BERT's the model's activation.
  require(!conversion.has_head || conversion.config.model_type == ModelType::roberta ||
              conversion.config.activation == Activation::gelu,
          "{}: hidden_act: expected gelu, which the masked-LM head of Longformer uses, found {}",
          source_folder, name_of(conversion.config.activation));

  const StagingFolder staging(conversion.target);
  write_json(staging.path() / "config.json", target_config(conversion));
  write_tokenizer(conversion, staging.path());
  write_sentence_transformers(conversion, staging.path());
  formats::write_safetensors((staging.path() / "model.safetensors").string(), tensors);
  staging.commit();
}

}  // namespace

void convert_folder(const std::string& source_folder, const std::string& target_folder,
                    const ConvertOptions& options) {
  check_options(options);
  try {
    convert_checked(source_folder, target_folder, options);
  } catch (const fs::filesystem_error& error) {
    fail("{}: could not be written: {}", target_folder, error.code().message());
  }
}

}  // namespace longformer::models
