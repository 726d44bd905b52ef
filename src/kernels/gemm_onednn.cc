#include "kernels/gemm_onednn.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <memory>
#include <vector>

#include "core/cpu.h"
#include "core/error.h"
#include "core/fork.h"
#include "core/threads.h"

namespace longformer::kernels::onednn {
namespace {

using dnnl::memory;

/// oneDNN follows the same cap as our own kernels.
void cap_isa() {
  switch (cpu_isa()) {
    case CpuIsa::portable:
    case CpuIsa::sse4:
      dnnl::set_max_cpu_isa(dnnl::cpu_isa::sse41);
      break;
    case CpuIsa::avx2:
      dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
      break;
    case CpuIsa::avx512:
      // Many CPUs without bf16 have instructions for 8-bit whole numbers.
      dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_vnni);
      break;
    case CpuIsa::avx512_bf16:
      dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16);
      break;
    case CpuIsa::amx_bf16:
      break;
  }
}

dnnl::stream& thread_stream() {
  thread_local dnnl::stream stream(cpu_engine());
  return stream;
}

dnnl::matmul::primitive_desc description_of(const MatmulDescs& d,
                                            const dnnl::primitive_attr& attributes) {
  const bool biased = d.bias.get_size() > 0;
#if DNNL_VERSION_MAJOR >= 3
  if (biased) return {cpu_engine(), d.source, d.weights, d.bias, d.target, attributes};
  return {cpu_engine(), d.source, d.weights, d.target, attributes};
#else
  if (biased) {
    return {dnnl::matmul::desc(d.source, d.weights, d.bias, d.target), attributes, cpu_engine()};
  }
  return {dnnl::matmul::desc(d.source, d.weights, d.target), attributes, cpu_engine()};
#endif
}

/// Whether oneDNN begins sums with C, and does not add it to a sum: a long sum by blocks then
/// rounds at each term (2e-4 of it for 16,384 equal ones). It does so for a single row, and for the
/// last rows and columns where it has no code of its own for a processor.
bool begins_with_c(const GemmShape& s) {
#ifdef __x86_64__
  return s.beta != 0 && (s.m == 1 || s.n == 1);
#else
  return s.beta != 0;
#endif
}

void sgemm_of_team(const GemmShape& s, const float* a, const float* b, float* c) {
  [[maybe_unused]] const auto status =
      dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k, s.alpha, a,
                 s.lda, b, s.ldb, s.beta, c, s.ldc);
  assert(status == dnnl_success);
}

/// A product of small whole numbers, so that every dtype gives the same sums. Each of `threads`
/// threads has rows of it.
class KnownProduct {
 public:
  explicit KnownProduct(int threads) : threads_(threads), rows_(kRowsPerThread * threads) {
    for (Index i = 0; i < rows_ * kInner; ++i) a_.push_back(static_cast<float>(i % 7 - 3));
    for (Index i = 0; i < kInner * kColumns; ++i) b_.push_back(static_cast<float>(i % 5 - 2));
    for (Index row = 0; row < rows_; ++row) {
      for (Index column = 0; column < kColumns; ++column) {
        float sum = 0;
        for (Index k = 0; k < kInner; ++k) {
          sum += a_[at(row * kInner + k)] * b_[at(k * kColumns + column)];
        }
        sums_.push_back(sum);
      }
    }
  }

  void check_sgemm() {
    clear();
    sgemm_of_team(
        {.m = rows_, .n = kColumns, .k = kInner, .lda = kInner, .ldb = kColumns, .ldc = kColumns},
        a_.data(), b_.data(), c_.data());
    compare();
  }

  void check_matmul(DType dtype) {
    clear();
    const auto desc = [](Index rows, Index columns, DType type) {
      return memory::desc({rows, columns}, data_type(type), memory::dims{columns, 1});
    };
    const MatmulDescs descs = {desc(rows_, kInner, dtype), desc(kInner, kColumns, dtype),
                               memory::desc(), desc(rows_, kColumns, DType::f32)};
    const std::vector<BFloat16> narrow_a(a_.begin(), a_.end()), narrow_b(b_.begin(), b_.end());
    const auto factor = [&](const memory::desc& of, const void* wide, const void* narrow) {
      return memory(of, cpu_engine(), const_cast<void*>(dtype == DType::bf16 ? narrow : wide));
    };
    const dnnl::matmul product(description_of(descs, dnnl::primitive_attr()));
    product.execute(thread_stream(),
                    {{DNNL_ARG_SRC, factor(descs.source, a_.data(), narrow_a.data())},
                     {DNNL_ARG_WEIGHTS, factor(descs.weights, b_.data(), narrow_b.data())},
                     {DNNL_ARG_DST, memory(descs.target, cpu_engine(), c_.data())}});
    compare();
  }

