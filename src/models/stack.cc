#include "models/stack.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "core/error.h"
#include "ops/recompute.h"

namespace longformer::models {
namespace {

/// A layer of which only the input is kept for the backward pass.
BlockOutput recomputed(const ops::Context& context, const std::shared_ptr<const Block>& block,
                       const Tensor& x, const std::shared_ptr<const SharedInput>& shared) {
  const auto names = std::make_shared<std::vector<std::string>>();
  const auto part = [block, shared, names](const ops::Context& inner, std::span<const Tensor> in) {
    BlockOutput output = block->forward(
        inner, in[0], {.shared = *shared, .source = in.size() > 1 ? &in[1] : nullptr});
    std::vector<Tensor> results = {output.x};
    names->clear();
    for (auto& [name, loss] : output.losses) {
      names->push_back(name);
      results.push_back(loss);
    }
    return results;
  };
  std::vector<Tensor> inputs = {x};
  if (shared->source) inputs.push_back(shared->source->hidden);
  const std::vector<Tensor> results = ops::recompute(context, std::move(inputs), part);
  BlockOutput output = {results[0]};
  for (std::size_t i = 0; i < names->size(); ++i) {
    output.losses.emplace_back((*names)[i], results[i + 1]);
  }
  return output;
}

/// An observer of one layer, or nothing where nobody looks at it.
std::optional<HeadObserver> observer_of(const AttentionObserver* all, Index layer) {
  if (all == nullptr || !std::binary_search(all->layers.begin(), all->layers.end(), layer)) {
    return std::nullopt;
  }
  return HeadObserver{all->heads, [all, layer](const ops::HeadProbabilities& probabilities) {
                        all->observe(layer, probabilities);
                      }};
}

}  // namespace

Tensor Stack::forward(const ops::Context& context, Tensor x,
                      const std::shared_ptr<const SharedInput>& shared,
                      const PassOptions& options) const {
  if (options.hidden_states != nullptr) options.hidden_states->push_back(x);
  for (Index i = 0; i < size(); ++i) {
    const auto& block = blocks_[at(i)];
    if (options.layer_inputs != nullptr) x = (*options.layer_inputs)[at(i)];
    const auto observer = observer_of(options.observer, i);
    LayerState* state = options.state == nullptr ? nullptr : options.state->layer(i);
    BlockOutput output =
        context.recomputes && state == nullptr
            ? recomputed(context, block, x, shared)
            : block->forward(context, x,
                             {*shared, state, observer ? &*observer : nullptr,
                              shared->source ? &shared->source->hidden : nullptr, options.losses,
                              options.shares == nullptr ? nullptr : &(*options.shares)[at(i)]});
    x = std::move(output.x);
    if (options.hidden_states != nullptr) options.hidden_states->push_back(x);
    if (options.losses != nullptr) {
      std::move(output.losses.begin(), output.losses.end(), std::back_inserter(*options.losses));
    }
    if (observer && options.observer->alone && i == options.observer->layers.back()) break;
  }
  if (options.state != nullptr) options.state->advance(shared->starts);
  return x;
}

State Stack::start(DType dtype, Index streams) const {
  std::vector<std::unique_ptr<LayerState>> layers;
  for (const auto& block : blocks_) layers.push_back(block->start(dtype, streams));
  return {std::move(layers), streams};
}

}  // namespace longformer::models
