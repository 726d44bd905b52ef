// How ops send gradients back (core/tape.h).
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "ops/context.h"

namespace longformer::ops {

/// Whether an op has to record its backward pass: there is a tape, and one of the values or layers
/// that it was given wants a gradient. Layers have a wants_gradient() of their own.
template <typename... Values>
bool wants_backward(const Context& context, const Values&... values) {
  return context.tape != nullptr && (wants_gradient(values) || ...);
}

/// For ops without a backward pass: throws Error where one would be needed.
template <typename... Values>
void refuse_gradient(const Context& context, std::string_view op, const Values&... values) {
  require(
      !wants_backward(context, values...),
      "{}: expected values that want no gradient, as none can be sent back, found one that does",
      op);
}

/// x as a value of its own that wants no gradient: nothing is sent back to what x was computed
/// from.
inline Tensor stop_gradient(Tensor x) {
  x.set_gradient(nullptr);
  return x;
}

/// Adds to the gradient of an activation that an op was given; nothing happens when it wants none.
/// The same tensor may be sent to several values: it is copied before anything is added to it.
void send_gradient(const Context& context, const Tensor& value, Tensor gradient);

/// The gradient in storage that nobody else holds, so that it may be written to.
Tensor owned(const Context& context, Tensor gradient);

/// The fp32 sum that gathers the gradient of a parameter, zero before the first use. The parameter
/// must want one.
Tensor& parameter_gradient(const Tensor& parameter);

/// Gradient for a step that writes all of it: numbers of a fresh one are undefined, and nothing is
/// to be added to them.
struct ParameterGradient {
  Tensor& sum;
  bool fresh;
};
ParameterGradient parameter_gradient_to_write(const Tensor& parameter);

/// Makes the result of an op part of the tape: backward runs with the gradient of y, which it may
/// write to, unless none has arrived. The context has a tape, and wants_backward() has said yes.
/// The name of the op is a literal; every name has a row in the table of
/// tests/ops/gradient_test.cc.
void record(const Context& context, std::string_view op, Tensor& y,
            std::function<void(Tensor gradient)> backward);

/// Records an op with several results: backward runs when any of them has a gradient; those of the
/// others are empty.
void record(const Context& context, std::string_view op, std::span<Tensor> results,
            std::function<void(std::vector<Tensor> gradients)> backward);

}  // namespace longformer::ops
