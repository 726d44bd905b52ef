#include "models/encoder.h"

#include <array>
#include <utility>

#include "core/error.h"
#include "models/convolved_block.h"
#include "models/document_part.h"
#include "models/position_table.h"
#include "models/reformer_family.h"
#include "models/registry.h"
#include "models/static_table.h"
#include "models/token_tables.h"
#include "ops/dropout.h"

namespace longformer::models {
namespace {

/// Place of the dropout of last hidden states (ops::Context::dropout), the last one of those before
/// the layers.
constexpr std::uint64_t kLastStatePlace = 3;

ops::FeedForward feed_forward(const EncoderConfig& config, const std::string& name,
                              const LayerSource& source) {
  const LayerRecipe& recipe = config.recipe;
  const Index width = config.hidden_size;
  const Index inner = config.intermediate_size;
  const std::string up = name + "intermediate.dense", down = name + "output.dense";
  if (recipe.is_gated) {
    const std::array halves = {name + "intermediate.first", name + "intermediate.second"};
    return {.up = recipe.splits_gate
                      ? stacked_linear(source, halves, {inner, width}, recipe.up_bias)
                      : linear(source, up, {2 * inner, width}, {.has_bias = recipe.up_bias}),
            .down = linear(source, down, {width, inner}, {.has_bias = recipe.down_bias}),
            .gate = ops::Gate{config.activation, recipe.activates_second}};
  }
  // Slabs end in sums in fp32, which a norm reads.
  const Index slabs = recipe.norm_first ? 1 : slabs_between(source, up, down, inner);
  return {
      .up = linear(
          source, up, {inner, width},
          {.activation = config.activation, .has_bias = recipe.up_bias, .slabs = {.out = slabs}}),
      .down = linear(source, down, {width, inner},
                     {.has_bias = recipe.down_bias, .slabs = {.in = slabs}})};
}

std::unique_ptr<Block> encoder_layer(const EncoderConfig& config, Index layer,
                                     const LayerSource& source) {
  const LayerRecipe& recipe = config.recipe;
  const std::string name = fmt::format("encoder.layer.{}.", layer);
  const Index width = config.hidden_size;
  const double dropout = config.hidden_dropout;
  const double after_attention = config.traits().drops_attention_output ? dropout : 0;
  const bool has_norm = layer > 0 || !recipe.first_norm_is_identity;
  // The order is that of the files of `transformers`.
  auto attention = config.traits().attention(config, layer, source);
  auto output = linear(source, name + "attention.output.dense", {width, config.query_width()},
                       {.has_bias = recipe.attention_output_bias.value_or(recipe.attention_bias)});
  ops::LayerNorm norm;
  if (has_norm) norm = layer_norm(source, name + "attention.output.LayerNorm", width);
  ops::LayerNorm result_norm, last_norm;
  if (recipe.norms_results) {
    result_norm = layer_norm(source, name + "attention.result.LayerNorm", width);
    last_norm = layer_norm(source, name + "result.LayerNorm", width);
  }
  ops::LayerNorm global_norm;
  if (recipe.global_local) {
    global_norm = layer_norm(source, name + "attention.global.LayerNorm", width);
  }
  auto block = feed_forward(config, name, source);
  BlockParts parts = {
      .attention = std::move(attention),
      .attention_output = std::move(output),
      .attention_norm = std::move(norm),
      .feed_forward = std::move(block),
      .feed_forward_norm = layer_norm(source, name + "output.LayerNorm", width),
      .attention_result_norm = std::move(result_norm),
      .feed_forward_result_norm = std::move(last_norm),
      .global_norm = std::move(global_norm),
      .attention_dropout = recipe.attention_output_dropout.value_or(after_attention),
      .feed_forward_dropout = recipe.feed_forward_dropout.value_or(dropout),
      .activation_dropout = config.activation_dropout,
      .place = layer_place(layer)};
  auto made =
      recipe.norm_first ? pre_norm_block(std::move(parts)) : post_norm_block(std::move(parts));
  const bool is_convolved = recipe.convolution && layer == 0;
  return is_convolved ? convolved_block(config, source, std::move(made)) : std::move(made);
}

/// `last_norm` is that of embeddings which are dropped before it.
ops::EmbeddingTables embedding_tables(const EncoderConfig& config, const LayerSource& source,
                                      ops::LayerNorm* last_norm) {
  const EncoderTraits& traits = config.traits();
  const Index width = config.embedding_size;
  const Index padding = config.pad_token_id;
  const Index word_padding = config.recipe.has_padding_row ? padding : -1;
  const Index position_padding = traits.positions_follow_padding ? padding : -1;
  ops::EmbeddingTables tables;
  if (config.table) {
    tables.words = static_rows(config, source);
    return tables;
  }
  tables.words = embedding(source, token_table(config, source.weights, kEncoderTokens),
                           {config.vocab_size, width},
                           config.recipe.initial.clears_padding ? word_padding : -1);
  if (config.recipe.has_position_table) {
    tables.positions = position_table(source, config.recipe.position_rows, kPositionEmbeddings,
                                      {config.max_position_embeddings, width}, position_padding);
  }
  tables.types = config.recipe.has_type_table
                     ? embedding(source, "embeddings.token_type_embeddings.weight",
                                 {config.type_vocab_size, width})
                     : Tensor::zeros({config.type_vocab_size, width}, DType::f32);
  if (config.recipe.norms_embeddings) {
    ops::LayerNorm norm = layer_norm(source, "embeddings.LayerNorm", width);
    (config.recipe.drops_before_norm ? *last_norm : tables.norm) = std::move(norm);
  }
  tables.word_scale = static_cast<float>(config.embedding_scale);
  tables.word_padding = word_padding;
  tables.position_padding = position_padding;
  return tables;
}

}  // namespace

Encoder::Encoder(const EncoderConfig& config, const Weights& weights, DType dtype)
    : dropout_(config.hidden_dropout), has_global_attention_(config.has_global_attention()) {
  const LayerSource source = layer_source(config, weights, dtype);
  const Index width = config.hidden_size;
  ops::LayerNorm embedding_norm;
  embeddings_ = embedding_tables(config, source, &embedding_norm);
  if (config.recipe.drops_before_norm) embedding_norm_ = std::move(embedding_norm);
  normalises_words_alone_ = config.recipe.norms_embeddings && !config.recipe.has_type_table &&
                            !config.recipe.has_position_table && !config.table && !config.reformer;
  if (config.embedding_size != width) {
    projection_ = linear(source, "embeddings_project", {width, config.embedding_size});
  }
  if (config.recipe.global_local) global_rows_.emplace(config, source);
  if (config.recipe.funnel) funnel_.emplace(config, source, layers_);
  if (config.reformer) {
    if (!config.recipe.has_position_table) axial_.emplace(*config.reformer, source);
    reversible_.emplace(reformer_layers(config), source);
  }
  for (Index layer = layers_.size(); layer < config.layers && !reversible_; ++layer) {
    layers_.add(encoder_layer(config, layer, source));
  }
  distances_ = Distances(config, source);
  if (config.recipe.has_final_norm) {
    final_norm_ = layer_norm(source, "encoder.final_norm", config.last_size());
  }
  for (const RotaryConfig& rotation : config.recipe.rotations) {
    rotations_.push_back(std::make_unique<Rotary>(rotation, config.head_size()));
  }
  if (weights.has(std::string(kPooler) + ".weight")) {
    pooler_ = linear(source, kPooler, {width, width}, {.activation = Activation::tanh});
  }
}

Tensor Encoder::word_rows(const ops::Context& context, std::span<const std::int32_t> ids) const {
  const std::vector<Index> rows(ids.begin(), ids.end());
  return ops::select_rows(context, embeddings_.words, rows).to(DType::f32);
}

Tensor Encoder::embed(const ops::Context& context, const Batch& batch, const Tensor* words) const {
  const Dropout dropout = context.dropout(dropout_, kEmbeddingPlace);
  Tensor embedded = ops::embed(context, embeddings_,
                               {.words = batch.ids,
                                .positions = batch.positions,
                                .types = batch.types,
                                .given = words != nullptr ? *words : Tensor()},
                               axial_ ? Dropout() : dropout);
  if (axial_) embedded = ops::dropout(context, axial_->added(context, embedded, batch), dropout);
  if (embedding_norm_) embedded = ops::layer_norm(context, embedded, *embedding_norm_);
  return projection_ ? ops::linear(context, embedded, *projection_, context.dtype) : embedded;
}

std::shared_ptr<SharedInput> Encoder::shared_input(const ops::Context& context, const Batch& batch,
                                                   const PassOptions& options) const {
  const bool is_plain = options.observer == nullptr && context.tape == nullptr;
  kernels::AttentionRows rows = kernels::self_attention_rows(batch.starts);
  rows.key_mask = batch.mask;
  if (options.part != nullptr) rows.division = options.part->division();
  // Masked tokens are queries, as in transformers: ColBERT counts those that it adds to questions.
  if (!batch.mask.empty() && batch.global_rows.empty() && is_plain) rows.self_attention = false;
  auto shared = std::make_shared<SharedInput>();
  if (options.part != nullptr) shared->computed = options.part->computed();
  shared->starts = batch.starts;
  shared->rows_without_globals = kernels::shared(rows);
  shared->rows = shared->rows_without_globals;
  if (has_global_attention_ && !batch.global_rows.empty()) {
    rows.global_keys = batch.global_rows;
    shared->rows = kernels::shared(std::move(rows));
  }
  if (!batch.edges.empty()) shared->edges = edge_lists(batch.edges, batch.rows());
  for (const auto& rotary : rotations_)
    shared->rotations.push_back(rotary->of(batch.starts, batch.positions));
  distances_.fill(context, *shared);
  return shared;
}

Tensor Encoder::forward(const ops::Context& context, const Batch& batch,
                        const PassOptions& options) const {
  tokens_run_.fetch_add(batch.rows(), std::memory_order_relaxed);
  if (funnel_) {
    return funnel_->forward(context, embed(context, batch, options.words), batch, layers_, options);
  }
  const auto shared = shared_input(context, batch, options);
  Tensor x = embed(context, batch, options.words);
  if (global_rows_) x = global_rows_->appended(context, x, batch.documents());
  if (reversible_) {
    // Both streams; hidden states are those of the second, as in transformers.
    const Tensor streams = reversible_->forward(context, x, shared, options);
    return ops::dropout(context, ops::layer_norm(context, streams, *final_norm_),
                        context.dropout(dropout_, kLastStatePlace));
  }
  LayerEntry enter;
  if (options.part != nullptr) {
    enter = [part = options.part](Index layer, Tensor& rows, std::shared_ptr<const SharedInput>&) {
      if (layer > 0) part->refresh(rows);
    };
  }
  Tensor hidden = layers_.forward(context, std::move(x), shared, options, enter);
  if (global_rows_) {
    hidden = GlobalRows::dropped(context, hidden, batch.rows());
    if (options.hidden_states != nullptr) {
      for (Tensor& state : *options.hidden_states) {
        state = GlobalRows::dropped(context, state, batch.rows());
      }
    }
  }
  if (!final_norm_) return hidden;
  Tensor normal = ops::layer_norm(context, hidden, *final_norm_);
  if (options.hidden_states != nullptr) options.hidden_states->back() = normal;
  return normal;
}

State Encoder::start(DType dtype, Index streams) const { return layers_.start(dtype, streams); }

Tensor Encoder::pool(const ops::Context& context, const Tensor& hidden, const Batch& batch) const {
  const std::span<const Index> first(batch.starts.data(), batch.starts.size() - 1);
  return ops::linear(context, ops::select_rows(context, hidden, first), *pooler_, DType::f32);
}

std::vector<std::int32_t> position_rows(const EncoderConfig& config,
                                        std::span<const std::int32_t> ids) {
  const auto pad = static_cast<std::int32_t>(config.pad_token_id);
  const bool skips_padding = config.traits().positions_follow_padding;
  auto next = static_cast<std::int32_t>(config.first_position());
  std::vector<std::int32_t> rows;
  rows.reserve(ids.size());
  for (const std::int32_t id : ids) rows.push_back(skips_padding && id == pad ? pad : next++);
  return rows;
}

bool is_of_encoder(const std::string& name) {
  return name.starts_with("embeddings") || name.starts_with("encoder.");
}

std::string local_projection(const std::string& name) {
  const std::string_view ending = "_global.";
  const auto place = name.find(ending);
  if (place == std::string::npos) return "";
  return name.substr(0, place) + "." + name.substr(place + ending.size());
}

std::vector<WeightRecord> encoder_tensors(const EncoderConfig& config) {
  const Weights recording = Weights::recording();
  const Encoder encoder(config, recording, DType::f32);
  return recording.recorded();
}

}  // namespace longformer::models
