#include "kernels/attention/backward.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "core/cpu.h"
#include "core/error.h"
#include "core/threads.h"
#include "kernels/attention/backends.h"
#include "kernels/attention/products.h"
#include "kernels/attention/products_backward.h"
#include "kernels/opencl/attention.h"
#include "kernels/row_copies.h"

namespace longformer::kernels {
namespace {

/// Queries whose windows slide through one chunk of keys.
constexpr Index kQueriesPerBackwardTask = 512;
/// A window of 512 with its task fits in one chunk; longer sequences of keys are cut into chunks
/// that leave room in the second-level cache.
constexpr Index kWholeChunk = 1280;
constexpr Index kPartChunk = 640;

/// Most keys of a task of windows; queries that see everything go through more, chunk by chunk.
Index longest_sequence(const AttentionSpec& spec) {
  Index longest = 0;
  for (const AttentionDocument& document : spec.rows->documents) {
    longest = std::max(longest, document.key_count);
  }
  const auto globals = static_cast<Index>(spec.rows->global_keys.size());
  Index most = 0;
  for (const HeadPattern& head : spec.heads) {
    const Index reach = std::min(head.most_left(), longest) + std::min(head.most_right(), longest);
    most = std::max(most, std::min(reach + kQueriesPerBackwardTask, longest) + globals);
  }
  return most;
}

/// One part per head when the threads have enough heads to share.
Index parts_of(Index heads, int threads, Index queries) {
  if (heads % threads == 0 || heads >= 4 * threads) return 1;
  return std::clamp<Index>(divide_up(Index{4} * threads, heads), 1,
                           std::max<Index>(queries / kQueriesPerBackwardTask, 1));
}

/// Rows of the keys that some windows of these queries reach.
Range keys_in_reach(const BackwardPlan& plan, Index head, Range queries) {
  const HeadPattern& pattern = plan.spec.heads[static_cast<std::size_t>(head)];
  Range keys = {plan.spec.rows->key_count(), 0};
  for (const AttentionDocument& document : plan.spec.rows->documents) {
    const Index first = std::max<Index>(queries.begin - document.query_begin, 0);
    const Index end = std::min(queries.end - document.query_begin, document.query_count);
    if (first >= end) continue;
    // A reach may be unlimited: multiply no more of it than there is.
    const Index steps =
        (document.key_count + std::abs(document.query_offset) + end) / pattern.dilation + 1;
    const Index before =
        document.query_offset + first - std::min(pattern.most_left(), steps) * pattern.dilation;
    const Index after =
        document.query_offset + end + std::min(pattern.most_right(), steps) * pattern.dilation;
    const bool whole = plan.spec.global_queries == GlobalQueries::see_everything &&
                       !plan.spec.rows->global_keys.empty();
    const Index begin_key = whole ? 0 : std::clamp<Index>(before, 0, document.key_count);
    const Index end_key =
        whole ? document.key_count : std::clamp<Index>(after, 0, document.key_count);
    if (begin_key >= end_key) continue;
    keys.begin = std::min(keys.begin, document.key_begin + begin_key);
    keys.end = std::max(keys.end, document.key_begin + end_key);
  }
  return keys.begin < keys.end ? keys : Range{};
}

void add_rows(float* to, std::span<const float> from) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] += from[i];
}

std::span<float> numbers(Tensor& tensor) {
  if (tensor.empty()) return {};
  return {tensor.data<float>(), static_cast<std::size_t>(tensor.size())};
}

void write(std::span<const float> values, Tensor& to, Index at, float factor = 1) {
  const Index count = std::ssize(values);
  write_rows({values.data(), 1, count, count}, to, {at, count}, {.all = factor});
}

/// Rows of distances of one head; those in fp32 are exact at once, as gradients of keys are.
void write_distances(const BackwardPlan& plan, Index head, Tensor& from, Tensor* to) {
  if (to == nullptr) return;
  const Index d = plan.spec.head_size, count = to->dimension(1);
  const double scale = plan.kernels.pack == 1 ? 1 : 1 / std::sqrt(static_cast<double>(d));
  const std::span<float> rows = numbers(from);
  for (float& value : rows) value *= static_cast<float>(scale);
  for (Index row = 0; row < count; ++row) {
    write(rows.subspan(row * plan.dims, d), *to, (head * count + row) * d);
  }
}

