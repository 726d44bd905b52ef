// oneDNN as the matrix products use it: a product is run by as many threads as it is cut for.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "core/dtype.h"
#include "kernels/gemm.h"

namespace longformer::kernels::onednn {

const dnnl::engine& cpu_engine();

/// oneDNN refuses bf16 below AVX-512; there it is a storage type and the product is fp32.
bool computes_in_bf16();

dnnl::memory::data_type data_type(DType dtype);

/// The parts of a product; the bias may be empty.
struct MatmulDescs {
  dnnl::memory::desc source, weights, bias, target;
};

/// A product that so many threads share.
struct MatmulPlan {
  dnnl::matmul::primitive_desc description;
  int threads = 1;
};

MatmulPlan plan_matmul(const MatmulDescs& descs, const dnnl::primitive_attr& attributes,
                       int threads);

/// A compiled plan. Several threads may run one at a time, each with arguments of its own.
class Matmul {
 public:
  using Arguments = std::unordered_map<int, dnnl::memory>;

  Matmul() = default;
  explicit Matmul(const MatmulPlan& plan);
  void run(const Arguments& arguments) const;

 private:
  dnnl::matmul matmul_;
  int threads_ = 1;
};

/// On free_threads(); all strides are given.
void sgemm(const GemmShape& shape, const float* a, const float* b, float* c);

/// Copies into another layout, on free_threads().
void reorder(dnnl::memory& from, dnnl::memory& to);

/// Memory of the calling thread for one primitive at a time.
void* thread_scratch(std::size_t bytes);

}  // namespace longformer::kernels::onednn
