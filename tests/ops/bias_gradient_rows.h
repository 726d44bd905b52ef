// Rows of the table of gradients for biases by distance (gradient_test.cc).
#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "gradient_testing.h"
#include "ops/attention.h"
#include "ops/distance_bias.h"
#include "ops/distance_keys.h"

namespace longformer::ops {

/// Two documents with a masked token; distances reach beyond the biases.
inline Row attention_with_biases_row() {
  constexpr Index kHeads = 2, kSize = 3, kTokens = 8, kColumns = 5;
  AttentionSpec spec;
  spec.head_size = kSize;
  spec.heads.assign(at(kHeads), {3, 2, 1});
  spec.distance_bias = true;
  auto rows = kernels::self_attention_rows(std::array<Index, 3>{0, 3, kTokens});
  rows.key_mask = {1, 1, 1, 1, 0, 1, 1, 1};
  spec.rows = kernels::shared(std::move(rows));
  const Shape tokens = {kHeads, kTokens, kSize};
  Row row;
  row.name = "attention_with_biases";
  row.shapes = {tokens, tokens, tokens, {kHeads, kColumns}};
  row.activations = 3;
  row.run = [spec](const Context& context, const std::vector<Tensor>& in) {
    const KeyGroup keys = {.spec = spec, .key = in[1], .value = in[2], .distance_bias = in[3]};
    return attention_over(context, in[0], {&keys, 1});
  };
  row.truth = [spec, shapes = row.shapes](const Inputs& in) {
    std::vector<Tensor> x;
    for (std::size_t i = 0; i < in.size(); ++i) x.push_back(doubles_tensor(in[i], shapes[i]));
    return kernels::reference_attention<double>(spec, x[0], x[1], x[2], {.distance_bias = &x[3]})
        .out;
  };
  return row;
}

/// More rows than buckets, and distances that share one.
inline Row bucket_biases_row() {
  constexpr Index kHeads = 3, kTable = 14;
  static constexpr DistanceBuckets kBuckets = {.count = 12, .farthest = 10};
  return {
      .name = "bucket_biases",
      .shapes = {{kTable, kHeads}},
      .run = [](const Context& context,
                const std::vector<Tensor>& in) { return bucket_biases(context, in[0], kBuckets); },
      .truth =
          [](const Inputs& in) {
            Doubles biases;
            for (Index head = 0; head < kHeads; ++head) {
              for (Index t = -kBuckets.farthest; t <= kBuckets.farthest; ++t) {
                biases.push_back(in[0][at(distance_bucket(t, kBuckets) * kHeads + head)]);
              }
            }
            return biases;
          },
      .activations = 0};
}

/// Two documents with a masked token; far distances share rows.
inline Row attention_with_distance_keys_row() {
  constexpr Index kHeads = 2, kSize = 3, kTokens = 8, kDistances = 6;
  AttentionSpec spec;
  spec.head_size = kSize;
  spec.heads.assign(at(kHeads), {kernels::kUnlimitedReach, kernels::kUnlimitedReach, 1});
  spec.distance_keys = true;
  auto rows = kernels::self_attention_rows(std::array<Index, 3>{0, 3, kTokens});
  rows.key_mask = {1, 1, 1, 1, 0, 1, 1, 1};
  spec.rows = kernels::shared(std::move(rows));
  const auto places =
      std::make_shared<const std::vector<std::int32_t>>(distance_rows({.count = 3, .most = 5}, 4));
  const Shape tokens = {kHeads, kTokens, kSize}, distances = {kHeads, kDistances, kSize};
  Row row;
  row.name = "attention_with_distance_keys";
  row.shapes = {tokens, tokens, tokens, distances, distances};
  row.activations = 5;
  row.run = [spec, places](const Context& context, const std::vector<Tensor>& in) {
    const KeyGroup keys = {
        .spec = spec,
        .key = in[1],
        .value = in[2],
        .distance_keys = DistanceKeys{.keys = in[3], .queries = in[4], .rows = places}};
    return attention_over(context, in[0], {&keys, 1});
  };
  row.truth = [spec, places, shapes = row.shapes](const Inputs& in) {
    std::vector<Tensor> x;
    for (std::size_t i = 0; i < in.size(); ++i) x.push_back(doubles_tensor(in[i], shapes[i]));
    const kernels::DistanceKeys given = {.keys = &x[3], .queries = &x[4], .rows = *places};
    return kernels::reference_attention<double>(spec, x[0], x[1], x[2], {.distance_keys = &given})
        .out;
  };
  return row;
}

inline Row scaled_row() {
  return {.name = "scaled",
          .shapes = {{kRows, kIn}},
          .run = [](const Context& context,
                    const std::vector<Tensor>& in) { return scaled(context, in[0], 0.75f); },
          .truth =
              [](const Inputs& in) {
                Doubles y = in[0];
                for (double& value : y) value *= 0.75;
                return y;
              }};
}

inline std::vector<Row> bias_rows() {
  return {attention_with_biases_row(), bucket_biases_row(), attention_with_distance_keys_row(),
          scaled_row()};
}

}  // namespace longformer::ops
