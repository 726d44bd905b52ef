// From logits to what people read.
#pragma once

#include <span>
#include <vector>

namespace longformer::engine {

/// exp(x) ÷ Σ exp, summed in double precision. Nothing gives nothing.
std::vector<float> softmax(std::span<const float> logits);

/// 1 ÷ (1 + exp(−x)) of each.
std::vector<float> sigmoid(std::span<const float> logits);

}  // namespace longformer::engine
