// Rows of heads: between token-major and head-major order, and from one head-major tensor to
// another. Whatever the dtype, whole rows are copied.
//
// H heads, d head size, n rows.
#pragma once

#include <span>

#include "core/tensor.h"

namespace longformer::kernels {

/// One of several stacked projections, between token-major rows and head-major [H, n, d].
struct HeadLayout {
  Index heads = 0;
  Index head_size = 0;
  /// Elements of a token-major row, and the first one of the projection in it.
  Index stride = 0;
  Index column = 0;
  /// Rows of the head-major tensor, and the first one in question.
  Index n = 0;
  Index begin = 0;
};

/// Copies `rows` token-major rows to the heads.
void split_heads(const HeadLayout& layout, const void* token_major, Tensor& head_major, Index rows);
/// Copies all of token-major rows [n, H·d] to the heads [H, n, d].
void split_all_heads(const Tensor& token_major, Tensor& head_major, int threads);
/// Copies `rows` rows of the heads to token-major rows.
void join_heads(const HeadLayout& layout, const Tensor& head_major, void* token_major, Index rows);

/// A head of token-major rows, and one of others.
struct HeadColumns {
  Index head_size = 0;
  Index from = 0, to = 0;
};
/// Copies a head of x [n, G·d] to one of y [n, H·d].
void copy_head_columns(const HeadColumns& columns, const Tensor& x, Tensor& y);

/// Copies rows first … first + rows − 1 of every head of [H, n, d] to the rows from `at` on of
/// another such tensor, which may be the same.
void copy_head_rows(const Tensor& from, Index first, Tensor& to, Index at, Index rows);

/// Copies section sections[h] of each head h of x [H, S·m, d] to chosen [H, m, d].
void take_sections(const Tensor& x, std::span<const Index> sections, Tensor& chosen);
/// Copies each head of chosen [H, m, d] to section sections[h] of x [H, S·m, d].
void put_sections(const Tensor& chosen, std::span<const Index> sections, Tensor& x);

/// Row i of head h of chosen [H, m, d] is row rows[h·m + i] of that head of x [H, n, d].
void take_head_rows(const Tensor& x, std::span<const Index> rows, Index head, Tensor& chosen);
/// Sums the rows of chosen at the rows of x that they were taken from, in their order and in fp32;
/// zeros where there is none.
void sum_taken_head_rows(const Tensor& chosen, std::span<const Index> rows, Index head, Tensor& x);

/// Rows of heads that stand for several of others: those of head h of the result [n, H·d] are means
/// of rows of that head of x [m, H·d].
struct HeadMeans {
  /// [H, m]: the row of the result that each row of x belongs to, or −1 for none.
  std::span<const Index> places;
  Index head = 0, head_size = 0;
};
/// Writes one head of the result; zeros where no row belongs.
void mean_head_rows(const HeadMeans& means, const Tensor& x, Tensor& result);
/// Writes one head of the gradient of x.
void mean_head_rows_backward(const HeadMeans& means, const Tensor& gradient, Tensor& dx);

/// Copies head heads[i] of x [G, n, d] to head i of chosen [heads, n, d], which is one of those.
void take_head(const Tensor& x, std::span<const Index> heads, Index i, Tensor& chosen);
/// Sums the heads i of chosen with heads[i] = head to a head of x, in the order of i and in fp32;
/// zeros where there is none.
void sum_taken_heads(const Tensor& chosen, std::span<const Index> heads, Index head, Tensor& x);

}  // namespace longformer::kernels
