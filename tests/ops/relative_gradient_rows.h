// Rows of the table of gradients (gradient_test.cc): terms of relative positions in both
// directions, and rows that are pooled.
#pragma once

#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "gradient_testing.h"
#include "ops/attention.h"
#include "ops/pooled_rows.h"
#include "ops/relative_terms.h"

namespace longformer::ops {

/// A document of five keys, of which three rows are queries two keys apart; the first row of both
/// has no place.
inline Row attention_with_places_row() {
  constexpr Index kHeads = 2, kSize = 3, kKeys = 5, kQueries = 3, kKinds = 2;
  AttentionSpec spec;
  spec.head_size = kSize;
  spec.heads.assign(at(kHeads), {kernels::kUnlimitedReach, kernels::kUnlimitedReach, 1});
  spec.relative_positions = true;
  kernels::AttentionRows rows;
  rows.documents.push_back({.query_count = kQueries, .key_count = kKeys});
  constexpr Index kNone = kernels::RowPlaces::kNone;
  rows.places = {.queries = {kNone, 0, 2},
                 .keys = {kNone, 0, 1, 2, 3},
                 .origin = 3,
                 .key_kinds = {kernels::RowPlaces::kNoKind, 0, 1, 1, 0}};
  spec.rows = kernels::shared(std::move(rows));
  const Shape keys = {kHeads, kKeys, kSize}, bias = {kHeads, kSize};
  Row row = {.name = "attention_with_places",
             .shapes = {{kHeads, kQueries, kSize},
                        keys,
                        keys,
                        {kHeads, 6, kSize},
                        {kHeads, kQueries, kKinds},
                        bias,
                        bias},
             .run = {},
             .truth = {},
             .activations = 4};
  row.run = [spec](const Context& context, const std::vector<Tensor>& in) {
    // Scores are fp32 in every dtype.
    const RelativePositions relative = {in[5], in[6], in[3], in[4]};
    return attention(context, spec, in[0], in[1], in[2], &relative);
  };
  row.truth = [spec, shapes = row.shapes](const Inputs& in) {
    std::vector<Tensor> x;
    for (std::size_t i = 0; i < in.size(); ++i) x.push_back(doubles_tensor(in[i], shapes[i]));
    const kernels::RelativePositions relative = {x[5], x[6], x[3], &x[4]};
    return kernels::reference_attention<double>(spec, x[0], x[1], x[2], {.relative = &relative})
        .out;
  };
  return row;
}

/// The table is a constant.
inline Row table_heads_row() {
  constexpr Index kHeads = 2, kSize = 3, kDistances = 7;
  static const Tensor table = random_normal_tensor({kDistances, kIn}, 1, 23);
  return {.name = "table_heads",
          .shapes = {{kIn, kHeads, kSize}},
          .run = [](const Context& context,
                    const std::vector<Tensor>& in) { return table_heads(context, table, in[0]); },
          .truth =
              [](const Inputs& in) {
                const std::vector<float> sines = table.to_floats();
                Doubles y;
                for (Index head = 0; head < kHeads; ++head) {
                  for (Index row = 0; row < kDistances; ++row) {
                    for (Index c = 0; c < kSize; ++c) {
                      double sum = 0;
                      for (Index i = 0; i < kIn; ++i) {
                        sum += static_cast<double>(sines[at(row * kIn + i)]) *
                               in[0][at((i * kHeads + head) * kSize + c)];
                      }
                      y.push_back(sum);
                    }
                  }
                }
                return y;
              },
          .activations = 0};
}

inline Row kind_scores_row() {
  constexpr Index kHeads = 2, kSize = 5, kQueries = 4, kKinds = 3;
  using Relations = KindRelations;
  static const auto relations = std::make_shared<const KindRelations>(KindRelations{
      .kinds = kKinds,
      .of_query = {Relations::kNone, Relations::kNone, Relations::kNone, Relations::kSame,
                   Relations::kOther, Relations::kSame, Relations::kOther, Relations::kSame,
                   Relations::kSame, Relations::kSame, Relations::kNone, Relations::kOther}});
  return {.name = "kind_scores",
          .shapes = {{kHeads, kQueries, kSize}, {kHeads, kSize}, {2, kHeads, kSize}},
          .run =
              [](const Context& context, const std::vector<Tensor>& in) {
                return kind_scores(context, in[0], {in[1], in[2]}, relations);
              },
          .truth =
              [](const Inputs& in) {
                Doubles y;
                for (Index head = 0; head < kHeads; ++head) {
                  for (Index i = 0; i < kQueries; ++i) {
                    for (Index kind = 0; kind < kKinds; ++kind) {
                      const int which = relations->of_query[at(i * kKinds + kind)];
                      double sum = 0;
                      for (Index c = 0; c < kSize && which != Relations::kNone; ++c) {
                        const Index of_head = head * kSize + c;
                        sum += (in[0][at((head * kQueries + i) * kSize + c)] + in[1][at(of_head)]) *
                               in[2][at(which * kHeads * kSize + of_head)];
                      }
                      y.push_back(sum / std::sqrt(static_cast<double>(kSize)));
                    }
                  }
                }
                return y;
              }};
}

inline Row pool_rows_row(RowPooling pooling) {
  static const auto ranges = std::make_shared<const std::vector<kernels::RowRange>>(
      std::vector<kernels::RowRange>{{0, 1}, {1, 3}, {3, 5}, {5, 8}, {18, 19}});
  return {.name = pooling == RowPooling::mean ? "pool_rows" : "pool_rows_largest",
          .shapes = {{kRows, kIn}},
          .run =
              [pooling](const Context& context, const std::vector<Tensor>& in) {
                return pool_rows(context, in[0], ranges, pooling);
              },
          .truth =
              [pooling](const Inputs& in) {
                Doubles y;
                for (const auto& [begin, end] : *ranges) {
                  for (Index c = 0; c < kIn; ++c) {
                    double sum = 0, most = -std::numeric_limits<double>::infinity();
                    for (Index row = begin; row < end; ++row) {
                      sum += in[0][at(row * kIn + c)] / static_cast<double>(end - begin);
                      most = std::max(most, in[0][at(row * kIn + c)]);
                    }
                    y.push_back(pooling == RowPooling::mean ? sum : most);
                  }
                }
                return y;
              }};
}

inline std::vector<Row> relative_rows() {
  return {attention_with_places_row(), table_heads_row(), kind_scores_row(),
          pool_rows_row(RowPooling::mean), pool_rows_row(RowPooling::largest)};
}

}  // namespace longformer::ops
