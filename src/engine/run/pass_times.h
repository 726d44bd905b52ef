// How long forward passes take.
#pragma once

#include <cstdint>
#include <mutex>

namespace longformer {

/// A line through the tokens and seconds of the passes so far, of which the latest count most. Any
/// thread.
class PassTimes {
 public:
  void add(std::int64_t tokens, double seconds);
  /// 0 before the first pass.
  double seconds_of(std::int64_t tokens) const;
  /// The largest pass that takes no longer; 0 before the first pass.
  std::int64_t tokens_in(double seconds) const;

 private:
  struct Line {
    double begin = 0, slope = 0;
  };
  Line line() const;

  mutable std::mutex mutex_;
  /// Weighted sums of 1, t, s, t² and t·s.
  double weight_ = 0, tokens_ = 0, seconds_ = 0, squares_ = 0, products_ = 0;
};

}  // namespace longformer
