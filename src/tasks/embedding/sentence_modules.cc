#include "tasks/embedding/sentence_modules.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <utility>

#include "core/error.h"
#include "formats/json.h"
#include "text/encoder_folder.h"

namespace longformer::tasks {
namespace {

namespace fs = std::filesystem;
using formats::ConfigReader;
using formats::quote;
using kernels::Activation;

constexpr Index kMostFeatures = Index{1} << 24;

/// An object of a file that may be absent: empty then.
nlohmann::ordered_json read_object(const std::string& path) {
  return fs::exists(path) ? formats::read_json(path) : nlohmann::ordered_json::object();
}

void append_mode(std::string& modes, const std::string& mode) {
  if (!modes.empty()) modes += '+';
  modes += mode;
}

/// The pooling of versions before 5.4: a truth value for each mode, joined in this order.
std::string pooling_of_flags(const ConfigReader& config) {
  constexpr std::array<std::pair<const char*, const char*>, 6> kFlags = {
      {{"pooling_mode_cls_token", "cls"},
       {"pooling_mode_max_tokens", "max"},
       {"pooling_mode_mean_tokens", "mean"},
       {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
       {"pooling_mode_weightedmean_tokens", "weightedmean"},
       {"pooling_mode_lasttoken", "lasttoken"}}};
  std::string modes;
  for (const auto& [key, mode] : kFlags) {
    if (config.boolean(key, false)) append_mode(modes, mode);
  }
  return modes.empty() ? "mean" : modes;
}

void read_pooling(const std::string& path, SentenceModules& modules) {
  const auto json = read_object(path);
  const ConfigReader config(json, path);
  modules.pooling_file = path;
  modules.include_prompt = config.boolean("include_prompt", true);
  if (!config.has("pooling_mode")) {
    modules.pooling = pooling_of_flags(config);
  } else if (config.at("pooling_mode").is_array()) {
    for (const auto& mode : config.at("pooling_mode")) {
      append_mode(modules.pooling,
                  mode.is_string() ? mode.get<std::string>() : formats::shown(mode));
    }
  } else {
    modules.pooling = config.string("pooling_mode", "");
  }
}

/// Modules may work on other things than the vector of a text.
void require_vectors(const ConfigReader& config) {
  for (const char* key : {"module_input_name", "module_output_name"}) {
    const std::string name = config.string(key, "sentence_embedding");
    require(name == "sentence_embedding", "{}: {}: expected sentence_embedding, found {}",
            config.name(), key, quote(name));
  }
}

std::optional<Activation> activation(const ConfigReader& config) {
  const std::string name = config.string("activation_function", "torch.nn.Tanh");
  const std::string kind =
      name.starts_with("torch.nn.") ? name.substr(name.rfind('.') + 1) : std::string();
  if (kind == "Identity") return std::nullopt;
  if (kind == "Tanh") return Activation::tanh;
  if (kind == "GELU") return Activation::gelu;
  if (kind == "ReLU") return Activation::relu;
  if (kind == "SiLU") return Activation::silu;
  fail("{}: activation_function: expected Identity, Tanh, GELU, ReLU or SiLU of torch.nn, found {}",
       config.name(), quote(name));
}

DenseModule read_dense(const std::string& folder) {
  const std::string path = folder + "/config.json";
  const auto json = formats::read_json(path);
  const ConfigReader config(json, path);
  require_vectors(config);
  require(!config.boolean("use_residual", false), "{}: use_residual: expected false, found true",
          path);
  for (const char* key : {"in_features", "out_features"}) config.check_present(key);
  return {.folder = folder,
          .in_features = config.integer("in_features", 0, 1, kMostFeatures),
          .out_features = config.integer("out_features", 0, 1, kMostFeatures),
          .bias = config.boolean("bias", true),
          .activation = activation(config)};
}

/// The last part of the name of a class of the package; empty for a class of somebody else.
std::string class_name(const std::string& type) {
  if (!type.starts_with("sentence_transformers.")) return {};
  return type.substr(type.rfind('.') + 1);
}

/// The folder of a module. Its path may not lead out of the model's folder.
std::string module_folder(const std::string& folder, const std::string& path,
                          const std::string& file) {
  const bool plain = !path.empty() && path != "." && path != ".." &&
                     path.find_first_of("/\\") == std::string::npos;
  require(plain, "{}: path: expected the name of a folder beside it, found {}", file, quote(path));
  return folder + "/" + path;
}

void read_module_list(const std::string& folder, const std::string& file,
                      SentenceModules& modules) {
  const auto list = formats::read_json(file);
  require(list.is_array(), "{}: expected a list of modules, found {}", file, formats::shown(list));
  bool first = true;
  for (const auto& module : list) {
    const ConfigReader config(module, file);
    const std::string type = config.string("type", "");
    const std::string name = class_name(type);
    const std::string path = config.string("path", "");
    if (std::exchange(first, false)) {
      require(name == "Transformer", "{}: expected first a Transformer, found {}", file,
              quote(type));
      if (path.empty()) continue;
      const std::string encoder = module_folder(folder, path, file) + "/config.json";
      require(fs::exists(encoder), "{}: expected the encoder in {}, found no {}", file, path,
              encoder);
    } else if (name == "Pooling") {
      require(modules.pooling.empty() && modules.vector_modules.empty(),
              "{}: expected one Pooling, behind the Transformer, found another", file);
      read_pooling(module_folder(folder, path, file) + "/config.json", modules);
    } else if (name == "Dense") {
      modules.vector_modules.push_back(read_dense(module_folder(folder, path, file)));
    } else if (name == "Normalize") {
      const std::string options = module_folder(folder, path, file) + "/config.json";
      const auto json = read_object(options);
      require_vectors(ConfigReader(json, options));
      modules.vector_modules.push_back(NormalizeModule{});
    } else {
      // Dropout does something in training alone.
      require(name == "Dropout",
              "{}: expected Pooling, Dense, Normalize or Dropout behind the Transformer, found {}",
              file, quote(type));
    }
  }
}

/// Names that the package does not know for a SentenceTransformer leave it at the cosine, as there.
void read_comparison(const ConfigReader& config, SentenceModules& modules) {
  if (config.has("truncate_dim")) {
    modules.truncate_dim = config.integer("truncate_dim", 0, 1, kMostFeatures);
  }
  const std::string name = config.string("similarity_fn_name", "cosine");
  for (const Similarity kind : {Similarity::dot, Similarity::euclidean, Similarity::manhattan}) {
    if (name == name_of(kind)) modules.similarity = kind;
  }
}

void read_model_options(const std::string& path, SentenceModules& modules) {
  const auto json = read_object(path);
  const ConfigReader config(json, path);
  if (config.has("prompts")) {
    const std::string name = path + ": prompts";
    const ConfigReader prompts(config.at("prompts"), name);
    for (const auto& member : prompts.object().items()) {
      modules.prompts[member.key()] = prompts.string(member.key(), "");
    }
  }
  modules.default_prompt_name = config.string("default_prompt_name", "");
  require(
      modules.default_prompt_name.empty() || modules.prompts.contains(modules.default_prompt_name),
      "{}: default_prompt_name: expected the name of a prompt, found {}", path,
      quote(modules.default_prompt_name));
  read_comparison(config, modules);
  modules.passage_context = config.string("passage_context", "none");
  require(modules.passage_context == "none" || modules.passage_context == "document",
          "{}: passage_context: expected none or document, found {}", path,
          quote(modules.passage_context));
}

/// The file with the options of texts. Older versions named it after the type of the model.
std::string text_options_file(const std::string& folder) {
  constexpr std::array kOlder = {"roberta", "distilbert",  "camembert",
                                 "albert",  "xlm-roberta", "xlnet"};
  const std::string usual = folder + "/sentence_bert_config.json";
  for (const char* type : kOlder) {
    const std::string older = fmt::format("{}/sentence_{}_config.json", folder, type);
    if (!fs::exists(usual) && fs::exists(older)) return older;
  }
  return usual;
}

/// The length limit, and whether texts are lower-cased. Versions from 6 on keep the limit with the
/// tokenizer, where it may be a very large number that stands for none.
void read_text_options(const std::string& folder, bool listed, SentenceModules& modules) {
  const std::string path = text_options_file(folder);
  const auto json = read_object(path);
  const ConfigReader config(json, path);
  modules.lowercase = config.boolean("do_lower_case", false);
  if (config.has("max_seq_length")) {
    modules.max_length =
        config.integer("max_seq_length", 0, 1, std::numeric_limits<std::int64_t>::max());
    return;
  }
  if (!listed) return;
  const std::string tokenizer_path = folder + "/tokenizer_config.json";
  const auto tokenizer_json = read_object(tokenizer_path);
  const double limit = ConfigReader(tokenizer_json, tokenizer_path).number("model_max_length", 0);
  if (limit >= 1 && limit < 1e12) modules.max_length = static_cast<Index>(limit);
}

}  // namespace

bool has_sentence_modules(const std::string& folder) {
  constexpr std::array kFiles = {"modules.json", "sentence_bert_config.json",
                                 "config_sentence_transformers.json"};
  return std::ranges::any_of(kFiles,
                             [&](const char* file) { return fs::exists(fs::path(folder) / file); });
}

SentenceModules read_sentence_modules(const std::string& folder) {
  SentenceModules modules;
  const std::string list = folder + "/modules.json";
  const bool listed = fs::exists(list);
  if (listed) {
    read_module_list(folder, list, modules);
  } else {
    const std::string pooling = folder + "/1_Pooling/config.json";
    if (fs::exists(pooling)) read_pooling(pooling, modules);
    if (fs::exists(folder + "/2_Normalize")) modules.vector_modules.push_back(NormalizeModule{});
  }
  read_text_options(text::encoder_folder(folder), listed, modules);
  read_model_options(folder + "/config_sentence_transformers.json", modules);
  return modules;
}

}  // namespace longformer::tasks
