// Rows of the table of gradients for attention (gradient_test.cc).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "feature_testing.h"
#include "gradient_testing.h"
#include "ops/attention.h"
#include "ops/feature_attention.h"

namespace longformer::ops {

/// Two documents with a masked token; with positions causal, else with a global token.
inline Row attention_row(bool positions) {
  constexpr Index kHeads = 2, kSize = 3, kTokens = 8, kDistances = 4;
  AttentionSpec spec;
  spec.head_size = kSize;
  spec.heads.assign(at(kHeads), {3, positions ? 0 : 2, 1});
  spec.causal = spec.relative_positions = positions;
  auto rows = kernels::self_attention_rows(std::array<Index, 3>{0, 3, kTokens});
  rows.key_mask = {1, 1, 1, 1, 0, 1, 1, 1};
  if (!positions) rows.global_keys = {3};
  spec.rows = kernels::shared(std::move(rows));
  const Shape tokens = {kHeads, kTokens, kSize}, bias = {kHeads, kSize};
  Row row;
  row.name = positions ? "attention_with_positions" : "attention";
  row.shapes = {tokens, tokens, tokens};
  row.activations = positions ? 4 : 3;
  if (positions) row.shapes.insert(row.shapes.end(), {{kHeads, kDistances, kSize}, bias, bias});
  row.run = [spec, positions](const Context& context, const std::vector<Tensor>& in) {
    if (!positions) return attention(context, spec, in[0], in[1], in[2]);
    const RelativePositions relative = {in[4], in[5], in[3]};
    return attention(context, spec, in[0], in[1], in[2], &relative);
  };
  row.truth = [spec, positions, shapes = row.shapes](const Inputs& in) {
    std::vector<Tensor> x;
    for (std::size_t i = 0; i < in.size(); ++i) x.push_back(doubles_tensor(in[i], shapes[i]));
    if (!positions) return kernels::reference_attention<double>(spec, x[0], x[1], x[2]).out;
    const kernels::RelativePositions relative = {x[4], x[5], x[3]};
    return kernels::reference_attention<double>(spec, x[0], x[1], x[2], {.relative = &relative})
        .out;
  };
  return row;
}

/// Queries that see keys of their own and those of two other groups, whose distances begin further
/// away: the truth is one softmax over all.
inline Row groups_row() {
  constexpr Index kHeads = 2, kSize = 3, kTokens = 5, kDistances = 16;
  const std::array<Index, 3> counts = {4, 3, kTokens}, offsets = {4, 3, 0};
  AttentionSpec spec;
  spec.head_size = kSize;
  spec.heads.assign(at(kHeads), {.reach_left = kernels::kUnlimitedReach});
  spec.causal = spec.relative_positions = true;
  std::vector<AttentionSpec> specs(3, spec);
  Row row;
  row.name = "attention_over_groups";
  const Shape bias = {kHeads, kSize}, distances = {kHeads, kDistances, kSize};
  row.shapes = {{kHeads, kTokens, kSize}};
  for (std::size_t g = 0; g < 3; ++g) {
    kernels::AttentionRows rows;
    rows.documents.push_back(
        {.query_count = kTokens, .key_count = counts[g], .query_offset = offsets[g]});
    specs[g].rows = kernels::shared(std::move(rows));
    const Shape keys = {kHeads, counts[g], kSize};
    row.shapes.insert(row.shapes.end(), {keys, keys});
  }
  row.activations = 7 + 2;
  row.shapes.insert(row.shapes.end(), {distances, distances, bias, bias, bias});
  row.run = [specs](const Context& context, const std::vector<Tensor>& in) {
    std::vector<KeyGroup> groups;
    for (std::size_t g = 0; g < 3; ++g) {
      groups.push_back({specs[g], in[1 + 2 * g], in[2 + 2 * g],
                        RelativePositions{in[9], in[g == 0 ? 10 : 11], in[g == 0 ? 7 : 8]}});
    }
    return attention_over(context, in[0], groups);
  };
  row.truth = [counts, offsets](const Inputs& in) {
    Doubles out(at(kTokens * kHeads * kSize));
    const auto value = [&](std::size_t input, Index rows, Index head, Index row, Index c) {
      return in[input][at((head * rows + row) * kSize + c)];
    };
    for (Index h = 0; h < kHeads; ++h) {
      for (Index i = 0; i < kTokens; ++i) {
        double sum = 0;
        std::array<double, kSize> mean = {};
        for (std::size_t g = 0; g < 3; ++g) {
          for (Index j = 0; j < counts[g] && j <= offsets[g] + i; ++j) {
            double score = 0;
            for (Index c = 0; c < kSize; ++c) {
              const double q = value(0, kTokens, h, i, c);
              const double u = in[9][at(h * kSize + c)];
              const double v = in[g == 0 ? 10 : 11][at(h * kSize + c)];
              score += (q + u) * value(1 + 2 * g, counts[g], h, j, c) +
                       (q + v) * value(g == 0 ? 7 : 8, kDistances, h, offsets[g] + i - j, c);
            }
            const double weight = std::exp(score / std::sqrt(static_cast<double>(kSize)));
            sum += weight;
            for (Index c = 0; c < kSize; ++c) {
              mean[at(c)] += weight * value(2 + 2 * g, counts[g], h, j, c);
            }
          }
        }
        for (Index c = 0; c < kSize; ++c) {
          out[at((i * kHeads + h) * kSize + c)] = mean[at(c)] / sum;
        }
      }
    }
    return out;
  };
  return row;
}

/// Two documents, one of them longer than what is computed at once, with a masked token.
inline Row feature_row(const std::string& name, const kernels::FeatureMap& map, bool causal) {
  constexpr Index kHeads = 1, kTokens = 70;
  const std::array<Index, 3> starts = {0, 4, kTokens};
  const Index size = map.head_size;
  FeatureAttentionSpec spec = {map, kHeads, causal, nullptr};
  auto rows = kernels::self_attention_rows(starts);
  rows.key_mask.assign(at(kTokens), 1);
  rows.key_mask[9] = 0;
  spec.rows = kernels::shared(std::move(rows));
  Row row;
  row.name = "feature_attention_" + name;
  row.shapes.assign(3, {kHeads, kTokens, size});
  row.activations = 3;
  const Tensor directions = random_normal_tensor({map.directions, size}, 1, 17);
  row.run = [spec, directions](const Context& context, const std::vector<Tensor>& in) {
    return feature_attention(context, spec, in, directions);
  };
  row.truth = [spec, directions, starts,
               maxima = std::make_shared<kernels::Maxima>()](const Inputs& in) {
    maxima->place = 0;
    const std::vector<float> floats = directions.to_floats();
    const Doubles omega(floats.begin(), floats.end());
    const Index d = spec.map.head_size;
    Doubles out(at(kTokens * kHeads * d));
    for (Index head = 0; head < kHeads; ++head) {
      for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
        const auto part = [&](const Doubles& x) {
          return Doubles(x.begin() + (head * kTokens + starts[i]) * d,
                         x.begin() + (head * kTokens + starts[i + 1]) * d);
        };
        const std::vector<std::uint8_t> mask(spec.rows->key_mask.begin() + starts[i],
                                             spec.rows->key_mask.begin() + starts[i + 1]);
        const Doubles found =
            kernels::true_feature_attention(spec.map, spec.causal, part(in[0]), part(in[1]),
                                            part(in[2]), omega, mask, maxima.get());
        for (Index token = starts[i]; token < starts[i + 1]; ++token) {
          std::copy_n(found.begin() + (token - starts[i]) * d, d,
                      out.begin() + (token * kHeads + head) * d);
        }
      }
    }
    return out;
  };
  return row;
}

/// Every kernel, in one direction and in both.
inline std::vector<Row> feature_rows() {
  using kernels::FeatureKernel;
  constexpr Index kSize = 3, kDirections = 5;
  std::vector<Row> rows;
  const auto add = [&](const std::string& name, const kernels::FeatureMap& map) {
    rows.push_back(feature_row(name, map, false));
    if (!map.has_floor()) rows.push_back(feature_row(name + "_causal", map, true));
  };
  add("softmax", {FeatureKernel::softmax, kSize, kDirections});
  add("hyperbolic", {FeatureKernel::hyperbolic, kSize, kDirections});
  add("floor", {FeatureKernel::softmax, kSize, kDirections, 1e-2});
  add("trigonometric", {FeatureKernel::trigonometric, kSize, 40});
  add("relu", {FeatureKernel::relu, kSize, kDirections, 1e-3, false});
  add("elu", {FeatureKernel::elu, kSize, 0, 0, false});
  return rows;
}

}  // namespace longformer::ops