 private:
  static constexpr Index kRowsPerThread = 64, kInner = 32, kColumns = 64;

  static std::size_t at(Index index) { return static_cast<std::size_t>(index); }

  void clear() { c_.assign(sums_.size(), std::numeric_limits<float>::quiet_NaN()); }

  void compare() const {
    const auto wrong = std::mismatch(c_.begin(), c_.end(), sums_.begin());
    if (wrong.first == c_.end()) return;
    fail(
        "threads: a matrix product of {} threads gives {} where the sum is {}: OpenMP runs fewer "
        "threads than it promises (are two OpenMP runtimes in this process?); one thread works",
        threads_, *wrong.first, *wrong.second);
  }

  int threads_;
  Index rows_;
  std::vector<float> a_, b_, c_, sums_;
};

/// The team of a product. A thread's first team of a size proves itself by a known product.
class ProvenTeam {
 public:
  explicit ProvenTeam(int threads) : team_(threads) {
    thread_local std::vector<int> proven = {1};
    if (std::find(proven.begin(), proven.end(), threads) != proven.end()) return;
    KnownProduct product(threads);
    product.check_sgemm();
    product.check_matmul(DType::f32);
    if (computes_in_bf16()) product.check_matmul(DType::bf16);
    proven.push_back(threads);
  }

 private:
  ExactTeam team_;
};

}  // namespace

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine = [] {
    cap_isa();
    // oneDNN keeps the last products too, 1,024 unless told otherwise (57 kB each and more).
    dnnl::set_primitive_cache_capacity(256);
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

bool computes_in_bf16() { return cpu_isa() >= CpuIsa::avx512; }

memory::data_type data_type(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return memory::data_type::bf16;
    case DType::i8:
      return memory::data_type::s8;
    case DType::u8:
      return memory::data_type::u8;
    case DType::i32:
      return memory::data_type::s32;
    default:
      return memory::data_type::f32;
  }
}

MatmulPlan plan_matmul(const MatmulDescs& descs, const dnnl::primitive_attr& attributes,
                       int threads) {
  const NoFork whole;
  const ExactTeam team(threads);
  return {description_of(descs, attributes), threads};
}

Matmul::Matmul(const MatmulPlan& plan) : threads_(plan.threads) {
  const NoFork whole;
  const ExactTeam team(threads_);
  matmul_ = dnnl::matmul(plan.description);
}

void Matmul::run(const Arguments& arguments) const {
  const ProvenTeam team(threads_);
  matmul_.execute(thread_stream(), arguments);
}

void sgemm(const GemmShape& shape, const float* a, const float* b, float* c) {
  // dnnl_sgemm takes no engine: its instruction set is capped when ours is made.
  cpu_engine();
  const ProvenTeam team(free_threads());
  const NoFork whole;
  if (!begins_with_c(shape)) return sgemm_of_team(shape, a, b, c);
  GemmShape alone = shape;
  alone.beta = 0;
  alone.ldc = shape.n;
  std::vector<float> product(static_cast<std::size_t>(shape.m * shape.n));
  sgemm_of_team(alone, a, b, product.data());
  for (Index row = 0; row < shape.m; ++row) {
    float* sums = c + row * shape.ldc;
    const float* terms = product.data() + row * shape.n;
    for (Index i = 0; i < shape.n; ++i) sums[i] = shape.beta * sums[i] + terms[i];
  }
}

void reorder(memory& from, memory& to) {
  const ProvenTeam team(free_threads());
  const NoFork whole;
  dnnl::reorder(from, to).execute(thread_stream(), from, to);
  thread_stream().wait();
}

void* thread_scratch(std::size_t bytes) {
  thread_local std::vector<std::byte> scratch;
  scratch.resize(std::max(scratch.size(), bytes + 64));
  void* aligned = scratch.data();
  std::size_t space = scratch.size();
  return std::align(64, bytes, aligned, space);
}

}  // namespace longformer::kernels::onednn
