#include "models/static_table.h"

#include <array>
#include <filesystem>
#include <numeric>
#include <utility>
#include <vector>

#include "core/error.h"
#include "formats/weights.h"
#include "kernels/rows.h"
#include "models/config_limits.h"
#include "models/encoder.h"
#include "models/registry.h"
#include "text/encoder_folder.h"

namespace longformer::models {
namespace {

namespace fs = std::filesystem;
using Rename = TensorNames::Rename;

/// Longest row of a pass. A longer text is read in several, which changes nothing.
constexpr Index kRowTokens = Index{1} << 16;

constexpr const char* kMapping = "mapping";
constexpr const char* kTokenWeights = "weights";

constexpr std::array<Rename, 1> kModuleNames = {{{kWordEmbeddings, "embedding.weight"}}};
constexpr std::array<Rename, 1> kModel2VecNames = {{{kWordEmbeddings, "embeddings"}}};

const Family kModuleTable = {.model_type = "static",
                             .class_prefix = "Static",
                             .names = {.renames = kModuleNames},
                             .encoder = EncoderTraits{.has_token_types = false}};
const Family kModel2VecTable = {.model_type = "model2vec",
                                .class_prefix = "Static",
                                .names = {.renames = kModel2VecNames},
                                .encoder = EncoderTraits{.has_token_types = false}};

/// Null where there is no such file, or no JSON in it: whoever needs it says so.
nlohmann::ordered_json object_in(const std::string& path) {
  if (!fs::is_regular_file(path)) return nullptr;
  try {
    return formats::read_json(path);
  } catch (const Error&) {
    return nullptr;
  }
}

bool is_model2vec(const std::string& folder) {
  const std::string path = text::encoder_folder(folder) + "/config.json";
  const auto json = object_in(path);
  return json.is_object() && json.value("model_type", nlohmann::ordered_json()) == "model2vec";
}

bool begins_with_table(const std::string& folder) {
  const auto list = object_in(folder + "/modules.json");
  if (!list.is_array() || list.empty() || !list[0].is_object()) return false;
  const auto type = list[0].find("type");
  return type != list[0].end() && type->is_string() &&
         type->get_ref<const std::string&>().ends_with(".StaticEmbedding");
}

/// Shape of a tensor of so many dimensions; empty where the file has none of this name.
Shape shape_of(const Weights& weights, const std::string& name, std::size_t rank) {
  if (!weights.has(name)) return {};
  const Shape& shape = weights.shape(name);
  require(shape.size() == rank, "{}: tensor {}: expected {} dimensions, found shape {}",
          weights.path(), weights.stored_name(name), rank, to_string(shape));
  return shape;
}

}  // namespace

bool is_static_table(const std::string& folder) {
  return begins_with_table(folder) || is_model2vec(folder);
}

EncoderConfig static_config(const std::string& folder) {
  const bool drops_unknown = is_model2vec(folder);
  EncoderConfig config;
  config.family = drops_unknown ? &kModel2VecTable : &kModuleTable;
  const Weights weights = Weights::open(folder, config.family->names);
  const Shape rows = shape_of(weights, kWordEmbeddings, 2);
  require(!rows.empty(), "{}: expected a table {} of tokens, found none", weights.path(),
          config.family->names.renames[0].file);
  const Shape mapping = shape_of(weights, kMapping, 1);
  const Shape token_weights = shape_of(weights, kTokenWeights, 1);
  config.vocab_size = !mapping.empty() ? mapping[0] : rows[0];
  require(token_weights.empty() || token_weights[0] == config.vocab_size,
          "{}: tensor {}: expected {} weights of tokens, found {}", weights.path(), kTokenWeights,
          config.vocab_size, to_string(token_weights));
  require(rows[1] >= 1 && rows[1] <= kMaxHidden && config.vocab_size >= 1 &&
              config.vocab_size <= kMaxVocabulary,
          "{}: expected a table of 1 to {} tokens by 1 to {} numbers, found {} by {}",
          weights.path(), kMaxVocabulary, kMaxHidden, config.vocab_size, rows[1]);
  config.hidden_size = config.embedding_size = rows[1];
  config.heads = config.intermediate_size = 1;
  config.max_position_embeddings = kRowTokens;
  config.type_vocab_size = 2;
  config.pad_token_id = -1;
  config.tie_word_embeddings = false;
  config.recipe.has_position_table = config.recipe.has_type_table = false;
  config.recipe.norms_embeddings = false;
  config.table = StaticTable{.stored_rows = rows[0],
                             .has_mapping = !mapping.empty(),
                             .has_weights = !token_weights.empty(),
                             .drops_unknown = drops_unknown};
  return config;
}

Tensor static_rows(const EncoderConfig& config, const LayerSource& source) {
  const StaticTable& table = *config.table;
  const Index width = config.hidden_size;
  const Tensor stored = embedding(source, kWordEmbeddings, {table.stored_rows, width});
  const Weights& weights = source.weights;
  if (!table.has_mapping && !table.has_weights) return stored;
  if (weights.is_recording()) {
    if (table.has_weights) weights.get_fp32(kTokenWeights, {config.vocab_size}, {});
    return stored;
  }
  std::vector<Index> rows(at(config.vocab_size));
  if (table.has_mapping) {
    rows = weights.integers(kMapping, config.vocab_size);
  } else {
    std::iota(rows.begin(), rows.end(), 0);
  }
  for (const Index row : rows) {
    require(row >= 0 && row < table.stored_rows,
            "{}: tensor {}: expected rows from 0 to {}, found {}", weights.path(), kMapping,
            table.stored_rows - 1, row);
  }
  Tensor factors;
  if (table.has_weights) factors = weights.get_fp32(kTokenWeights, {config.vocab_size}, {});
  return kernels::gathered_rows(stored.to(DType::f32), rows, factors);
}

}  // namespace longformer::models
