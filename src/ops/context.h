// Argument of every op: source of its buffers, way of computing, and tape of a training.
#pragma once

#include <cstdint>
#include <optional>

#include "core/memory.h"
#include "core/random.h"
#include "core/tape.h"

namespace longformer::ops {

struct Context {
  MemoryPool& memory;
  /// Dtype of activations.
  DType dtype = DType::f32;
  int threads = 1;
  /// Ops record their backward passes here; null when serving.
  Tape* tape = nullptr;
  /// Seed of the dropout masks of this pass; none when nothing is dropped.
  std::optional<std::uint64_t> dropout_seed = std::nullopt;
  /// Layers keep only their input for the backward pass, which runs them once more
  /// (ops/recompute.h).
  bool recomputes = false;

  /// The dropout of one place in a model; every place has a number of its own.
  Dropout dropout(double rate, std::uint64_t place) const {
    if (!dropout_seed || rate <= 0) return {};
    return {.rate = static_cast<float>(rate), .seed = random_bits(*dropout_seed, place)};
  }
};

}  // namespace longformer::ops
