#include "models/decoder.h"

#include <array>
#include <cassert>
#include <utility>

#include "core/error.h"
#include "models/position_table.h"
#include "models/registry.h"
#include "models/source_rows.h"
#include "models/token_tables.h"

namespace longformer::models {
namespace {

ops::EmbeddingTables decoder_tables(const EncoderConfig& config, const LayerSource& source) {
  const Index width = config.hidden_size;
  ops::EmbeddingTables tables;
  tables.words = embedding(source, token_table(config, source.weights, kDecoderTokens),
                           {config.vocab_size, width}, config.pad_token_id);
  tables.positions =
      position_table(source, config.recipe.position_rows, "decoder.embed_positions.weight",
                     {config.decoder->position_rows, width});
  tables.types = Tensor::zeros({1, width}, DType::f32);
  if (config.decoder->norms_embeddings) {
    tables.norm = layer_norm(source, "decoder.layernorm_embedding", width);
  }
  tables.word_scale = static_cast<float>(config.embedding_scale);
  tables.word_padding = config.pad_token_id;
  return tables;
}

ops::Linear output_layer(const EncoderConfig& config, const LayerSource& source) {
  const Weights& weights = source.weights;
  const Index vocab_size = config.vocab_size;
  const std::array tensors = {std::string(token_table(config, weights, kOutputTokens)),
                              std::string(kLogitsBias)};
  return shared_linear(source, tensors, [&]() -> ops::Linear {
    const std::array table = {embedding(source, tensors[0], {vocab_size, config.hidden_size})};
    std::vector<Tensor> bias;
    // The bias is a buffer: nothing trains it.
    if (!weights.is_recording() && weights.has(kLogitsBias)) {
      bias.push_back(
          weights.stored(kLogitsBias, {1, vocab_size}).to(DType::f32).reshaped({vocab_size}));
    }
    return {table, bias, {.dtype = source.dtype, .trainable = weights.keeps_tensors()}};
  });
}

}  // namespace

Decoder::Decoder(const EncoderConfig& config, const Weights& weights, DType dtype, bool has_output)
    : config_(*config.decoder),
      dropout_(config.hidden_dropout),
      embedding_place_(layer_place(config.layers + 2 * config.decoder->layers)),
      embeddings_(decoder_tables(config, layer_source(config, weights, dtype))) {
  const LayerSource source = layer_source(config, weights, dtype);
  if (has_output) lm_head_.emplace(output_layer(config, source));
  for (Index layer = 0; layer < config_.layers; ++layer) {
    blocks_.push_back(std::make_shared<const DecoderBlock>(config, layer, source));
    layers_.add(blocks_.back());
  }
  if (config_.norm_first) {
    const std::string name = fmt::format("decoder.{}", config.family->decoder->final_norm);
    final_norm_ = layer_norm(source, name, config.hidden_size);
  }
}

void Decoder::read(const ops::Context& context, const Tensor& hidden,
                   std::span<const std::uint8_t> mask, State& state) const {
  const SourceStates source = few_source_rows(
      context, {.hidden = hidden, .starts = {0, hidden.rows()}, .mask = {mask.begin(), mask.end()}},
      config_.source_rows);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    blocks_[i]->read_source(context, source.hidden, source.mask,
                            *state.layer(static_cast<Index>(i)));
  }
  state.add_streams(1);
}

Tensor Decoder::run(const ops::Context& context, const Batch& texts, SharedInput shared,
                    const PassOptions& options) const {
  assert(options.state == nullptr || options.state->streams() == texts.documents());
  const std::vector<std::int32_t> types(texts.ids.size(), 0);
  std::vector<std::int32_t> positions;
  for (Index i = 0; i < texts.documents(); ++i) {
    const Index before = options.state == nullptr ? 0 : options.state->tokens(i);
    const Index count = texts.starts[at(i + 1)] - texts.starts[at(i)];
    require(before + count <= config_.max_tokens(),
            "text {}: expected at most {} tokens, the decoder's positions, found {}", i,
            config_.max_tokens(), before + count);
    const Index first = config_.reserved_positions + before;
    for (Index t = 0; t < count; ++t) positions.push_back(static_cast<std::int32_t>(first + t));
  }
  shared.starts = texts.starts;
  if (options.state == nullptr) {
    shared.rows = kernels::shared(kernels::self_attention_rows(texts.starts));
  }
  const Tensor x =
      ops::embed(context, embeddings_, {.words = texts.ids, .positions = positions, .types = types},
                 context.dropout(dropout_, embedding_place_));
  const Tensor hidden =
      layers_.forward(context, x, std::make_shared<const SharedInput>(std::move(shared)), options);
  return final_norm_ ? ops::layer_norm(context, hidden, *final_norm_) : hidden;
}

Tensor Decoder::forward(const ops::Context& context, const Batch& texts, SourceStates source,
                        const PassOptions& options) const {
  SharedInput shared;
  shared.source = few_source_rows(context, std::move(source), config_.source_rows);
  return run(context, texts, std::move(shared), options);
}

Tensor Decoder::forward(const ops::Context& context, const Batch& texts, State& state,
                        const PassOptions& options) const {
  PassOptions with_state = options;
  with_state.state = &state;
  return run(context, texts, {}, with_state);
}

Tensor Decoder::logits(const ops::Context& context, const Tensor& hidden) const {
  return ops::linear(context, hidden, *lm_head_, DType::f32);
}

ops::LossSum Decoder::loss(const ops::Context& context, const Tensor& hidden,
                           std::span<const std::int32_t> labels,
                           const ops::LossOptions& options) const {
  return ops::linear_cross_entropy(context, hidden, *lm_head_, labels, options);
}

}  // namespace longformer::models
