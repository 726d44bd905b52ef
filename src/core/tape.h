// Record of a training pass for its backward pass.
//
// Ops compute at once. With a tape in their context, and where an input or a parameter wants a
// gradient, they also give their result a Gradient and record a step that sends it on to the
// gradients of their inputs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace longformer {

/// Belongs to a value that is trained or computed from one that is.
struct Gradient {
  /// Gradient accumulated so far; empty before the first. That of a parameter is fp32 and gathers
  /// over micro-batches; that of an activation has its dtype.
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
  Tape() = default;

  /// A tape that drops each step at once. Values that are computed with it want gradients as they
  /// would with another, which tells whether anything in a part of a model is trained.
  static Tape forgetful() {
    Tape tape;
    tape.keeps_steps_ = false;
    return tape;
  }
  bool keeps_steps() const { return keeps_steps_; }

  /// A gradient for a value that an op has computed.
  static void track(Tensor& value) { value.set_gradient(std::make_shared<Gradient>()); }

  /// Keeps a step of the backward pass under the name of its op, a literal. What it holds stays in
  /// memory until it has run.
  void record(std::string_view op, std::function<void()> step) {
    if (keeps_steps_) steps_.push_back({op, std::move(step)});
  }

  /// The ops of the steps that are left, in the order in which they were recorded.
  std::vector<std::string_view> ops() const {
    std::vector<std::string_view> names;
    for (const Step& step : steps_) names.push_back(step.op);
    return names;
  }

  /// Runs the steps, the last one first, and forgets each as it is done. Before it the gradient of
  /// the loss must have been put into place.
  void backward() {
    while (!steps_.empty()) {
      const Step step = std::move(steps_.back());
      steps_.pop_back();
      step.run();
    }
  }

 private:
  struct Step {
    std::string_view op;
    std::function<void()> run;
  };
  std::vector<Step> steps_;
  bool keeps_steps_ = true;
};

}  // namespace longformer
