#include "models/stack.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/error.h"
#include "ops/recompute.h"

namespace longformer::models {
namespace {

/// Inputs and state of a layer in one pass.
struct LayerPass {
  std::shared_ptr<const SharedInput> shared;
  NamedLosses* losses;
  State* state;
  Index layer;
};

/// The tensors of `kept` that the pass has made: they get gradients from later ones.
std::vector<Tensor*> made(LayerState* kept, LayerState* before) {
  std::vector<Tensor*> tensors;
  if (kept == nullptr) return tensors;
  const std::vector<Tensor*> now = kept->trained(), then = before->trained();
  for (std::size_t i = 0; i < now.size(); ++i) {
    const bool is_new = !wants_gradient(*then[i]) || now[i]->gradient() != then[i]->gradient();
    if (wants_gradient(*now[i]) && is_new) tensors.push_back(now[i]);
  }
  return tensors;
}

/// A layer of which only the input is kept for the backward pass, and what it kept of the tokens
/// before: it begins with that again.
Tensor recomputed(const ops::Context& context, const std::shared_ptr<const Block>& block,
                  const Tensor& x, const LayerPass& pass) {
  LayerState* state = pass.state == nullptr ? nullptr : pass.state->layer(pass.layer);
  const std::shared_ptr<LayerState> before = state == nullptr ? nullptr : state->copy();
  struct Results {
    NamedLosses losses;
    std::unique_ptr<LayerState> kept;
    std::vector<Tensor*> made;
  };
  const auto last = std::make_shared<Results>();
  const auto part = [block, before, last, shared = pass.shared](const ops::Context& inner,
                                                                std::span<const Tensor> in) {
    *last = {};
    if (before) last->kept = before->copy();
    std::vector<Tensor> results = {block->forward(inner, in[0],
                                                  {.shared = *shared,
                                                   .state = last->kept.get(),
                                                   .source = in.size() > 1 ? &in[1] : nullptr,
                                                   .losses = &last->losses})};
    for (const auto& [name, loss] : last->losses) results.push_back(loss);
    last->made = made(last->kept.get(), before.get());
    for (const Tensor* tensor : last->made) results.push_back(*tensor);
    return results;
  };
  std::vector<Tensor> inputs = {x};
  if (pass.shared->source) inputs.push_back(pass.shared->source->hidden);
  const std::vector<Tensor> results = ops::recompute(context, std::move(inputs), part);
  std::size_t next = 1;
  for (const auto& [name, loss] : last->losses) {
    if (pass.losses != nullptr) pass.losses->emplace_back(name, results[next]);
    ++next;
  }
  for (Tensor* tensor : last->made) *tensor = results[next++];
  if (before) pass.state->replace(pass.layer, std::move(last->kept));
  *last = {};
  return results[0];
}

}  // namespace

std::optional<HeadObserver> observer_of(const AttentionObserver* all, Index layer) {
  if (all == nullptr || !std::binary_search(all->layers.begin(), all->layers.end(), layer)) {
    return std::nullopt;
  }
  return HeadObserver{all->heads, [all, layer](const ops::HeadProbabilities& probabilities) {
                        all->observe(layer, probabilities);
                      }};
}

Tensor Stack::forward(const ops::Context& context, Tensor x,
                      const std::shared_ptr<const SharedInput>& given, const PassOptions& options,
                      const LayerEntry& enter) const {
  std::shared_ptr<const SharedInput> shared = given;
  if (options.hidden_states != nullptr) options.hidden_states->push_back(x);
  const auto reached = [&](Index part) {
    if (options.between != nullptr && part < 2 * size()) (*options.between)(part, 2 * size());
  };
  for (Index i = 0; i < size(); ++i) {
    const auto& block = blocks_[at(i)];
    if (options.layer_inputs != nullptr) x = (*options.layer_inputs)[at(i)];
    if (enter) enter(i, x, shared);
    const auto observer = observer_of(options.observer, i);
    LayerState* state = options.state == nullptr ? nullptr : options.state->layer(i);
    const std::function<void()> halfway = [&] { reached(2 * i + 1); };
    x = context.recomputes
            ? recomputed(context, block, x, {shared, options.losses, options.state, i})
            : block->forward(
                  context, x,
                  {*shared, state, observer ? &*observer : nullptr,
                   shared->source ? &shared->source->hidden : nullptr, options.losses,
                   options.shares == nullptr ? nullptr : &(*options.shares)[at(i)], &halfway});
    if (options.hidden_states != nullptr) options.hidden_states->push_back(x);
    if (observer && options.observer->alone && i == options.observer->layers.back()) break;
    reached(2 * i + 2);
  }
  if (options.state != nullptr) {
    options.state->advance(shared->token_starts.empty() ? shared->starts : shared->token_starts);
  }
  return x;
}

State Stack::start(DType dtype, Index streams) const {
  std::vector<std::unique_ptr<LayerState>> layers;
  for (const auto& block : blocks_) layers.push_back(block->start(dtype, streams));
  return {std::move(layers), streams};
}

}  // namespace longformer::models
