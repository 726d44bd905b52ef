#include "engine/run/machine_rate.h"

#include <algorithm>
#include <chrono>

#include "core/compute.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/random.h"
#include "core/threads.h"
#include "ops/linear.h"

namespace longformer {
namespace {

/// A first run of so many seconds counts. In a shorter one what is cold shows: the first touch of
/// 4 GB made a training step of 13.6 s one of 20 s.
constexpr double kNoWarmUpSeconds = 300;

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Timing measure(int repeats, const std::function<void()>& work) {
  require(repeats >= 1, OptionName("repeats"), "expected at least 1, found {}", repeats);
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  for (int run = 0; run <= repeats; ++run) {
    if (run == repeats && seconds.front() >= kNoWarmUpSeconds) break;
    const auto start = Clock::now();
    work();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  if (seconds.front() < kNoWarmUpSeconds) seconds.erase(seconds.begin());
  std::sort(seconds.begin(), seconds.end());
  return {median(seconds), seconds.front(), seconds.back()};
}

double product_gflops(const std::string& dtype, int threads, int repeats) {
  constexpr Index kM = 4096, kK = 768, kN = 3072;
  const Compute compute = compute_of(dtype);
  const DType type = compute.dtype;
  const std::vector<Tensor> weights = {random_normal_tensor({kN, kK}, 1.0f, 1)};
  const Tensor x = random_normal_tensor({kM, kK}, 1.0f, 2).to(type);
  MemoryPool memory;
  const int team = checked_threads(threads);
  const ThreadLimit limit(team);
  const ops::Linear dense(weights, {}, {.dtype = type, .int8 = compute.int8});
  const ops::Context context = {.memory = memory, .dtype = type, .threads = team};
  const Timing timing = measure(repeats, [&] { ops::linear(context, x, dense, type); });
  return 2.0 * kM * kK * kN / timing.median * 1e-9;
}

}  // namespace longformer
