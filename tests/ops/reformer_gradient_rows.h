// Rows of the table of gradients (gradient_test.cc): chunks of sorted tokens, layers that are
// undone on the way back, and tables of positions, as in Reformer; means of rows and distances from
// centroids, as in the Routing Transformer.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "gradient_testing.h"
#include "ops/axial_positions.h"
#include "ops/centroids.h"
#include "ops/heads.h"
#include "ops/linear.h"
#include "ops/reversible.h"
#include "ops/sorted_chunks.h"

namespace longformer::ops {

/// Attention of two documents, the second of which has tokens that are keys alone.
struct ChunkCase {
  static constexpr Index kHeads = 2, kSize = 3, kQueries = 16, kKeys = 19;
  SortedChunks spec;

  /// A fixed order for each head and round, with as many places left empty as chunks need.
  static std::vector<std::int32_t> order_of(Index lists, Index keys, Index places) {
    std::vector<std::int32_t> order;
    for (Index list = 0; list < lists; ++list) {
      // Numbers that do not divide the number of keys go through all of them.
      const Index step = std::gcd(keys, 2 * list + 3) == 1 ? 2 * list + 3 : 1;
      for (Index i = 0; i < keys; ++i) {
        order.push_back(static_cast<std::int32_t>((i * step + list) % keys));
      }
      order.resize(at((list + 1) * places), -1);
    }
    return order;
  }

  /// Both ways they see chunks behind their own too, but for a key that is masked.
  ChunkCase(bool sees_itself, bool causal, const Dropout& dropout) {
    spec.heads = kHeads;
    spec.head_size = kSize;
    spec.scale = 0.7f;
    spec.sees_itself = sees_itself;
    spec.causal = causal;
    spec.dropout = dropout;
    spec.documents = {{.rows = {0, 11, 0, 11, 0},
                       .rounds = 2,
                       .places = 12,
                       .chunk = 3,
                       .before = 1,
                       .order = order_of(2 * kHeads, 11, 12)},
                      {.rows = {11, 5, 11, 8, 3},
                       .rounds = 1,
                       .places = 8,
                       .chunk = 2,
                       .before = 5,
                       .order = order_of(1, 8, 8)}};
    if (causal) return;
    spec.documents[0].after = 2;
    spec.documents[0].visible = {1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 1};
    spec.documents[1].after = 1;
  }

  /// Adds what one query sees in one round to its sums: numerators first, the denominator last.
  void add_round(const Inputs& in, const kernels::ChunkedDocument& document, Index head,
                 Index round, Index query, Doubles& sums, Doubles& plain) const {
    const Index lists = document.by_head() ? head * document.rounds : 0;
    const std::int32_t* all = document.order.data() + lists * document.places;
    const std::int32_t* own = all + round * document.places;
    const Index token = query + document.rows.query_offset;
    const Index place = std::find(own, own + document.places, token) - own;
    const Index chunks = document.rounds * document.places / document.chunk;
    const Index chunk = (round * document.places + place) / document.chunk;
    std::uint32_t column = 0;
    const auto number = static_cast<std::uint64_t>(
        ((document.rows.query_begin + query) * kHeads + head) * document.rounds + round);
    for (Index step = -document.before; step <= document.after; ++step) {
      const bool is_beyond = std::max(step, -step) > chunks;
      const Index from = is_beyond ? chunk : (chunk + step + chunks) % chunks;
      for (Index i = 0; i < document.chunk; ++i) {
        const Index key = all[from * document.chunk + i];
        if (key < 0) continue;
        const std::uint32_t here = column++;
        if ((spec.causal && key > token) || (!spec.sees_itself && key == token)) continue;
        if (!document.visible.empty() && document.visible[at(key)] == 0) continue;
        const double* q =
            in[0].data() + (head * kQueries + document.rows.query_begin + query) * kSize;
        const Index row = (head * kKeys + document.rows.key_begin + key) * kSize;
        const double* k = in[1].data() + row;
        const double weight =
            std::exp(static_cast<double>(spec.scale) * (q[0] * k[0] + q[1] * k[1] + q[2] * k[2]));
        double factor = 1;
        if (spec.dropout.active()) {
          const bool is_dropped = spec.dropout.row(number).bits(here) < spec.dropout.threshold();
          factor = is_dropped ? 0 : static_cast<double>(spec.dropout.kept_factor());
        }
        for (Index c = 0; c < kSize; ++c) sums[at(c)] += factor * weight * in[2][at(row + c)];
        plain[0] += weight;
      }
    }
  }

