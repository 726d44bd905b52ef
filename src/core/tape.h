// What a training pass leaves behind for its backward pass.
//
// Ops compute at once. With a tape in their context they also give their result a Gradient and
// record a step that sends it on to the gradients of their inputs.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace longformer {

/// Belongs to a value that is trained or computed from one that is.
struct Gradient {
  /// What the uses of the value have sent back so far; empty before the first. That of a parameter
  /// is fp32 and gathers over micro-batches; that of an activation has its dtype.
  Tensor sum;
  /// How often an optimizer has changed the value: copies in another layout follow it.
  std::uint64_t version = 0;
  /// The memory of the last sum of a parameter: fresh pages would cost a tenth of a step.
  Tensor spare;

  /// Hands the sum over and starts again.
  Tensor take() { return std::exchange(sum, Tensor()); }
  /// Starts again, and keeps the memory.
  void clear() {
    if (!sum.empty()) spare = take();
  }
};

inline bool wants_gradient(const Tensor& value) { return value.gradient() != nullptr; }

class Tape {
 public:
  /// A gradient for a value that an op has computed.
  static void track(Tensor& value) { value.set_gradient(std::make_shared<Gradient>()); }

  /// Keeps a step of the backward pass. What it holds stays in memory until it has run.
  void record(std::function<void()> step) { steps_.push_back(std::move(step)); }

  /// Runs the steps, the last one first, and forgets each as it is done. Before it the gradient of
  /// the loss must have been put into place.
  void backward() {
    while (!steps_.empty()) {
      const std::function<void()> step = std::move(steps_.back());
      steps_.pop_back();
      step();
    }
  }

 private:
  std::vector<std::function<void()>> steps_;
};

}  // namespace longformer
