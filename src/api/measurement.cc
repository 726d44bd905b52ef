#include "api/measurement.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <span>
#include <vector>

#include "core/error.h"
#include "core/memory.h"
#include "core/random.h"
#include "core/threads.h"
#include "ops/linear.h"

namespace longformer {
namespace {

constexpr int kGemmRepeats = 9;

/// A first run of so many seconds counts. In a shorter one what is cold shows: the first touch of
/// 4 GB made a training step of 13.6 s one of 20 s.
constexpr double kNoWarmUpSeconds = 300;

}  // namespace

std::int64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::strtoll(line.c_str() + 6, nullptr, 10) * 1024;
  }
  return 0;
}

double read_rate(int threads) {
  constexpr Index kBlock = Index{1} << 22;
  constexpr Index kBlocks = 128;
  const std::vector<std::uint64_t> data(static_cast<std::size_t>(kBlock * kBlocks / 8), 1);
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(kBlocks), 0);
  const Timing timing = measure(5, [&] {
    parallel_for(threads, kBlocks, [&](Index block) {
      const auto words = static_cast<std::size_t>(kBlock / 8);
      const auto part = std::span(data).subspan(static_cast<std::size_t>(block) * words, words);
      std::uint64_t sum = 0;
      for (const std::uint64_t word : part) sum += word;
      sums[static_cast<std::size_t>(block)] = sum;
    });
  });
  require(sums[0] > 0, "bench: expected a sum, found none");
  return static_cast<double>(kBlock * kBlocks) / timing.minimum;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Timing measure(int repeats, const std::function<void()>& work) {
  require(repeats >= 1, "repeats: expected at least 1, found {}", repeats);
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

BenchResult result_of(const Timing& timing, std::int64_t n, const std::string& dtype, double flops,
                      int threads) {
  BenchResult result;
  result.peak_rss_bytes = peak_resident_bytes();
  result.n = n;
  result.dtype = dtype;
  result.seconds = timing.median;
  result.seconds_min = timing.minimum;
  result.seconds_max = timing.maximum;
  result.tokens_per_second = static_cast<double>(n) / timing.median;
  result.gflops = flops / timing.median * 1e-9;
  result.gemm_gflops = gemm_gflops(dtype, threads, kGemmRepeats);
  result.fraction_of_bound = result.gflops / result.gemm_gflops;
  result.pass = "forward";
  return result;
}

double gemm_gflops(const std::string& dtype, int threads, int repeats) {
  constexpr Index kM = 4096, kK = 768, kN = 3072;
  const DType type = compute_dtype(dtype);
  const std::vector<Tensor> weights = {random_normal_tensor({kN, kK}, 1.0f, 1)};
  const Tensor x = random_normal_tensor({kM, kK}, 1.0f, 2).to(type);
  MemoryPool memory;
  const int team = checked_threads(threads);
  const ThreadLimit limit(team);
  const ops::Linear dense(weights, {}, {.dtype = type});
  const ops::Context context = {.memory = memory, .dtype = type, .threads = team};
  const Timing timing = measure(repeats, [&] { ops::linear(context, x, dense, type); });
  return 2.0 * kM * kK * kN / timing.median * 1e-9;
}

}  // namespace longformer
