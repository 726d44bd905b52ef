#include "kernels/attention/attention.h"

#include <algorithm>

#include "core/error.h"
#include "core/threads.h"
#include "kernels/head_rows.h"
#include "longformer/analysis.h"

namespace longformer {
namespace {

kernels::HeadPattern pattern_of(const BandAttentionOptions& options, std::int64_t dilation) {
  require(dilation >= 1, "band attention: expected a dilation of at least 1, found {}", dilation);
  const std::int64_t window = std::min(options.window, kernels::kUnlimitedReach);
  if (options.causal) return {.reach_left = window, .reach_right = 0, .dilation = dilation};
  return {.reach_left = window / 2, .reach_right = window / 2, .dilation = dilation};
}

kernels::AttentionSpec spec_of(std::int64_t n, std::int64_t heads, std::int64_t head_size,
                               const BandAttentionOptions& options) {
  require(options.window >= 0, "band attention: expected a window of at least 0, found {}",
          options.window);
  require(options.causal || options.window % 2 == 0,
          "band attention: expected an even window, half on each side, found {}", options.window);
  const auto dilations = static_cast<std::int64_t>(options.dilation.size());
  require(dilations == 1 || dilations == heads,
          "band attention: expected 1 dilation or one for each of {} heads, found {}", heads,
          dilations);
  kernels::AttentionSpec spec =
      kernels::self_attention(n, heads, head_size, pattern_of(options, options.dilation[0]));
  for (std::int64_t head = 1; head < dilations; ++head) {
    spec.heads[head] = pattern_of(options, options.dilation[head]);
  }
  spec.causal = options.causal;
  spec.global_queries = kernels::GlobalQueries::see_everything;
  kernels::AttentionRows rows = *spec.rows;
  rows.global_keys = options.global_positions;
  std::sort(rows.global_keys.begin(), rows.global_keys.end());
  rows.global_keys.erase(std::unique(rows.global_keys.begin(), rows.global_keys.end()),
                         rows.global_keys.end());
  for (const std::int64_t position : rows.global_keys) {
    require(position >= 0 && position < n,
            "band attention: expected global positions in 0 … {}, found {}", n - 1, position);
  }
  spec.rows = kernels::shared(std::move(rows));
  return spec;
}

/// The numbers of the caller, which outlive the tensor and are only read.
Tensor tensor_over(std::span<const float> values, const Shape& shape) {
  return {nullptr, const_cast<float*>(values.data()), shape, DType::f32};
}

}  // namespace

std::vector<float> band_attention(std::span<const float> q, std::span<const float> k,
                                  std::span<const float> v, std::int64_t heads,
                                  std::int64_t head_size, const BandAttentionOptions& options) {
  std::vector<float> out(q.size());
  band_attention({q, k, v, out}, heads, head_size, options);
  return out;
}

void band_attention(const BandAttentionArrays& arrays, std::int64_t heads, std::int64_t head_size,
                    const BandAttentionOptions& options) {
  const auto& [q, k, v, out] = arrays;
  require(heads >= 1 && head_size >= 1,
          "band attention: expected at least 1 head and a head size of at least 1, found {} and {}",
          heads, head_size);
  const auto values = static_cast<std::int64_t>(q.size());
  // Dividing twice keeps the product of two large sizes from overflowing.
  const std::int64_t n = values / heads / head_size;
  require(values % heads == 0 && values / heads % head_size == 0,
          "band attention: expected queries [{}, n, {}], found {} values", heads, head_size,
          values);
  require(
      k.size() == q.size() && v.size() == q.size(),
      "band attention: expected as many keys and values as queries, {} numbers, found {} and {}",
      q.size(), k.size(), v.size());
  require(out.size() == q.size(),
          "band attention: expected memory for {} numbers of the result, found {}", q.size(),
          out.size());
  const kernels::AttentionSpec spec = spec_of(n, heads, head_size, options);
  const kernels::AttentionBackend backend = kernels::attention_backend(options.backend);
  const int threads = checked_threads(options.threads);

  const Shape shape = {heads, n, head_size};
  const Tensor query = tensor_over(q, shape);
  const Tensor key = tensor_over(k, shape);
  const Tensor value = tensor_over(v, shape);
  Tensor token_major({n, heads * head_size}, DType::f32);
  const ThreadLimit limit(threads);
  kernels::attention(backend, spec, {query, key, value, token_major, nullptr, threads});

  Tensor head_major(nullptr, out.data(), shape, DType::f32);
  kernels::split_all_heads(token_major, head_major, threads);
}

}  // namespace longformer
