#include "kernels/gemm.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/cpu.h"
#include "core/fork.h"
#include "core/threads.h"
#include "kernels/gemm_onednn.h"

namespace longformer::kernels {
namespace {

using dnnl::memory;
using onednn::computes_in_bf16;
using onednn::cpu_engine;
using onednn::data_type;
using onednn::Matmul;
using onednn::MatmulPlan;
using onednn::thread_scratch;

/// The shape with its strides filled in.
GemmShape with_strides(GemmShape s) {
  if (s.lda == 0) s.lda = s.transpose_a ? s.m : s.k;
  if (s.ldb == 0) s.ldb = s.transpose_b ? s.k : s.n;
  if (s.ldc == 0) s.ldc = s.n;
  return s;
}

/// A compiled product of bf16 factors.
struct Product {
  Matmul matmul;
  memory::desc a, b, c, scratchpad;
};

Product compiled(const GemmShape& s, DType output, int threads) {
  const auto strides = [](Index stride, bool transposed) {
    return transposed ? memory::dims{1, stride} : memory::dims{stride, 1};
  };
  const memory::desc a({s.m, s.k}, memory::data_type::bf16, strides(s.lda, s.transpose_a));
  const memory::desc b({s.k, s.n}, memory::data_type::bf16, strides(s.ldb, s.transpose_b));
  const memory::desc c({s.m, s.n}, data_type(output), memory::dims{s.ldc, 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (s.beta != 0) {
    dnnl::post_ops post;
    post.append_sum(1.0f);
    attributes.set_post_ops(post);
  }
  const MatmulPlan plan = onednn::plan_matmul({a, b, memory::desc(), c}, attributes, threads);
  return {Matmul(plan), a, b, c, plan.description.scratchpad_desc()};
}

/// Compiled products by their shapes, those that were used last. A training on documents of all
/// lengths has thousands: 2.6 GB after 820 steps of a MiniLM, had all been kept.
class Products {
 public:
  using Shared = std::shared_ptr<const Product>;

  /// Compiled anew where it is not there.
  Shared of(const GemmShape& s, DType output, int threads) {
    const Key key(s.m, s.n, s.k, s.transpose_a, s.transpose_b, s.lda, s.ldb, s.ldc, s.beta != 0,
                  output, threads);
    const ForkSafeLock lock(mutex_);
    const auto found = products_.find(key);
    if (found != products_.end()) {
      found->second.last_use = ++uses_;
      return found->second.product;
    }
    const auto product = std::make_shared<const Product>(compiled(s, output, threads));
    if (products_.size() == kMost) {
      products_.erase(std::ranges::min_element(
          products_, {}, [](const auto& entry) { return entry.second.last_use; }));
    }
    products_.emplace(key, Entry{product, ++uses_});
    return product;
  }

 private:
  using Key = std::tuple<Index, Index, Index, bool, bool, Index, Index, Index, bool, DType, int>;
  struct Entry {
    Shared product;
    std::uint64_t last_use = 0;
  };
  /// A step of one length has some twenty.
  static constexpr std::size_t kMost = 256;

  std::map<Key, Entry> products_;
  std::uint64_t uses_ = 0;
  std::mutex mutex_;
};

Products::Shared product_of(const GemmShape& shape, DType output, int threads) {
  static Products products;
  return products.of(shape, output, threads);
}

/// Rows of a matrix in fp32, one behind the other.
struct BFloat16Rows {
  const BFloat16* first = nullptr;
  Index rows = 0, columns = 0, stride = 0;
};
const float* widened(const BFloat16Rows& from, std::vector<float>& wide) {
  wide.resize(static_cast<std::size_t>(from.rows * from.columns));
  parallel_for(free_threads(), from.rows, [&](Index row) {
    const BFloat16* values = from.first + row * from.stride;
    std::transform(values, values + from.columns, wide.begin() + row * from.columns,
                   [](BFloat16 value) { return static_cast<float>(value); });
  });
  return wide.data();
}

/// Adds the sums to the rows of C, or puts them there.
template <typename Output>
void store(const GemmShape& s, const std::vector<float>& sums, Output* c) {
  parallel_for(free_threads(), s.m, [&](Index row) {
    const float* from = sums.data() + row * s.n;
    Output* to = c + row * s.ldc;
    for (Index i = 0; i < s.n; ++i) {
      to[i] = Output(s.beta == 0 ? from[i] : from[i] + static_cast<float>(to[i]));
    }
  });
}

/// Products that oneDNN refuses in bf16: the same numbers, multiplied in fp32. A has a row for each
/// token, which are taken some at a time: as a whole it would weigh twice what its bf16 does. The
/// buffers stay, since memory that comes and goes leaves holes (351 MB instead of 329 for a small
/// model).
template <typename Output>
void gemm_in_fp32(const GemmShape& s, const BFloat16* a, const BFloat16* b, Output* c) {
  constexpr Index kPiece = 512;
  thread_local std::vector<float> wide_a, wide_b, sums;
  GemmShape piece = {.n = s.n, .transpose_a = s.transpose_a, .transpose_b = s.transpose_b};
  if (!s.transpose_a) {
    const Index b_rows = s.transpose_b ? s.n : s.k;
    widened({b, b_rows, s.n + s.k - b_rows, s.ldb}, wide_b);
    for (Index row = 0; row < s.m; row += kPiece) {
      piece.m = std::min(kPiece, s.m - row);
      piece.k = s.k;
      sums.resize(static_cast<std::size_t>(piece.m * s.n));
      gemm(piece, widened({a + row * s.lda, piece.m, s.k, s.lda}, wide_a), wide_b.data(),
           sums.data());
      GemmShape stored = s;
      stored.m = piece.m;
      store(stored, sums, c + row * s.ldc);
    }
    return;
  }
  sums.resize(static_cast<std::size_t>(s.m * s.n));
  piece.m = s.m;
  for (Index k = 0; k < s.k; k += kPiece) {
    piece.k = std::min(kPiece, s.k - k);
    piece.beta = k == 0 ? 0.0f : 1.0f;
    const BFloat16Rows b_rows = s.transpose_b ? BFloat16Rows{b + k, s.n, piece.k, s.ldb}
                                              : BFloat16Rows{b + k * s.ldb, piece.k, s.n, s.ldb};
    gemm(piece, widened({a + k * s.lda, piece.k, s.m, s.lda}, wide_a), widened(b_rows, wide_b),
         sums.data());
  }
  store(s, sums, c);
}

/// Whether oneDNN serves a bf16 product. Version 3.7 takes the numbers of a single column of A or C
/// for neighbours, with AVX-512, where the matrix has a stride.
bool multiplies_in_bf16(const GemmShape& s) {
  const bool strided_column = (s.n == 1 && s.ldc > 1) || (s.m == 1 && s.transpose_a && s.lda > 1);
  return computes_in_bf16() && !strided_column;
}

/// AMX takes a transposed A in its stride up to here: 3,072 × 768 from 4,096 rows in pieces of 512
/// 9.0 ms, at once 13.2 ms.
constexpr Index kTransposedRows = 512;

/// The sum over the rows of a transposed A, some rows after the others; false where that does not
/// pay.
bool gemm_in_pieces(const GemmShape& s, const BFloat16* a, const BFloat16* b, float* c) {
  if (!s.transpose_a || s.k <= kTransposedRows || cpu_isa() < CpuIsa::amx_bf16) return false;
  GemmShape piece = s;
  for (Index k = 0; k < s.k; k += kTransposedRows) {
    piece.k = std::min(kTransposedRows, s.k - k);
    if (k > 0) piece.beta = 1;
    gemm(piece, a + k * s.lda, b + k * (s.transpose_b ? 1 : s.ldb), c);
  }
  return true;
}

template <typename Output>
void gemm_bf16(const GemmShape& shape, const BFloat16* a, const BFloat16* b, Output* c) {
  assert(shape.alpha == 1 && (shape.beta == 0 || shape.beta == 1));
  const GemmShape s = with_strides(shape);
  if (!multiplies_in_bf16(s)) return gemm_in_fp32(s, a, b, c);
  if constexpr (sizeof(Output) == sizeof(float)) {
    if (gemm_in_pieces(s, a, b, c)) return;
  }
  const DType output = sizeof(Output) == sizeof(float) ? DType::f32 : DType::bf16;
  const Products::Shared shared = product_of(s, output, free_threads());
  const Product& product = *shared;
  const auto argument = [](const memory::desc& desc, const void* data) {
    return memory(desc, cpu_engine(), const_cast<void*>(data));
  };
  const std::unordered_map<int, memory> arguments = {
      {DNNL_ARG_SRC, argument(product.a, a)},
      {DNNL_ARG_WEIGHTS, argument(product.b, b)},
      {DNNL_ARG_DST, argument(product.c, c)},
      {DNNL_ARG_SCRATCHPAD,
       argument(product.scratchpad, thread_scratch(product.scratchpad.get_size()))}};
  product.matmul.run(arguments);
}

}  // namespace

void gemm(const GemmShape& shape, const float* a, const float* b, float* c) {
  onednn::sgemm(with_strides(shape), a, b, c);
}

void gemm(const GemmShape& shape, const BFloat16* a, const BFloat16* b, float* c) {
  gemm_bf16(shape, a, b, c);
}

void gemm(const GemmShape& shape, const BFloat16* a, const BFloat16* b, BFloat16* c) {
  gemm_bf16(shape, a, b, c);
}

struct PreparedProduct::Prepared {
  GemmShape shape;
  Products::Shared product;
  std::unordered_map<int, memory> arguments;
};

PreparedProduct::PreparedProduct(const GemmShape& shape) : prepared_(std::make_unique<Prepared>()) {
  assert(shape.alpha == 1 && (shape.beta == 0 || shape.beta == 1));
  Prepared& p = *prepared_;
  p.shape = with_strides(shape);
  if (!multiplies_in_bf16(p.shape)) return;
  p.product = product_of(p.shape, DType::f32, 1);
  const auto argument = [](const memory::desc& desc) {
    return memory(desc, cpu_engine(), DNNL_MEMORY_NONE);
  };
  p.arguments = {{DNNL_ARG_SRC, argument(p.product->a)},
                 {DNNL_ARG_WEIGHTS, argument(p.product->b)},
                 {DNNL_ARG_DST, argument(p.product->c)},
                 {DNNL_ARG_SCRATCHPAD, argument(p.product->scratchpad)}};
}

PreparedProduct::PreparedProduct(PreparedProduct&&) noexcept = default;
PreparedProduct::~PreparedProduct() = default;

void PreparedProduct::run(const BFloat16* a, const BFloat16* b, float* c) const {
  Prepared& p = *prepared_;
  if (p.product == nullptr) return gemm_in_fp32(p.shape, a, b, c);
  p.arguments.at(DNNL_ARG_SRC).set_data_handle(const_cast<BFloat16*>(a));
  p.arguments.at(DNNL_ARG_WEIGHTS).set_data_handle(const_cast<BFloat16*>(b));
  p.arguments.at(DNNL_ARG_DST).set_data_handle(c);
  p.arguments.at(DNNL_ARG_SCRATCHPAD)
      .set_data_handle(thread_scratch(p.product->scratchpad.get_size()));
  p.product->matmul.run(p.arguments);
}

}  // namespace longformer::kernels
