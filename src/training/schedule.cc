#include "training/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace longformer::training {

double Schedule::rate(std::int64_t done) const {
  if (done < warmup_steps) {
    return peak * static_cast<double>(done) / static_cast<double>(warmup_steps);
  }
  const auto decaying = static_cast<double>(std::max<std::int64_t>(1, steps - warmup_steps));
  const double progress = std::min(1.0, static_cast<double>(done - warmup_steps) / decaying);
  switch (kind) {
    case Kind::constant:
      return peak;
    case Kind::linear:
      return peak * (1 - progress);
    case Kind::cosine:
      return peak * 0.5 * (1 + std::cos(std::numbers::pi * progress));
    case Kind::polynomial:
      return (peak - end) * std::pow(1 - progress, power) + end;
  }
  return peak;
}

Schedule::Kind schedule_kind(const std::string& name) {
  if (name == "constant" || name == "constant_with_warmup") return Schedule::Kind::constant;
  if (name == "linear") return Schedule::Kind::linear;
  if (name == "cosine") return Schedule::Kind::cosine;
  if (name == "polynomial") return Schedule::Kind::polynomial;
  fail(OptionName("training.lr_scheduler_type"),
       "expected linear, constant, cosine or polynomial, found '{}'", name);
}

std::int64_t warmup_of(std::int64_t warmup_steps, double warmup_ratio, std::int64_t steps) {
  if (warmup_steps > 0) return warmup_steps;
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(steps) * warmup_ratio));
}

}  // namespace longformer::training
