// Inverted dropout (docs/spec/README.md#conventions) whose masks are computed again in the backward
// pass, never stored.
#pragma once

#include "ops/context.h"

namespace longformer::ops {

/// x with some elements dropped; itself when the dropout is not active.
Tensor dropout(const Context& context, const Tensor& x, const Dropout& dropout);

/// For ops that fuse it: multiplies x with the mask in place. What belongs to row r and column c of
/// [n, D] has index r·D + c.
void drop_elements(const Context& context, const Dropout& dropout, Tensor& x);

/// From the gradient of what was dropped to that of what was there before; a copy unless the
/// dropout is not active.
Tensor dropout_backward(const Context& context, const Dropout& dropout, const Tensor& gradient);

}  // namespace longformer::ops
