// The activation functions of the models (spec.md §0).
#pragma once

namespace longformer::kernels {

/// gelu is exact (erf); gelu_tanh is the tanh form, "gelu_new" of transformers.
enum class Activation { gelu, gelu_tanh, relu, silu, tanh };

}  // namespace longformer::kernels