  Doubles truth(const Inputs& in) const {
    Doubles out(at(kQueries * kHeads * kSize));
    for (const auto& document : spec.documents) {
      for (Index head = 0; head < kHeads; ++head) {
        for (Index query = 0; query < document.rows.query_count; ++query) {
          Doubles sums(at(kSize)), denominator(1);
          for (Index round = 0; round < document.rounds; ++round) {
            add_round(in, document, head, round, query, sums, denominator);
          }
          const Index token = query + document.rows.query_offset;
          const double* alone =
              in[2].data() + (head * kKeys + document.rows.key_begin + token) * kSize;
          const Index row = (document.rows.query_begin + query) * kHeads + head;
          for (Index c = 0; c < kSize; ++c) {
            out[at(row * kSize + c)] = denominator[0] > 0 ? sums[at(c)] / denominator[0] : alone[c];
          }
        }
      }
    }
    return out;
  }
};

inline Row chunk_attention_row(const std::string& name, bool sees_itself, bool causal,
                               const Dropout& dropout = {}) {
  const auto of = std::make_shared<const ChunkCase>(sees_itself, causal, dropout);
  const Shape queries = {ChunkCase::kHeads, ChunkCase::kQueries, ChunkCase::kSize};
  const Shape keys = {ChunkCase::kHeads, ChunkCase::kKeys, ChunkCase::kSize};
  return {.name = "chunk_attention" + name,
          .shapes = {queries, keys, keys},
          .run =
              [of](const Context& context, const std::vector<Tensor>& in) {
                return chunk_attention(context, {of, &of->spec}, in[0], in[1], in[2]);
              },
          .truth = [of](const Inputs& in) { return of->truth(in); },
          .activations = 3};
}

/// A layer of x₁ + W x₂ + b and x₂ + W y₁ + b; two would be too large for the rounding of bf16.
inline Row reversible_row(bool keeps) {
  const auto layers = [](const Tensor& weight, const Tensor& bias, const Context& context) {
    // Layers must outlive the backward pass.
    static std::vector<std::shared_ptr<Linear>> all;
    all.push_back(
        std::make_shared<Linear>(std::vector{weight}, std::vector{bias},
                                 LinearOptions{.dtype = context.dtype, .trainable = true}));
    const StreamPart part = [dense = all.back()](const Context& inner, const Tensor& x) {
      return linear(inner, x, *dense, inner.dtype);
    };
    return std::vector<ReversibleLayer>{{part, part}};
  };
  return {.name = keeps ? "joined_columns" : "reversible",
          .shapes = {{kRows, kIn}, {kIn, kIn}, {kIn}},
          .run =
              [layers, keeps](const Context& context, const std::vector<Tensor>& in) {
                const bool is_rounded = context.dtype != DType::f32;
                return keeps || is_rounded
                           ? kept_streams(context, in[0], layers(in[1], in[2], context))
                           : reversible(context, in[0], layers(in[1], in[2], context));
              },
          .truth =
              [](const Inputs& in) {
                Doubles first = in[0], second = in[0], y;
                first = added(first, product(second, in[1], in[2], kIn));
                second = added(second, product(first, in[1], in[2], kIn));
                for (Index row = 0; row < kRows; ++row) {
                  const auto begin = row * kIn;
                  y.insert(y.end(), first.begin() + begin, first.begin() + begin + kIn);
                  y.insert(y.end(), second.begin() + begin, second.begin() + begin + kIn);
                }
                return y;
              }};
}

inline Row axial_positions_row() {
  static const std::vector<Index> places = {0, 7, 3, 11, 7, 5};
  return {.name = "axial_positions",
          .shapes = {{3, 2}, {4, 5}},
          .run =
              [](const Context& context, const std::vector<Tensor>& in) {
                return axial_positions(context, in[0], in[1], places);
              },
          .truth =
              [](const Inputs& in) {
                Doubles y;
                for (const Index place : places) {
                  const auto first = in[0].begin() + place / 4 * 2;
                  const auto second = in[1].begin() + place % 4 * 5;
                  y.insert(y.end(), first, first + 2);
                  y.insert(y.end(), second, second + 5);
                }
                return y;
              },
          .activations = 0};
}

/// Rows that belong to few others, to one, or to none.
inline Row mean_head_rows_row() {
  static constexpr Index kHeads = 2, kFrom = 5, kTo = 4, kSize = 3;
  static const std::vector<Index> places = {2, 0, 2, -1, 2, 3, -1, -1, 0, 1};
  return {
      .name = "mean_head_rows",
      .shapes = {{kFrom, kHeads * kSize}},
      .run =
          [](const Context& context, const std::vector<Tensor>& in) {
            return mean_head_rows(context, in[0],
                                  std::make_shared<const std::vector<Index>>(places), kHeads, kTo);
          },
      .truth =
          [](const Inputs& in) {
            Doubles y(at(kTo * kHeads * kSize));
            for (Index head = 0; head < kHeads; ++head) {
              const auto begin = places.begin() + head * kFrom;
              for (Index i = 0; i < kFrom; ++i) {
                const Index place = begin[i];
                if (place < 0) continue;
                const auto count = static_cast<double>(std::count(begin, begin + kFrom, place));
                for (Index c = head * kSize; c < (head + 1) * kSize; ++c) {
                  y[at(place * kHeads * kSize + c)] += in[0][at(i * kHeads * kSize + c)] / count;
                }
              }
            }
            return y;
          }};
}

/// The rows pass; the sums are those of pattern_lm_test.
inline Row gather_to_centroids_row() {
  return {.name = "gather_to_centroids",
          .shapes = {{2, 3, 2}},
          .run =
              [](const Context& context, const std::vector<Tensor>& in) {
                Tensor centroids = Tensor::zeros({2, 3, 2}, DType::f32);
                centroids.set_gradient(std::make_shared<Gradient>());
                const std::vector<RoutedText> texts = {{0, {2, 0, 1, 1, 0, 2}}};
                return gather_to_centroids(context, in[0], centroids,
                                           std::make_shared<const std::vector<RoutedText>>(texts));
              },
          .truth = [](const Inputs& in) { return in[0]; }};
}

/// Two texts, and a row between them that belongs to none.
inline Row centroid_loss_row() {
  static constexpr Index kHeads = 2, kTokens = 6, kClusters = 3, kSize = 2;
  static const std::vector<RoutedText> texts = {{0, {2, 0, 1, 1, 0, 2}}, {4, {1, 1, 0, 2}}};
  static const std::vector<float> centroids = {0.3f,  -0.2f, 0.5f, 0.1f,  -0.4f, 0.7f,
                                               -0.1f, 0.2f,  0.6f, -0.3f, 0.0f,  0.4f};
  return {.name = "centroid_loss",
          .shapes = {{kHeads, kTokens, kSize}},
          .run =
              [](const Context& context, const std::vector<Tensor>& in) {
                return centroid_loss(context, in[0],
                                     Tensor::from(centroids, {kHeads, kClusters, kSize}),
                                     std::make_shared<const std::vector<RoutedText>>(texts),
                                     {.factor = 0.5f, .weight = 3});
              },
          .truth =
              [](const Inputs& in) {
                double sum = 0, count = 0;
                for (const RoutedText& text : texts) {
                  const Index rows = std::ssize(text.nearest) / kHeads;
                  for (Index i = 0; i < kHeads * rows; ++i) {
                    const Index head = i / rows;
                    const Index row = (head * kTokens + text.begin + i % rows) * kSize;
                    const Index centroid = (head * kClusters + text.nearest[at(i)]) * kSize;
                    for (Index c = 0; c < kSize; ++c) {
                      const double apart = 0.5 * in[0][at(row + c)] -
                                           static_cast<double>(centroids[at(centroid + c)]);
                      sum += apart * apart;
                      ++count;
                    }
                  }
                }
                return Doubles{3 * sum / count};
              }};
}

inline std::vector<Row> reformer_rows() {
  const Dropout dropout = {.rate = 0.3f, .seed = 9};
  return {chunk_attention_row("", true, true),
          chunk_attention_row("_of_others", false, true),
          chunk_attention_row("_both_ways", false, false),
          chunk_attention_row("_both_ways_and_itself", true, false, dropout),
          chunk_attention_row("_with_dropout", false, true, dropout),
          reversible_row(false),
          reversible_row(true),
          axial_positions_row(),
          mean_head_rows_row(),
          gather_to_centroids_row(),
          centroid_loss_row()};
}

}  // namespace longformer::ops