/// Adds the parts of a head in their order to the first, whose keys are all, and writes them.
void finish(const BackwardPlan& plan, Index head, std::span<HeadSums> parts) {
  const Index d = plan.spec.head_size;
  HeadSums& all = parts.front();
  for (HeadSums& part : parts.subspan(1)) {
    add_rows(all.key.data<float>() + part.keys.begin * d, numbers(part.key));
    add_rows(all.value.data<float>() + part.keys.begin * d, numbers(part.value));
    add_rows(all.global_key.data(), part.global_key);
    add_rows(all.global_value.data(), part.global_value);
    add_rows(all.content_bias.data(), part.content_bias);
    add_rows(all.position_bias.data(), part.position_bias);
    add_rows(numbers(all.relative_keys).data(), numbers(part.relative_keys));
    add_rows(numbers(all.distance_keys).data(), numbers(part.distance_keys));
    add_rows(numbers(all.distance_queries).data(), numbers(part.distance_queries));
    for (std::size_t i = 0; i < part.distance_bias.size(); ++i) {
      all.distance_bias[i] += part.distance_bias[i];
    }
    part = {};
  }
  for (std::size_t i = 0; i < plan.spec.rows->global_keys.size(); ++i) {
    const Index to = plan.spec.rows->global_keys[i] * d;
    const Index from = static_cast<Index>(i) * d;
    for (Index c = 0; c < d; ++c) {
      all.key.data<float>()[to + c] += all.global_key[from + c];
      all.value.data<float>()[to + c] += all.global_value[from + c];
    }
  }
  const Index rows = plan.in.key.dimension(1);
  const auto count = static_cast<std::size_t>(rows * d);
  write(numbers(all.key).first(count), plan.in.key_gradient, head * rows * d, all.key_factor);
  write(numbers(all.value).first(count), plan.in.value_gradient, head * rows * d);
  if (plan.in.distance_bias_gradient != nullptr) {
    std::copy(all.distance_bias.begin(), all.distance_bias.end(),
              plan.in.distance_bias_gradient->data<float>() + head * std::ssize(all.distance_bias));
  }
  if (plan.spec.distance_keys) {
    write_distances(plan, head, all.distance_keys, plan.in.distance_key_gradients.keys);
    write_distances(plan, head, all.distance_queries, plan.in.distance_key_gradients.queries);
  }
  if (plan.distances > 0) {
    const RelativeGradients& to = *plan.in.relative_gradients;
    write(all.content_bias, to.content_bias, head * d);
    write(all.position_bias, to.position_bias, head * d);
    const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d)));
    const std::span<float> keys = numbers(all.relative_keys);
    for (float& value : keys) value *= scale;
    for (Index row = 0; row < plan.distances; ++row) {
      write(keys.subspan(row * plan.dims, d), to.keys, (head * plan.distances + row) * d);
    }
  }
}

void check_gradients(const AttentionSpec& spec, const AttentionBackwardArguments& in) {
  const auto alike = [](const char* name, const Tensor& gradient, const Tensor& value) {
    require(gradient.shape() == value.shape() && gradient.dtype() == value.dtype(),
            "attention: expected a gradient of {} {} in {}, found {} in {}", name,
            to_string(value.shape()), name_of(value.dtype()), to_string(gradient.shape()),
            name_of(gradient.dtype()));
  };
  alike("the output", in.out_gradient, in.out);
  alike("the queries", in.query_gradient, in.query);
  alike("the keys", in.key_gradient, in.key);
  alike("the values", in.value_gradient, in.value);
  if (in.distance_bias_gradient != nullptr) {
    require(spec.distance_bias, "attention: expected a gradient of biases only with biases");
    alike("the biases by distance", *in.distance_bias_gradient, *in.distance_bias);
  }
  if (spec.distance_keys) {
    const auto& [keys, queries] = in.distance_key_gradients;
    require((keys != nullptr) == (in.distance_keys->keys != nullptr) &&
                (queries != nullptr) == (in.distance_keys->queries != nullptr),
            "attention: expected gradients of the keys and queries of distances that are there");
    if (keys != nullptr) alike("the keys of distances", *keys, *in.distance_keys->keys);
    if (queries != nullptr) alike("the queries of distances", *queries, *in.distance_keys->queries);
  }
  require((in.relative_gradients != nullptr) == spec.relative_positions,
          "attention: expected gradients of relative positions exactly when the spec has them");
  if (!spec.relative_positions) return;
  alike("the content bias", in.relative_gradients->content_bias, in.relative->content_bias);
  alike("the position bias", in.relative_gradients->position_bias, in.relative->position_bias);
  alike("the relative keys", in.relative_gradients->keys, in.relative->keys);
  const Tensor* scores = in.relative->kind_scores;
  Tensor* to = in.relative_gradients->kind_scores;
  require((to != nullptr) == (scores != nullptr),
          "attention: expected a gradient of scores of kinds exactly when there are some");
  if (scores != nullptr) alike("the scores of kinds", *to, *scores);
}

