// Rows of the table of gradients for convolutions over rows (gradient_test.cc).
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "activation_truth.h"
#include "gradient_testing.h"
#include "ops/row_convolution.h"

namespace longformer::ops {

/// Two documents, of which one is shorter than what a row reads, and a masked row.
struct ConvolutionCase {
  static constexpr Index kTokens = 12, kWidth = 6, kTaps = 3;
  std::vector<Index> neighbours = {};

  ConvolutionCase() {
    constexpr Index kSecond = 2, kMasked = 5;
    for (Index row = 0; row < kTokens; ++row) {
      const Index begin = row < kSecond ? 0 : kSecond, end = row < kSecond ? kSecond : kTokens;
      for (Index other = row - 1; other <= row + 1; ++other) {
        const bool is_seen = other >= begin && other < end && other != kMasked;
        neighbours.push_back(is_seen ? other : -1);
      }
    }
  }

  /// Number c of group c·groups/D reads the numbers of its group alone.
  Doubles convolved(const Inputs& in, Index groups) const {
    const Index inputs = kWidth / groups;
    Doubles y;
    for (Index row = 0; row < kTokens; ++row) {
      for (Index c = 0; c < kWidth; ++c) {
        double sum = in[2][at(c)];
        for (Index i = 0; i < inputs; ++i) {
          for (Index tap = 0; tap < kTaps; ++tap) {
            const Index other = neighbours[at(row * kTaps + tap)];
            const Index column = c / inputs * inputs + i;
            if (other < 0) continue;
            sum += in[0][at(other * kWidth + column)] * in[1][at((c * inputs + i) * kTaps + tap)];
          }
        }
        y.push_back(sum);
      }
    }
    return y;
  }
};

inline Row convolve_rows_row(Index groups, Activation activation, const Dropout& dropout) {
  static const ConvolutionCase convolution;
  constexpr Index kWidth = ConvolutionCase::kWidth;
  return {.name = "convolve_rows_in_" + std::to_string(groups) + "_groups",
          .shapes = {{ConvolutionCase::kTokens, kWidth},
                     {kWidth, kWidth / groups, ConvolutionCase::kTaps},
                     {kWidth}},
          .run =
              [=](const Context& context, const std::vector<Tensor>& in) {
                static std::vector<std::shared_ptr<RowConvolution>> kept;
                kept.push_back(std::make_shared<RowConvolution>(RowConvolution{
                    .weight = in[1], .bias = in[2], .groups = groups, .activation = activation}));
                return convolve_rows(context, in[0], *kept.back(),
                                     std::make_shared<const NeighboursOfRows>(NeighboursOfRows{
                                         convolution.neighbours, {0, 2, ConvolutionCase::kTokens}}),
                                     dropout);
              },
          .truth =
              [=](const Inputs& in) {
                Doubles y = dropped(convolution.convolved(in, groups), dropout);
                for (double& number : y) number = activation_truth(number, activation);
                return y;
              }};
}

inline std::vector<Row> convolution_rows() {
  return {convolve_rows_row(1, Activation::gelu, {}),
          convolve_rows_row(3, Activation::tanh, {.rate = 0.3f, .seed = 12})};
}

}  // namespace longformer::ops
