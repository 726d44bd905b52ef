// The rows of the table of gradients for vectors of texts (gradient_test.cc).
#pragma once

#include <cmath>
#include <vector>

#include "gradient_testing.h"
#include "ops/row_vectors.h"

namespace longformer::ops {

inline Row unit_rows_row() {
  return {.name = "unit_rows",
          .shapes = {{kRows, kIn}},
          .run = [](const Context& context,
                    const std::vector<Tensor>& in) { return unit_rows(context, in[0]); },
          .truth =
              [](const Inputs& in) {
                Doubles y = in[0];
                for (std::size_t row = 0; row < y.size(); row += at(kIn)) {
                  double square = 0;
                  for (Index c = 0; c < kIn; ++c) square += y[row + at(c)] * y[row + at(c)];
                  for (Index c = 0; c < kIn; ++c) y[row + at(c)] /= std::sqrt(square);
                }
                return y;
              },
          .activations = 0};
}

inline Row row_products_row() {
  constexpr Index kOther = 3;
  constexpr float kScale = 1.5f;
  return {.name = "row_products",
          .shapes = {{kRows, kIn}, {kOther, kIn}},
          .run =
              [](const Context& context, const std::vector<Tensor>& in) {
                return row_products(context, in[0], in[1], kScale);
              },
          .truth =
              [](const Inputs& in) {
                Doubles y;
                for (Index i = 0; i < kRows; ++i) {
                  for (Index j = 0; j < kOther; ++j) {
                    double sum = 0;
                    for (Index c = 0; c < kIn; ++c) {
                      sum += in[0][at(i * kIn + c)] * in[1][at(j * kIn + c)];
                    }
                    y.push_back(static_cast<double>(kScale) * sum);
                  }
                }
                return y;
              },
          .activations = 0};
}

inline Row row_dots_row() {
  return {.name = "row_dots",
          .shapes = {{kRows, kIn}, {kRows, kIn}},
          .run = [](const Context& context,
                    const std::vector<Tensor>& in) { return row_dots(context, in[0], in[1]); },
          .truth =
              [](const Inputs& in) {
                Doubles y(at(kRows));
                for (std::size_t i = 0; i < in[0].size(); ++i) {
                  y[i / at(kIn)] += in[0][i] * in[1][i];
                }
                return y;
              },
          .activations = 0};
}

}  // namespace longformer::ops
