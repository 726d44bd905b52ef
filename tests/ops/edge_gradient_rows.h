// Rows of the table of gradients (gradient_test.cc): attention along edges, alone and as a part of
// one softmax with windows.
#pragma once

#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "gradient_testing.h"
#include "ops/attention.h"
#include "ops/edge_attention.h"

namespace longformer::ops {

struct EdgeCase {
  static constexpr Index kHeads = 2, kSize = 3, kTokens = 8, kLabels = 3, kReach = 1;
  static constexpr float kScale = 0.57735027f;
  bool has_window = false;
  EdgeAttention spec;
  AttentionSpec window;

  /// Query 2 has no edge, query 3 one edge twice, and query 6 the same edge with two labels.
  EdgeCase(bool with_window, const Dropout& dropout) : has_window(with_window) {
    EdgeRows rows;
    rows.begin = {0, 2, 3, 3, 5, 6, 7, 10, 11};
    rows.key = {4, 6, 7, 0, 0, 1, 2, 0, 0, 3, 5};
    rows.label = {0, 1, 2, 1, 1, 0, 0, 1, 2, 2, 1};
    spec = {.heads = kHeads,
            .head_size = kSize,
            .scale = kScale,
            .rows = std::make_shared<const EdgeRows>(std::move(rows)),
            .dropout = dropout};
    window.head_size = kSize;
    window.heads.assign(at(kHeads), {kReach, kReach, 1});
    window.rows = kernels::shared(kernels::self_attention_rows(std::array<Index, 2>{0, kTokens}));
  }

  /// Query, key, value, and keys and biases of labels.
  Doubles truth(const Inputs& in) const {
    Doubles out(at(kTokens * kHeads * kSize));
    for (Index head = 0; head < kHeads; ++head) {
      for (Index query = 0; query < kTokens; ++query) add_query(in, head, query, out);
    }
    return out;
  }

 private:
  void add_query(const Inputs& in, Index head, Index query, Doubles& out) const {
    const EdgeRows& rows = *spec.rows;
    Doubles sums(at(kSize));
    double denominator = 0;
    const auto see = [&](Index key, Index label, double factor) {
      double score = label < 0 ? 0 : in[4][at(head * kLabels + label)];
      for (Index c = 0; c < kSize; ++c) {
        const double more = label < 0 ? 0 : in[3][at((head * kLabels + label) * kSize + c)];
        score += static_cast<double>(kScale) * in[0][at((head * kTokens + query) * kSize + c)] *
                 (in[1][at((head * kTokens + key) * kSize + c)] + more);
      }
      denominator += std::exp(score);
      for (Index c = 0; c < kSize; ++c) {
        sums[at(c)] += factor * std::exp(score) * in[2][at((head * kTokens + key) * kSize + c)];
      }
    };
    for (Index key = query - kReach; has_window && key <= query + kReach; ++key) {
      if (key >= 0 && key < kTokens) see(key, -1, 1);
    }
    const auto mask = kernels::dropout_row(spec.dropout, head, query);
    for (Index edge = rows.begin[at(query)]; edge < rows.begin[at(query + 1)]; ++edge) {
      const auto column = 0x80000000u + static_cast<std::uint32_t>(edge - rows.begin[at(query)]);
      const bool is_dropped = spec.dropout.active() && mask.bits(column) < spec.dropout.threshold();
      const double kept =
          spec.dropout.active() ? static_cast<double>(spec.dropout.kept_factor()) : 1;
      see(rows.key[at(edge)], rows.label[at(edge)], is_dropped ? 0 : kept);
    }
    for (Index c = 0; c < kSize && denominator > 0; ++c) {
      out[at((query * kHeads + head) * kSize + c)] = sums[at(c)] / denominator;
    }
  }
};

inline Row edge_attention_row(const std::string& name, bool has_window,
                              const Dropout& dropout = {}) {
  const auto of = std::make_shared<const EdgeCase>(has_window, dropout);
  const Shape tokens = {EdgeCase::kHeads, EdgeCase::kTokens, EdgeCase::kSize};
  return {.name = "edge_attention" + name,
          .shapes = {tokens,
                     tokens,
                     tokens,
                     {EdgeCase::kHeads, EdgeCase::kLabels, EdgeCase::kSize},
                     {EdgeCase::kHeads, EdgeCase::kLabels}},
          .run =
              [of](const Context& context, const std::vector<Tensor>& in) {
                const EdgeGroup edges = {.spec = of->spec,
                                         .key = in[1],
                                         .value = in[2],
                                         .label_keys = in[3],
                                         .label_biases = in[4]};
                if (!of->has_window) return edge_attention(context, in[0], edges);
                const KeyGroup window = {.spec = of->window, .key = in[1], .value = in[2]};
                return attention_over(context, in[0], {&window, 1}, {&edges, 1});
              },
          .truth = [of](const Inputs& in) { return of->truth(in); },
          .activations = 3};
}

inline std::vector<Row> edge_rows() {
  const Dropout dropout = {.rate = 0.3f, .seed = 21};
  return {edge_attention_row("", false), edge_attention_row("_with_dropout", false, dropout),
          edge_attention_row("_and_window", true),
          edge_attention_row("_and_window_with_dropout", true, dropout)};
}

}  // namespace longformer::ops
