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
  gemm({.m = g, .n = width, .k = width, .transpose_b = true, .beta = 1}, rows.data(),
       p.query_weight.data<float>(), queries.data());
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
  const auto* weight = projection.weight.data<float>();
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
      gemm({.m = rows, .n = head_size, .k = width, .transpose_b = true, .beta = 1}, block.data(),
           weight + head * head_size * width, to);
    }
  });
}

}  // namespace longformer::kernels
