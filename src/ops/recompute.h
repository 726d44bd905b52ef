// Recomputing layers for their backward pass: time for memory (Chen et al., arXiv 1604.06174).
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "ops/context.h"

namespace longformer::ops {

/// A part of a forward pass: the same context and inputs give the same bits. What it needs beside
/// its inputs it may capture; that must live until the backward pass. Its results are values of its
/// own, none of them twice and none an input.
using Part =
    std::function<std::vector<Tensor>(const Context& context, std::span<const Tensor> inputs)>;

/// Runs a part so that only its inputs are kept for the backward pass, which runs it once more with
/// a tape of its own and the same dropout. Values and gradients are those of calling it directly.
std::vector<Tensor> recompute(const Context& context, std::vector<Tensor> inputs, Part part);

}  // namespace longformer::ops
