#include "models/language_model_config.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <span>

#include "core/error.h"
#include "models/config_keys.h"
#include "models/config_limits.h"

namespace longformer::models {
namespace {

using formats::ConfigReader;
using formats::shown;

double rate(const ConfigReader& config, const std::string& key, double otherwise) {
  const double value = config.number(key, otherwise);
  require(value >= 0 && value < 1, "{}: {}: expected a number from 0 to below 1, found {}",
          config.name(), key, value);
  return value;
}

double positive(const ConfigReader& config, const std::string& key, double otherwise) {
  const double value = config.number(key, otherwise);
  require(value > 0 && value <= 1, "{}: {}: expected a number above 0 and up to 1, found {}",
          config.name(), key, value);
  return value;
}

void read_sizes(const ConfigReader& config, LanguageModelConfig& model) {
  model.hidden_size = config.integer("hidden_size", 512, 2, kMaxHidden);
  require(model.hidden_size % 2 == 0,
          "{}: hidden_size: expected an even number, as sines and cosines share it, found {}",
          config.name(), model.hidden_size);
  model.layers = config.integer("num_hidden_layers", 12, 1, kMaxLayers);
  model.heads = config.integer("num_attention_heads", 8, 1, kMaxHidden);
  const bool divides = model.hidden_size % model.heads == 0;
  require(divides || config.has("head_dim"),
          "{}: head_dim: expected it, as {} heads do not divide hidden_size {}, found none",
          config.name(), model.heads, model.hidden_size);
  model.head_size = config.integer("head_dim", model.hidden_size / model.heads, 1, kMaxHidden);
  model.intermediate_size =
      config.integer("intermediate_size", 4 * model.hidden_size, 1, kMaxIntermediate);
}

constexpr std::array<std::string_view, 9> kAttentions = {"window",      "dense",     "recurrent",
                                                         "compressive", "performer", "reformer",
                                                         "sparse",      "adaptive",  "routing"};
constexpr std::array<std::string_view, 8> kPositions = {
    "relative", "sinusoidal", "learned", "infused", "none", "axial", "distance_keys", "grid"};
constexpr std::array<std::string_view, 2> kInitializations = {"normal", "scaled"};
constexpr std::array<std::string_view, 5> kCompressions = {"convolution", "mean", "max", "dilated",
                                                           "most-used"};
constexpr std::array<std::string_view, 4> kLosses = {"none", "attention", "autoencoding", "bptt"};

/// Keys that one kind of attention or positions reads and others do not: a configuration for
/// several kinds may have them all.
constexpr std::array<std::string_view, 55> kOfOneAttention = {"windows",
                                                              "dilations",
                                                              "dilated_heads",
                                                              "segment_length",
                                                              "memory_length",
                                                              "clamp_length",
                                                              "same_length",
                                                              "empty_memory",
                                                              "compressed_memory_length",
                                                              "compression_rate",
                                                              "compression",
                                                              "compression_loss",
                                                              "unroll_segments",
                                                              "dilation_rates",
                                                              "compressed_positions",
                                                              "max_position_embeddings",
                                                              "features",
                                                              "feature_kernel",
                                                              "feature_epsilon",
                                                              "feature_normalization",
                                                              "features_per_head",
                                                              "orthogonal_features",
                                                              "feature_lengths",
                                                              "feature_redraw_interval",
                                                              "pattern",
                                                              "stride",
                                                              "summary",
                                                              "summary_by_head",
                                                              "integration",
                                                              "max_span",
                                                              "span_ramp",
                                                              "span_loss",
                                                              "initial_span",
                                                              "clusters",
                                                              "cluster_size",
                                                              "local_heads",
                                                              "local_window",
                                                              "routing_norm",
                                                              "routing_self",
                                                              "centroid_decay",
                                                              "commitment_loss",
                                                              "attn_layers",
                                                              "local_attn_chunk_length",
                                                              "local_num_chunks_before",
                                                              "local_num_chunks_after",
                                                              "lsh_attn_chunk_length",
                                                              "lsh_num_chunks_before",
                                                              "lsh_num_chunks_after",
                                                              "num_hashes",
                                                              "num_buckets",
                                                              "hash_seed",
                                                              "lsh_attention_dropout",
                                                              "axial_pos_shape",
                                                              "axial_pos_embds_dim",
                                                              "axial_pos_embds"};

void read_windows(const ConfigReader& config, LanguageModelConfig& model) {
  model.windows = layer_numbers(config, "windows", model.layers, 1);
  model.dilations.assign(static_cast<std::size_t>(model.layers), 0);
  if (config.has("dilations")) {
    model.dilations = layer_numbers(config, "dilations", model.layers, 0);
  }
  model.dilated_heads =
      config.integer("dilated_heads", std::min<Index>(2, model.heads), 0, model.heads);
  for (Index layer = 0; layer < model.layers; ++layer) {
    require(model.reach(layer) <= kMaxReach,
            "{}: windows and dilations of layer {}: expected a reach of at most {}, found {}",
            config.name(), layer, kMaxReach, model.reach(layer));
  }
}

void read_compression(const ConfigReader& config, LanguageModelConfig& model) {
  constexpr std::array<std::string_view, 2> kPositions = {"shared", "separate"};
  MemoryLengths& lengths = model.lengths;
  lengths.compressed = config.integer("compressed_memory_length", lengths.memory, 0, kMaxReach);
  model.compression_rate = config.integer("compression_rate", 4, 1, kMaxReach);
  model.compression =
      static_cast<Compression>(config.choice("compression", kCompressions, "convolution"));
  if (model.compression == Compression::dilated) {
    model.dilation_rates = {1, 2, 4};
    if (config.has("dilation_rates")) {
      const auto count = static_cast<Index>(config.at("dilation_rates").size());
      model.dilation_rates = layer_numbers(config, "dilation_rates", count, 1);
    }
  }
  model.compression_loss = static_cast<CompressionLoss>(config.choice(
      "compression_loss", kLosses, model.learns_compression() ? "attention" : "none"));
  require(model.compression_loss != CompressionLoss::autoencoding ||
              model.compression == Compression::convolution,
          "{}: compression_loss: expected attention or none with the compression {}, as only a "
          "convolution is undone by another, found autoencoding",
          config.name(), kCompressions[static_cast<std::size_t>(model.compression)]);
  const bool unrolls = model.compression_loss == CompressionLoss::backpropagation;
  require(!unrolls || model.learns_compression(),
          "{}: compression_loss: expected attention or none with the compression {}, which has no "
          "weights, found bptt",
          config.name(), kCompressions[static_cast<std::size_t>(model.compression)]);
  model.unroll_segments =
      config.integer("unroll_segments", unrolls ? 2 : 1, unrolls ? 2 : 1, unrolls ? 64 : 1);
  model.separate_positions = config.choice("compressed_positions", kPositions, "separate") == 1;
}

void read_memory(const ConfigReader& config, LanguageModelConfig& model) {
  constexpr std::array<std::string_view, 2> kEmpty = {"masked", "zeros"};
  MemoryLengths& lengths = model.lengths;
  lengths.segment = config.integer("segment_length", 512, 1, kMaxReach);
  lengths.memory = config.integer("memory_length", lengths.segment, 0, kMaxReach);
  lengths.clamp = config.integer("clamp_length", 0, 0, kMaxReach);
  lengths.same_length = config.boolean("same_length", false);
  model.begins_with_zeros = config.choice("empty_memory", kEmpty, "masked") == 1;
  if (model.is_compressive()) read_compression(config, model);
  check(lengths, model, config.name());
}

void read_block(const ConfigReader& config, LanguageModelConfig& model) {
  constexpr std::array<std::string_view, 2> kNorms = {"pre", "post"};
  const Activation usual = model.is_sparse()   ? Activation::quick_gelu
                           : model.has_spans() ? Activation::relu
                                               : Activation::gelu;
  model.activation = config.has("hidden_act") ? activation_of(config) : usual;
  model.post_norm = config.choice("norm_position", kNorms, model.has_spans() ? "post" : "pre") == 1;
  model.scales_embedding = config.boolean("embedding_scale", !model.has_own_layers());
  model.attention_bias = config.boolean("attention_bias", false);
  model.shares_relative_biases = config.boolean("share_relative_biases", true);
  model.final_layer_norm = config.boolean("final_layer_norm", !model.post_norm);
}

/// Positions of a grid are rows as wide as the stride, and columns.
void read_grid(const ConfigReader& config, LanguageModelConfig& model) {
  require(model.is_sparse(),
          "{}: positions: expected others with the attention {}, which has no stride, found grid",
          config.name(), name_of(model.attention));
  const Index stride = model.sparse.stride;
  model.max_positions =
      config.integer("max_position_embeddings", stride * stride, 1, kMaxPositions);
  require(model.max_positions % stride == 0,
          "{}: max_position_embeddings: expected a multiple of the stride of {}, found {}",
          config.name(), stride, model.max_positions);
}

/// Spans need a key for each distance, which is all that says the order.
void read_distance_keys(const ConfigReader& config, LanguageModelConfig& model) {
  constexpr std::string_view kName = "distance_keys";
  model.positions = static_cast<Positions>(config.choice("positions", kPositions, kName));
  require(model.positions == Positions::distance_keys,
          "{}: positions: expected {} with the attention adaptive, found {}", config.name(), kName,
          name_of(model.positions));
}

void read_positions(const ConfigReader& config, LanguageModelConfig& model) {
  if (model.has_spans()) return read_distance_keys(config, model);
  const std::string_view usual = model.is_sparse()                            ? "grid"
                                 : model.has_chunks()                         ? "axial"
                                 : model.has_features() || model.has_routes() ? "sinusoidal"
                                                                              : "relative";
  model.positions = static_cast<Positions>(config.choice("positions", kPositions, usual));
  if (model.positions == Positions::grid) return read_grid(config, model);
  require(model.positions != Positions::distance_keys,
          "{}: positions: expected others with the attention {}, found distance_keys",
          config.name(), name_of(model.attention));
  const bool is_learned = model.positions == Positions::learned;
  const bool is_axial = model.positions == Positions::axial;
  require(model.has_chunks() || !is_axial,
          "{}: positions: expected others than axial unless the attention is reformer, found the "
          "attention {}",
          config.name(), name_of(model.attention));
  require(!model.has_features() || model.positions != Positions::relative,
          "{}: positions: expected sinusoidal, learned, infused or none with the attention "
          "performer, as a relative term is no product of features, found relative",
          config.name());
  require(!model.is_sparse() || model.positions != Positions::relative,
          "{}: positions: expected grid, learned, sinusoidal, infused or none with the attention "
          "sparse, found relative",
          config.name());
  require(!model.has_routes() ||
              (model.positions != Positions::relative && model.positions != Positions::infused),
          "{}: positions: expected sinusoidal, learned or none with the attention routing, whose "
          "clusters have no distances, found {}",
          config.name(), name_of(model.positions));
  require(!model.has_memory() || !is_learned,
          "{}: positions: expected relative, sinusoidal, infused or none with memories, as a text "
          "of any length is read, found learned",
          config.name());
  if (is_learned) {
    model.max_positions = config.integer("max_position_embeddings", 512, 1, kMaxPositions);
  }
}

void read_reformer_keys(const ConfigReader& config, LanguageModelConfig& model) {
  const Positions positions = model.positions;
  require(positions != Positions::relative && positions != Positions::infused,
          "{}: positions: expected axial, learned, sinusoidal or none with the attention reformer, "
          "whose keys have no positions of their own, found {}",
          config.name(), name_of(positions));
  require(!model.post_norm && model.final_layer_norm,
          "{}: norm_position: expected pre with a final_layer_norm with the attention reformer, "
          "found others",
          config.name());
  ReformerConfig& reformer = model.reformer;
  reformer = read_reformer(config, model.layers);
  Index usual = positions == Positions::learned ? model.max_positions : 4096;
  if (positions == Positions::axial) {
    read_axial(config, model.hidden_size, reformer);
    usual = reformer.axial_shape[0] * reformer.axial_shape[1];
  }
  reformer.longest = config.integer("max_position_embeddings", usual, 1, kMaxPositions);
  if (positions == Positions::axial) model.max_positions = std::min(usual, reformer.longest);
  reformer.lsh_dropout = rate(config, "lsh_attention_dropout", model.attention_dropout);
}

}  // namespace

std::string_view name_of(Positions positions) {
  return kPositions[static_cast<std::size_t>(positions)];
}

std::string_view name_of(LmAttention attention) {
  return kAttentions[static_cast<std::size_t>(attention)];
}

std::string name_in(Index layer, const std::string& tensor) {
  return fmt::format("layers.{}.{}", layer, tensor);
}

void check(const MemoryLengths& lengths, const LanguageModelConfig& config,
           const std::string& name) {
  require(
      lengths.segment >= 1 && lengths.memory >= 0 && lengths.compressed >= 0 && lengths.clamp >= 0,
      "{}: segment_length: expected 1 or more, and other lengths of 0 or more", name);
  require(!lengths.same_length || config.attention == LmAttention::recurrent,
          "{}: same_length: expected false unless the attention is recurrent, found {}", name,
          name_of(config.attention));
  require(!lengths.same_length || lengths.memory >= 1,
          "{}: same_length: expected a memory_length of 1 or more, found 0", name);
  require(lengths.compressed == 0 || config.is_compressive(),
          "{}: compressed_memory_length: expected 0 unless the attention is compressive, found {}",
          name, lengths.compressed);
}

std::vector<kernels::HeadPattern> LanguageModelConfig::pattern(Index layer) const {
  std::vector<kernels::HeadPattern> pattern;
  for (Index head = 0; head < heads; ++head) {
    const Index dilation = head + dilated_heads < heads ? 1 : dilations[at(layer)] + 1;
    pattern.push_back({windows[at(layer)], 0, dilation});
  }
  return pattern;
}

Index LanguageModelConfig::reach(Index layer) const {
  if (has_memory()) {
    return lengths.same_length
               ? lengths.memory - 1
               : lengths.memory + compression_rate * lengths.compressed + lengths.segment - 1;
  }
  const kernels::HeadPattern last = pattern(layer).back();
  return last.reach_left * last.dilation;
}

Index LanguageModelConfig::receptive_field() const {
  Index sum = 0;
  for (Index layer = 0; layer < layers; ++layer) sum += reach(layer);
  return sum;
}

std::vector<Index> layer_numbers(const ConfigReader& config, const std::string& key, Index layers,
                                 Index least) {
  const auto& value = config.at(key);
  require(value.is_array() && value.size() == static_cast<std::size_t>(layers),
          "{}: {}: expected a list of {} numbers, one for each layer, found {}", config.name(), key,
          layers, shown(value));
  std::vector<Index> numbers;
  for (const auto& number : value) {
    const bool good =
        number.is_number_integer() && number >= least && number <= std::int64_t{kMaxReach};
    require(good, "{}: {}: expected integers from {} to {}, found {}", config.name(), key, least,
            kMaxReach, shown(number));
    numbers.push_back(number.get<Index>());
  }
  return numbers;
}

namespace {

/// The bytes of the key `symbols`, each once.
std::vector<std::uint8_t> read_symbols(const ConfigReader& config) {
  std::vector<std::uint8_t> symbols;
  if (!config.has("symbols")) return symbols;
  const auto& list = config.at("symbols");
  const auto is_byte = [](const auto& value) {
    return value.is_number_integer() && value >= 0 && value <= 255;
  };
  require(list.is_array() && !list.empty() && std::all_of(list.begin(), list.end(), is_byte),
          "{}: symbols: expected a list of bytes from 0 to 255, found {}", config.name(),
          shown(list));
  for (const auto& value : list) {
    const auto byte = value.template get<std::uint8_t>();
    require(std::find(symbols.begin(), symbols.end(), byte) == symbols.end(),
            "{}: symbols: expected every byte once, found {} again", config.name(), byte);
    symbols.push_back(byte);
  }
  return symbols;
}

void read_vocabulary(const ConfigReader& config, const std::string& key,
                     LanguageModelConfig& model) {
  const std::string name = config.string(key, "bytes");
  model.symbols = read_symbols(config);
  model.reads_tokens = key == "vocabulary" && name == "tokenizer";
  if (model.reads_tokens) {
    require(model.symbols.empty(), "{}: symbols: expected none beside a tokenizer", config.name());
    model.vocab_size = config.integer("vocab_size", 0, 0, kMaxVocabulary);
    return;
  }
  require(key != "vocabulary" || name == "bytes" || name == "text8",
          "{}: vocabulary: expected bytes, text8 or tokenizer, found {}", config.name(),
          formats::quote(name));
  model.alphabet = text::alphabet(name);
  require(model.symbols.empty() || model.alphabet == text::Alphabet::bytes,
          "{}: symbols: expected the vocabulary bytes, found {}", config.name(), name);
  model.vocab_size =
      model.symbols.empty() ? text::alphabet_size(model.alphabet) : std::ssize(model.symbols);
  const Index vocabulary = config.integer("vocab_size", model.vocab_size, 1, kMaxHidden);
  require(vocabulary == model.vocab_size, "{}: vocab_size: expected {} for the {}, found {}",
          config.name(), model.vocab_size,
          model.symbols.empty() ? "vocabulary " + name : "list of symbols", vocabulary);
}

}  // namespace

std::string_view LanguageModelConfig::vocabulary() const {
  return reads_tokens ? "tokenizer" : text::name_of(alphabet);
}

LanguageModelConfig parse_language_model(const ConfigReader& config) {
  const std::string type = config.string("model_type", "");
  const bool is_old = type == kCharacterLmType;
  require(is_old || type == kLanguageModelType, "{}: model_type: expected {} or {}, found {}",
          config.name(), kLanguageModelType, kCharacterLmType, formats::quote(type));
  LanguageModelConfig model;
  if (!is_old) {
    config.check_present("attention");
    model.attention = static_cast<LmAttention>(config.choice("attention", kAttentions, ""));
  }
  read_vocabulary(config, is_old ? "alphabet" : "vocabulary", model);
  read_sizes(config, model);
  read_block(config, model);
  if (model.is_sparse()) model.sparse = read_sparse(config, model.heads);
  if (model.has_spans()) model.spans = read_spans(config);
  if (model.has_routes()) model.routing = read_routing(config, model.heads);
  read_positions(config, model);
  if (model.has_features()) model.features = read_features(config, true);
  if (model.has_memory()) {
    read_memory(config, model);
  } else if (model.has_windows()) {
    read_windows(config, model);
  } else {
    model.windows.assign(at(model.layers),
                         model.has_spans() ? model.spans.ramp.longest : kMaxReach);
    model.dilations.assign(at(model.layers), 0);
  }
  model.dropout = rate(config, "dropout", 0.2);
  model.attention_dropout =
      rate(config, "attention_dropout", model.has_spans() ? model.dropout : 0);
  if (model.has_chunks()) read_reformer_keys(config, model);
  model.layer_norm_eps = positive(config, "layer_norm_eps", 1e-5);
  model.initializer_range = positive(config, "initializer_range", 0.02);
  model.initialization = static_cast<Initialization>(
      config.choice("initialization", kInitializations, model.is_sparse() ? "scaled" : "normal"));
  model.tie_word_embeddings = config.boolean("tie_word_embeddings", !model.has_own_layers());
  require(
      !model.has_chunks() || !model.tie_word_embeddings,
      "{}: tie_word_embeddings: expected false with the attention reformer, whose last rows are "
      "twice as wide as its embeddings, found true",
      config.name());
  std::vector<std::string_view> harmless(kOfOneAttention.begin(), kOfOneAttention.end());
  std::ranges::copy(bookkeeping_keys(), std::back_inserter(harmless));
  formats::refuse_unused_keys(config, {.always = harmless});
  return model;
}

LanguageModelConfig read_language_model(const std::string& path) {
  const nlohmann::ordered_json json = formats::read_json(path);
  return parse_language_model(ConfigReader(json, path));
}

nlohmann::ordered_json to_json(const LanguageModelConfig& config) {
  nlohmann::ordered_json json;
  json["model_type"] = kLanguageModelType;
  json["attention"] = name_of(config.attention);
  json["vocabulary"] = config.vocabulary();
  if (!config.symbols.empty()) json["symbols"] = config.symbols;
  json["vocab_size"] = config.vocab_size;
  json["hidden_size"] = config.hidden_size;
  json["num_hidden_layers"] = config.layers;
  json["num_attention_heads"] = config.heads;
  json["head_dim"] = config.head_size;
  json["intermediate_size"] = config.intermediate_size;
  json["hidden_act"] = name_of(config.activation);
  json["norm_position"] = config.post_norm ? "post" : "pre";
  json["embedding_scale"] = config.scales_embedding;
  json["attention_bias"] = config.attention_bias;
  json["positions"] = name_of(config.positions);
  if (config.max_positions > 0 || config.has_chunks()) {
    json["max_position_embeddings"] =
        config.has_chunks() ? config.reformer.longest : config.max_positions;
  }
  if (config.has_features()) write_features(config.features, json);
  if (config.is_sparse()) write_sparse(config.sparse, json);
  if (config.has_spans()) write_spans(config.spans, json);
  if (config.has_routes()) write_routing(config.routing, json);
  if (config.has_chunks()) {
    write_reformer(config.reformer, config.positions == Positions::axial, json);
  }
  json["share_relative_biases"] = config.shares_relative_biases;
  if (config.has_memory()) {
    json["segment_length"] = config.lengths.segment;
    json["memory_length"] = config.lengths.memory;
    json["same_length"] = config.lengths.same_length;
    json["clamp_length"] = config.lengths.clamp;
    json["empty_memory"] = config.begins_with_zeros ? "zeros" : "masked";
  } else if (config.has_windows()) {
    json["windows"] = config.windows;
    json["dilations"] = config.dilations;
    json["dilated_heads"] = config.dilated_heads;
  }
  if (config.is_compressive()) {
    json["compressed_memory_length"] = config.lengths.compressed;
    json["compression_rate"] = config.compression_rate;
    json["compression"] = kCompressions[static_cast<std::size_t>(config.compression)];
    json["compression_loss"] = kLosses[static_cast<std::size_t>(config.compression_loss)];
    if (config.unroll_segments > 1) json["unroll_segments"] = config.unroll_segments;
    if (!config.dilation_rates.empty()) json["dilation_rates"] = config.dilation_rates;
    json["compressed_positions"] = config.separate_positions ? "separate" : "shared";
  }
  json["dropout"] = config.dropout;
  json["attention_dropout"] = config.attention_dropout;
  json["layer_norm_eps"] = config.layer_norm_eps;
  json["final_layer_norm"] = config.final_layer_norm;
  json["tie_word_embeddings"] = config.tie_word_embeddings;
  json["initializer_range"] = config.initializer_range;
  json["initialization"] = kInitializations[static_cast<std::size_t>(config.initialization)];
  return json;
}

}  // namespace longformer::models
