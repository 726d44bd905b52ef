#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>

#include "api/bench_patterns.h"
#include "api/measurement.h"
#include "core/cpu.h"
#include "core/error.h"
#include "core/random.h"
#include "core/threads.h"
#include "engine/run/least_memory.h"
#include "engine/run/model_cost.h"
#include "engine/run/model_implementation.h"
#include "kernels/attention/attention.h"
#include "kernels/reference.h"
#include "longformer/analysis.h"
#include "ops/linear.h"

namespace longformer {
namespace {

/// Values of the first processor in /proc/cpuinfo, by their names.
std::map<std::string, std::string> cpu_facts() {
  std::map<std::string, std::string> facts;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const auto last = line.find_last_not_of(" \t", colon - 1);
    const auto value = line.find_first_not_of(' ', colon + 1);
    facts[line.substr(0, last + 1)] = value == std::string::npos ? "" : line.substr(value);
  }
  return facts;
}

using kernels::AttentionSpec;

/// Throws Error unless so many of n tokens can be global.
void check_global_tokens(std::int64_t global_tokens, std::int64_t n) {
  require(global_tokens >= 0 && global_tokens <= n, OptionName("global_tokens"),
          "expected 0 to n = {}, found {}", n, global_tokens);
}

/// Random activations, N(0, 1), in the given dtype.
Tensor random_tensor(const Shape& shape, DType dtype, std::uint64_t seed) {
  return random_normal_tensor(shape, 1.0f, seed).to(dtype);
}

AttentionSpec attention_spec(const AttentionBenchOptions& options, Index n) {
  require(options.causal || options.window % 2 == 0, OptionName("window"),
          "expected an even number, half on each side, found {}", options.window);
  const Index reach = options.causal ? options.window : options.window / 2;
  AttentionSpec spec = kernels::self_attention(
      n, options.heads, options.head_size, {reach, options.causal ? 0 : reach, options.dilation});
  spec.causal = options.causal;
  kernels::AttentionRows rows = *spec.rows;
  for (Index i = 0; i < std::min(options.global_tokens, n); ++i) rows.global_keys.push_back(i);
  spec.rows = kernels::shared(std::move(rows));
  spec.global_queries = kernels::GlobalQueries::see_everything;
  kernels::check(spec);
  return spec;
}

/// One layer of attention, in one direction.
class AttentionWork {
 public:
  AttentionWork(kernels::AttentionBackend backend, bool backward, const AttentionSpec& spec,
                DType dtype)
      : backend_(backend), backward_(backward), spec_(spec) {
    const Index n = spec.rows->query_count();
    const auto heads = static_cast<Index>(spec.heads.size());
    const Shape shape = {heads, n, spec.head_size};
    query_ = random_tensor(shape, dtype, 1);
    key_ = random_tensor(shape, dtype, 2);
    value_ = random_tensor(shape, dtype, 3);
    out_ = Tensor({n, heads * spec.head_size}, dtype);
    if (!backward) return;
    logsumexp_ = Tensor({heads, n}, DType::f32);
    out_gradient_ = random_tensor(out_.shape(), dtype, 4);
    for (Tensor& gradient : gradients_) gradient = Tensor(shape, dtype);
    forward(1);
  }

  void run(int threads) {
    if (!backward_) return forward(threads);
    kernels::attention_backward(backend_, spec_,
                                {.query = query_,
                                 .key = key_,
                                 .value = value_,
                                 .out = out_,
                                 .logsumexp = logsumexp_,
                                 .out_gradient = out_gradient_,
                                 .query_gradient = gradients_[0],
                                 .key_gradient = gradients_[1],
                                 .value_gradient = gradients_[2],
                                 .threads = threads});
  }

  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const Tensor* tensor : {&query_, &key_, &value_, &out_, &logsumexp_, &out_gradient_,
                                 &gradients_[0], &gradients_[1], &gradients_[2]}) {
      if (!tensor->empty()) sum += static_cast<std::int64_t>(tensor->bytes());
    }
    return sum;
  }

  /// A kernel that gives wrong numbers is not worth timing.
  void verify() const {
    if (!backward_) {
      const auto truth = kernels::reference_attention<float>(spec_, query_, key_, value_);
      return expect_close(out_, {truth.out.begin(), truth.out.end()}, 1e-4, 0.03);
    }
    const auto truth =
        kernels::reference_attention_backward<double>(spec_, query_, key_, value_, out_gradient_);
    expect_close(gradients_[0], truth.query, 1e-4, 0.06);
    expect_close(gradients_[1], truth.key, 1e-4, 0.06);
    expect_close(gradients_[2], truth.value, 1e-4, 0.06);
  }

 private:
  void forward(int threads) {
    kernels::attention(backend_, spec_,
                       {.query = query_,
                        .key = key_,
                        .value = value_,
                        .out = out_,
                        .logsumexp = logsumexp_.empty() ? nullptr : &logsumexp_,
                        .threads = threads});
  }

  void expect_close(const Tensor& tensor, const std::vector<double>& truth, double fp32,
                    double bf16) const {
    const std::vector<float> found = tensor.to_floats();
    const double tolerance = tensor.dtype() == DType::bf16 ? bf16 : fp32;
    for (std::size_t i = 0; i < found.size(); ++i) {
      require(std::abs(found[i] - truth[i]) <= tolerance,
              "bench: expected {} attention within {} of the reference, found {} for {}",
              name_of(backend_), tolerance, found[i], truth[i]);
    }
  }

  kernels::AttentionBackend backend_;
  bool backward_;
  const AttentionSpec& spec_;
  Tensor query_, key_, value_, out_, logsumexp_, out_gradient_;
  std::array<Tensor, 3> gradients_;
};

