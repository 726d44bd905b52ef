// The activation functions of the models (docs/spec/README.md#activations).
#pragma once

namespace longformer::kernels {

/// gelu is exact (erf); gelu_tanh is the tanh form, "gelu_new" of transformers; quick_gelu is
/// x·sigmoid(1.702·x); mish is x·tanh(log(1 + exp(x))).
enum class Activation { gelu, gelu_tanh, relu, silu, tanh, quick_gelu, mish };

}  // namespace longformer::kernels
