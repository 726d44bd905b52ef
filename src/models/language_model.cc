#include "models/language_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "models/attention/performer.h"
#include "models/attention/routed.h"
#include "models/attention/sparse.h"
#include "models/attention/tree.h"
#include "ops/axial_positions.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/positions.h"
#include "ops/residual.h"

namespace longformer::models {
namespace {

// Numbers of the places where the model drops beside its layers.
constexpr std::uint64_t kSinusoidPlace = 1;
constexpr std::uint64_t kLastHiddenPlace = 2;
// Seeds of the segments of a pass behind the first are numbered from here on.
constexpr std::uint64_t kSegmentSeeds = std::uint64_t{1} << 40;
// Deviation of new weights that read one number (arXiv 1904.10509 §6).
constexpr double kScale = 0.125;

LayerSource source_of(const LanguageModelConfig& config, const Weights& weights, DType dtype) {
  return {
      .weights = weights,
      .dtype = dtype,
      .initial = {.deviation = config.initializer_range},
      .layer_norm_eps = config.layer_norm_eps,
      .gain_range = config.initialization == Initialization::scaled ? 0 : config.initializer_range};
}

/// The source of a layer that reads so many numbers; results of sub-layers begin smaller.
LayerSource reading(const LanguageModelConfig& config, LayerSource source, Index in,
                    bool ends_sublayer = false) {
  if (config.initialization == Initialization::normal) return source;
  source.initial.deviation = kScale / std::sqrt(static_cast<double>(in));
  if (ends_sublayer) source.initial.deviation /= std::sqrt(2 * static_cast<double>(config.layers));
  return source;
}

/// Deviation of the numbers of so many tables that are summed.
double table_range(const LanguageModelConfig& config, Index tables) {
  if (config.initialization == Initialization::normal) return config.initializer_range;
  return kScale / std::sqrt(static_cast<double>(config.hidden_size * tables));
}

std::unique_ptr<Block> language_layer(const LanguageModelConfig& config, Index layer,
                                      const LayerSource& source,
                                      std::shared_ptr<const Attention> attention) {
  const auto name = [layer](const char* part) { return name_in(layer, part); };
  const Index width = config.hidden_size;
  const Index inner = config.intermediate_size;
  const Index attended = config.heads * config.head_size;
  BlockParts parts = {
      .attention = std::move(attention),
      .attention_output = linear(reading(config, source, attended, true), name("attention_output"),
                                 {width, attended}, {.has_bias = config.attention_bias}),
      .attention_norm = layer_norm(source, name("attention_norm"), width),
      .feed_forward = {.up = linear(reading(config, source, width), name("up"), {inner, width},
                                    {.activation = config.activation}),
                       .down = linear(reading(config, source, inner, true), name("down"),
                                      {width, inner})},
      .feed_forward_norm = layer_norm(source, name("feed_forward_norm"), width),
      .attention_dropout = config.has_spans() ? 0 : config.dropout,
      .feed_forward_dropout = config.has_spans() ? 0 : config.dropout,
      .activation_dropout = config.is_sparse() ? 0 : config.dropout,
      .place = layer_place(layer)};
  return config.post_norm ? post_norm_block(std::move(parts)) : pre_norm_block(std::move(parts));
}

ReformerLayers reformer_layers(const LanguageModelConfig& config) {
  return {
      .reformer = config.reformer,
      .hidden_size = config.hidden_size,
      .heads = config.heads,
      .head_size = config.head_size,
      .intermediate_size = config.intermediate_size,
      .activation = config.activation,
      .attention_bias = config.attention_bias,
      .dropout = config.dropout,
      .attention_dropout = config.attention_dropout,
      .name = [](Index layer, std::string_view part) { return name_in(layer, std::string(part)); }};
}

/// Rows first … first + count − 1 of every document.
Batch part_of(const Batch& batch, Index first, Index count) {
  Batch part;
  part.starts = {0};
  for (Index i = 0; i < batch.documents(); ++i) {
    const auto begin = batch.ids.begin() + batch.starts[at(i)] + first;
    part.ids.insert(part.ids.end(), begin, begin + count);
    part.starts.push_back(part.rows());
  }
  return part;
}

/// The positions of the tokens of a batch: rows of a table of all from `begin` on.
struct Places {
  Index begin = 0, count = 0;
  std::vector<Index> rows;
};

Places places_of(const Batch& batch, const State* state) {
  Places places;
  Index end = 0;
  const auto first = [&](Index i) { return state == nullptr ? 0 : state->tokens(i); };
  for (Index i = 0; i < batch.documents(); ++i) {
    places.begin = i == 0 ? first(i) : std::min(places.begin, first(i));
    end = std::max(end, first(i) + batch.starts[at(i + 1)] - batch.starts[at(i)]);
  }
  for (Index i = 0; i < batch.documents(); ++i) {
    const Index count = batch.starts[at(i + 1)] - batch.starts[at(i)];
    for (Index t = 0; t < count; ++t) places.rows.push_back(first(i) + t - places.begin);
  }
  places.count = end - places.begin;
  return places;
}

const MemoryLengths& lengths_of(const State& state) { return lengths_of(*state.layer(0)); }

}  // namespace

Index parameter_count(const LanguageModelConfig& config) {
  const Weights recording = Weights::recording();
  const LanguageModel model(config, recording, DType::f32);
  Index count = 0;
  for (const auto& [name, shape] : recording.recorded()) count += element_count(shape);
  return count;
}

Batch segments_of(std::span<const std::int32_t> ids, Index length) {
  Batch batch;
  batch.ids.assign(ids.begin(), ids.end());
  for (Index begin = 0; begin < batch.rows(); begin += length) batch.starts.push_back(begin);
  batch.starts.push_back(batch.rows());
  return batch;
}

LanguageModel::LanguageModel(LanguageModelConfig config, const Weights& weights, DType dtype)
    : config_(std::move(config)) {
  const LayerSource source = source_of(config_, weights, dtype);
  const Index width = config_.hidden_size;
  embedding_ = weights.get_fp32("embedding.weight", {config_.vocab_size, width},
                                Init::normal(table_range(config_, 1)));
  LayerSource output = source;
  if (config_.initialization == Initialization::scaled) output.initial.deviation = 0;
  decoder_ = linear(output, config_.tie_word_embeddings ? "embedding" : "output",
                    {config_.vocab_size, config_.last_size()}, {.bias_name = "output.bias"});
  const auto table = [&](const char* name, Index rows, Index columns, Index tables = 1) {
    return weights.get_fp32(name, {rows, columns}, Init::normal(table_range(config_, tables)));
  };
  if (config_.positions == Positions::learned) {
    positions_ = table("position_embedding.weight", config_.max_positions, width);
  } else if (config_.positions == Positions::axial) {
    const ReformerConfig& reformer = config_.reformer;
    axial_rows_ = table("axial_rows.weight", reformer.axial_shape[0], reformer.axial_sizes[0]);
    axial_columns_ =
        table("axial_columns.weight", reformer.axial_shape[1], reformer.axial_sizes[1]);
  } else if (config_.positions == Positions::grid) {
    const Index stride = config_.sparse.stride;
    grid_rows_ = table("row_embedding.weight", config_.max_positions / stride, width, 2);
    grid_columns_ = table("column_embedding.weight", stride, width, 2);
  }
  if (config_.has_chunks()) reversible_.emplace(reformer_layers(config_), source);
  for (Index layer = 0; layer < config_.layers && !reversible_; ++layer) {
    layers_.add(language_layer(config_, layer, source, attention_of(layer, source)));
  }
  if (config_.final_layer_norm) final_norm_ = layer_norm(source, "final_norm", config_.last_size());
}

std::shared_ptr<const Attention> LanguageModel::attention_of(Index layer,
                                                             const LayerSource& source) {
  if (config_.has_memory()) return std::make_shared<MemoryAttention>(config_, layer, source);
  if (config_.has_features()) return std::make_shared<FeatureAttention>(config_, layer, source);
  if (config_.is_sparse()) {
    return std::make_shared<SparseAttention>(config_, layer,
                                             reading(config_, source, config_.hidden_size));
  }
  if (config_.has_routes()) return std::make_shared<RoutedAttention>(config_, layer, source);
  if (config_.has_spans()) {
    const auto attention = std::make_shared<AdaptiveAttention>(config_, layer, source);
    // A recording has no numbers.
    if (!source.weights.is_recording()) config_.windows[at(layer)] = attention->reach();
    return spanned_.emplace_back(attention);
  }
  if (config_.has_tree()) return std::make_shared<TreeAttention>(config_, layer, source);
  return windowed_.emplace_back(std::make_shared<CausalAttention>(config_, layer, source));
}

void LanguageModel::set_windows(const std::vector<Index>& windows) {
  config_.windows = windows;
  for (std::size_t layer = 0; layer < windowed_.size(); ++layer) {
    windowed_[layer]->set_window(windows[layer]);
  }
}

std::vector<std::vector<double>> LanguageModel::spans() const {
  std::vector<std::vector<double>> layers;
  for (const auto& attention : spanned_) layers.push_back(attention->spans());
  return layers;
}

Index LanguageModel::most_distance(const State* state, Index next) const {
  if (config_.attention == LmAttention::dense && state != nullptr) {
    // Twice as far as the longest stream, so that the table is seldom made again.
    Index most = 0;
    for (Index s = 0; s < state->streams(); ++s) most = std::max(most, state->tokens(s));
    return std::max<Index>(1024, 2 * (most + next));
  }
  if (config_.has_memory()) return lengths_of(*state).most_rows(config_.least_compressed());
  Index most = 0;
  for (Index layer = 0; layer < config_.layers; ++layer) {
    most = std::max(most, config_.reach(layer));
  }
  return most;
}

Tensor LanguageModel::sinusoids(const ops::Context& context, Index count, Index begin) const {
  return ops::dropout(context, ops::sinusoids(context, count, config_.hidden_size, begin),
                      context.dropout(config_.dropout, kSinusoidPlace));
}

Tensor LanguageModel::forward(const ops::Context& context, const Batch& batch,
                              const PassOptions& options) const {
  if (config_.has_tree()) return forward_tree(context, batch, options);
  if (config_.reads_whole()) return forward_whole(context, batch, options);
  return config_.has_memory() ? forward_segments(context, batch, options)
                              : forward_piece(context, batch, options);
}

/// Token embeddings with what is added to them for their positions.
Tensor LanguageModel::embed(const ops::Context& context, const Batch& batch,
                            const State* state) const {
  const float scale =
      config_.scales_embedding ? std::sqrt(static_cast<float>(config_.hidden_size)) : 1.0f;
  const Dropout dropout = context.dropout(config_.dropout, kEmbeddingPlace);
  const bool is_added =
      config_.positions == Positions::sinusoidal || config_.positions == Positions::learned ||
      config_.positions == Positions::axial || config_.positions == Positions::grid;
  if (!is_added) return ops::embed_scaled(context, embedding_, batch.ids, scale, dropout);
  const Tensor tokens = ops::embed_scaled(context, embedding_, batch.ids, scale);
  return ops::dropout(context, add_positions(context, tokens, batch, state), dropout);
}

Tensor LanguageModel::add_positions(const ops::Context& context, const Tensor& tokens,
                                    const Batch& batch, const State* state) const {
  Places places = places_of(batch, state);
  if (config_.positions == Positions::sinusoidal) {
    const Tensor table = ops::sinusoids(context, places.count, config_.hidden_size, places.begin);
    return ops::add_table_rows(context, tokens, table, places.rows);
  }
  require(places.begin + places.count <= config_.max_positions,
          "text: expected at most {} tokens, as many as there are {} positions, found {}",
          config_.max_positions, name_of(config_.positions), places.begin + places.count);
  if (config_.positions == Positions::axial) {
    const auto& [rows, columns] = config_.reformer.axial_shape;
    for (Index i = 0; i < batch.documents() && context.tape != nullptr; ++i) {
      const Index length = batch.starts[at(i + 1)] - batch.starts[at(i)];
      require(length == rows * columns,
              "training: expected texts of {} tokens, as axial_pos_shape is {} × {} and every "
              "position is to be trained, found {}",
              rows * columns, rows, columns, length);
    }
    for (Index& place : places.rows) place += places.begin;
    return ops::add(
        context, ops::axial_positions(context, axial_rows_, axial_columns_, places.rows), tokens);
  }
  const auto with_table = [&](const Tensor& x, const Tensor& table, const auto& row_of) {
    std::vector<std::int32_t> rows;
    for (Index i = 0; i < places.count; ++i) {
      rows.push_back(static_cast<std::int32_t>(row_of(places.begin + i)));
    }
    return ops::add_table_rows(context, x, ops::embed_scaled(context, table, rows, 1), places.rows);
  };
  if (config_.positions == Positions::learned) {
    return with_table(tokens, positions_, [](Index position) { return position; });
  }
  const Index width = config_.sparse.stride;
  const Tensor in_rows =
      with_table(tokens, grid_rows_, [width](Index position) { return position / width; });
  return with_table(in_rows, grid_columns_, [width](Index position) { return position % width; });
}

/// Sinusoids that the layers share: of the distances that they see, or of infused positions.
void LanguageModel::share_distances(const ops::Context& context, const Batch& batch,
                                    const State* state, SharedInput& shared) const {
  const bool is_infused = config_.positions == Positions::infused;
  if (!is_infused && config_.positions != Positions::relative) return;
  if (is_infused && !config_.has_memory()) {
    Places places = places_of(batch, state);
    shared.places = std::move(places.rows);
    shared.make_distances = [this, context, begin = places.begin, count = places.count] {
      return sinusoids(context, count, begin);
    };
    return;
  }
  Index farthest = most_distance(state, batch.rows());
  if (state == nullptr) {
    Index longest = 0;
    for (Index i = 0; i < batch.documents(); ++i) {
      longest = std::max(longest, batch.starts[at(i + 1)] - batch.starts[at(i)]);
    }
    farthest = std::min(longest - 1, farthest);
  }
  shared.make_distances = [this, context, farthest] { return sinusoids(context, farthest + 1); };
}

Tensor LanguageModel::forward_piece(const ops::Context& context, const Batch& batch,
                                    const PassOptions& options) const {
  const auto shared = std::make_shared<SharedInput>();
  shared->starts = batch.starts;
  for (Index s = 0; options.state != nullptr && s < options.state->streams(); ++s) {
    shared->read.push_back(options.state->tokens(s));
  }
  if (options.state == nullptr || config_.has_features()) {
    shared->rows = kernels::shared(kernels::self_attention_rows(batch.starts));
  }
  share_distances(context, batch, options.state, *shared);
  return finished(context,
                  layers_.forward(context, embed(context, batch, options.state), shared, options));
}

Tensor LanguageModel::finished(const ops::Context& context, const Tensor& x) const {
  const Tensor last = final_norm_ ? ops::layer_norm(context, x, *final_norm_) : x;
  return ops::dropout(context, last, context.dropout(config_.dropout, kLastHiddenPlace));
}

/// Spans are rows behind their last token; they begin as zeros.
Tensor LanguageModel::forward_tree(const ops::Context& context, const Batch& batch,
                                   const PassOptions& options) const {
  const auto shared = std::make_shared<SharedInput>();
  shared->token_starts = batch.starts;
  std::vector<TreePiece> pieces;
  for (Index i = 0; i < batch.documents(); ++i) {
    const Index before = options.state == nullptr ? 0 : options.state->tokens(i);
    if (options.state != nullptr) shared->read.push_back(before);
    pieces.push_back({.before = before, .tokens = batch.starts[at(i + 1)] - batch.starts[at(i)]});
  }
  const TreeRows rows = rows_of(pieces);
  shared->starts = rows.starts;
  if (options.state == nullptr) {
    for (std::size_t i = 0; i < pieces.size(); ++i) pieces[i].first_key = rows.starts[i];
    shared->edges = std::make_shared<const kernels::EdgeRows>(
        tree_edges(config_.tree, pieces, config_.positions == Positions::tree_keys));
  }
  const Tensor tokens = embed(context, batch, options.state);
  const std::array parts = {tokens, Tensor::zeros({1, tokens.columns()}, tokens.dtype())};
  const Tensor nodes = ops::select_rows(context, ops::joined_rows(context, parts), rows.sources);
  const Tensor x = layers_.forward(context, nodes, shared, options);
  for (std::size_t i = 0; options.hidden_states != nullptr && i < options.hidden_states->size();
       ++i) {
    Tensor& state = (*options.hidden_states)[i];
    state = ops::select_rows(context, state, rows.tokens);
  }
  return finished(context, ops::select_rows(context, x, rows.tokens));
}

/// A text is sorted as a whole; what comes behind it is read token by token.
Tensor LanguageModel::forward_whole(const ops::Context& context, const Batch& batch,
                                    const PassOptions& options) const {
  const Index streams = batch.documents(), length = batch.starts[1];
  bool goes_on = false;
  for (Index i = 0; i < streams && options.state != nullptr; ++i) {
    goes_on = goes_on || options.state->tokens(i) > 0;
    require(batch.starts[at(i + 1)] - batch.starts[at(i)] == length,
            "language model: expected streams of {} tokens each, found {}", length,
            batch.starts[at(i + 1)] - batch.starts[at(i)]);
  }
  std::vector<Tensor> parts;
  for (Index begin = 0; goes_on && length > 1 && begin < length; ++begin) {
    parts.push_back(forward_whole(context, part_of(batch, begin, 1), options));
  }
  if (!parts.empty()) return rows_of_streams(context, parts, streams, 0, length);
  return reversible_ ? forward_reversible(context, batch, options)
                     : forward_piece(context, batch, options);
}

Tensor LanguageModel::forward_reversible(const ops::Context& context, const Batch& batch,
                                         const PassOptions& options) const {
  const auto shared = std::make_shared<SharedInput>();
  shared->starts = batch.starts;
  if (options.observer != nullptr) {
    shared->rows_without_globals = kernels::shared(kernels::self_attention_rows(batch.starts));
  }
  const Tensor x =
      reversible_->forward(context, embed(context, batch, options.state), shared, options);
  return finished(context, x);
}

/// Memories move at the end of a segment, so a piece is cut there.
Tensor LanguageModel::forward_segments(const ops::Context& context, const Batch& batch,
                                       const PassOptions& options) const {
  const Index streams = batch.documents(), length = batch.starts[1];
  for (Index i = 0; i < streams; ++i) {
    require(batch.starts[at(i + 1)] - batch.starts[at(i)] == length,
            "language model: expected streams of {} tokens each, found {}", length,
            batch.starts[at(i + 1)] - batch.starts[at(i)]);
  }
  State fresh;
  PassOptions own = options;
  if (own.state == nullptr) {
    fresh = start(context.dtype, streams);
    own.state = &fresh;
  }
  require(own.state->streams() == streams, "state: expected {} streams, found {}", streams,
          own.state->streams());
  const Index segment = lengths_of(*own.state).segment;
  require(context.tape == nullptr || length <= config_.unroll_segments * segment,
          "language model: expected a training pass within {} of {}, found {} tokens",
          config_.unroll_segments == 1 ? "a segment"
                                       : fmt::format("{} segments", config_.unroll_segments),
          segment, length);
  std::vector<Tensor> parts;
  for (Index begin = 0; begin < length;) {
    const Index count = std::min(length - begin, segment - own.state->tokens(0) % segment);
    ops::Context piece = context;
    if (begin > 0 && piece.dropout_seed) {
      piece.dropout_seed = random_bits(*piece.dropout_seed, kSegmentSeeds + parts.size());
    }
    parts.push_back(
        forward_piece(piece, count == length ? batch : part_of(batch, begin, count), own));
    begin += count;
  }
  for (Index layer = 0; context.tape != nullptr && layer < layers_.size(); ++layer) {
    end_pass(*own.state->layer(layer));
  }
  return parts.size() == 1 ? parts[0] : rows_of_streams(context, parts, streams, 0, length);
}

State LanguageModel::start(DType dtype, Index streams) const {
  return reversible_ ? reversible_->start(dtype, streams) : layers_.start(dtype, streams);
}

State LanguageModel::start(DType dtype, Index streams, const MemoryLengths& lengths) const {
  require(config_.has_memory(),
          "memory lengths: expected a model with memories, found attention {}",
          name_of(config_.attention));
  check(lengths, config_, "memory lengths");
  State state = start(dtype, streams);
  for (Index layer = 0; layer < layers_.size(); ++layer) set_lengths(*state.layer(layer), lengths);
  return state;
}

ops::LossSum LanguageModel::loss(const ops::Context& context, const Batch& batch,
                                 std::span<const std::int32_t> labels,
                                 const ops::LossOptions& options, const PassOptions& pass) const {
  NamedLosses layers;
  PassOptions own = pass;
  if (own.losses == nullptr && context.tape != nullptr) own.losses = &layers;
  const ops::LossSum loss =
      ops::linear_cross_entropy(context, forward(context, batch, own), *decoder_, labels, options);
  if (context.tape == nullptr || own.losses == nullptr) return loss;
  for (auto& [name, value] : *own.losses) {
    if (!wants_gradient(value)) continue;
    const double weight = options.scale * loss.weight / static_cast<double>(own.losses->size());
    const std::vector<float> gradient = {static_cast<float>(weight)};
    value.gradient()->sum = Tensor::from(gradient, {1});
  }
  return loss;
}

Tensor LanguageModel::logits(const ops::Context& context, const Tensor& hidden) const {
  return ops::linear(context, hidden, *decoder_, DType::f32);
}

}  // namespace longformer::models
