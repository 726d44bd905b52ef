#include "models/reversible_stack.h"

#include <utility>

#include "ops/dropout.h"
#include "ops/feed_forward.h"

namespace longformer::models {

struct ReversibleStack::Layer {
  ChunkedAttention attention;
  ops::Linear attention_output;
  ops::LayerNorm attention_norm;
  ops::FeedForward feed_forward;
  ops::LayerNorm feed_forward_norm;
  double dropout = 0;
  std::uint64_t place = 0;

  Tensor attend(const ops::Context& context, const Tensor& x, const LayerInput& in,
                std::shared_ptr<const ops::SortedChunks>& seen) const {
    const Tensor read = ops::layer_norm(context, x, attention_norm);
    const Tensor attended = attention.forward(context, read, in, seen);
    return ops::dropout(context, ops::linear(context, attended, attention_output, context.dtype),
                        context.dropout(dropout, place + 1));
  }

  Tensor feed(const ops::Context& context, const Tensor& x) const {
    const Tensor read = ops::layer_norm(context, x, feed_forward_norm);
    const Tensor nothing = Tensor::zeros(read.shape(), read.dtype());
    return ops::feed_forward_add(context, read, feed_forward, nothing,
                                 {.inner = context.dropout(dropout, place + 2),
                                  .outer = context.dropout(dropout, place + 3)});
  }
};

ReversibleStack::ReversibleStack(const ReformerLayers& layers, const LayerSource& source) {
  const ReformerConfig& reformer = layers.reformer;
  const auto rotations = std::make_shared<const Rotations>(
      Rotations::Size{layers.heads, layers.head_size, reformer.hashes, reformer.hash_seed});
  const Index width = layers.hidden_size, inner = layers.intermediate_size;
  for (Index layer = 0; layer < std::ssize(reformer.layers); ++layer) {
    const auto name = [&](const char* part) { return layers.name(layer, part); };
    Layer parts = {.attention = ChunkedAttention(layers, layer, source, rotations),
                   .attention_output = linear(source, name("attention_output"),
                                              {width, layers.heads * layers.head_size},
                                              {.has_bias = layers.attention_bias}),
                   .attention_norm = layer_norm(source, name("attention_norm"), width),
                   .feed_forward = {.up = linear(source, name("up"), {inner, width},
                                                 {.activation = layers.activation}),
                                    .down = linear(source, name("down"), {width, inner})},
                   .feed_forward_norm = layer_norm(source, name("feed_forward_norm"), width),
                   .dropout = layers.dropout,
                   .place = layer_place(layer)};
    layers_.push_back(std::make_shared<const Layer>(std::move(parts)));
  }
}

Tensor ReversibleStack::forward(const ops::Context& context, const Tensor& x,
                                const std::shared_ptr<const SharedInput>& shared,
                                const PassOptions& options) const {
  std::vector<ops::ReversibleLayer> parts;
  // A training runs its parts once more on the way back, and has no turn to lend.
  const auto* between = context.tape == nullptr ? options.between : nullptr;
  const auto reached = [between, all = 2 * std::ssize(layers_)](std::size_t part) {
    const auto done = static_cast<Index>(part);
    if (between != nullptr && done < all) (*between)(done, all);
  };
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    LayerState* state =
        options.state == nullptr ? nullptr : options.state->layer(static_cast<Index>(i));
    // The backward pass sorts as the forward pass did, whatever rounding did to the rows.
    const auto seen = std::make_shared<std::shared_ptr<const ops::SortedChunks>>();
    const auto observer = observer_of(options.observer, static_cast<Index>(i));
    parts.push_back({.f =
                         [=, layer = layers_[i]](const ops::Context& inner, const Tensor& rows) {
                           LayerInput in = {.shared = *shared, .state = state};
                           // Not once more on the way back.
                           if (observer && inner.tape == nullptr) in.observer = &*observer;
                           Tensor attended = layer->attend(inner, rows, in, *seen);
                           reached(2 * i + 1);
                           return attended;
                         },
                     .g =
                         [=, layer = layers_[i]](const ops::Context& inner, const Tensor& rows) {
                           Tensor fed = layer->feed(inner, rows);
                           reached(2 * i + 2);
                           return fed;
                         }});
  }
  ops::StreamsObserver observe;
  if (options.hidden_states != nullptr) {
    observe = [&options](const Tensor&, const Tensor& second) {
      options.hidden_states->push_back(second.copied());
    };
  }
  const bool keeps = context.tape != nullptr && context.dtype != DType::f32;
  Tensor streams = keeps ? ops::kept_streams(context, x, parts)
                         : ops::reversible(context, x, std::move(parts), observe);
  if (options.state != nullptr) options.state->advance(shared->starts);
  return streams;
}

State ReversibleStack::start(DType dtype, Index streams) const {
  std::vector<std::unique_ptr<LayerState>> states;
  for (const auto& layer : layers_) states.push_back(layer->attention.start(dtype, streams));
  return {std::move(states), streams};
}

}  // namespace longformer::models
