// How a model computes, as options name it.
#pragma once

#include <string>
#include <string_view>

#include "core/dtype.h"

namespace longformer {

/// Dtype of activations, and whether the products of layers are those of 8-bit whole numbers with a
/// scale for each row (docs/int8.md).
struct Compute {
  DType dtype = DType::f32;
  bool int8 = false;
};

/// Parses "fp32", "bf16" or "int8". Activations beside int8 are bf16 where the CPU multiplies that,
/// else fp32; a CPU that has no products of 8-bit whole numbers computes in fp32. Throws Error for
/// anything else.
Compute compute_of(const std::string& name);

/// Why a CPU does not compute as was asked for, in one line; empty where it does.
std::string compute_note(const std::string& name);

}  // namespace longformer
