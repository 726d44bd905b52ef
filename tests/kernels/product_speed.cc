// The matrix products of the library by themselves, for docs/benchmarks.md: which code of oneDNN
// serves them (ONEDNN_VERBOSE=1) and how much processor time they take (OMP_NUM_THREADS=1).
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <limits>
#include <span>
#include <string>

#include "core/dtype.h"
#include "core/tensor.h"
#include "kernels/gemm.h"
#include "kernels/packed_linear.h"

namespace longformer::kernels {
namespace {

constexpr int kRepeats = 12;

/// Counts only what this process computes, so that others on the machine disturb little.
double processor_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void report(const std::string& name, double operations, const std::function<void()>& product) {
  product();
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRepeats; ++i) {
    const double begin = processor_seconds();
    product();
    best = std::min(best, processor_seconds() - begin);
  }
  fmt::print("{:44}{:8.3f} ms{:8.1f} GFLOP/s\n", name, 1e3 * best, 1e-9 * operations / best);
}

Tensor numbers(const Shape& shape, DType dtype) {
  Tensor tensor(shape, DType::f32);
  auto* values = tensor.data<float>();
  for (Index i = 0; i < tensor.size(); ++i) {
    values[i] = static_cast<float>(i * 7919 % 1000) / 500.0f - 1.0f;
  }
  return tensor.to(dtype);
}

void* data(Tensor& tensor) {
  if (tensor.dtype() == DType::f32) return tensor.data<float>();
  return tensor.data<BFloat16>();
}

struct Sizes {
  Index rows, in, out;
};

void report_packed(const std::string& name, Sizes s, PackedLinearOptions options) {
  const Tensor weights = numbers({s.out, s.in}, DType::f32), bias = numbers({s.out}, DType::f32);
  Tensor x = numbers({s.rows, s.in}, options.dtype);
  const DType output = options.slabs.in > 1 ? DType::f32 : options.dtype;
  Tensor y(Shape{s.rows, s.out}, output);
  const PackedLinear linear(std::span(&weights, 1), std::span(&bias, 1), options);
  const PackedLinear::Kernel& kernel = linear.kernel(s.rows, output);
  report(fmt::format("{} {} x {} x {} {}", options.dtype == DType::f32 ? "fp32" : "bf16", s.rows,
                     s.in, s.out, name),
         2.0 * static_cast<double>(s.rows * s.in * s.out),
         [&] { linear.run(kernel, data(x), data(y)); });
}

template <typename Number>
void report_plain(const std::string& name, const GemmShape& shape) {
  const DType dtype = sizeof(Number) == sizeof(float) ? DType::f32 : DType::bf16;
  const Tensor a = numbers({shape.m * shape.k}, dtype), b = numbers({shape.k * shape.n}, dtype);
  Tensor c = numbers({shape.m, shape.n}, DType::f32);
  report(name, 2.0 * static_cast<double>(shape.m * shape.n * shape.k),
         [&] { gemm(shape, a.data<Number>(), b.data<Number>(), c.data<float>()); });
}

void report_all() {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    report_packed("packed, gelu", {256, 768, 3072},
                  {.dtype = dtype, .activation = Activation::gelu});
    report_packed("packed", {256, 3072, 768}, {.dtype = dtype});
    report_packed("packed, in slabs", {256, 3072, 768}, {.dtype = dtype, .slabs = {.in = 3}});
    report_packed("packed, quick_gelu", {252, 768, 768},
                  {.dtype = dtype, .activation = Activation::quick_gelu});
    report_packed("packed", {1, 768, 768}, {.dtype = dtype});
  }
  constexpr GemmShape kPlain = {.m = 2048, .n = 768, .k = 768};
  constexpr GemmShape kSums = {.m = 768, .n = 768, .k = 2048, .transpose_a = true, .beta = 1};
  report_plain<float>("fp32 2048 x 768 x 768", kPlain);
  report_plain<BFloat16>("bf16 2048 x 768 x 768", kPlain);
  report_plain<BFloat16>("bf16 768 x 2048 x 768, A transposed, added", kSums);
}

}  // namespace
}  // namespace longformer::kernels

int main() { longformer::kernels::report_all(); }
