#include "engine/run/pass_times.h"

#include <algorithm>

#include "core/fork.h"

namespace longformer {
namespace {

/// Weight of a pass when the next one has come: some twenty passes count.
constexpr double kFading = 0.95;

}  // namespace

void PassTimes::add(std::int64_t tokens, double seconds) {
  const ForkSafeLock lock(mutex_);
  const auto t = static_cast<double>(tokens);
  weight_ = kFading * weight_ + 1;
  tokens_ = kFading * tokens_ + t;
  seconds_ = kFading * seconds_ + seconds;
  squares_ = kFading * squares_ + t * t;
  products_ = kFading * products_ + t * seconds;
}

PassTimes::Line PassTimes::line() const {
  const ForkSafeLock lock(mutex_);
  if (!(tokens_ > 0)) return {};
  const double mean = tokens_ / weight_, variance = squares_ / weight_ - mean * mean;
  const double through_origin = seconds_ / tokens_;
  // Passes of nearly one length say nothing of another.
  if (!(variance > 0.01 * mean * mean)) return {0, through_origin};
  const double covariance = products_ / weight_ - mean * seconds_ / weight_;
  const double slope = std::clamp(covariance / variance, 0.0, through_origin);
  return {std::max(0.0, seconds_ / weight_ - slope * mean), slope};
}

double PassTimes::seconds_of(std::int64_t tokens) const {
  const auto [begin, slope] = line();
  return begin + slope * static_cast<double>(tokens);
}

std::int64_t PassTimes::tokens_in(double seconds) const {
  const auto [begin, slope] = line();
  return slope > 0 ? static_cast<std::int64_t>(std::max(0.0, seconds - begin) / slope) : 0;
}

}  // namespace longformer
