// Every op that records a backward pass has a row: its forward pass against plain loops in double,
// its gradients against central differences of those. The losses have a table of their own.
//
// Reruns: tsan
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "activation_truth.h"
#include "attention_gradient_rows.h"
#include "bias_gradient_rows.h"
#include "block_gradient_rows.h"
#include "convolution_gradient_rows.h"
#include "core/memory.h"
#include "core/random.h"
#include "doubles.h"
#include "edge_gradient_rows.h"
#include "fixtures.h"
#include "gradient_testing.h"
#include "low_rank_gradient_rows.h"
#include "modern_gradient_rows.h"
#include "ops/dropout.h"
#include "ops/embedding.h"
#include "ops/feed_forward.h"
#include "ops/global_attention.h"
#include "ops/gradients.h"
#include "ops/loss.h"
#include "ops/normalization.h"
#include "ops/positions.h"
#include "ops/recompute.h"
#include "ops/residual.h"
#include "reformer_gradient_rows.h"
#include "relative_gradient_rows.h"
#include "slot_gradient_rows.h"
#include "span_gradient_rows.h"
#include "span_mask_gradient_rows.h"
#include "vector_gradient_rows.h"

namespace longformer::ops::gradient_test {
namespace {

Doubles activated_all(Doubles x, Activation activation) {
  for (double& value : x) value = activation_truth(value, activation);
  return x;
}

Row linear_row(const std::string& name, std::optional<Activation> activation) {
  return {.name = "linear" + name,
          .shapes = {{kRows, kIn}, {kOut, kIn}, {kOut}},
          .run =
              [activation](const Context& context, const std::vector<Tensor>& in) {
                return linear(context, in[0], layer(context, in[1], in[2], activation),
                              context.dtype);
              },
          .truth =
              [activation](const Inputs& in) {
                const Doubles y = product(in[0], in[1], in[2], kIn);
                return activation ? activated_all(y, *activation) : y;
              }};
}

Row linear_add_norm_row(const Dropout& dropout) {
  return {.name = dropout.active() ? "linear_add_norm_with_dropout" : "linear_add_norm",
          .shapes = {{kRows, kIn}, {kRows, kOut}, {kOut, kIn}, {kOut}, {kOut}, {kOut}},
          .run =
              [dropout](const Context& context, const std::vector<Tensor>& in) {
                return linear_add_norm(context, in[0], layer(context, in[2], in[3]), in[1],
                                       norm_of(in[4], in[5]), dropout);
              },
          .truth =
              [dropout](const Inputs& in) {
                return normalised(added(dropped(product(in[0], in[2], in[3], kIn), dropout), in[1]),
                                  in[4], in[5]);
              },
          .activations = 2};
}

Row linear_norm_row() {
  return {.name = "linear_norm",
          .shapes = {{kRows, kIn}, {kOut, kIn}, {kOut}, {kOut}, {kOut}},
          .run =
              [](const Context& context, const std::vector<Tensor>& in) {
                return linear_norm(context, in[0], layer(context, in[1], in[2]),
                                   norm_of(in[3], in[4]));
              },
          .truth =
              [](const Inputs& in) {
                return normalised(product(in[0], in[1], in[2], kIn), in[3], in[4]);
              }};
}

Row linear_add_row(const Dropout& dropout) {
  return {.name = dropout.active() ? "linear_add_with_dropout" : "linear_add",
          .shapes = {{kRows, kIn}, {kRows, kOut}, {kOut, kIn}, {kOut}},
          .run =
              [dropout](const Context& context, const std::vector<Tensor>& in) {
                return linear_add(context, in[0], layer(context, in[2], in[3]), in[1], dropout);
              },
          .truth =
              [dropout](const Inputs& in) {
                return added(dropped(product(in[0], in[2], in[3], kIn), dropout), in[1]);
              },
          .activations = 2};
}

/// From x [kRows, kIn] by way of kOut wide rows back to kIn.
FeedForward& feed_forward(const Context& context, std::span<const Tensor> weights) {
  return kept(FeedForward{
      .up = Linear(std::vector{weights[0]}, std::vector{weights[1]},
                   {.dtype = context.dtype, .activation = Activation::gelu, .trainable = true}),
      .down = Linear(std::vector{weights[2]}, std::vector{weights[3]},
                     {.dtype = context.dtype, .trainable = true})});
}

Row feed_forward_add_row(const FeedForwardDropout& dropout) {
  return {
      .name = dropout.inner.active() ? "feed_forward_add_with_dropout" : "feed_forward_add",
      .shapes = {{kRows, kIn}, {kRows, kIn}, {kOut, kIn}, {kOut}, {kIn, kOut}, {kIn}},
      .run =
          [dropout](const Context& context, const std::vector<Tensor>& in) {
            return feed_forward_add(context, in[0], feed_forward(context, std::span(in).subspan(2)),
                                    in[1], dropout);
          },
      .truth =
          [dropout](const Inputs& in) {
            const Doubles wide = dropped(
                activated_all(product(in[0], in[2], in[3], kIn), Activation::gelu), dropout.inner);
            return added(dropped(product(wide, in[4], in[5], kOut), dropout.outer), in[1]);
          },
      .activations = 2};
}

/// Heads of 4 × 3 sections of 5 columns; two heads take the same.
Row head_sections_row() {
  constexpr Index kHeads = 4, kSections = 3, kLength = 2, kWidth = 5;
  static const std::vector<Index> chosen = {2, 0, 1, 0};
  return {.name = "head_sections",
          .shapes = {{kHeads, kSections * kLength, kWidth}},
          .run =
              [](const Context& context, const std::vector<Tensor>& in) {
                return head_sections(context, in[0], kLength, chosen);
              },
          .truth =
              [](const Inputs& in) {
                Doubles y;
                for (Index head = 0; head < kHeads; ++head) {
                  const Index first = head * kSections * kLength + chosen[at(head)] * kLength;
                  for (Index i = 0; i < kLength * kWidth; ++i) {
                    y.push_back(in[0][at(first * kWidth + i)]);
                  }
                }
                return y;
              }};
}

Row feed_forward_row(const FeedForwardDropout& dropout) {
  return {.name = dropout.inner.active() ? "feed_forward_with_dropout" : "feed_forward",
          .shapes = {{kRows, kIn}, {kOut, kIn}, {kOut}, {kIn, kOut}, {kIn}, {kIn}, {kIn}},
          .run =
              [dropout](const Context& context, const std::vector<Tensor>& in) {
                return feed_forward_add_norm(context, in[0],
                                             feed_forward(context, std::span(in).subspan(1)),
                                             norm_of(in[5], in[6]), dropout);
              },
          .truth =
              [dropout](const Inputs& in) {
                const Doubles wide =
                    dropped(activated_all(product(in[0], in[1], in[2], kIn), Activation::gelu),
                            dropout.inner);
                const Doubles y = dropped(product(wide, in[3], in[4], kOut), dropout.outer);
                return normalised(added(y, in[0]), in[5], in[6]);
              }};
}

/// Heads of 4 of the stacked projections of 8 columns each, one behind the other.
Row project_heads_row() {
  return {.name = "project_heads",
          .shapes = {{kRows, kIn}, {8, kIn}, {8}, {8, kIn}, {8}},
          .run =
              [](const Context& context, const std::vector<Tensor>& in) {
                auto& stacked = kept(Linear(std::vector{in[1], in[3]}, std::vector{in[2], in[4]},
                                            {.dtype = context.dtype, .trainable = true}));
                const auto parts = project_heads(context, in[0], stacked, 2, 4);
                // Both as one value, so that there is one gradient to give.
                Tensor both = context.memory.tensor({4, kRows, 4}, context.dtype);
                const std::size_t half = parts[0].bytes();
                std::memcpy(both.raw(), parts[0].raw(), half);
                std::memcpy(static_cast<std::byte*>(both.raw()) + half, parts[1].raw(), half);
                record(context, "both", both, [context, parts](Tensor gradient) {
                  send_gradient(context, parts[0], gradient.slice_rows(0, 2));
                  send_gradient(context, parts[1], gradient.slice_rows(2, 2));
                });
                return both;
              },
          .truth =
              [](const Inputs& in) {
                Doubles all;
                for (const std::size_t part : {1, 3}) {
                  const Doubles y = product(in[0], in[part], in[part + 1], kIn);
                  for (Index head = 0; head < 2; ++head) {
                    for (Index row = 0; row < kRows; ++row) {
                      for (Index c = 0; c < 4; ++c) all.push_back(y[at(row * 8 + head * 4 + c)]);
                    }
                  }
                }
                return all;
              }};
}

Row embed_row(const Dropout& dropout) {
  static const std::vector<std::int32_t> words = {3, 1, 4, 1, 5, 2, 0, 5};
  static const std::vector<std::int32_t> positions = {2, 3, 4, 5, 6, 1, 1, 2};
  static const std::vector<std::int32_t> types = {0, 1, 1, 0, 0, 1, 0, 1};
  return {
      .name = dropout.active() ? "embed_with_dropout" : "embed",
      .shapes = {{6, kIn}, {7, kIn}, {2, kIn}, {kIn}, {kIn}},
      .run =
          [dropout](const Context& context, const std::vector<Tensor>& in) {
            auto& tables = kept(EmbeddingTables{
                .words = in[0], .positions = in[1], .types = in[2], .norm = norm_of(in[3], in[4])});
            return embed(context, tables, {words, positions, types}, dropout);
          },
      .truth =
          [dropout](const Inputs& in) {
            Doubles x;
            for (std::size_t i = 0; i < words.size(); ++i) {
              for (Index c = 0; c < kIn; ++c) {
                x.push_back(in[0][at(words[i] * kIn + c)] + in[1][at(positions[i] * kIn + c)] +
                            in[2][at(types[i] * kIn + c)]);
              }
            }
            return dropped(normalised(x, in[3], in[4]), dropout);
          },
      .activations = 0};
}

Row embed_scaled_row(const Dropout& dropout) {
  static const std::vector<std::int32_t> ids = {3, 1, 4, 1, 5, 2, 0, 5};
  return {.name = dropout.active() ? "embed_scaled_with_dropout" : "embed_scaled",
          .shapes = {{6, kIn}},
          .run =
              [dropout](const Context& context, const std::vector<Tensor>& in) {
                return embed_scaled(context, in[0], ids, 2.5f, dropout);
              },
          .truth =
              [dropout](const Inputs& in) {
                Doubles x;
                for (const std::int32_t id : ids) {
                  for (Index c = 0; c < kIn; ++c) x.push_back(2.5 * in[0][at(id * kIn + c)]);
                }
                return dropped(x, dropout);
              },
          .activations = 0};
}

const std::vector<RowRange> kRanges = {{0, 3}, {4, 5}, {2, 19}};

Row max_rows_row() {
  return {.name = "max_rows",
          .shapes = {{kRows, kIn}},
          .run = [](const Context& context,
                    const std::vector<Tensor>& in) { return max_rows(context, in[0], kRanges); },
          .truth =
              [](const Inputs& in) {
                Doubles y;
                for (const RowRange& range : kRanges) {
                  for (Index c = 0; c < kIn; ++c) {
                    double highest = -INFINITY;
                    for (Index row = range.begin; row < range.end; ++row) {
                      highest = std::max(highest, in[0][at(row * kIn + c)]);
                    }
                    y.push_back(highest);
                  }
                }
                return y;
              }};
}

/// A linear layer that is computed again.
Row recompute_row() {
  Row row = linear_row("", std::nullopt);
  row.name = "recompute";
  row.run = [](const Context& context, const std::vector<Tensor>& in) {
    Linear& dense = layer(context, in[1], in[2]);
    return recompute(context, {in[0]}, [&dense](const Context& inner, std::span<const Tensor> x) {
      return std::vector<Tensor>{linear(inner, x[0], dense, inner.dtype)};
    })[0];
  };
  return row;
}

Row square_difference_row() {
  static const Tensor target = random_normal_tensor({kRows, kIn}, 1, 77);
  return {.name = "mean_square_difference",
          .shapes = {{kRows, kIn}},
          .run =
              [](const Context& context, const std::vector<Tensor>& in) {
                return mean_square_difference(context, in[0], target.to(in[0].dtype()));
              },
          .truth =
              [](const Inputs& in) {
                const std::vector<float> y = target.to_floats();
                double sum = 0;
                for (std::size_t i = 0; i < y.size(); ++i) {
                  sum += (in[0][i] - static_cast<double>(y[i])) *
                         (in[0][i] - static_cast<double>(y[i]));
                }
                return Doubles{sum / static_cast<double>(y.size())};
              }};
}

Row rows_row(bool sums) {
  static const std::vector<Index> chosen = {4, 0, 4, 18};
  static const std::vector<RowRange> ranges = {{0, 3}, {5, 5}, {2, 19}};
  return {.name = sums ? "sum_rows" : "select_rows",
          .shapes = {{kRows, kIn}},
          .run =
              [sums](const Context& context, const std::vector<Tensor>& in) {
                return sums ? sum_rows(context, in[0], ranges)
                            : select_rows(context, in[0], chosen);
              },
          .truth =
              [sums](const Inputs& in) {
                Doubles y;
                const std::size_t count = sums ? ranges.size() : chosen.size();
                for (std::size_t i = 0; i < count; ++i) {
                  const RowRange range = sums ? ranges[i] : RowRange{chosen[i], chosen[i] + 1};
                  for (Index c = 0; c < kIn; ++c) {
                    double sum = 0;
                    for (Index row = range.begin; row < range.end; ++row) {
                      sum += in[0][at(row * kIn + c)];
                    }
                    y.push_back(sum);
                  }
                }
                return y;
              }};
}

Row mean_rows_row(RowDivisor divisor) {
  static const std::vector<RowRange> ranges = {{0, 3}, {2, 19}};
  const bool root = divisor == RowDivisor::root;
  return {.name = root ? "mean_rows_by_root" : "mean_rows",
          .shapes = {{kRows, kIn}},
          .run =
              [divisor](const Context& context, const std::vector<Tensor>& in) {
                return mean_rows(context, in[0], ranges, divisor);
              },
          .truth =
              [root](const Inputs& in) {
                Doubles y(ranges.size() * kIn);
                for (std::size_t i = 0; i < y.size(); ++i) {
                  const auto [begin, end] = ranges[i / kIn];
                  const auto count = static_cast<double>(end - begin);
                  for (Index row = begin; row < end; ++row) {
                    y[i] += in[0][at(row * kIn) + i % kIn] / (root ? std::sqrt(count) : count);
                  }
                }
                return y;
              }};
}

Row joined_rows_row() {
  return {.name = "joined_rows",
          .shapes = {{kRows, kIn}, {3, kIn}},
          .run = [](const Context& context,
                    const std::vector<Tensor>& in) { return joined_rows(context, in); },
          .truth =
              [](const Inputs& in) {
                Doubles y(in[0].begin(), in[0].end());
                y.insert(y.end(), in[1].begin(), in[1].end());
                return y;
              },
          .activations = 2};
}

Row dropout_row() {
  const Dropout dropout = {.rate = 0.4f, .seed = 5};
  return {.name = "dropout",
          .shapes = {{kRows, kIn}},
          .run =
              [dropout](const Context& context, const std::vector<Tensor>& in) {
                return ops::dropout(context, in[0], dropout);
              },
          .truth = [dropout](const Inputs& in) { return dropped(in[0], dropout); }};
}

Row layer_norm_row() {
  return {.name = "layer_norm",
          .shapes = {{kRows, kOut}, {kOut}, {kOut}},
          .run =
              [](const Context& context, const std::vector<Tensor>& in) {
                return layer_norm(context, in[0], norm_of(in[1], in[2]));
              },
          .truth = [](const Inputs& in) { return normalised(in[0], in[1], in[2]); }};
}

/// Rows of global tokens, of two documents, with masked tokens. Inputs: x, what the local
/// attention has left, and the six projections.
struct GlobalCase {
  static constexpr Index kHeads = 2, kSize = 4, kWidth = kHeads * kSize;
  AttentionSpec spec;

