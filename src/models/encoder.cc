#include "models/encoder.h"

#include <utility>

#include "core/error.h"
#include "models/registry.h"
#include "models/token_tables.h"

namespace longformer::models {
namespace {

std::unique_ptr<Block> encoder_layer(const EncoderConfig& config, Index layer,
                                     const LayerSource& source) {
  const std::string name = fmt::format("encoder.layer.{}.", layer);
  const Index width = config.hidden_size;
  const Index inner = config.intermediate_size;
  const Index slabs = kernels::feed_forward_slabs(inner, source.dtype);
  // The order is that of the files of `transformers`.
  auto attention = config.traits().attention(config, layer, source);
  auto output = linear(source, name + "attention.output.dense", {width, width});
  auto norm = layer_norm(source, name + "attention.output.LayerNorm", width);
  auto up = linear(source, name + "intermediate.dense", {inner, width},
                   {.activation = config.activation, .slabs = {.out = slabs}});
  const double after_attention = config.traits().drops_attention_output ? config.hidden_dropout : 0;
  auto down = linear(source, name + "output.dense", {width, inner}, {.slabs = {.in = slabs}});
  return post_norm_block({.attention = std::move(attention),
                          .attention_output = std::move(output),
                          .attention_norm = std::move(norm),
                          .feed_forward = {.up = std::move(up), .down = std::move(down)},
                          .feed_forward_norm = layer_norm(source, name + "output.LayerNorm", width),
                          .attention_dropout = after_attention,
                          .feed_forward_dropout = config.hidden_dropout,
                          .activation_dropout = config.activation_dropout,
                          .place = layer_place(layer)});
}

ops::EmbeddingTables embedding_tables(const EncoderConfig& config, const LayerSource& source) {
  const EncoderTraits& traits = config.traits();
  const Index width = config.embedding_size;
  const Index padding = config.pad_token_id;
  const Index position_padding = traits.positions_follow_padding ? padding : -1;
  ops::EmbeddingTables tables;
  tables.words = embedding(source, token_table(config, source.weights, kEncoderTokens),
                           {config.vocab_size, width}, padding);
  tables.positions = embedding(source, kPositionEmbeddings, {config.max_position_embeddings, width},
                               position_padding);
  tables.types = traits.has_token_types
                     ? embedding(source, "embeddings.token_type_embeddings.weight",
                                 {config.type_vocab_size, width})
                     : Tensor::zeros({config.type_vocab_size, width}, DType::f32);
  tables.norm = layer_norm(source, "embeddings.LayerNorm", width);
  tables.word_scale = static_cast<float>(config.embedding_scale);
  tables.word_padding = padding;
  tables.position_padding = position_padding;
  return tables;
}

}  // namespace

Encoder::Encoder(const EncoderConfig& config, const Weights& weights, DType dtype)
    : dropout_(config.hidden_dropout), has_global_attention_(config.has_global_attention()) {
  const LayerSource source = layer_source(config, weights, dtype);
  const Index width = config.hidden_size;
  embeddings_ = embedding_tables(config, source);
  if (config.embedding_size != width) {
    projection_ = linear(source, "embeddings_project", {width, config.embedding_size});
  }
  for (Index layer = 0; layer < config.layers; ++layer) {
    layers_.add(encoder_layer(config, layer, source));
  }
  if (weights.has(std::string(kPooler) + ".weight")) {
    pooler_ = linear(source, kPooler, {width, width}, {.activation = Activation::tanh});
  }
}

Tensor Encoder::embed(const ops::Context& context, const Batch& batch) const {
  const Tensor embedded =
      ops::embed(context, embeddings_,
                 {.words = batch.ids, .positions = batch.positions, .types = batch.types},
                 context.dropout(dropout_, kEmbeddingPlace));
  return projection_ ? ops::linear(context, embedded, *projection_, context.dtype) : embedded;
}

Tensor Encoder::forward(const ops::Context& context, const Batch& batch,
                        const PassOptions& options) const {
  kernels::AttentionRows rows = kernels::self_attention_rows(batch.starts);
  rows.key_mask = batch.mask;
  if (has_global_attention_) rows.global_keys = batch.global_rows;
  tokens_run_.fetch_add(batch.rows(), std::memory_order_relaxed);
  const auto shared = std::make_shared<SharedInput>();
  shared->starts = batch.starts;
  shared->rows = kernels::shared(std::move(rows));
  return layers_.forward(context, embed(context, batch), shared, options);
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
