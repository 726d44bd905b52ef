#include "ops/slots.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "ops/device.h"
#include "ops/gradients.h"
#include "ops/typed_product.h"

namespace longformer::ops {
namespace {

/// A matrix of x, of one head of it, or of the projection.
const void* matrix(const Tensor& x, Index first_element) {
  return static_cast<const std::byte*>(x.raw()) + at(first_element) * element_size(x.dtype());
}
void* matrix(Tensor& x, Index first_element) {
  return static_cast<std::byte*>(x.raw()) + at(first_element) * element_size(x.dtype());
}

/// Sizes and places of the matrices of documents and heads.
struct Sizes {
  Sizes(const Tensor& x, const Tensor& projection, Index slots, std::span<const Index> starts)
      : heads(x.shape().size() == 3 ? x.dimension(0) : 1),
        rows(x.shape()[x.shape().size() - 2]),
        width(x.shape().back()),
        most(projection.shape().back()),
        lines(projection.size() / most / heads),
        k(slots),
        documents(std::ssize(starts) - 1) {}
  Index heads, rows, width, most, lines, k, documents;
  Shape slots(const Tensor& x) const {
    return x.shape().size() == 3 ? Shape{heads, documents * k, width} : Shape{documents * k, width};
  }
  /// First elements for a head and document.
  Index of_rows(Index head, Index start) const { return (head * rows + start) * width; }
  Index of_slots(Index head, Index document) const {
    return (head * documents + document) * k * width;
  }
  /// In a projection of so many columns.
  Index of_projection(Index head, Index columns) const { return head * lines * columns; }
};

/// The columns of the projection that the longest document needs, in the dtype of x: all of them
/// for 65,536 tokens would cost a document of 512 four times its own time.
Tensor operand_of(const Tensor& projection, DType dtype, std::span<const Index> starts) {
  Index longest = 0;
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    longest = std::max(longest, starts[i + 1] - starts[i]);
  }
  const Index most = projection.shape().back();
  if (projection.dtype() == dtype || longest == most) return projection.to(dtype);
  Tensor part(Shape{projection.size() / most, longest}, projection.dtype());
  for (Index row = 0; row < part.rows(); ++row) {
    std::memcpy(matrix(part, row * longest), matrix(projection, row * most),
                at(longest) * element_size(part.dtype()));
  }
  return part.to(dtype);
}

template <typename Body>
void for_documents(const Sizes& sizes, std::span<const Index> starts, const Body& body) {
  for (Index head = 0; head < sizes.heads; ++head) {
    for (Index i = 0; i < sizes.documents; ++i) {
      body(head, i, starts[at(i)], starts[at(i + 1)] - starts[at(i)]);
    }
  }
}

void project_rows_backward(const Context& context, const Tensor& x, std::span<const Index> starts,
                           const Tensor& projection, const Tensor& operand, const Tensor& gradient,
                           Index k) {
  const Sizes sizes(x, projection, k, starts);
  Tensor dx = context.memory.zeros(x.shape(), x.dtype());
  Tensor* sums = wants_gradient(projection) ? &parameter_gradient(projection) : nullptr;
  for_documents(sizes, starts, [&](Index head, Index document, Index start, Index count) {
    if (count == 0) return;
    const void* of_slots = matrix(gradient, sizes.of_slots(head, document));
    const Index columns = operand.shape().back();
    product({.m = count, .n = sizes.width, .k = k, .transpose_a = true, .lda = columns}, x.dtype(),
            matrix(operand, sizes.of_projection(head, columns)), of_slots, x.dtype(),
            matrix(dx, sizes.of_rows(head, start)));
    if (sums == nullptr) return;
    product(
        {.m = k, .n = count, .k = sizes.width, .transpose_b = true, .ldc = sizes.most, .beta = 1},
        x.dtype(), of_slots, matrix(x, sizes.of_rows(head, start)), DType::f32,
        matrix(*sums, sizes.of_projection(head, sizes.most)));
  });
  send_gradient(context, x, std::move(dx));
}

}  // namespace

