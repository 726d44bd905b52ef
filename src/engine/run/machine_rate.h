// How long work takes, and how fast this machine multiplies matrices.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace longformer {

struct Timing {
  double median, minimum, maximum;
};

/// The middle of one number or more, or the mean of the two in the middle.
double median(std::vector<double> values);

/// Runs once to warm up, then `repeats` times; a first run of many seconds counts.
Timing measure(int repeats, const std::function<void()>& work);

/// GFLOP/s of a product of 4,096 × 768 and 768 × 3,072 numbers; see gemm_gflops.
double product_gflops(const std::string& dtype, int threads, int repeats);

}  // namespace longformer
