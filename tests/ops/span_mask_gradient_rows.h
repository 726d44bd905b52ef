// Rows of the table of gradients (gradient_test.cc): spans that heads learn, as keys of distances
// and as a loss.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "gradient_testing.h"
#include "ops/heads.h"
#include "ops/span_masks.h"

namespace longformer::ops {

/// So long that spans around 0 have masks below 1, above 0 and cut off at 1.
inline constexpr SpanRamp kSpanRamp = {.longest = 3, .ramp = 8};

inline Row span_keys_row() {
  constexpr Index kHeads = 4, kSize = 4, kCount = 3;
  return {.name = "span_keys",
          .shapes = {{kHeads}, {kSpanRamp.longest, kSize}},
          .run =
              [](const Context& context, const std::vector<Tensor>& in) {
                return span_keys(context, in[0], in[1], kSpanRamp, kCount);
              },
          .truth =
              [](const Inputs& in) {
                Doubles y;
                for (const double span : in[0]) {
                  for (Index x = 0; x < kCount; ++x) {
                    for (Index c = 0; c < kSize; ++c) y.push_back(in[1][at(x * kSize + c)]);
                    const double mask = std::clamp(
                        (span * kSpanRamp.longest - static_cast<double>(x)) / kSpanRamp.ramp + 1,
                        0.0, 1.0);
                    y.push_back(mask > 0 ? std::sqrt(kSize + 1.0) * std::log(mask) : 0);
                  }
                }
                return y;
              },
          .activations = 0};
}

inline Row span_loss_row() {
  return {.name = "span_loss",
          .shapes = {{3}},
          .run = [](const Context& context,
                    const std::vector<Tensor>& in) { return span_loss(context, in[0], 6); },
          .truth = [](const Inputs& in) { return Doubles{2 * (in[0][0] + in[0][1] + in[0][2])}; },
          .activations = 0};
}

/// Rows of kIn become longer, or shorter.
inline Row resized_rows_row(Index to) {
  return {.name = "resized_rows_to_" + std::to_string(to),
          .shapes = {{kRows, kIn}},
          .run =
              [to](const Context& context, const std::vector<Tensor>& in) {
                return resized_rows(context, in[0], {kIn, to, 1.5f}, {kRows, to});
              },
          .truth =
              [to](const Inputs& in) {
                Doubles y(at(kRows * to));
                for (Index i = 0; i < kRows * to; ++i) {
                  if (i % to < kIn) y[at(i)] = 1.5 * in[0][at(i / to * kIn + i % to)];
                }
                return y;
              }};
}

/// Four heads of 5 columns in two parts, out of their order.
inline Row join_heads_row() {
  constexpr Index kSize = 5;
  static const std::array<std::vector<Index>, 2> heads = {std::vector<Index>{3, 0, 1}, {2}};
  return {
      .name = "join_heads",
      .shapes = {{kRows, 3 * kSize}, {kRows, kSize}},
      .run = [](const Context& context,
                const std::vector<Tensor>& in) { return join_heads(context, in, heads, kSize); },
      .truth =
          [](const Inputs& in) {
            Doubles y(at(kRows * 4 * kSize));
            for (std::size_t part = 0; part < heads.size(); ++part) {
              const auto own = std::ssize(heads[part]);
              for (Index i = 0; i < kRows * own * kSize; ++i) {
                const Index row = i / (own * kSize), head = i / kSize % own;
                const Index to = heads[part][at(head)];
                y[at((row * 4 + to) * kSize + i % kSize)] = in[part][at(i)];
              }
            }
            return y;
          },
      .activations = 2};
}

inline std::vector<Row> span_mask_rows() {
  return {span_keys_row(), span_loss_row(), resized_rows_row(kIn + 3), resized_rows_row(kIn - 4),
          join_heads_row()};
}

}  // namespace longformer::ops
