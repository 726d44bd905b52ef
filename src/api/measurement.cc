#include "api/measurement.h"

#include <cstdlib>
#include <fstream>
#include <span>
#include <vector>

#include "core/error.h"
#include "core/threads.h"

namespace longformer {
namespace {

constexpr int kGemmRepeats = 9;

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
  return product_gflops(dtype, threads, repeats);
}

}  // namespace longformer
