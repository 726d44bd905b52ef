#include "models/language_model_attentions.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/error.h"
#include "models/config_limits.h"
#include "models/rates.h"

namespace longformer::models {
namespace {

using formats::ConfigReader;
using nlohmann::ordered_json;
using Keys = std::string_view;

constexpr std::array kAllPositions = {Positions::relative, Positions::sinusoidal,
                                      Positions::learned, Positions::infused, Positions::none};

/// Everything that was read is seen, or as much of it as the kind says elsewhere.
void set_reach(LanguageModelConfig& model, Index reach = kMaxReach) {
  model.windows.assign(at(model.layers), reach);
  model.dilations.assign(at(model.layers), 0);
}

// Windows (docs/spec/language-models.md#d) and dense attention.

constexpr std::array<Keys, 3> kWindowKeys = {"windows", "dilations", "dilated_heads"};

void read_windows(const ConfigReader& config, LanguageModelConfig& model) {
  model.windows = layer_numbers(config, "windows", model.layers, 1);
  model.dilations.assign(at(model.layers), 0);
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

void write_windows(const LanguageModelConfig& model, ordered_json& json) {
  json["windows"] = model.windows;
  json["dilations"] = model.dilations;
  json["dilated_heads"] = model.dilated_heads;
}

void read_dense(const ConfigReader&, LanguageModelConfig& model) { set_reach(model); }
void write_dense(const LanguageModelConfig&, ordered_json&) {}

// Memories (docs/spec/language-models.md#g1, #g2).

constexpr std::array kMemoryPositions = {Positions::relative, Positions::sinusoidal,
                                         Positions::infused, Positions::none};
constexpr std::array<Keys, 5> kMemoryKeys = {"segment_length", "memory_length", "clamp_length",
                                             "same_length", "empty_memory"};
constexpr std::array<Keys, 7> kCompressionKeys = {
    "compressed_memory_length", "compression_rate", "compression",         "compression_loss",
    "unroll_segments",          "dilation_rates",   "compressed_positions"};
constexpr std::array<std::string_view, 5> kCompressions = {"convolution", "mean", "max", "dilated",
                                                           "most-used"};
constexpr std::array<std::string_view, 4> kLosses = {"none", "attention", "autoencoding", "bptt"};

void read_memory(const ConfigReader& config, LanguageModelConfig& model) {
  constexpr std::array<std::string_view, 2> kEmpty = {"masked", "zeros"};
  MemoryLengths& lengths = model.lengths;
  lengths.segment = config.integer("segment_length", 512, 1, kMaxReach);
  lengths.memory = config.integer("memory_length", lengths.segment, 0, kMaxReach);
  lengths.clamp = config.integer("clamp_length", 0, 0, kMaxReach);
  lengths.same_length = config.boolean("same_length", false);
  model.begins_with_zeros = config.choice("empty_memory", kEmpty, "masked") == 1;
  check(lengths, model, config.name());
}

void write_memory(const LanguageModelConfig& model, ordered_json& json) {
  json["segment_length"] = model.lengths.segment;
  json["memory_length"] = model.lengths.memory;
  json["same_length"] = model.lengths.same_length;
  json["clamp_length"] = model.lengths.clamp;
  json["empty_memory"] = model.begins_with_zeros ? "zeros" : "masked";
}

void read_compression(const ConfigReader& config, LanguageModelConfig& model) {
  constexpr std::array<std::string_view, 2> kPlaces = {"shared", "separate"};
  read_memory(config, model);
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
  const std::string_view compression = kCompressions[static_cast<std::size_t>(model.compression)];
  require(model.compression_loss != CompressionLoss::autoencoding ||
              model.compression == Compression::convolution,
          "{}: compression_loss: expected attention or none with the compression {}, as only a "
          "convolution is undone by another, found autoencoding",
          config.name(), compression);
  const bool unrolls = model.compression_loss == CompressionLoss::backpropagation;
  require(!unrolls || model.learns_compression(),
          "{}: compression_loss: expected attention or none with the compression {}, which has no "
          "weights, found bptt",
          config.name(), compression);
  model.unroll_segments =
      config.integer("unroll_segments", unrolls ? 2 : 1, unrolls ? 2 : 1, unrolls ? 64 : 1);
  model.separate_positions = config.choice("compressed_positions", kPlaces, "separate") == 1;
}

void write_compression(const LanguageModelConfig& model, ordered_json& json) {
  write_memory(model, json);
  json["compressed_memory_length"] = model.lengths.compressed;
  json["compression_rate"] = model.compression_rate;
  json["compression"] = kCompressions[static_cast<std::size_t>(model.compression)];
  json["compression_loss"] = kLosses[static_cast<std::size_t>(model.compression_loss)];
  if (model.unroll_segments > 1) json["unroll_segments"] = model.unroll_segments;
  if (!model.dilation_rates.empty()) json["dilation_rates"] = model.dilation_rates;
  json["compressed_positions"] = model.separate_positions ? "separate" : "shared";
}

// Performer (docs/spec/low-rank-and-kernels.md#f).

constexpr std::array kFeaturePositions = {Positions::sinusoidal, Positions::learned,
                                          Positions::infused, Positions::none};
constexpr std::array<Keys, 8> kFeatureKeys = {
    "features",          "feature_kernel",      "feature_epsilon", "feature_normalization",
    "features_per_head", "orthogonal_features", "feature_lengths", "feature_redraw_interval"};

void read_performer(const ConfigReader& config, LanguageModelConfig& model) {
  set_reach(model);
  model.features = read_features(config, true);
}

void write_performer(const LanguageModelConfig& model, ordered_json& json) {
  write_features(model.features, json);
}

// Reformer (docs/spec/other-attentions.md#h3).

constexpr std::array kChunkPositions = {Positions::axial, Positions::learned, Positions::sinusoidal,
                                        Positions::none};
constexpr std::array<Keys, 14> kChunkKeys = {"attn_layers",
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

void read_chunks(const ConfigReader& config, LanguageModelConfig& model) {
  require(!model.post_norm && model.final_layer_norm,
          "{}: norm_position: expected pre with a final_layer_norm with the attention reformer, "
          "found others",
          config.name());
  require(!model.tie_word_embeddings,
          "{}: tie_word_embeddings: expected false with the attention reformer, whose last rows "
          "are twice as wide as its embeddings, found true",
          config.name());
  set_reach(model);
  ReformerConfig& reformer = model.reformer;
  reformer = read_reformer(config, model.layers);
  const bool is_axial = model.positions == Positions::axial;
  Index usual = model.positions == Positions::learned ? model.max_positions : 4096;
  if (is_axial) {
    read_axial(config, model.hidden_size, reformer);
    usual = reformer.axial_shape[0] * reformer.axial_shape[1];
  }
  reformer.longest = config.integer(kMostPositions, usual, 1, kMaxPositions);
  if (is_axial) model.max_positions = std::min(usual, reformer.longest);
  reformer.lsh_dropout = rate_of(config, "lsh_attention_dropout", model.attention_dropout);
}

void write_chunks(const LanguageModelConfig& model, ordered_json& json) {
  json[kMostPositions] = model.reformer.longest;
  write_reformer(model.reformer, model.positions == Positions::axial, json);
}

// Sparse Transformer (docs/spec/other-attentions.md#h2).

constexpr std::array kGridPositions = {Positions::grid, Positions::learned, Positions::sinusoidal,
                                       Positions::infused, Positions::none};
constexpr std::array<Keys, 5> kSparseKeys = {"pattern", "stride", "summary", "summary_by_head",
                                             "integration"};

void read_near_and_far(const ConfigReader& config, LanguageModelConfig& model) {
  set_reach(model);
  model.sparse = read_sparse(config, model.heads);
  if (model.positions != Positions::grid) return;
  // Rows of the grid are as wide as the stride.
  const Index stride = model.sparse.stride;
  model.max_positions = config.integer(kMostPositions, stride * stride, 1, kMaxPositions);
  require(model.max_positions % stride == 0,
          "{}: max_position_embeddings: expected a multiple of the stride of {}, found {}",
          config.name(), stride, model.max_positions);
}

void write_near_and_far(const LanguageModelConfig& model, ordered_json& json) {
  write_sparse(model.sparse, json);
}

// Spans that heads learn (docs/spec/other-attentions.md#h4).

constexpr std::array kSpanPositions = {Positions::distance_keys};
constexpr std::array<Keys, 4> kSpanKeys = {"max_span", "span_ramp", "span_loss", "initial_span"};

void read_adaptive(const ConfigReader& config, LanguageModelConfig& model) {
  model.spans = read_spans(config);
  set_reach(model, model.spans.ramp.longest);
}

void write_adaptive(const LanguageModelConfig& model, ordered_json& json) {
  write_spans(model.spans, json);
}

// Routing Transformer (docs/spec/other-attentions.md#routing).

constexpr std::array kRoutingPositions = {Positions::sinusoidal, Positions::learned,
                                          Positions::none};
constexpr std::array<Keys, 8> kRoutingKeys = {"clusters",       "cluster_size",   "local_heads",
                                              "local_window",   "routing_norm",   "routing_self",
                                              "centroid_decay", "commitment_loss"};

void read_routes(const ConfigReader& config, LanguageModelConfig& model) {
  set_reach(model);
  model.routing = read_routing(config, model.heads);
}

void write_routes(const LanguageModelConfig& model, ordered_json& json) {
  write_routing(model.routing, json);
}

// BP-Transformer (docs/spec/other-attentions.md#h11).

constexpr std::array kTreePositions = {Positions::tree_keys, Positions::learned,
                                       Positions::sinusoidal, Positions::none};
constexpr std::array<Keys, 2> kTreeKeys = {"tree_neighbors", "tree_levels"};

void read_partition(const ConfigReader& config, LanguageModelConfig& model) {
  set_reach(model);
  model.tree = read_tree(config);
}

void write_partition(const LanguageModelConfig& model, ordered_json& json) {
  write_tree(model.tree, json);
}

constexpr LmDefaults kOwnLayers = {.scales_embedding = false, .ties_embeddings = false};
/// Defaults of Adaptive Span and the BP-Transformer.
constexpr LmDefaults kPostNormLayers = {.activation = Activation::relu,
                                        .post_norm = true,
                                        .scales_embedding = false,
                                        .ties_embeddings = false,
                                        .drops_attention = true};

constexpr std::array<LmAttentionTraits, 10> kAttentions = {{
    {.attention = LmAttention::window,
     .name = "window",
     .positions = kAllPositions,
     .keys = kWindowKeys,
     .read = read_windows,
     .write = write_windows},
    {.attention = LmAttention::dense,
     .name = "dense",
     .positions = kAllPositions,
     .read = read_dense,
     .write = write_dense},
    {.attention = LmAttention::recurrent,
     .name = "recurrent",
     .positions = kMemoryPositions,
     .reason = ", as a text of any length is read",
     .keys = kMemoryKeys,
     .read = read_memory,
     .write = write_memory},
    {.attention = LmAttention::compressive,
     .name = "compressive",
     .positions = kMemoryPositions,
     .reason = ", as a text of any length is read",
     .keys = kCompressionKeys,
     .read = read_compression,
     .write = write_compression},
    {.attention = LmAttention::performer,
     .name = "performer",
     .positions = kFeaturePositions,
     .reason = ", as a relative term is no product of features",
     .keys = kFeatureKeys,
     .read = read_performer,
     .write = write_performer},
    {.attention = LmAttention::reformer,
     .name = "reformer",
     .positions = kChunkPositions,
     .reason = ", whose keys have no positions of their own",
     .keys = kChunkKeys,
     .read = read_chunks,
     .write = write_chunks,
     .defaults = kOwnLayers},
    {.attention = LmAttention::sparse,
     .name = "sparse",
     .positions = kGridPositions,
     .keys = kSparseKeys,
     .read = read_near_and_far,
     .write = write_near_and_far,
     .defaults = {.activation = Activation::quick_gelu,
                  .scales_embedding = false,
                  .ties_embeddings = false,
                  .initialization = Initialization::scaled}},
    {.attention = LmAttention::adaptive,
     .name = "adaptive",
     .positions = kSpanPositions,
     .keys = kSpanKeys,
     .read = read_adaptive,
     .write = write_adaptive,
     .defaults = kPostNormLayers},
    {.attention = LmAttention::routing,
     .name = "routing",
     .positions = kRoutingPositions,
     .reason = ", whose clusters have no distances",
     .keys = kRoutingKeys,
     .read = read_routes,
     .write = write_routes,
     .defaults = kOwnLayers},
    {.attention = LmAttention::binary_partition,
     .name = "binary_partition",
     .positions = kTreePositions,
     .reason = ", whose spans have no place of their own",
     .keys = kTreeKeys,
     .read = read_partition,
     .write = write_partition,
     .defaults = kPostNormLayers},
}};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kAttentions.size(); ++i) {
    if (static_cast<std::size_t>(kAttentions[i].attention) != i) return false;
  }
  return true;
}
static_assert(is_in_order(), "rows are found by their number");

}  // namespace

std::span<const LmAttentionTraits> lm_attentions() { return kAttentions; }

const LmAttentionTraits& traits_of(LmAttention attention) {
  return kAttentions[static_cast<std::size_t>(attention)];
}

}  // namespace longformer::models
