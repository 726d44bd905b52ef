#include "models/encoder_decoder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "models/registry.h"

namespace longformer::models {
namespace {

constexpr const char* kEncoderTokens = "encoder.embed_tokens.weight";
constexpr const char* kDecoderTokens = "decoder.embed_tokens.weight";
constexpr const char* kLmHead = "lm_head.weight";

/// The name of the tensor that a use of the token table reads. Tied tables have any of four names,
/// and a stored one keeps its own values (spec.md B.2).
std::string token_table(const EncoderDecoderConfig& config, const Weights& weights,
                        const std::string& own) {
  if (!config.encoder.tie_word_embeddings) return own;
  if (weights.has(own) && !weights.tie(own, kWordEmbeddings)) return own;
  for (const char* name : {kWordEmbeddings, kLmHead, kDecoderTokens, kEncoderTokens}) {
    if (weights.has(name)) return name;
  }
  return kWordEmbeddings;
}

/// The encoder reads the table that is its own where the file has it.
EncoderDecoderConfig with_tables(EncoderDecoderConfig config, const Weights& weights) {
  config.encoder.word_embeddings = token_table(config, weights, kEncoderTokens);
  return config;
}

ops::EmbeddingTables decoder_tables(const EncoderDecoderConfig& config, const LayerSource& source) {
  const Index width = config.hidden_size();
  ops::EmbeddingTables tables;
  tables.words = embedding(source, token_table(config, source.weights, kDecoderTokens),
                           {config.encoder.vocab_size, width}, config.encoder.pad_token_id);
  tables.positions =
      embedding(source, "decoder.embed_positions.weight", {config.decoder.position_rows, width});
  tables.types = Tensor::zeros({1, width}, DType::f32);
  tables.norm = layer_norm(source, "decoder.layernorm_embedding", width);
  tables.word_scale = static_cast<float>(config.encoder.embedding_scale);
  tables.word_padding = config.encoder.pad_token_id;
  return tables;
}

ops::Linear output_layer(const EncoderDecoderConfig& config, const LayerSource& source) {
  constexpr const char* kBias = "final_logits_bias";
  const Weights& weights = source.weights;
  const Index vocab_size = config.encoder.vocab_size;
  const std::array table = {
      embedding(source, token_table(config, weights, kLmHead), {vocab_size, config.hidden_size()})};
  std::vector<Tensor> bias;
  // The bias is a buffer: nothing trains it.
  if (!weights.is_recording() && weights.has(kBias)) {
    bias.push_back(weights.stored(kBias, {1, vocab_size}).to(DType::f32).reshaped({vocab_size}));
  }
  return {table, bias, {.dtype = source.dtype, .trainable = weights.keeps_tensors()}};
}

}  // namespace

EncoderDecoder::EncoderDecoder(EncoderDecoderConfig config, const Weights& weights, DType dtype)
    : config_(with_tables(std::move(config), weights)),
      encoder_(config_.encoder, weights, dtype),
      embeddings_(decoder_tables(config_, layer_source(config_.encoder, weights, dtype))),
      lm_head_(output_layer(config_, layer_source(config_.encoder, weights, dtype))) {
  const LayerSource source = layer_source(config_.encoder, weights, dtype);
  for (Index layer = 0; layer < config_.decoder.layers; ++layer) {
    blocks_.push_back(std::make_shared<const DecoderBlock>(config_, layer, source));
    layers_.add(blocks_.back());
  }
}

SourceStates EncoderDecoder::encode(const ops::Context& context, const Batch& batch,
                                    const PassOptions& options) const {
  return {encoder_.forward(context, batch, options), batch.starts, batch.mask};
}

State EncoderDecoder::begin(const ops::Context& context, const SourceStates& source) const {
  State state = layers_.start(context.dtype, static_cast<Index>(source.starts.size()) - 1);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    blocks_[i]->read_source(context, source, *state.layer(static_cast<Index>(i)));
  }
  return state;
}

Tensor EncoderDecoder::run_decoder(const ops::Context& context, const Batch& texts,
                                   SharedInput shared, const PassOptions& options) const {
  const std::vector<std::int32_t> types(texts.ids.size(), 0);
  std::vector<std::int32_t> positions;
  for (Index i = 0; i < texts.documents(); ++i) {
    const Index before = options.state == nullptr ? 0 : options.state->tokens(i);
    const Index count = texts.starts[at(i + 1)] - texts.starts[at(i)];
    require(before + count <= config_.decoder.max_tokens(),
            "text {}: expected at most {} tokens, the decoder's positions, found {}", i,
            config_.decoder.max_tokens(), before + count);
    const Index first = config_.decoder.reserved_positions + before;
    for (Index t = 0; t < count; ++t) positions.push_back(static_cast<std::int32_t>(first + t));
  }
  shared.starts = texts.starts;
  if (options.state == nullptr) {
    shared.rows = kernels::shared(kernels::self_attention_rows(texts.starts));
  }
  const std::uint64_t place = layer_place(config_.encoder.layers + 2 * config_.decoder.layers);
  const Tensor x =
      ops::embed(context, embeddings_, {.words = texts.ids, .positions = positions, .types = types},
                 context.dropout(config_.encoder.hidden_dropout, place));
  return layers_.forward(context, x, std::make_shared<const SharedInput>(std::move(shared)),
                         options);
}

Tensor EncoderDecoder::decode(const ops::Context& context, const Batch& texts, SourceStates source,
                              const PassOptions& options) const {
  SharedInput shared;
  shared.source = std::move(source);
  return run_decoder(context, texts, std::move(shared), options);
}

Tensor EncoderDecoder::decode(const ops::Context& context, const Batch& texts, State& state,
                              const PassOptions& options) const {
  PassOptions with_state = options;
  with_state.state = &state;
  return run_decoder(context, texts, {}, with_state);
}

Tensor EncoderDecoder::logits(const ops::Context& context, const Tensor& hidden) const {
  return ops::linear(context, hidden, lm_head_, DType::f32);
}

ops::LossSum EncoderDecoder::loss(const ops::Context& context, const Tensor& hidden,
                                  std::span<const std::int32_t> labels,
                                  const ops::LossOptions& options) const {
  return ops::linear_cross_entropy(context, hidden, lm_head_, labels, options);
}

}  // namespace longformer::models