/// All heads, or all parts of them, on all threads.
template <typename Worker>
void run_all(const BackwardPlan& plan) {
  const auto heads = static_cast<Index>(plan.spec.heads.size());
  const Index queries = plan.spec.rows->query_count();
  const Index tasks = heads * plan.parts;
  const int threads = static_cast<int>(std::clamp<Index>(plan.in.threads, 1, tasks));
  std::vector<Worker> workers;
  workers.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) workers.emplace_back(plan);
  // Whole heads are written at once, so that each thread needs one set of sums only.
  const bool whole = plan.parts == 1;
  std::vector<HeadSums> sums(static_cast<std::size_t>(whole ? threads : tasks));
  parallel_for(threads, tasks, [&](Index task) {
    const Index head = task / plan.parts;
    const Index part = task % plan.parts;
    const int thread = threads == 1 ? 0 : thread_number();
    const Range range = {queries * part / plan.parts, queries * (part + 1) / plan.parts};
    HeadSums& own = sums[static_cast<std::size_t>(whole ? thread : task)];
    own.start(plan,
              part == 0 ? Range{0, plan.in.key.dimension(1)} : keys_in_reach(plan, head, range));
    workers[static_cast<std::size_t>(thread)].run(head, range, own);
    if (whole) finish(plan, head, {&own, 1});
  });
  if (whole) return;
  parallel_for(threads, heads, [&](Index head) {
    finish(plan, head, std::span(sums).subspan(head * plan.parts, plan.parts));
  });
}

}  // namespace

BackwardPlan::BackwardPlan(const AttentionSpec& spec_in, const AttentionBackwardArguments& in_in)
    : spec(spec_in), in(in_in), rows(spec_in) {
  const bool bf16 = in.query.dtype() == DType::bf16;
  widen = bf16 && cpu_isa() < CpuIsa::avx512_bf16;
  kernels = bf16 && !widen ? bf16_tile_kernels() : fp32_tile_kernels();
  dims = padded_dims(kernels, spec.head_size);
  const Index longest = longest_sequence(spec);
  chunk_rows = longest <= kWholeChunk ? std::max<Index>(longest, 1) : kPartChunk;
  queries_per_task =
      round_up(std::min(kQueriesPerBackwardTask, std::max<Index>(spec.rows->query_count(), 1)),
               kernels.lanes);
  distances = spec.relative_positions ? in.relative->keys.dimension(1) : 0;
  parts = parts_of(static_cast<Index>(spec.heads.size()), std::max(in.threads, 1),
                   spec.rows->query_count());
}

bool BackwardPlan::sends_back(Index head, Index row) const {
  if (logsumexp(head, row) == -std::numeric_limits<float>::infinity()) return false;
  const Index count = spec.head_size;
  const Index from = (row * static_cast<Index>(spec.heads.size()) + head) * count;
  const auto any = [count](const auto* gradient) {
    return std::any_of(gradient, gradient + count,
                       [](auto x) { return static_cast<float>(x) != 0; });
  };
  return in.out_gradient.dtype() == DType::f32 ? any(in.out_gradient.data<float>() + from)
                                               : any(in.out_gradient.data<BFloat16>() + from);
}

void HeadSums::start(const BackwardPlan& plan, Range own_keys) {
  const Index d = plan.spec.head_size;
  const auto clear = [](std::vector<float>& numbers, Index count) {
    numbers.assign(static_cast<std::size_t>(count), 0.0f);
  };
  keys = own_keys;
  const Index count = (keys.end - keys.begin + kRowsBehind) * d;
  if (key.size() != count) {
    // Large tensors have pages of their own, so one for both: in the heap of each thread they made
    // the peak of a call a fifth larger.
    const Tensor both({2, count}, DType::f32);
    key = both.slice_rows(0, 1);
    value = both.slice_rows(1, 1);
  }
  for (Tensor* rows : {&key, &value}) std::fill_n(rows->data<float>(), count, 0.0f);
  clear(global_key, static_cast<Index>(plan.spec.rows->global_keys.size()) * d);
  clear(global_value, static_cast<Index>(plan.spec.rows->global_keys.size()) * d);
  if (plan.in.distance_bias_gradient != nullptr) {
    distance_bias.assign(static_cast<std::size_t>(plan.in.distance_bias->dimension(1)), 0.0);
  }
  if (plan.spec.distance_keys) {
    const Index rows = DistanceKeyTerm::padded_rows(*plan.in.distance_keys);
    distance_keys = Tensor::zeros({rows, plan.dims}, DType::f32);
    distance_queries = Tensor::zeros({rows, plan.dims}, DType::f32);
  }
  if (plan.distances == 0) return;
  clear(content_bias, d);
  clear(position_bias, d);
  relative_keys =
      Tensor::zeros({plan.distances + RelativeTerm::kRowsBeyond, plan.dims}, DType::f32);
}

