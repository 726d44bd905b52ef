// How ops send gradients back (core/tape.h).
#pragma once

#include <functional>

#include "ops/context.h"

namespace longformer::ops {

/// Adds to the gradient of an activation that an op was given; nothing happens when it wants none.
/// The first one to arrive is kept as it is: nobody may write to the tensor afterwards.
void send_gradient(const Context& context, const Tensor& value, Tensor gradient);

/// The fp32 sum that gathers the gradient of a parameter, zero before the first use. The parameter
/// must want one.
Tensor& parameter_gradient(const Tensor& parameter);

/// The same for whoever writes all of it: where it is fresh its numbers are undefined, and nothing
/// is to be added to them.
struct ParameterGradient {
  Tensor& sum;
  bool fresh;
};
ParameterGradient parameter_gradient_to_write(const Tensor& parameter);

/// Makes the result of an op part of the tape: backward runs with the gradient of y, unless none
/// has arrived. Does nothing when the context has no tape.
void record(const Context& context, Tensor& y, std::function<void(Tensor gradient)> backward);

}  // namespace longformer::ops
