#include "tasks/embedding/token_modules.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "formats/weights.h"

namespace longformer::tasks {
namespace {

namespace fs = std::filesystem;
using formats::ConfigReader;
using formats::quote;
using Json = nlohmann::ordered_json;

/// Longest length of a query or document that a file may name.
constexpr Index kMostTokens = Index{1} << 24;
/// The length of queries in ColBERT.
constexpr Index kUsualQuery = 32;

Json object_in(const std::string& path) {
  return fs::exists(path) ? formats::read_json(path) : Json::object();
}

/// string.punctuation of Python, a word for each character.
std::vector<std::string> punctuation() {
  constexpr std::string_view kAll = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
  std::vector<std::string> words;
  for (const char one : kAll) words.emplace_back(1, one);
  return words;
}

std::vector<std::string> words_of(const ConfigReader& config, const char* key) {
  if (!config.has(key)) return {};
  const Json& list = config.at(key);
  if (list.is_string()) return {list.get<std::string>()};
  const bool good =
      list.is_array() && std::ranges::all_of(list, [](const Json& one) { return one.is_string(); });
  require(good, "{}: {}: expected a list of texts, found {}", config.name(), key,
          formats::shown(list));
  return list.get<std::vector<std::string>>();
}

std::optional<Index> length_of(const ConfigReader& config, const char* key) {
  if (!config.has(key)) return std::nullopt;
  return config.integer(key, 0, 1, kMostTokens);
}

/// Whether a key is there with a value, null included.
bool is_named(const ConfigReader& config, const char* key) { return config.object().contains(key); }

QueryExpansion read_expansion(const Json& object, const std::string& name) {
  const ConfigReader config(object, name);
  const std::string strategy = config.string("strategy", "");
  require(strategy == "fixed" || strategy == "min", "{}: strategy: expected fixed or min, found {}",
          name, quote(strategy));
  config.check_present("length");
  return {.is_fixed = strategy == "fixed",
          .length = config.integer("length", 0, 1, kMostTokens),
          .attend = config.boolean("attend", false),
          .token = config.string("token", "")};
}

/// `query_expansion` where the file has it: null for none.
bool take_expansion(const ConfigReader& config, MultiVectorModules& multi) {
  if (!is_named(config, "query_expansion")) return false;
  multi.expansion.reset();
  if (config.has("query_expansion")) {
    multi.expansion =
        read_expansion(config.at("query_expansion"), config.name() + ": query_expansion");
  }
  return true;
}

/// The flat keys of PyLate.
void read_pylate(const ConfigReader& config, MultiVectorModules& multi) {
  constexpr std::array kKeys = {
      "query_length",       "document_length",       "query_expansion",
      "do_query_expansion", "query_prefix",          "attend_to_expansion_tokens",
      "document_prefix",    "attend_to_mask_tokens", "skiplist_words"};
  const bool has_one =
      std::ranges::any_of(kKeys, [&](const char* key) { return is_named(config, key); });
  multi.document_length = length_of(config, "document_length");
  multi.query_length = length_of(config, "query_length");
  for (const char* role : {"query", "document"}) {
    const std::string key = std::string(role) + "_prefix";
    if (config.has(key)) multi.prefixes[role] = config.string(key, "");
  }
  if (take_expansion(config, multi) || !has_one) return;
  if (!config.boolean("do_query_expansion", true)) return;
  const bool masks = config.boolean("attend_to_mask_tokens", false);
  multi.expansion = QueryExpansion{.is_fixed = true,
                                   .length = multi.query_length.value_or(kUsualQuery),
                                   .attend = config.boolean("attend_to_expansion_tokens", masks)};
  multi.query_length.reset();
}

/// A head of one file with "weight" [out, in] and "bias".
DenseModule dense_of_file(const std::string& path) {
  const auto files = formats::WeightFiles::of_file(path);
  const auto weight = files.tensors().find("weight");
  require(weight != files.tensors().end() && weight->second.shape().size() == 2,
          "{}: expected a tensor weight of a linear layer, found none", path);
  const Shape& shape = weight->second.shape();
  return {.folder = path,
          .in_features = shape[1],
          .out_features = shape[0],
          .bias = files.tensors().contains("bias"),
          .file = path};
}

}  // namespace

void read_splade(const std::string& file, SparseModules& sparse) {
  const Json json = object_in(file);
  const ConfigReader config(json, file);
  const std::string pooling = config.string("pooling_strategy", "max");
  const std::string activation = config.string("activation_function", "relu");
  require(pooling == "max" || pooling == "sum",
          "{}: pooling_strategy: expected max or sum, found {}", file, quote(pooling));
  require(activation == "relu" || activation == "log1p_relu",
          "{}: activation_function: expected relu or log1p_relu, found {}", file,
          quote(activation));
  sparse.adds = pooling == "sum";
  sparse.has_two_logs = activation == "log1p_relu";
}

void read_mask(const std::string& file, MultiVectorModules& multi) {
  const Json json = object_in(file);
  const ConfigReader config(json, file);
  require(!config.has("keep_only_token_ids"),
          "{}: keep_only_token_ids: expected none, found a list, which is for images", file);
  multi.skipped_words = words_of(config, "skiplist_words");
  if (!config.has("skiplist_tasks")) return;
  const std::vector<std::string> tasks = words_of(config, "skiplist_tasks");
  multi.skips_in_queries = std::ranges::find(tasks, "query") != tasks.end();
  multi.skips_in_documents = std::ranges::find(tasks, "document") != tasks.end();
}

bool is_multi_vector(const std::string& model_file) {
  const Json json = object_in(model_file);
  const ConfigReader config(json, model_file);
  const std::string type = config.string("model_type", "");
  // The first versions of PyLate name no type.
  const bool is_pylate = config.has("query_prefix") || config.has("document_prefix");
  return type == "MultiVectorEncoder" || type == "ColBERT" || (type.empty() && is_pylate);
}

void read_multi_options(const std::string& model_file, const std::string& text_file, bool has_mask,
                        MultiVectorModules& multi) {
  const Json json = object_in(model_file);
  const ConfigReader config(json, model_file);
  read_pylate(config, multi);
  if (!has_mask) {
    // PyLate leaves punctuation out unless the folder says otherwise.
    const bool is_named_list = config.has("skiplist_words");
    multi.skipped_words = is_named_list ? words_of(config, "skiplist_words") : punctuation();
  }
  const std::string similarity = config.string("similarity_fn_name", "");
  multi.scores_mean = similarity == "meanmaxsim";
  const Json text_json = object_in(text_file);
  const ConfigReader text(text_json, text_file);
  take_expansion(text, multi);
  if (const auto length = length_of(text, "query_length")) multi.query_length = length;
  if (const auto length = length_of(text, "document_length")) multi.document_length = length;
}

std::optional<MultiVectorModules> colbert_modules(const std::string& folder) {
  const std::string path = folder + "/config.json";
  const Json json = object_in(path);
  const std::vector<std::string> names = words_of(ConfigReader(json, path), "architectures");
  if (std::ranges::find(names, kColbertArchitecture) == names.end()) return std::nullopt;
  const auto files = formats::WeightFiles::open(folder);
  const auto weight = files.tensors().find("linear.weight");
  require(weight != files.tensors().end() && weight->second.shape().size() == 2,
          "{}: expected a tensor linear.weight, as HF_ColBERT has it, found none", files.path());
  const Shape& shape = weight->second.shape();
  MultiVectorModules multi;
  multi.layers = {
      {.folder = folder, .in_features = shape[1], .out_features = shape[0], .bias = false}};
  const std::string metadata = folder + "/artifact.metadata";
  const Json settings = object_in(metadata);
  const ConfigReader config(settings, metadata);
  multi.prefixes = {{"query", config.string("query_token_id", "[unused0]") + " "},
                    {"document", config.string("doc_token_id", "[unused1]") + " "}};
  multi.document_length = length_of(config, "doc_maxlen");
  multi.expansion =
      QueryExpansion{.is_fixed = true,
                     .length = length_of(config, "query_maxlen").value_or(kUsualQuery),
                     .attend = config.boolean("attend_to_mask_tokens", false)};
  if (config.boolean("mask_punctuation", true)) multi.skipped_words = punctuation();
  return multi;
}

std::optional<SparseModules> sparse_head_of(const std::string& folder) {
  const std::string file = folder + "/sparse_linear.pt";
  if (!fs::exists(file)) return std::nullopt;
  return SparseModules{.head = SparseModules::Head::linear, .file = file};
}

std::optional<MultiVectorModules> multi_head_of(const std::string& folder) {
  const std::string file = folder + "/colbert_linear.pt";
  if (!fs::exists(file)) return std::nullopt;
  MultiVectorModules multi;
  multi.layers = {dense_of_file(file)};
  multi.drops_first = true;
  multi.scores_mean = true;
  return multi;
}

Routes read_routes(const std::string& folder) {
  const std::string file = folder + "/router_config.json";
  const Json json = formats::read_json(file);
  const ConfigReader config(json, file);
  for (const char* key : {"types", "structure"}) config.check_present(key);
  const std::string structure_name = file + ": structure";
  const ConfigReader structure(config.at("structure"), structure_name);
  const std::string types_name = file + ": types";
  const ConfigReader types(config.at("types"), types_name);
  Routes routes;
  for (const auto& [role, list] : structure.object().items()) {
    require(role == "query" || role == "document",
            "{}: structure: expected routes for query and document, found {}", file, quote(role));
    auto& route = role == "query" ? routes.query : routes.document;
    for (const std::string& name : words_of(structure, role.c_str())) {
      const bool leads_out = name == ".." || name.find_first_of("/\\") != std::string::npos;
      require(!leads_out, "{}: structure: expected names of folders beside it, found {}", file,
              quote(name));
      const fs::path module = name.empty() ? fs::path(folder) : fs::path(folder) / name;
      route.emplace_back(module.string(), types.string(name, ""));
    }
  }
  return routes;
}

}  // namespace longformer::tasks
