// Rows of the table of gradients (gradient_test.cc): gated feed-forward blocks, norms without bias
// or mean, rotary positions, word embeddings that are given.
#pragma once

#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "activation_truth.h"
#include "gradient_testing.h"
#include "kernels/rotary.h"
#include "ops/embedding.h"
#include "ops/feed_forward.h"
#include "ops/heads.h"
#include "ops/residual.h"
#include "ops/rotary.h"

namespace longformer::ops {

inline Row norm_row(const std::string& name, bool centres) {
  return {.name = name,
          .shapes = {{kRows, kOut}, {kOut}},
          .run =
              [centres](const Context& context, const std::vector<Tensor>& in) {
                return layer_norm(context, in[0],
                                  {.weight = in[1],
                                   .bias = {},
                                   .epsilon = static_cast<float>(kEpsilon),
                                   .centres = centres});
              },
          .truth = [centres](const Inputs& in) { return normalised(in[0], in[1], {}, centres); }};
}
inline Row rms_norm_row() { return norm_row("layer_norm_of_squares", false); }
inline Row norm_without_bias_row() { return norm_row("layer_norm_without_bias", true); }

/// Gains are 1 + weight.
inline Row norm_with_offset_row() {
  Row row = norm_row("layer_norm_with_offset", false);
  row.run = [](const Context& context, const std::vector<Tensor>& in) {
    return layer_norm(context, in[0],
                      {.weight = in[1],
                       .bias = {},
                       .epsilon = static_cast<float>(kEpsilon),
                       .centres = false,
                       .gain_offset = 1});
  };
  row.truth = [](const Inputs& in) {
    Doubles gains = in[1];
    for (double& gain : gains) gain += 1;
    return normalised(in[0], gains, {}, false);
  };
  return row;
}

/// Heads of three of which two are read twice and one never.
inline Row take_heads_row() {
  constexpr Index kWidth = 10;
  static const std::vector<Index> heads = {2, 0, 0, 2};
  return {.name = "take_heads",
          .shapes = {{3, kRows, kWidth}},
          .run = [](const Context& context,
                    const std::vector<Tensor>& in) { return take_heads(context, in[0], heads); },
          .truth =
              [](const Inputs& in) {
                Doubles y;
                for (const Index head : heads) {
                  const auto* begin = in[0].data() + head * kRows * kWidth;
                  y.insert(y.end(), begin, begin + kRows * kWidth);
                }
                return y;
              }};
}

/// Each row of two heads has a norm; the views before and behind it are ops of their own.
inline Row norm_heads_row() {
  constexpr Index kWidth = 10;
  return {.name = "viewed",
          .shapes = {{2, kRows, kWidth}, {kWidth}},
          .run =
              [](const Context& context, const std::vector<Tensor>& in) {
                return norm_heads(context, in[0],
                                  {.weight = in[1],
                                   .bias = {},
                                   .epsilon = static_cast<float>(kEpsilon),
                                   .centres = false});
              },
          .truth = [](const Inputs& in) { return normalised(in[0], in[1], {}, false); }};
}

/// Scaled rows of one table, as they are.
inline Row embed_without_norm_row() {
  static const std::vector<std::int32_t> words = {3, 1, 4, 1, 5, 2, 0, 5};
  return {.name = "embed_without_norm",
          .shapes = {{6, kIn}},
          .run =
              [](const Context& context, const std::vector<Tensor>& in) {
                static std::vector<std::shared_ptr<EmbeddingTables>> kept;
                kept.push_back(std::make_shared<EmbeddingTables>(EmbeddingTables{
                    .words = in[0], .positions = {}, .types = {}, .norm = {}, .word_scale = 2.5f}));
                return embed(context, *kept.back(), {words, {}, {}});
              },
          .truth =
              [](const Inputs& in) {
                Doubles x;
                for (const std::int32_t word : words) {
                  for (Index c = 0; c < kIn; ++c) x.push_back(2.5 * in[0][at(word * kIn + c)]);
                }
                return x;
              },
          .activations = 0};
}

inline Row add_row() {
  return {.name = "add",
          .shapes = {{kRows, kIn}, {kRows, kIn}},
          .run = [](const Context& context,
                    const std::vector<Tensor>& in) { return add(context, in[0], in[1]); },
          .truth = [](const Inputs& in) { return added(in[0], in[1]); },
          .activations = 2};
}

struct GatedCase {
  bool activates_second = false, splits = false, norm_first = false;
};

/// From kIn numbers by way of 2 × 7 back to kIn; one weight for both halves, or two.
inline Row gated_row(const GatedCase& gated) {
  constexpr Index kHalf = 7;
  std::vector<Shape> shapes = {{kRows, kIn}, {kIn, kHalf}, {kIn}};
  if (gated.splits) {
    shapes.insert(shapes.end(), {{kHalf, kIn}, {kHalf, kIn}});
  } else {
    shapes.push_back({2 * kHalf, kIn});
  }
  const std::string op = gated.norm_first ? "feed_forward_add" : "feed_forward";
  const auto run = [gated](const Context& context, const std::vector<Tensor>& in) {
    static std::vector<std::shared_ptr<FeedForward>> kept;
    const std::vector<Tensor> up(in.begin() + 3, in.end());
    const LinearOptions options = {.dtype = context.dtype, .trainable = true};
    kept.push_back(std::make_shared<FeedForward>(FeedForward{
        .up = Linear(up, {}, options),
        .down = Linear(std::vector{in[1]}, {}, options),
        .gate = Gate{.activation = Activation::gelu, .activates_second = gated.activates_second}}));
    if (gated.norm_first) return feed_forward_add(context, in[0], *kept.back(), in[0]);
    return feed_forward_add_norm(
        context, in[0], *kept.back(),
        {.weight = in[2], .bias = {}, .epsilon = static_cast<float>(kEpsilon)});
  };
  const auto truth = [gated](const Inputs& in) {
    Doubles up(in[3]);
    if (gated.splits) up.insert(up.end(), in[4].begin(), in[4].end());
    const Doubles made = product(in[0], up, Doubles(2 * kHalf), kIn);
    Doubles wide;
    for (Index row = 0; row < kRows; ++row) {
      for (Index c = 0; c < kHalf; ++c) {
        const double first = made[at(row * 2 * kHalf + c)];
        const double second = made[at(row * 2 * kHalf + kHalf + c)];
        const double value = gated.activates_second ? second : first;
        const double other = gated.activates_second ? first : second;
        wide.push_back(activation_truth(value, Activation::gelu) * other);
      }
    }
    const Doubles sum = added(product(wide, in[1], Doubles(kIn), kHalf), in[0]);
    // The gain has no part in a sum without a norm.
    return gated.norm_first ? sum : normalised(sum, in[2], {});
  };
  const std::string kind = gated.splits ? "_of_two" : "";
  return {.name = op + "_gated" + kind, .shapes = shapes, .run = run, .truth = truth};
}

/// Two heads of kRows rows of 10 numbers, at positions out of order.
inline Row rotate_row(bool pairs_neighbours = false) {
  constexpr Index kHeads = 2, kWidth = 10, kTable = 30;
  const std::vector<float> frequencies = {1.0f, 0.5f, 0.25f, 0.1f, 0.01f};
  auto rotation = std::make_shared<Rotation>();
  rotation->table = Tensor({kTable, kWidth}, DType::f32);
  kernels::fill_rotations(frequencies, 1.25f, 0, kTable, rotation->table);
  for (Index i = 0; i < kRows; ++i) rotation->places.push_back((i * 7 + 3) % kTable);
  rotation->pairs_neighbours = pairs_neighbours;
  return {
      .name = pairs_neighbours ? "rotate_neighbours" : "rotate",
      .shapes = {{kHeads, kRows, kWidth}},
      .run = [rotation](const Context& context,
                        const std::vector<Tensor>& in) { return rotate(context, in[0], rotation); },
      .truth =
          [rotation, frequencies](const Inputs& in) {
            Doubles y(in[0].size());
            for (std::size_t row = 0; row < y.size() / kWidth; ++row) {
              const auto position = static_cast<double>(rotation->places[row % at(kRows)]);
              for (std::size_t t = 0; t < kWidth / 2; ++t) {
                const double angle = position * static_cast<double>(frequencies[t]);
                const bool near = rotation->pairs_neighbours;
                const std::size_t first = row * kWidth + (near ? 2 * t : t);
                const std::size_t second = near ? first + 1 : first + 5;
                const double a = in[0][first], b = in[0][second];
                y[first] = 1.25 * (a * std::cos(angle) - b * std::sin(angle));
                y[second] = 1.25 * (b * std::cos(angle) + a * std::sin(angle));
              }
            }
            return y;
          }};
}

/// Word embeddings that are given, times 2.5, whose numbers in the table mean nothing.
inline Row embed_given_row() {
  static const std::vector<std::int32_t> words = {3, 1, 4, 1}, positions = {2, 3, 0, 2};
  return {
      .name = "embed_given",
      .shapes = {{4, kIn}, {5, kIn}, {kIn}, {kIn}},
      .run =
          [](const Context& context, const std::vector<Tensor>& in) {
            static std::vector<std::shared_ptr<EmbeddingTables>> kept;
            kept.push_back(std::make_shared<EmbeddingTables>(EmbeddingTables{
                .words = Tensor::zeros({6, kIn}, DType::f32),
                .positions = in[1],
                .types = {},
                .norm = {.weight = in[2], .bias = in[3], .epsilon = static_cast<float>(kEpsilon)},
                .word_scale = 2.5f,
                .word_padding = 1}));
            return embed(context, *kept.back(),
                         {.words = words, .positions = positions, .types = {}, .given = in[0]});
          },
      .truth =
          [](const Inputs& in) {
            Doubles x;
            for (std::size_t i = 0; i < words.size(); ++i) {
              for (Index c = 0; c < kIn; ++c) {
                x.push_back(2.5 * in[0][i * at(kIn) + at(c)] + in[1][at(positions[i] * kIn + c)]);
              }
            }
            return normalised(x, in[2], in[3]);
          },
      .activations = 0};
}

}  // namespace longformer::ops
