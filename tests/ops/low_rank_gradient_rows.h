// Rows of gradient_test for what adapters add to dense layers.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"
#include "gradient_testing.h"
#include "ops/linear.h"

namespace longformer::ops {

inline constexpr Index kLowRows = 19, kLowIn = 13, kLowOut = 10, kLowRank = 3;
inline constexpr float kLowScale = 1.75f;
inline constexpr std::uint64_t kLowSeed = 5, kLowPlace = 77;

/// b [out, r] times a [r, in], and the scale.
inline Doubles low_rank_matrix(const Doubles& a, const Doubles& b) {
  Doubles matrix(at(kLowOut * kLowIn));
  for (std::size_t o = 0; o < at(kLowOut); ++o) {
    for (std::size_t i = 0; i < at(kLowIn); ++i) {
      for (std::size_t r = 0; r < at(kLowRank); ++r) {
        matrix[o * at(kLowIn) + i] +=
            static_cast<double>(kLowScale) * b[o * at(kLowRank) + r] * a[r * at(kLowIn) + i];
      }
    }
  }
  return matrix;
}

/// W·x + bias + M·dropout(x)
inline Doubles adapted_product(const Inputs& in, const Doubles& matrix, const Dropout& dropout) {
  return added(product(in[0], in[1], in[2], kLowIn),
               product(dropped(in[0], dropout), matrix, Doubles(at(kLowOut)), kLowIn));
}

/// Layers must outlive the backward pass.
inline Linear& adapted_layer(const Context& context, const std::vector<Tensor>& in, double rate) {
  static std::vector<std::unique_ptr<Linear>> all;
  all.push_back(std::make_unique<Linear>(std::vector{in[1]}, std::vector{in[2]},
                                         LinearOptions{.dtype = context.dtype, .trainable = true}));
  all.back()->adapt(
      {{.a = in[3], .b = in[4], .scale = kLowScale, .dropout = rate, .place = kLowPlace}});
  return *all.back();
}

inline Row adapted_linear_row(double rate) {
  const Dropout dropout = {.rate = static_cast<float>(rate),
                           .seed = random_bits(kLowSeed, kLowPlace)};
  return {.name = rate > 0 ? "linear_with_low_rank_and_dropout" : "linear_with_low_rank",
          .shapes = {{kLowRows, kLowIn},
                     {kLowOut, kLowIn},
                     {kLowOut},
                     {kLowRank, kLowIn},
                     {kLowOut, kLowRank}},
          .run =
              [rate](const Context& context, const std::vector<Tensor>& in) {
                Context seeded = context;
                seeded.dropout_seed = kLowSeed;
                return linear(seeded, in[0], adapted_layer(context, in, rate), context.dtype);
              },
          .truth =
              [dropout](const Inputs& in) {
                return adapted_product(in, low_rank_matrix(in[3], in[4]), dropout);
              }};
}

/// Two layers of which only the second is adapted.
inline Row adapted_heads_row() {
  return {
      .name = "project_heads_with_low_rank",
      .shapes = {{kLowRows, kLowIn},
                 {kLowOut, kLowIn},
                 {kLowOut},
                 {kLowRank, kLowIn},
                 {kLowOut, kLowRank}},
      .run =
          [](const Context& context, const std::vector<Tensor>& in) {
            static std::vector<std::unique_ptr<Linear>> all;
            const Tensor other = random_normal_tensor({kLowOut, kLowIn}, 0.5f, 9);
            all.push_back(std::make_unique<Linear>(
                std::vector{other, in[1]}, std::vector{in[2].copied(), in[2]},
                LinearOptions{.dtype = context.dtype, .trainable = true}));
            all.back()->adapt({{}, {.a = in[3], .b = in[4], .scale = kLowScale}});
            // One head, so that it is the product itself.
            return project_heads(context, in[0], *all.back(), 1, kLowOut)[1];
          },
      .truth =
          [](const Inputs& in) { return adapted_product(in, low_rank_matrix(in[3], in[4]), {}); }};
}

inline Row adapted_weight_row() {
  static const Tensor weight = random_normal_tensor({kLowOut, kLowIn}, 1, 12);
  return {.name = "adapted_weight",
          .shapes = {{kLowRank, kLowIn}, {kLowOut, kLowRank}},
          .run =
              [](const Context& context, const std::vector<Tensor>& in) {
                return adapted_weight(context, weight,
                                      {.a = in[0], .b = in[1], .scale = kLowScale});
              },
          .truth =
              [](const Inputs& in) {
                Doubles matrix = low_rank_matrix(in[0], in[1]);
                const std::vector<float> before = weight.to_floats();
                for (std::size_t i = 0; i < matrix.size(); ++i) {
                  matrix[i] += static_cast<double>(before[i]);
                }
                return matrix;
              },
          .activations = 0};
}

inline std::vector<Row> low_rank_rows() {
  return {adapted_linear_row(0), adapted_linear_row(0.3), adapted_heads_row(),
          adapted_weight_row()};
}

}  // namespace longformer::ops