void verify(kernels::AttentionBackend backend, const AttentionBenchOptions& options, DType dtype) {
  const AttentionSpec spec = attention_spec(options, std::min<std::int64_t>(options.n, 384));
  const ThreadLimit limit(1);
  AttentionWork work(backend, options.pass == "backward", spec, dtype);
  work.run(1);
  work.verify();
}

}  // namespace

std::string machine_name(int threads) {
  const auto facts = cpu_facts();
  const auto fact = [&facts](const std::string& name) {
    const auto found = facts.find(name);
    return found == facts.end() ? std::string("unknown") : found->second;
  };
  const int count = threads > 0 ? threads : available_threads();
  return fmt::format("{} (family {}, model {}), {} thread{}, {}", fact("model name"),
                     fact("cpu family"), fact("model"), count, count == 1 ? "" : "s",
                     name_of(cpu_isa()));
}

BenchResult bench_model(const Model& model, const ModelBenchOptions& options) {
  const Model::Implementation& implementation = model.implementation();
  const ModelInfo& info = model.info();
  check_positive({{"n", options.n}, {"repeats", options.repeats}});
  check_global_tokens(options.global_tokens, options.n);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(options.n));
  std::vector<std::int32_t> positions(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::int32_t>(random_bits(7, i) %
                                       static_cast<std::uint64_t>(info.vocabulary_size));
    // Lengths beyond the position table reuse its rows: the work is the same.
    positions[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % info.max_tokens);
  }
  std::vector<std::int32_t> global(ids.size(), 0);
  std::fill_n(global.begin(), options.global_tokens, 1);
  DocumentInput document{.ids = ids,
                         .attention_mask = {},
                         .token_type_ids = {},
                         .position_ids = positions,
                         .global_attention_mask = {}};
  if (options.global_tokens > 0) document.global_attention_mask = global;
  const models::Batch batch = implementation.batch({&document, 1});
  const auto turn = implementation.turn();
  const ops::Context context = implementation.context();
  Tensor hidden;
  const Timing timing =
      measure(options.repeats, [&] { hidden = implementation.encoder.forward(context, batch); });
  BenchResult result = result_of(
      timing, options.n, options.dtype,
      model_flops(implementation.config, options.n, options.global_tokens), context.threads);
  result.least_bytes = least_forward_bytes(implementation.config, implementation.task, options.n,
                                           compute_of(options.dtype));
  if (implementation.head) {
    const auto run_head = [&] {
      const bool pools = engine::reads_pooler(implementation.config, implementation.task);
      const Tensor pooled = pools ? implementation.encoder.pool(context, hidden, batch) : Tensor();
      implementation.head->speak(context, {.hidden = hidden, .pooled = pooled, .batch = batch});
    };
    result.head_seconds = measure(options.repeats, run_head).median;
  }
  return result;
}

BenchResult bench_attention(const AttentionBenchOptions& options) {
  check_positive({{"n", options.n},
                  {"repeats", options.repeats},
                  {"heads", options.heads},
                  {"head_size", options.head_size},
                  {"dilation", options.dilation}});
  check_global_tokens(options.global_tokens, options.n);
  const bool is_band = options.pattern == "band";
  require(is_band || options.pattern == "linformer" || options.pattern == "performer",
          OptionName("pattern"), "expected band, linformer or performer, found \"{}\"",
          options.pattern);
  const auto backend = kernels::attention_backend(options.backend);
  const DType dtype = compute_dtype(options.dtype);
  const int threads = checked_threads(options.threads);
  const bool backward = options.pass == "backward";
  require(backward || options.pass == "forward", OptionName("pass"),
          "expected forward or backward, found \"{}\"", options.pass);
  if (!is_band) {
    const ThreadLimit limit(threads);
    return bench_pattern(options, dtype, threads);
  }
  verify(backend, options, dtype);
  const AttentionSpec spec = attention_spec(options, options.n);
  const ThreadLimit limit(threads);
  AttentionWork work(backend, backward, spec, dtype);
  const Timing timing = measure(options.repeats, [&] { work.run(threads); });
  const double flops = (backward ? 8.0 : 4.0) * static_cast<double>(options.head_size) *
                       kernels::visible_pairs(spec);
  BenchResult result = result_of(timing, options.n, options.dtype, flops, threads);
  result.pass = options.pass;
  result.backend = options.backend;
  result.least_bytes = kProgramBytes + work.bytes();
  return result;
}

}  // namespace longformer
