// Rows of the table of gradients (gradient_test.cc): parts of one softmax whose keys count several
// times, rows that heads draw, and logits that are lowered, as in BigBird.
#pragma once

#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "gradient_testing.h"
#include "kernels/reference.h"
#include "ops/attention.h"
#include "ops/heads.h"
#include "ops/loss.h"

namespace longformer::ops {

/// Windows of blocks of two, and the first three keys, which count three times.
inline Row weighted_attention_row() {
  constexpr Index kHeads = 2, kSize = 3, kTokens = 8, kFirst = 3;
  constexpr float kTimes = 3;
  AttentionSpec window, first;
  window.head_size = first.head_size = kSize;
  window.heads.assign(at(kHeads), {.reach_left = 1, .reach_right = 1, .block = 2});
  first.heads.assign(at(kHeads), {kernels::kUnlimitedReach, kernels::kUnlimitedReach});
  first.log_weight = std::log(kTimes);
  window.rows = kernels::shared(kernels::self_attention_rows(std::array<Index, 2>{0, kTokens}));
  kernels::AttentionRows of_first;
  of_first.documents = {{.query_count = kTokens, .key_count = kFirst},
                        {.query_begin = kTokens, .key_begin = kTokens}};
  first.rows = kernels::shared(std::move(of_first));
  const Shape tokens = {kHeads, kTokens, kSize};
  Row row;
  row.name = "attention_with_weights";
  row.shapes = {tokens, tokens, tokens};
  row.activations = 3;
  row.run = [window, first](const Context& context, const std::vector<Tensor>& in) {
    const std::array groups = {KeyGroup{.spec = window, .key = in[1], .value = in[2]},
                               KeyGroup{.spec = first, .key = in[1], .value = in[2]}};
    return attention_over(context, in[0], groups);
  };
  row.truth = [](const Inputs& in) {
    Doubles out(static_cast<std::size_t>(kTokens * kHeads * kSize));
    for (Index head = 0; head < kHeads; ++head) {
      const auto at_row = [&](const Doubles& x, Index row) {
        return x.data() + (head * kTokens + row) * kSize;
      };
      for (Index i = 0; i < kTokens; ++i) {
        double sum = 0;
        Doubles mean(at(kSize));
        for (Index j = 0; j < kTokens; ++j) {
          double times = j < kFirst ? kTimes : 0;
          if (std::abs(j / 2 - i / 2) <= 1) times += 1;
          double score = 0;
          for (Index c = 0; c < kSize; ++c) score += at_row(in[0], i)[c] * at_row(in[1], j)[c];
          const double weight = times * std::exp(score / std::sqrt(static_cast<double>(kSize)));
          sum += weight;
          for (Index c = 0; c < kSize; ++c) mean[at(c)] += weight * at_row(in[2], j)[c];
        }
        for (Index c = 0; c < kSize; ++c) {
          out[at((i * kHeads + head) * kSize + c)] = mean[at(c)] / sum;
        }
      }
    }
    return out;
  };
  return row;
}

/// Two heads that draw four rows each, some of them twice and some never.
inline Row take_head_rows_row() {
  constexpr Index kWidth = 10, kDrawn = 4;
  static const auto rows =
      std::make_shared<const std::vector<Index>>(std::vector<Index>{2, 0, 0, 1, 1, 2, 1, 1});
  return {.name = "take_head_rows",
          .shapes = {{2, kRows, kWidth}},
          .run = [](const Context& context,
                    const std::vector<Tensor>& in) { return take_head_rows(context, in[0], rows); },
          .truth =
              [](const Inputs& in) {
                Doubles y;
                for (Index i = 0; i < 2 * kDrawn; ++i) {
                  const Index row = i / kDrawn * kRows + (*rows)[at(i)];
                  const auto* begin = in[0].data() + row * kWidth;
                  y.insert(y.end(), begin, begin + kWidth);
                }
                return y;
              }};
}

inline Row lowered_rows_row() {
  static const std::array<kernels::RowRange, 1> ranges = {{{1, 2}}};
  return {.name = "lowered_rows",
          .shapes = {{kRows, kOut}},
          .run =
              [](const Context& context, const std::vector<Tensor>& in) {
                return lowered_rows(context, in[0], ranges, 2.5f);
              },
          .truth =
              [](const Inputs& in) {
                Doubles y = in[0];
                for (Index c = 0; c < kOut; ++c) y[at(kOut + c)] -= 2.5;
                return y;
              },
          .activations = 0};
}

}  // namespace longformer::ops
