// What every op gets: where its buffers come from and how it computes.
#pragma once

#include "core/memory.h"
#include "core/tensor.h"

namespace longformer::ops {

struct Context {
  MemoryPool& memory;
  /// dtype of activations.
  DType dtype = DType::f32;
  int threads = 1;
};

}  // namespace longformer::ops
