// The row of the table of gradients for scores of spans (gradient_test.cc).
#pragma once

#include <vector>

#include "gradient_testing.h"
#include "ops/spans.h"
#include "span_testing.h"

namespace longformer::ops {

inline Row span_scores_row() {
  constexpr Index kWidth = 5;
  constexpr float kScale = 0.5f;
  static const std::vector<Index> counts = {3, 1, 0, 4, 2, 2, 1};
  const auto rows = static_cast<Index>(counts.size());
  Row row;
  row.name = "span_scores";
  row.shapes = {{rows, 1}, {rows, 1}, {rows, kWidth}, {rows, kWidth}};
  row.activations = 0;
  row.run = [](const Context& context, const std::vector<Tensor>& in) {
    return span_scores(
        context, SpanTable::of(counts),
        {.starts = in[0], .ends = in[1], .query = in[2], .key = in[3], .scale = kScale});
  };
  row.truth = [](const Inputs& in) {
    const testing_spans::Spans spans = {.counts = counts,
                                        .width = kWidth,
                                        .scale = kScale,
                                        .starts = in[0],
                                        .ends = in[1],
                                        .query = in[2],
                                        .key = in[3]};
    return spans.scores();
  };
  return row;
}

}  // namespace longformer::ops