BackwardForm backward_form(const AttentionSpec& spec, DType dtype) {
  const bool products = prefers_products() && !why_not_products(spec, dtype);
  return products ? BackwardForm::products : BackwardForm::tiles;
}

void attention_backward(const AttentionSpec& spec, const AttentionBackwardArguments& in) {
  attention_backward(spec, in, backward_form(spec, in.query.dtype()));
}

namespace {

void check_backward(const AttentionSpec& spec, const AttentionBackwardArguments& in) {
  check(spec);
  check_inputs(spec, {.query = in.query,
                      .key = in.key,
                      .value = in.value,
                      .out = in.out,
                      .logsumexp = &in.logsumexp,
                      .relative = in.relative,
                      .distance_bias = in.distance_bias,
                      .distance_keys = in.distance_keys});
  check_gradients(spec, in);
}

/// Runs a backward pass that computes in fp32 on tensors of either dtype.
void run_in_fp32(const AttentionSpec& spec, const AttentionBackwardArguments& in) {
  if (in.query.dtype() == DType::f32) return attention_backward_opencl(spec, in, false);
  const auto wide = [](const Tensor& narrow) { return narrow.to(DType::f32); };
  const Tensor query = wide(in.query), key = wide(in.key), value = wide(in.value);
  const Tensor out = wide(in.out), out_gradient = wide(in.out_gradient);
  Tensor to_query(query.shape(), DType::f32), to_key(key.shape(), DType::f32);
  Tensor to_value(value.shape(), DType::f32), relative_keys, to_relative;
  std::optional<RelativePositions> relative;
  std::optional<RelativeGradients> to;
  if (in.relative != nullptr) {
    relative_keys = wide(in.relative->keys);
    to_relative = Tensor(relative_keys.shape(), DType::f32);
    relative.emplace(RelativePositions{in.relative->content_bias, in.relative->position_bias,
                                       relative_keys, nullptr});
    to.emplace(RelativeGradients{in.relative_gradients->content_bias,
                                 in.relative_gradients->position_bias, to_relative, nullptr});
  }
  attention_backward_opencl(spec,
                            {.query = query,
                             .key = key,
                             .value = value,
                             .out = out,
                             .logsumexp = in.logsumexp,
                             .out_gradient = out_gradient,
                             .query_gradient = to_query,
                             .key_gradient = to_key,
                             .value_gradient = to_value,
                             .relative = relative ? &*relative : nullptr,
                             .relative_gradients = to ? &*to : nullptr,
                             .distance_bias = in.distance_bias,
                             .distance_bias_gradient = in.distance_bias_gradient,
                             .threads = in.threads},
                            true);
  write(numbers(to_query), in.query_gradient, 0);
  write(numbers(to_key), in.key_gradient, 0);
  write(numbers(to_value), in.value_gradient, 0);
  if (to) write(numbers(to_relative), in.relative_gradients->keys, 0);
}

}  // namespace

std::optional<std::string> why_not_backward(AttentionBackend backend, const AttentionSpec& spec) {
  if (backend == AttentionBackend::fused) return std::nullopt;
  if (backend == AttentionBackend::opencl) return why_not_opencl(spec);
  return "the backward pass is left to the fused backend and to OpenCL";
}

void attention_backward(AttentionBackend backend, const AttentionSpec& spec,
                        const AttentionBackwardArguments& in) {
  if (backend == AttentionBackend::fused) return attention_backward(spec, in);
  check_backward(spec, in);
  if (const auto reason = why_not_backward(backend, spec)) {
    fail("attention backend {}: {}", name_of(backend), *reason);
  }
  run_in_fp32(spec, in);
}

void attention_backward(const AttentionSpec& spec, const AttentionBackwardArguments& in,
                        BackwardForm form) {
  check_backward(spec, in);
  if (in.relative_gradients != nullptr && in.relative_gradients->kind_scores != nullptr) {
    Tensor& sums = *in.relative_gradients->kind_scores;
    std::fill_n(sums.data<float>(), sums.size(), 0.0f);
  }
  const BackwardPlan plan(spec, in);
  if (form == BackwardForm::products) {
    run_all<ProductBackwardWorker>(plan);
  } else {
    run_all<BackwardWorker>(plan);
  }
}

}  // namespace longformer::kernels
