#include "kernels/attention/global_rows.h"

#include <algorithm>

#include "core/threads.h"
#include "kernels/gemm.h"

namespace longformer::kernels {
namespace {

/// Rows of x that one product takes.
constexpr Index kRowsPerStep = 256;

}  // namespace

std::vector<GlobalRows> documents_with_globals(const AttentionSpec& spec) {
  const std::vector<Index>& keys = spec.rows->global_keys;
  std::vector<GlobalRows> found;
  for (const auto& document : spec.rows->documents) {
    const auto first = std::lower_bound(keys.begin(), keys.end(), document.key_begin);
    const auto last = std::lower_bound(first, keys.end(), document.key_begin + document.key_count);
    if (first != last) found.push_back({document, {first, last}});
  }
  return found;
}

AttentionSpec global_rows_spec(const AttentionSpec& spec, const GlobalRows& globals) {
  const Index n = globals.document.key_count;
  AttentionSpec dense;
  dense.head_size = spec.head_size;
  dense.heads.assign(spec.heads.size(), {kUnlimitedReach, kUnlimitedReach, 1});
  AttentionRows rows;
  rows.documents = {
      {.query_begin = 0, .query_count = globals.count(), .key_begin = 0, .key_count = n}};
  if (!spec.rows->key_mask.empty()) {
    const auto first = spec.rows->key_mask.begin() + globals.document.key_begin;
    rows.key_mask.assign(first, first + n);
  }
  dense.rows = shared(std::move(rows));
  return dense;
}

AttentionSpec own_rows_spec(const AttentionSpec& spec, const GlobalRows& globals) {
  AttentionSpec dense;
  dense.head_size = spec.head_size;
  dense.heads.assign(spec.heads.size(), {kUnlimitedReach, kUnlimitedReach, 1});
  AttentionRows rows;
  rows.documents = {{.query_begin = 0,
                     .query_count = globals.count(),
                     .key_begin = globals.document.key_begin,
                     .key_count = globals.document.key_count}};
  if (const auto& mask = spec.rows->key_mask; !mask.empty()) {
    rows.key_mask.assign(mask.begin(), mask.begin() + rows.key_count());
  }
  dense.rows = shared(std::move(rows));
  return dense;
}

Tensor global_queries(const GlobalRows& globals, const Tensor& query) {
  const Index heads = query.dimension(0), n = query.dimension(1), d = query.dimension(2);
  const Tensor rows = query.to(DType::f32).reshaped({heads * n, d});
  Tensor copied({heads, globals.count(), d}, DType::f32);
  float* to = copied.data<float>();
  for (Index head = 0; head < heads; ++head) {
    for (const Index row : globals.rows) {
      copy_row(rows, head * n + row, to);
      to += d;
    }
  }
  return copied;
}

void copy_row(const Tensor& x, Index row, float* to) {
  const Index width = x.columns();
  if (x.dtype() == DType::f32) {
    std::copy_n(x.data<float>() + row * width, width, to);
  } else {
    const auto* from = x.data<BFloat16>() + row * width;
    std::transform(from, from + width, to,
                   [](BFloat16 value) { return static_cast<float>(value); });
  }
}

void write_row(std::span<const float> values, Tensor& x, Index row) {
  const Index width = x.columns();
  if (x.dtype() == DType::f32) {
    std::copy(values.begin(), values.end(), x.data<float>() + row * width);
  } else {
    std::transform(values.begin(), values.end(), x.data<BFloat16>() + row * width,
                   [](float value) { return BFloat16(value); });
  }
}

void add_projected(const ProjectionRows& matrix, Index m, const float* x, float* y, Index ldy) {
  const auto& [weight, addition, first, count] = matrix;
  const Index width = weight.columns();
  gemm({.m = m, .n = count, .k = width, .transpose_b = true, .ldc = ldy, .beta = 1}, x,
       weight.data<float>() + first * width, y);
  if (addition.a.empty()) return;
  const Index rank = addition.a.rows();
  std::vector<float> inner(static_cast<std::size_t>(m * rank));
  gemm({.m = m, .n = rank, .k = width, .transpose_b = true}, x, addition.a.data<float>(),
       inner.data());
  gemm({.m = m,
        .n = count,
        .k = rank,
        .transpose_b = true,
        .ldc = ldy,
        .alpha = addition.scale,
        .beta = 1},
       inner.data(), addition.b.data<float>() + first * rank, y);
}

void project_back(const ProjectionRows& matrix, Index m, float alpha, const float* x, Index ldx,
                  float* y) {
  const auto& [weight, addition, first, count] = matrix;
  const Index width = weight.columns();
  gemm({.m = m, .n = width, .k = count, .lda = ldx, .alpha = alpha}, x,
       weight.data<float>() + first * width, y);
  if (addition.a.empty()) return;
  const Index rank = addition.a.rows();
  std::vector<float> inner(static_cast<std::size_t>(m * rank));
  gemm({.m = m, .n = rank, .k = count, .lda = ldx}, x, addition.b.data<float>() + first * rank,
       inner.data());
  gemm({.m = m, .n = width, .k = rank, .alpha = alpha * addition.scale, .beta = 1}, inner.data(),
       addition.a.data<float>(), y);
}

std::vector<float> project_queries(const GlobalRows& globals, const GlobalProjections& p,
                                   const Tensor& x) {
  const Index g = globals.count();
  const Index width = x.columns();
  std::vector<float> rows(static_cast<std::size_t>(g * width));
  std::vector<float> queries(rows.size());
  for (Index i = 0; i < g; ++i) {
    copy_row(x, globals.rows[static_cast<std::size_t>(i)], rows.data() + i * width);
    std::copy_n(p.query_bias.data<float>(), width, queries.data() + i * width);
  }
  add_projected({p.query_weight, p.query_addition, 0, width}, g, rows.data(), queries.data(),
                width);
  return queries;
}

Tensor project_global_queries(const GlobalRows& globals, const GlobalProjections& p,
                              const Tensor& x, Index head_size) {
  const Index g = globals.count();
  const Index width = x.columns();
  const Index heads = width / head_size;
  const std::vector<float> rows = project_queries(globals, p, x);
  Tensor query({heads, g, head_size}, DType::f32);
  for (Index head = 0; head < heads; ++head) {
    for (Index i = 0; i < g; ++i) {
      std::copy_n(rows.data() + i * width + head * head_size, head_size,
                  query.data<float>() + (head * g + i) * head_size);
    }
  }
  return query;
}

void project_document(const GlobalRows& globals, const Projection& projection, const Tensor& x,
                      Tensor& projected, int threads) {
  const Index head_size = projection.head_size;
  const auto* bias = projection.bias.data<float>();
  const Index n = globals.document.key_count;
  const Index width = x.columns();
  const Index heads = width / head_size;
  parallel_for(threads, (n + kRowsPerStep - 1) / kRowsPerStep, [&](Index step) {
    const Index first = step * kRowsPerStep;
    const Index rows = std::min(kRowsPerStep, n - first);
    std::vector<float> block(static_cast<std::size_t>(rows * width));
    for (Index i = 0; i < rows; ++i) {
      copy_row(x, globals.document.key_begin + first + i, block.data() + i * width);
    }
    for (Index head = 0; head < heads; ++head) {
      float* to = projected.data<float>() + (head * n + first) * head_size;
      for (Index i = 0; i < rows; ++i) {
        std::copy_n(bias + head * head_size, head_size, to + i * head_size);
      }
      add_projected({projection.weight, projection.addition, head * head_size, head_size}, rows,
                    block.data(), to, head_size);
    }
  });
}

}  // namespace longformer::kernels