  explicit GlobalCase(const Dropout& dropout) {
    spec.head_size = kSize;
    spec.heads.assign(at(kHeads), {2, 2, 1});
    auto rows = kernels::self_attention_rows(std::array<Index, 3>{0, 7, 19});
    rows.global_keys = {0, 3, 9};
    rows.key_mask.assign(19, 1);
    rows.key_mask[5] = rows.key_mask[12] = 0;
    spec.rows = kernels::shared(std::move(rows));
    spec.dropout = dropout;
  }

  Doubles truth(const Inputs& in) const {
    const Doubles& x = in[0];
    Doubles y = in[1];
    for (const auto& document : spec.rows->documents) {
      for (const Index row : spec.rows->global_keys) {
        if (row < document.key_begin || row >= document.key_begin + document.key_count) continue;
        for (Index head = 0; head < kHeads; ++head) attend(in, x, document, row, head, y);
      }
    }
    return y;
  }

 private:
  double project(const Inputs& in, std::size_t which, const Doubles& x, Index row, Index c) const {
    double sum = in[which + 1][at(c)];
    for (Index i = 0; i < kWidth; ++i)
      sum += in[which][at(c * kWidth + i)] * x[at(row * kWidth + i)];
    return sum;
  }

  void attend(const Inputs& in, const Doubles& x, const kernels::AttentionDocument& document,
              Index row, Index head, Doubles& y) const {
    const Dropout dropout = {.rate = spec.dropout.rate, .seed = random_bits(spec.dropout.seed, 1)};
    const auto mask = kernels::dropout_row(dropout, head, row);
    Doubles weights;
    double denominator = 0;
    for (Index key = document.key_begin; key < document.key_begin + document.key_count; ++key) {
      double score = 0;
      for (Index c = head * kSize; c < (head + 1) * kSize; ++c) {
        score += project(in, 2, x, row, c) * project(in, 4, x, key, c) / std::sqrt(double{kSize});
      }
      weights.push_back(spec.rows->key_mask[at(key)] == 0 ? 0 : std::exp(score));
      denominator += weights.back();
    }
    for (Index c = head * kSize; c < (head + 1) * kSize; ++c) {
      double sum = 0;
      for (std::size_t j = 0; j < weights.size(); ++j) {
        const Index key = document.key_begin + static_cast<Index>(j);
        const bool gone =
            dropout.active() && mask.bits(static_cast<std::uint32_t>(key)) < dropout.threshold();
        const double factor = !dropout.active() ? 1
                              : gone            ? 0
                                                : static_cast<double>(dropout.kept_factor());
        sum += weights[j] / denominator * factor * project(in, 6, x, key, c);
      }
      y[at(row * kWidth + c)] = sum;
    }
  }
};

Row global_attention_row(const Dropout& dropout) {
  const Index width = GlobalCase::kWidth;
  const Shape weight = {width, width}, bias = {width};
  return {.name = dropout.active() ? "global_attention_with_dropout" : "global_attention",
          .shapes = {{19, width}, {19, width}, weight, bias, weight, bias, weight, bias},
          .run =
              [dropout](const Context& context, const std::vector<Tensor>& in) {
                const GlobalCase global(dropout);
                // A copy that sends back what the op leaves of its gradient.
                Tensor attended = context.memory.tensor(in[1].shape(), in[1].dtype());
                std::memcpy(attended.raw(), in[1].raw(), in[1].bytes());
                record(context, "copy", attended, [context, source = in[1]](Tensor gradient) {
                  send_gradient(context, source, gradient);
                });
                global_attention(context, global.spec, {in[2], in[3], in[4], in[5], in[6], in[7]},
                                 in[0], attended);
                return attended;
              },
          .truth = [dropout](const Inputs& in) { return GlobalCase(dropout).truth(in); },
          .activations = 2};
}

std::vector<Row> rows() {
  const Dropout dropout = {.rate = 0.3f, .seed = 11};
  std::vector<Row> all = {
      linear_row("", std::nullopt),
      linear_row("_gelu", Activation::gelu),
      linear_row("_gelu_tanh", Activation::gelu_tanh),
      linear_row("_relu", Activation::relu),
      linear_row("_silu", Activation::silu),
      linear_row("_tanh", Activation::tanh),
      linear_row("_quick_gelu", Activation::quick_gelu),
      linear_row("_mish", Activation::mish),
      project_heads_row(),
      layer_norm_row(),
      linear_norm_row(),
      linear_add_norm_row({}),
      linear_add_norm_row(dropout),
      linear_add_row({}),
      linear_add_row(dropout),
      feed_forward_row({}),
      feed_forward_row({.inner = {.rate = 0.2f, .seed = 12}, .outer = dropout}),
      feed_forward_add_row({}),
      gated_row({.activates_second = false, .splits = false, .norm_first = true}),
      gated_row({.activates_second = true, .splits = false, .norm_first = false}),
      gated_row({.activates_second = true, .splits = true, .norm_first = true}),
      rms_norm_row(),
      norm_without_bias_row(),
      rotate_row(),
      rotate_row(true),
      norm_with_offset_row(),
      take_heads_row(),
      norm_heads_row(),
      add_row(),
      embed_without_norm_row(),
      feed_forward_add_row({.inner = {.rate = 0.2f, .seed = 12}, .outer = dropout}),
      head_sections_row(),
      embed_row({}),
      embed_row(dropout),
      embed_given_row(),
      embed_scaled_row({}),
      embed_scaled_row(dropout),
      max_rows_row(),
      recompute_row(),
      attention_row(false),
      attention_row(true),
      groups_row(),
      weighted_attention_row(),
      take_head_rows_row(),
      lowered_rows_row(),
      square_difference_row(),
      rows_row(false),
      rows_row(true),
      mean_rows_row(RowDivisor::count),
      mean_rows_row(RowDivisor::root),
      joined_rows_row(),
      span_scores_row(),
      unit_rows_row(),
      row_products_row(),
      row_dots_row(),
      dropout_row(),
      global_attention_row({}),
      global_attention_row(dropout)};
  for (const auto& more :
       {feature_rows(), slot_rows(), low_rank_rows(), reformer_rows(), relative_rows(),
        span_mask_rows(), bias_rows(), edge_rows(), convolution_rows()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

struct Case {
  std::size_t row;
  DType dtype;
  int threads;
};

class Gradients : public testing::TestWithParam<Case> {
 protected:
  double tolerance() const { return GetParam().dtype == DType::f32 ? 1e-4 : 0.05; }

  /// Inputs that want gradients; activations in the dtype of the case.
  std::vector<Tensor> tensors(const Row& row) const {
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < row.shapes.size(); ++i) {
      Tensor x = random_normal_tensor(row.shapes[i], 0.5f, 100 + i);
      if (i < row.activations) x = x.to(GetParam().dtype).to(DType::f32).to(GetParam().dtype);
      Tape::track(x);
      inputs.push_back(x);
    }
    return inputs;
  }
};

double weighted(const Doubles& y, const Doubles& weights) {
  return std::inner_product(y.begin(), y.end(), weights.begin(), 0.0);
}

TEST_P(Gradients, EqualCentralDifferences) {
  const Row row = rows().at(GetParam().row);
  MemoryPool memory;
  Tape tape;
  const Context context = {
      .memory = memory, .dtype = GetParam().dtype, .threads = GetParam().threads, .tape = &tape};
  const std::vector<Tensor> inputs = tensors(row);
  Inputs values;
  for (const Tensor& input : inputs) values.push_back(doubles(input));

  const Tensor y = row.run(context, inputs);
  const Doubles expected = row.truth(values), found = doubles(y);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_TRUE(std::abs(found[i] - expected[i]) <= tolerance() * 2) << row.name << " " << i;
  }

  const Tensor direction = random_normal_tensor(y.shape(), 1.0f, 999).to(y.dtype());
  y.gradient()->sum = direction;
  const Doubles weights = doubles(direction);
  tape.backward();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& sum = inputs[i].gradient()->sum;
    const Doubles gradient = sum.empty() ? Doubles(values[i].size(), 0.0) : doubles(sum);
    double largest = 1;
    for (const double value : gradient) largest = std::max(largest, std::abs(value));
    for (std::size_t j = 0; j < values[i].size(); ++j) {
      const double step = 1e-5, middle = values[i][j];
      values[i][j] = middle + step;
      const double above = weighted(row.truth(values), weights);
      values[i][j] = middle - step;
      const double below = weighted(row.truth(values), weights);
      values[i][j] = middle;
      const double slope = (above - below) / (2 * step);
      ASSERT_TRUE(std::abs(gradient[j] - slope) <= tolerance() * largest)
          << row.name << " input " << i << " element " << j << ": " << gradient[j] << ", expected "
          << slope;
    }
  }
}

/// Text in quotes after "record(" or "record(context, "; empty if there is none.
std::string literal_name(const std::string& call) {
  const auto quote = call.find_first_not_of(" \n", call.find("context,") == 0 ? 8 : 0);
  if (quote == call.npos || call[quote] != '"') return "";
  return call.substr(quote + 1, call.find('"', quote + 1) - quote - 1);
}

/// The names under which the sources of ops record backward passes.
std::set<std::string> recorded_names() {
  std::set<std::string> names;
  const auto folder = fixtures_folder().parent_path().parent_path() / "src" / "ops";
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".cc" || file.path().stem() == "gradients") continue;
    std::ifstream stream(file.path());
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    for (auto at = text.find("record("); at != text.npos; at = text.find("record(", at + 1)) {
      const auto argument = text.find_first_not_of(" \n", at + 7);
      const std::string name = literal_name(text.substr(argument, 100));
      EXPECT_NE(name, "") << file.path() << " records a backward pass without a literal name";
      names.insert(name);
    }
  }
  return names;
}

TEST(GradientTable, HasARowForEveryOpThatRecordsABackwardPass) {
  std::set<std::string> without_row = recorded_names();
  EXPECT_GE(without_row.size(), 15u);
  for (const Row& row : rows()) {
    MemoryPool memory;
    Tape tape;
    std::vector<Tensor> inputs;
    for (const Shape& shape : row.shapes) {
      inputs.push_back(random_normal_tensor(shape, 0.5f, 1));
      Tape::track(inputs.back());
    }
    row.run({.memory = memory, .tape = &tape}, inputs);
    for (const std::string_view op : tape.ops()) without_row.erase(std::string(op));
  }
  EXPECT_EQ(without_row, std::set<std::string>()) << "ops without a row in this table";
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (std::size_t row = 0; row < rows().size(); ++row) {
    all.push_back({row, DType::f32, 1});
    all.push_back({row, DType::f32, 2});
    all.push_back({row, DType::bf16, 2});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Ops, Gradients, testing::ValuesIn(cases()), [](const auto& info) {
  return rows()[info.param.row].name + (info.param.dtype == DType::f32 ? "_fp32_" : "_bf16_") +
         std::to_string(info.param.threads);
});

}  // namespace
}  // namespace longformer::ops::gradient_test
