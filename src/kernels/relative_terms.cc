#include "kernels/relative_terms.h"

#include <cmath>

#include "core/threads.h"
#include "kernels/gemm.h"

namespace longformer::kernels {
namespace {

float number(const Tensor& tensor, Index at) {
  return tensor.dtype() == DType::bf16 ? static_cast<float>(tensor.data<BFloat16>()[at])
                                       : tensor.data<float>()[at];
}

void write(float value, Tensor& tensor, Index at) {
  if (tensor.dtype() == DType::bf16) {
    tensor.data<BFloat16>()[at] = BFloat16(value);
  } else {
    tensor.data<float>()[at] = value;
  }
}

float scale_of(Index head_size) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(head_size)));
}

}  // namespace

void table_heads(const Tensor& table, const Tensor& kernel, Tensor& heads, int threads) {
  const Index rows = table.rows(), width = table.columns();
  const Index count = kernel.dimension(1), size = kernel.dimension(2);
  parallel_for(threads, count, [&](Index head) {
    gemm({.m = rows, .n = size, .k = width, .ldb = count * size}, table.data<float>(),
         kernel.data<float>() + head * size, heads.data<float>() + head * rows * size);
  });
}

void table_heads_backward(const Tensor& table, const Tensor& gradient, Tensor& kernel,
                          int threads) {
  const Index rows = table.rows(), width = table.columns();
  const Index count = kernel.dimension(1), size = kernel.dimension(2);
  parallel_for(threads, count, [&](Index head) {
    gemm({.m = width,
          .n = size,
          .k = rows,
          .transpose_a = true,
          .lda = width,
          .ldc = count * size,
          .beta = 1},
         table.data<float>(), gradient.data<float>() + head * rows * size,
         kernel.data<float>() + head * size);
  });
}

void kind_scores(const Tensor& query, const KindParts& parts, Tensor& scores, int threads) {
  const Index heads = query.dimension(0), n = query.dimension(1), d = query.dimension(2);
  const Index kinds = parts.relations.kinds;
  const float scale = scale_of(d);
  parallel_for(threads, heads, [&](Index head) {
    const float* bias = parts.bias.data<float>() + head * d;
    const float* other = parts.segments.data<float>() + head * d;
    const float* same = other + heads * d;
    for (Index i = 0; i < n; ++i) {
      float of_other = 0, of_same = 0;
      for (Index c = 0; c < d; ++c) {
        const float q = number(query, (head * n + i) * d + c) + bias[c];
        of_other += q * other[c];
        of_same += q * same[c];
      }
      const std::uint8_t* relation = parts.relations.of_query.data() + i * kinds;
      float* to = scores.data<float>() + (head * n + i) * kinds;
      for (Index kind = 0; kind < kinds; ++kind) {
        to[kind] = relation[kind] == KindRelations::kNone   ? 0.0f
                   : relation[kind] == KindRelations::kSame ? scale * of_same
                                                            : scale * of_other;
      }
    }
  });
}

void kind_scores_backward(const Tensor& query, const KindParts& parts, const Tensor& gradient,
                          const KindGradients& to, int threads) {
  const Index heads = query.dimension(0), n = query.dimension(1), d = query.dimension(2);
  const Index kinds = parts.relations.kinds;
  const float scale = scale_of(d);
  parallel_for(threads, heads, [&](Index head) {
    const float* bias = parts.bias.data<float>() + head * d;
    const float* other = parts.segments.data<float>() + head * d;
    const float* same = other + heads * d;
    float* to_bias = to.bias.data<float>() + head * d;
    float* to_other = to.segments.data<float>() + head * d;
    float* to_same = to_other + heads * d;
    for (Index i = 0; i < n; ++i) {
      const std::uint8_t* relation = parts.relations.of_query.data() + i * kinds;
      const float* from = gradient.data<float>() + (head * n + i) * kinds;
      float by_other = 0, by_same = 0;
      for (Index kind = 0; kind < kinds; ++kind) {
        if (relation[kind] == KindRelations::kOther) by_other += scale * from[kind];
        if (relation[kind] == KindRelations::kSame) by_same += scale * from[kind];
      }
      for (Index c = 0; c < d; ++c) {
        const Index at = (head * n + i) * d + c;
        const float q = number(query, at) + bias[c];
        const float sent = by_other * other[c] + by_same * same[c];
        write(sent, to.query, at);
        to_bias[c] += sent;
        to_other[c] += by_other * q;
        to_same[c] += by_same * q;
      }
    }
  });
}

}  // namespace longformer::kernels
