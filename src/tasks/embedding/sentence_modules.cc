#include "tasks/embedding/sentence_modules.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <utility>

#include "core/error.h"
#include "formats/json.h"
#include "models/static_table.h"
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
void require_vectors(const ConfigReader& config, const std::string& wanted) {
  for (const char* key : {"module_input_name", "module_output_name"}) {
    const std::string name = config.string(key, wanted);
    require(name == wanted, "{}: {}: expected {}, found {}", config.name(), key, wanted,
            quote(name));
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

constexpr const char* kOfText = "sentence_embedding";
constexpr const char* kOfTokens = "token_embeddings";

DenseModule read_dense(const std::string& folder, const char* input) {
  const std::string path = folder + "/config.json";
  const auto json = formats::read_json(path);
  const ConfigReader config(json, path);
  require_vectors(config, input);
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
  if (type == "pylate.models.Dense.Dense") return "Dense";
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

/// modules.json, module by module.
class ModuleList {
 public:
  ModuleList(const std::string& folder, const std::string& file, SentenceModules& modules)
      : folder_(folder), file_(file), modules_(modules) {}

  void read() {
    const auto list = formats::read_json(file_);
    require(list.is_array(), "{}: expected a list of modules, found {}", file_,
            formats::shown(list));
    if (is_multi_vector(folder_ + "/config_sentence_transformers.json") || has_mask(list)) {
      modules_.multi = MultiVectorModules{.normalizes = false};
      modules_.has_dense = false;
    }
    bool first = true;
    for (const auto& module : list) {
      const ConfigReader config(module, file_);
      const std::string type = config.string("type", "");
      const std::string path = config.string("path", "");
      if (std::exchange(first, false)) {
        read_first(type, path);
      } else {
        read_further(type, path);
      }
    }
    if (modules_.multi) finish_multi();
    require(!expects_splade_ || modules_.sparse,
            "{}: expected SpladePooling behind the MLMTransformer, found none", file_);
  }

 private:
  static bool has_mask(const nlohmann::ordered_json& list) {
    return std::ranges::any_of(list, [](const auto& module) {
      const auto type = module.is_object() ? module.find("type") : module.end();
      return module.is_object() && type != module.end() && type->is_string() &&
             type->template get_ref<const std::string&>().ends_with(".MultiVectorMask");
    });
  }

  std::string folder_of(const std::string& path) const {
    return module_folder(folder_, path, file_);
  }

  void read_first(const std::string& type, const std::string& path) {
    const std::string name = class_name(type);
    const bool is_here = path.empty() || path == ".";
    if (name == "Router") return read_router(is_here ? folder_ : folder_of(path));
    require(name == "Transformer" || name == "MLMTransformer" || name == "StaticEmbedding",
            "{}: expected first a Transformer, MLMTransformer, StaticEmbedding or Router, found {}",
            file_, quote(type));
    expects_splade_ = name == "MLMTransformer";
    modules_.is_table = name == "StaticEmbedding";
    if (is_here) return;
    const std::string wanted = modules_.is_table ? "/tokenizer.json" : "/config.json";
    const std::string encoder = folder_of(path) + wanted;
    require(fs::exists(encoder), "{}: expected the encoder in {}, found no {}", file_, path,
            encoder);
  }

  void read_further(const std::string& type, const std::string& path) {
    const std::string name = class_name(type);
    // A folder may have been made without this one, whose settings are all defaults.
    const auto options = [&] { return folder_of(path) + "/config.json"; };
    const bool is_alone = modules_.pooling.empty() && modules_.vector_modules.empty();
    if (name == "Pooling" && !modules_.multi && !expects_splade_) {
      require(is_alone, "{}: expected one Pooling, behind the Transformer, found another", file_);
      read_pooling(options(), modules_);
    } else if (name == "SpladePooling" && is_alone && !modules_.sparse && !modules_.multi) {
      read_splade(options(), modules_.sparse.emplace());
      modules_.has_dense = false;
    } else if (name == "MultiVectorMask" && modules_.multi) {
      read_mask(options(), *modules_.multi);
      has_mask_ = true;
    } else if (name == "Dense" && !modules_.sparse) {
      if (modules_.multi) {
        modules_.multi->layers.push_back(read_dense(folder_of(path), kOfTokens));
      } else {
        modules_.vector_modules.emplace_back(read_dense(folder_of(path), kOfText));
      }
    } else if (name == "Normalize" && !modules_.sparse) {
      read_normalize(options());
    } else {
      // Dropout does something in training alone.
      require(name == "Dropout",
              "{}: expected Pooling, Dense, Normalize or Dropout behind the Transformer, or "
              "SpladePooling, or Dense, MultiVectorMask and Normalize, found {}",
              file_, quote(type));
    }
  }

  void read_normalize(const std::string& file) {
    const auto json = read_object(file);
    const ConfigReader config(json, file);
    if (!modules_.multi) {
      require_vectors(config, kOfText);
      modules_.vector_modules.emplace_back(NormalizeModule{});
      return;
    }
    // There is no vector of the text that it could scale.
    if (config.string("module_input_name", kOfText) == kOfText) return;
    require_vectors(config, kOfTokens);
    modules_.multi->normalizes = true;
  }

  void finish_multi() {
    const std::string encoder = text::encoder_folder(folder_);
    read_multi_options(folder_ + "/config_sentence_transformers.json",
                       encoder + "/sentence_bert_config.json", has_mask_, *modules_.multi);
    // PyLate's list has neither mask nor norm, which its class adds.
    if (!has_mask_) modules_.multi->normalizes = true;
  }

  /// A table of weights for queries, and SPLADE for documents.
  void read_router(const std::string& folder) {
    const Routes routes = read_routes(folder);
    const auto name = [](const auto& module) { return class_name(module.second); };
    const auto& documents = routes.document;
    const bool is_splade =
        documents.size() == 2 &&
        (name(documents[0]) == "MLMTransformer" || name(documents[0]) == "Transformer") &&
        name(documents[1]) == "SpladePooling";
    const bool has_table =
        routes.query.size() == 1 && name(routes.query[0]) == "SparseStaticEmbedding";
    require(is_splade && has_table,
            "{}: expected a Router with SparseStaticEmbedding for queries, and MLMTransformer with "
            "SpladePooling for documents, found others",
            file_);
    read_splade(documents[1].first + "/config.json", modules_.sparse.emplace());
    modules_.sparse->query_table = routes.query[0].first;
    modules_.has_dense = false;
  }

  const std::string& folder_;
  const std::string& file_;
  SentenceModules& modules_;
  bool expects_splade_ = false, has_mask_ = false;
};

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
      // null is no prompt.
      modules.prompts[member.key()] =
          prompts.has(member.key()) ? prompts.string(member.key(), "") : std::string();
    }
  }
  if (modules.multi) {
    for (const auto& [role, prefix] : modules.multi->prefixes) {
      std::string& prompt = modules.prompts[role];
      if (!prompt.starts_with(prefix)) prompt.insert(0, prefix);
    }
  }
  if (modules.sparse && config.has("max_active_dims")) {
    modules.sparse->most_weights = config.integer("max_active_dims", 0, 1, kMostFeatures);
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

/// `normalize` of model2vec.
bool scales_table(const std::string& folder) {
  const std::string path = folder + "/config.json";
  const auto json = read_object(path);
  return ConfigReader(json, path).boolean("normalize", false);
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
    ModuleList(folder, list, modules).read();
  } else {
    const std::string pooling = folder + "/1_Pooling/config.json";
    if (fs::exists(pooling)) read_pooling(pooling, modules);
    if (fs::exists(folder + "/2_Normalize")) modules.vector_modules.emplace_back(NormalizeModule{});
    modules.multi = colbert_modules(folder);
    modules.has_dense = !modules.multi;
    modules.is_table = models::is_static_table(folder);
    if (modules.is_table && scales_table(folder)) {
      modules.vector_modules.emplace_back(NormalizeModule{});
    }
  }
  if (modules.has_dense && !modules.is_table) {
    modules.sparse = sparse_head_of(folder);
    modules.multi = multi_head_of(folder);
  }
  // A table reads texts of any length.
  if (!modules.is_table) read_text_options(text::encoder_folder(folder), listed, modules);
  read_model_options(folder + "/config_sentence_transformers.json", modules);
  return modules;
}

}  // namespace longformer::tasks
