#include "kernels/head_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/threads.h"

namespace longformer::kernels {
namespace {

/// Calls copy(token-major bytes, head-major bytes, count) for each row of each head.
template <typename Token, typename Head, typename Copy>
void for_head_rows(const HeadLayout& layout, Token* token_major, Head* head_major, Index rows,
                   std::size_t element, const Copy& copy) {
  const std::size_t bytes = static_cast<std::size_t>(layout.head_size) * element;
  for (Index head = 0; head < layout.heads; ++head) {
    Head* to = head_major + static_cast<std::size_t>(head * layout.n + layout.begin) * bytes;
    Token* from =
        token_major + static_cast<std::size_t>(layout.column + head * layout.head_size) * element;
    for (Index row = 0; row < rows; ++row) {
      copy(from, to, bytes);
      to += bytes;
      from += static_cast<std::size_t>(layout.stride) * element;
    }
  }
}

/// Bytes from the start of x [H, n, d] to a row of a head.
std::size_t offset_of(const Tensor& x, Index head, Index row) {
  return static_cast<std::size_t>((head * x.dimension(1) + row) * x.dimension(2)) *
         element_size(x.dtype());
}
std::byte* row_of(Tensor& x, Index head, Index row) {
  return static_cast<std::byte*>(x.raw()) + offset_of(x, head, row);
}
const std::byte* row_of(const Tensor& x, Index head, Index row) {
  return static_cast<const std::byte*>(x.raw()) + offset_of(x, head, row);
}

}  // namespace

void split_heads(const HeadLayout& layout, const void* token_major, Tensor& head_major,
                 Index rows) {
  for_head_rows(layout, static_cast<const std::byte*>(token_major),
                static_cast<std::byte*>(head_major.raw()), rows, element_size(head_major.dtype()),
                [](const std::byte* token, std::byte* head, std::size_t bytes) {
                  std::memcpy(head, token, bytes);
                });
}

void split_all_heads(const Tensor& token_major, Tensor& head_major, int threads) {
  const Index heads = head_major.dimension(0), n = head_major.dimension(1);
  const Index head_size = head_major.dimension(2);
  parallel_for(threads, heads, [&](Index head) {
    const HeadLayout layout = {.heads = 1,
                               .head_size = head_size,
                               .stride = heads * head_size,
                               .column = head * head_size,
                               .n = n,
                               .begin = head * n};
    split_heads(layout, token_major.raw(), head_major, n);
  });
}

void join_heads(const HeadLayout& layout, const Tensor& head_major, void* token_major, Index rows) {
  for_head_rows(layout, static_cast<std::byte*>(token_major),
                static_cast<const std::byte*>(head_major.raw()), rows,
                element_size(head_major.dtype()),
                [](std::byte* token, const std::byte* head, std::size_t bytes) {
                  std::memcpy(token, head, bytes);
                });
}

void copy_head_columns(const HeadColumns& columns, const Tensor& x, Tensor& y) {
  const std::size_t element = element_size(x.dtype());
  const std::size_t bytes = static_cast<std::size_t>(columns.head_size) * element;
  const std::size_t row = static_cast<std::size_t>(x.columns()) * element;
  const std::size_t to_row = static_cast<std::size_t>(y.columns()) * element;
  const auto* from =
      static_cast<const std::byte*>(x.raw()) + static_cast<std::size_t>(columns.from) * bytes;
  auto* to = static_cast<std::byte*>(y.raw()) + static_cast<std::size_t>(columns.to) * bytes;
  for (Index i = 0; i < x.rows(); ++i, from += row, to += to_row) std::memcpy(to, from, bytes);
}

void copy_head_rows(const Tensor& from, Index first, Tensor& to, Index at, Index rows) {
  const std::size_t bytes =
      static_cast<std::size_t>(rows * from.dimension(2)) * element_size(from.dtype());
  for (Index head = 0; head < from.dimension(0); ++head) {
    std::memmove(row_of(to, head, at), row_of(from, head, first), bytes);
  }
}

void take_sections(const Tensor& x, std::span<const Index> sections, Tensor& chosen) {
  const Index length = chosen.dimension(1);
  const std::size_t bytes = chosen.bytes() / static_cast<std::size_t>(chosen.dimension(0));
  for (Index head = 0; head < x.dimension(0); ++head) {
    const Index first = sections[static_cast<std::size_t>(head)] * length;
    std::memcpy(row_of(chosen, head, 0), row_of(x, head, first), bytes);
  }
}

void put_sections(const Tensor& chosen, std::span<const Index> sections, Tensor& x) {
  const Index length = chosen.dimension(1);
  const std::size_t bytes = chosen.bytes() / static_cast<std::size_t>(chosen.dimension(0));
  for (Index head = 0; head < x.dimension(0); ++head) {
    const Index first = sections[static_cast<std::size_t>(head)] * length;
    std::memcpy(row_of(x, head, first), row_of(chosen, head, 0), bytes);
  }
}

void take_head_rows(const Tensor& x, std::span<const Index> rows, Index head, Tensor& chosen) {
  const Index m = chosen.dimension(1);
  const std::size_t bytes = static_cast<std::size_t>(x.dimension(2)) * element_size(x.dtype());
  for (Index i = 0; i < m; ++i) {
    const Index row = rows[static_cast<std::size_t>(head * m + i)];
    std::memcpy(row_of(chosen, head, i), row_of(x, head, row), bytes);
  }
}

void sum_taken_head_rows(const Tensor& chosen, std::span<const Index> rows, Index head, Tensor& x) {
  const Index m = chosen.dimension(1), n = x.dimension(1), d = x.dimension(2);
  std::vector<float> sums(static_cast<std::size_t>(n * d), 0.0f);
  const auto add = [&](const auto* from) {
    for (Index i = 0; i < m; ++i) {
      float* to = sums.data() + rows[static_cast<std::size_t>(head * m + i)] * d;
      for (Index c = 0; c < d; ++c) to[c] += static_cast<float>(from[i * d + c]);
    }
  };
  if (x.dtype() == DType::bf16) {
    add(chosen.data<BFloat16>() + head * m * d);
    std::transform(sums.begin(), sums.end(), x.data<BFloat16>() + head * n * d,
                   [](float sum) { return BFloat16(sum); });
  } else {
    add(chosen.data<float>() + head * m * d);
    std::copy(sums.begin(), sums.end(), x.data<float>() + head * n * d);
  }
}

namespace {

/// 1 / the number of rows that belong to each of n rows; 0 for none.
std::vector<float> shares_of(std::span<const Index> places, Index n) {
  std::vector<float> shares(static_cast<std::size_t>(n), 0.0f);
  for (const Index place : places) {
    if (place >= 0) shares[static_cast<std::size_t>(place)] += 1;
  }
  for (float& share : shares) share = share > 0 ? 1 / share : 0.0f;
  return shares;
}

std::span<const Index> places_of(const HeadMeans& means, Index m) {
  return means.places.subspan(static_cast<std::size_t>(means.head * m),
                              static_cast<std::size_t>(m));
}

template <typename T>
void mean_rows(const HeadMeans& means, const Tensor& x, Tensor& result) {
  const Index d = means.head_size, n = result.rows(), width = x.columns(), first = means.head * d;
  const std::span<const Index> places = places_of(means, x.rows());
  std::vector<float> sums(static_cast<std::size_t>(n * d), 0.0f);
  const T* from = x.data<T>() + first;
  for (const Index place : places) {
    float* to = sums.data() + place * d;
    for (Index c = 0; place >= 0 && c < d; ++c) to[c] += static_cast<float>(from[c]);
    from += width;
  }
  const std::vector<float> shares = shares_of(places, n);
  T* to = result.data<T>() + first;
  for (Index row = 0; row < n; ++row, to += width) {
    for (Index c = 0; c < d; ++c) {
      to[c] =
          T(shares[static_cast<std::size_t>(row)] * sums[static_cast<std::size_t>(row * d + c)]);
    }
  }
}

template <typename T>
void spread_rows(const HeadMeans& means, const Tensor& gradient, Tensor& dx) {
  const Index d = means.head_size, width = dx.columns(), first = means.head * d;
  const std::span<const Index> places = places_of(means, dx.rows());
  const std::vector<float> shares = shares_of(places, gradient.rows());
  T* to = dx.data<T>() + first;
  for (const Index place : places) {
    const Index row = std::max<Index>(place, 0);
    const T* from = gradient.data<T>() + row * width + first;
    const float share = place < 0 ? 0.0f : shares[static_cast<std::size_t>(row)];
    for (Index c = 0; c < d; ++c) {
      to[c] = place < 0 ? T(0.0f) : T(share * static_cast<float>(from[c]));
    }
    to += width;
  }
}

}  // namespace

void mean_head_rows(const HeadMeans& means, const Tensor& x, Tensor& result) {
  if (x.dtype() == DType::bf16) {
    mean_rows<BFloat16>(means, x, result);
  } else {
    mean_rows<float>(means, x, result);
  }
}

void mean_head_rows_backward(const HeadMeans& means, const Tensor& gradient, Tensor& dx) {
  if (dx.dtype() == DType::bf16) {
    spread_rows<BFloat16>(means, gradient, dx);
  } else {
    spread_rows<float>(means, gradient, dx);
  }
}

void take_head(const Tensor& x, std::span<const Index> heads, Index i, Tensor& chosen) {
  const std::size_t bytes =
      static_cast<std::size_t>(x.dimension(1) * x.dimension(2)) * element_size(x.dtype());
  std::memcpy(row_of(chosen, i, 0), row_of(x, heads[static_cast<std::size_t>(i)], 0), bytes);
}

namespace {

template <typename T>
void sum_heads(const Tensor& chosen, std::span<const Index> found, Index head, Tensor& x) {
  const Index size = x.dimension(1) * x.dimension(2);
  T* to = x.data<T>() + head * size;
  for (Index c = 0; c < size; ++c) {
    float sum = 0;
    for (const Index i : found) sum += static_cast<float>(chosen.data<T>()[i * size + c]);
    to[c] = T(sum);
  }
}

}  // namespace

void sum_taken_heads(const Tensor& chosen, std::span<const Index> heads, Index head, Tensor& x) {
  std::vector<Index> found;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    if (heads[i] == head) found.push_back(static_cast<Index>(i));
  }
  if (x.dtype() == DType::bf16) {
    sum_heads<BFloat16>(chosen, found, head, x);
  } else {
    sum_heads<float>(chosen, found, head, x);
  }
}

}  // namespace longformer::kernels
