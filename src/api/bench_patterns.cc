#include "api/bench_patterns.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "core/threads.h"
#include "engine/run/least_memory.h"
#include "ops/attention.h"
#include "ops/feature_attention.h"
#include "ops/linear.h"
#include "ops/slots.h"

namespace longformer {
namespace {

using Seconds = std::chrono::duration<double>;

/// Random numbers that want a gradient.
Tensor trained_tensor(const Shape& shape, DType dtype, std::uint64_t seed, float deviation = 1) {
  Tensor tensor = random_normal_tensor(shape, deviation, seed).to(dtype);
  tensor.set_gradient(std::make_shared<Gradient>());
  return tensor;
}

/// A layer of attention up to its output projection: from its inputs to [n, H·d].
struct Layer {
  std::function<Tensor(const ops::Context&)> forward;
  double flops = 0;
  /// Tensors that have gradients.
  std::vector<Tensor> inputs, weights;

  std::int64_t bytes() const {
    std::int64_t bytes = 0;
    for (const auto* tensors : {&inputs, &weights}) {
      for (const Tensor& tensor : *tensors) bytes += static_cast<std::int64_t>(tensor.bytes());
    }
    return bytes;
  }
  /// Gradients of an earlier run would be kept, and added to.
  void forget_gradients() const {
    for (const Tensor& input : inputs) input.gradient()->sum = Tensor();
  }
};

Layer performer(const AttentionBenchOptions& options, DType dtype) {
  const Shape shape = {options.heads, options.n, options.head_size};
  const std::vector<Tensor> inputs = {trained_tensor(shape, dtype, 1),
                                      trained_tensor(shape, dtype, 2),
                                      trained_tensor(shape, dtype, 3)};
  const kernels::FeatureAttentionSpec spec = {
      {kernels::FeatureKernel::softmax, options.head_size, options.features},
      options.heads,
      options.causal,
      kernels::shared(kernels::self_attention_rows(std::array<Index, 2>{0, options.n}))};
  Tensor directions({options.features, options.head_size}, DType::f32);
  kernels::draw_features({}, 4, directions);
  return {[=](const ops::Context& context) {
            return ops::feature_attention(context, spec, inputs, directions);
          },
          kernels::feature_attention_flops(spec),
          inputs,
          {}};
}

/// E·X, the keys and values of its rows, and what the queries find in them; queries are given.
Layer linformer(const AttentionBenchOptions& options, DType dtype) {
  require(!options.causal, OptionName("pattern"),
          "expected none that is causal for linformer, found causal");
  require(options.rows <= options.n, OptionName("rows"), "expected at most n = {}, found {}",
          options.n, options.rows);
  const Index width = options.heads * options.head_size, k = options.rows;
  const Tensor query = trained_tensor({options.heads, options.n, options.head_size}, dtype, 1);
  const Tensor x = trained_tensor({options.n, width}, dtype, 2);
  const Tensor projection = trained_tensor({k, options.n}, DType::f32, 3, 0.05f);
  const std::array weights = {trained_tensor({width, width}, DType::f32, 4, 0.03f),
                              trained_tensor({width, width}, DType::f32, 5, 0.03f)};
  const std::array biases = {trained_tensor({width}, DType::f32, 6),
                             trained_tensor({width}, DType::f32, 7)};
  const auto key_value = std::make_shared<ops::Linear>(
      weights, biases, ops::LinearOptions{.dtype = dtype, .trainable = true});
  ops::AttentionSpec spec;
  spec.head_size = options.head_size;
  spec.heads.assign(at(options.heads), {kernels::kUnlimitedReach, kernels::kUnlimitedReach, 1});
  kernels::AttentionRows rows;
  rows.documents.push_back({.query_count = options.n, .key_count = k});
  spec.rows = kernels::shared(std::move(rows));
  const auto n = static_cast<double>(options.n), d = static_cast<double>(width),
             slots = static_cast<double>(k);
  return {[=, heads = options.heads, size = options.head_size](const ops::Context& context) {
            const std::array<Index, 2> starts = {0, x.rows()};
            const Tensor few = ops::project_rows(context, x, starts, projection, k);
            const auto projected = ops::project_heads(context, few, *key_value, heads, size);
            return ops::attention(context, spec, query, projected[0], projected[1]);
          },
          2 * slots * n * d + 4 * slots * d * d + 4 * n * slots * d,
          {query, x, projection},
          {weights.begin(), weights.end()}};
}

}  // namespace

BenchResult bench_pattern(const AttentionBenchOptions& options, DType dtype, int threads) {
  require(options.features >= 1 && options.rows >= 1,
          "features and rows: expected 1 or more, found {} and {}", options.features, options.rows);
  const bool backward = options.pass == "backward";
  const Layer layer =
      options.pattern == "performer" ? performer(options, dtype) : linformer(options, dtype);
  MemoryPool memory;
  Tape tape;
  ops::Context context = {.memory = memory, .dtype = dtype, .threads = threads};
  if (backward) context.tape = &tape;
  const Tensor slope =
      random_normal_tensor({options.n, options.heads * options.head_size}, 1, 9).to(dtype);
  std::vector<double> times;
  for (int run = 0; run <= options.repeats; ++run) {
    layer.forget_gradients();
    auto begin = std::chrono::steady_clock::now();
    const Tensor out = layer.forward(context);
    if (backward) {
      out.gradient()->sum = slope;
      begin = std::chrono::steady_clock::now();
      tape.backward();
    }
    // The first run warms up.
    if (run > 0) times.push_back(Seconds(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  const Timing timing = {times[times.size() / 2], times.front(), times.back()};
  BenchResult result =
      result_of(timing, options.n, options.dtype, (backward ? 2 : 1) * layer.flops, threads);
  result.pass = options.pass;
  result.backend = options.pattern;
  // On the way back each has a gradient, and so has the result.
  const Index rows = options.n * options.heads * options.head_size;
  result.least_bytes =
      kProgramBytes + (backward ? 2 : 1) * (layer.bytes() + rows * element_size(dtype));
  return result;
}

}  // namespace longformer