Tensor without_masked(const Context& context, const Tensor& x, std::span<const std::uint8_t> mask) {
  refuse_device("without_masked", x);
  if (mask.empty()) return x;
  const auto clear = [kept = std::vector(mask.begin(), mask.end())](Tensor& rows) {
    const std::size_t bytes = at(rows.columns()) * element_size(rows.dtype());
    for (std::size_t row = 0; row < kept.size(); ++row) {
      if (kept[row] == 0) std::memset(static_cast<std::byte*>(rows.raw()) + row * bytes, 0, bytes);
    }
  };
  Tensor y = x.copied();
  y.set_gradient(nullptr);
  clear(y);
  if (!wants_backward(context, x)) return y;
  record(context, "without_masked", y, [context, x, clear](Tensor gradient) {
    clear(gradient);
    send_gradient(context, x, std::move(gradient));
  });
  return y;
}

Tensor project_rows(const Context& context, const Tensor& x, std::span<const Index> starts,
                    const Tensor& projection, Index k) {
  refuse_device("project_rows", x, projection);
  const Sizes sizes(x, projection, k, starts);
  const Tensor operand = operand_of(projection, x.dtype(), starts);
  const Index columns = operand.shape().back();
  Tensor slots = context.memory.zeros(sizes.slots(x), x.dtype());
  for_documents(sizes, starts, [&](Index head, Index document, Index start, Index count) {
    if (count == 0) return;
    product({.m = k, .n = sizes.width, .k = count, .lda = columns}, x.dtype(),
            matrix(operand, sizes.of_projection(head, columns)),
            matrix(x, sizes.of_rows(head, start)), x.dtype(),
            matrix(slots, sizes.of_slots(head, document)));
  });
  if (!wants_backward(context, x, projection)) return slots;
  record(context, "project_rows", slots,
         [context, x, kept = std::vector(starts.begin(), starts.end()), projection, operand,
          k](const Tensor& gradient) {
           project_rows_backward(context, x, kept, projection, operand, gradient, k);
         });
  return slots;
}

Tensor add_head_bias(const Context& context, const Tensor& x, const Tensor& bias) {
  refuse_device("add_head_bias", x, bias);
  const Index heads = x.dimension(0), rows = x.dimension(1), width = x.dimension(2);
  Tensor y = x.copied();
  y.set_gradient(nullptr);
  for (Index head = 0; head < heads; ++head) {
    kernels::add_bias({bias.data<float>() + head * width, rows, width, width},
                      matrix(y, head * rows * width), y.dtype());
  }
  if (!wants_backward(context, x, bias)) return y;
  record(context, "add_head_bias", y, [context, x, bias, heads, rows, width](Tensor gradient) {
    for (Index head = 0; wants_gradient(bias) && head < heads; ++head) {
      kernels::add_column_sums({matrix(gradient, head * rows * width), rows, width, width},
                               gradient.dtype(),
                               parameter_gradient(bias).data<float>() + head * width);
    }
    send_gradient(context, x, std::move(gradient));
  });
  return y;
}

Tensor window_slots(const Context& context, const Tensor& x, const kernels::SlotWindows& windows,
                    kernels::SlotKind kind, const Tensor& weights) {
  refuse_device("window_slots", x, weights);
  const Index columns =
      kind == kernels::SlotKind::gathered ? x.columns() * windows.window : x.columns();
  Tensor slots = context.memory.tensor({windows.slots(), columns}, x.dtype());
  kernels::fill_slots(windows, kind, x, weights, slots, context.threads);
  if (!wants_backward(context, x, weights)) return slots;
  record(context, "window_slots", slots,
         [context, x, windows, kind, weights](const Tensor& gradient) {
           Tensor dx = context.memory.zeros(x.shape(), DType::f32);
           Tensor* sums = wants_gradient(weights) ? &parameter_gradient(weights) : nullptr;
           kernels::fill_slots_backward(windows, kind, x, weights, gradient, dx, sums);
           send_gradient(context, x, dx.to(x.dtype()));
         });
  return slots;
}

}  // namespace longformer::ops
