// The phases of a training, and what they cost.
#pragma once

#include <cstdint>
#include <string>

namespace longformer::training {

/// Cost of a phase, reported by the task; 0 if unknown.
struct PhaseCost {
  std::int64_t tokens_per_step = 0;
  /// Useful FLOPs of a training step per token (3 × those of a forward pass).
  double flops_per_token = 0;
  /// Most bytes that activations and packed weights take during a step.
  std::int64_t activation_bytes = 0;
};

/// A part of a training with settings of its own (docs/spec/language-models.md#d3). The moments of
/// the optimizer go on through all phases; the schedule starts anew in each.
struct Phase {
  std::string name = {};
  std::int64_t steps = 0;
  double learning_rate = 0;
  std::int64_t warmup_steps = 0;
  /// Micro-batches of a step.
  std::int64_t accumulation = 1;
  /// Length of an epoch over all ranks; its last step may be shorter. 0: the data have no end.
  std::int64_t micro_batches_per_epoch = 0;
  PhaseCost cost = {};
};

}  // namespace longformer::training
