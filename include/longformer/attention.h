// Band attention as a function of plain arrays: what the Longformer layers run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace longformer {

struct BandAttentionOptions {
  /// Total and even, half on each side; with causal the number of previous keys.
  std::int64_t window = 512;
  /// One number for all heads or one per head; 1 = adjacent keys.
  std::vector<std::int64_t> dilation = {1};
  bool causal = false;
  /// These rows see everything and are seen by everything; each key counts once. With causal
  /// nothing sees the future.
  std::vector<std::int64_t> global_positions = {};
  /// fused, loop, chunks or full.
  std::string backend = "fused";
  /// 0 takes what the machine allows.
  int threads = 0;
};

/// q, k, v and the result: [heads, n, head_size] row-major fp32; scaled by 1/√head_size inside.
/// Throws Error for sizes that disagree, an odd window, and patterns that the backend cannot run.
std::vector<float> band_attention(std::span<const float> q, std::span<const float> k,
                                  std::span<const float> v, std::int64_t heads,
                                  std::int64_t head_size, const BandAttentionOptions& options = {});

}  // namespace longformer
