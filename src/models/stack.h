// The one loop over the layers of a model.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "models/blocks.h"
#include "models/state.h"

namespace longformer::models {

class DocumentPart;

/// Which attention probabilities of a forward pass to look at.
struct AttentionObserver {
  /// Ascending.
  std::vector<Index> layers, heads;
  std::function<void(Index layer, const ops::HeadProbabilities&)> observe;
  /// Nothing else of the pass is needed: it ends after the last of the layers, and what it returns
  /// is unspecified.
  bool alone = false;
};

/// An observer of one layer, or nothing where nobody looks at it.
std::optional<HeadObserver> observer_of(const AttentionObserver* all, Index layer);

/// Optional inputs and outputs of a forward pass besides its rows.
struct PassOptions {
  /// State of the tokens read before, which the pass updates; its streams are the documents of the
  /// batch.
  State* state = nullptr;
  /// Rows of word embeddings in place of those of the ids, [n, E] fp32
  /// (ops::EmbeddingRows::given), for encoders.
  const Tensor* words = nullptr;
  /// Gets the input of the first layer and the output of every layer.
  std::vector<Tensor>* hidden_states = nullptr;
  /// Input of each layer in place of the output of the layer below.
  const std::vector<Tensor>* layer_inputs = nullptr;
  const AttentionObserver* observer = nullptr;
  /// Gets the auxiliary losses of all layers.
  NamedLosses* losses = nullptr;
  /// One for each layer, for models with memories.
  std::vector<AttentionShares>* shares = nullptr;
  /// The batch is that of a part of a document, whose other parts are in other ranks.
  const DocumentPart* part = nullptr;
  /// Called between two sub-layers with how many are computed, and how many there are. Throwing
  /// from it ends the pass.
  const std::function<void(Index done, Index parts)>* between = nullptr;
};

/// Called before each layer with what it is to read, which it may replace: the rows of a Funnel
/// Transformer become fewer.
using LayerEntry =
    std::function<void(Index layer, Tensor& x, std::shared_ptr<const SharedInput>& shared)>;

class Stack {
 public:
  void add(std::shared_ptr<const Block> block) { blocks_.push_back(std::move(block)); }
  Index size() const { return static_cast<Index>(blocks_.size()); }

  /// x [n, D] through all layers; with Context::recomputes each is run again for its backward
  /// pass. `enter` may be empty.
  Tensor forward(const ops::Context& context, Tensor x,
                 const std::shared_ptr<const SharedInput>& shared, const PassOptions& options = {},
                 const LayerEntry& enter = {}) const;

  /// A fresh state for so many streams.
  State start(DType dtype, Index streams) const;

 private:
  std::vector<std::shared_ptr<const Block>> blocks_;
};

}  // namespace longformer::models
