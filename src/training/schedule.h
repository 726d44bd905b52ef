// Learning rates over the steps of a training.
#pragma once

#include <cstdint>
#include <string>

namespace longformer::training {

/// A linear rise over the warm-up steps, then a decay; as get_scheduler of `transformers`
/// (polynomial: docs/spec/training.md#c3).
struct Schedule {
  enum class Kind { constant, linear, cosine, polynomial };

  Kind kind = Kind::linear;
  double peak = 0;
  std::int64_t warmup_steps = 0;
  std::int64_t steps = 0;
  /// Exponent of the polynomial.
  double power = 3;
  double end = 0;

  /// The learning rate of the step that has `done` steps before it.
  double rate(std::int64_t done) const;
};

/// "linear", "constant", "cosine", "polynomial", and "constant_with_warmup", which is "constant".
/// Throws Error for anything else.
Schedule::Kind schedule_kind(const std::string& name);

/// Warm-up steps: the number, or where it is 0 the fraction of the steps, rounded up.
std::int64_t warmup_of(std::int64_t warmup_steps, double warmup_ratio, std::int64_t steps);

}  // namespace longformer::training
