// One query that attends to nothing but what it sees, for rows that tiles cannot do: those that see
// everything, and those beside a value that is not finite, whose weight 0 would still leave NaN.
#pragma once

#include "kernels/attention/attention.h"

namespace longformer::kernels {

struct AttentionTensors {
  const Tensor& query;
  const Tensor& key;
  const Tensor& value;
};

/// Writes the output of query `row` of a head, [head size] in fp32, and returns its logsumexp, −∞
/// where it sees nothing. Knows neither dropout nor relative positions.
float attend_visible(const AttentionSpec& spec, const AttentionTensors& in,
                     const AttentionDocument& document, Index head, Index row, float* out);

}  // namespace longformer::kernels
