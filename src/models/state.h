// State of a model after the tokens that it has read (docs/spec/design.md#state): the caller owns
// it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace longformer::models {

/// The part of one layer, for one or several streams of tokens.
class LayerState {
 public:
  virtual ~LayerState() = default;
  virtual std::unique_ptr<LayerState> copy() const = 0;
  /// Bytes of memory.
  virtual std::int64_t bytes() const = 0;
  /// Stream i goes on from what stream sources[i] has read.
  virtual void reorder(std::span<const Index> sources) = 0;
  /// The tensors that a fresh state needs to go on from here; restore() takes them.
  virtual std::vector<Tensor> saved() const = 0;
  virtual void restore(std::span<const Tensor> saved) = 0;
  /// Tensors of the state that may need gradients from later passes.
  virtual std::vector<Tensor*> trained() { return {}; }
};

/// Key and value caches, memories and the like. A fresh one comes from the model; a forward pass
/// that is given one reads on where the streams in it have ended. Copies are independent.
class State {
 public:
  State() = default;
  State(std::vector<std::unique_ptr<LayerState>> layers, Index streams)
      : layers_(std::move(layers)), tokens_(static_cast<std::size_t>(streams), 0) {}
  State(State&&) = default;
  State& operator=(State&&) = default;
  State(const State& other);
  State& operator=(const State& other) { return *this = State(other); }
  ~State() = default;

  Index streams() const { return static_cast<Index>(tokens_.size()); }
  /// Tokens that a stream has read.
  Index tokens(Index stream) const { return tokens_[static_cast<std::size_t>(stream)]; }
  std::int64_t bytes() const;

  /// Stream i goes on as a copy of stream sources[i]: beams, and documents that end early. The
  /// number of streams becomes that of the sources.
  void reorder(std::span<const Index> sources);

  /// For models that read documents one after another: streams behind the others, which have read
  /// nothing; the layers have theirs already.
  void add_streams(Index count);

  /// Writes state.json and state.safetensors into a folder that exists, as training checkpoints
  /// have them. Throws Error.
  void save(const std::filesystem::path& folder) const;
  /// Into a fresh state of the same model and number of streams. Throws Error for files of another.
  void restore(const std::filesystem::path& folder);

  /// For models: the part of a layer, null where it keeps nothing.
  LayerState* layer(Index index) const { return layers_[static_cast<std::size_t>(index)].get(); }
  void replace(Index index, std::unique_ptr<LayerState> layer) {
    layers_[static_cast<std::size_t>(index)] = std::move(layer);
  }
  /// For models: rows starts[s] … starts[s + 1] − 1 of a pass were the next tokens of stream s.
  void advance(std::span<const Index> starts);

 private:
  std::vector<std::unique_ptr<LayerState>> layers_;
  std::vector<Index> tokens_;
};

}  // namespace longformer::models
