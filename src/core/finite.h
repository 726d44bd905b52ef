// Numbers that are NaN or infinite.
#pragma once

#include <span>

#include "core/tensor.h"

namespace longformer {

/// How many elements of a floating-point tensor are NaN or infinite.
Index count_nonfinite(const Tensor& tensor);

bool all_finite(std::span<const float> values);

}  // namespace longformer
