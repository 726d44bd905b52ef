// Attention along edges against plain loops in double.
//
// Reruns: tsan isa
#include "kernels/attention/edges.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "doubles.h"
#include "kernels/attention/spec.h"

namespace longformer::kernels::edges_test {
namespace {

struct Size {
  Index heads, d, queries, keys, most_edges;
  /// 0 for none.
  Index labels = 0;
  bool has_label_keys = true, has_label_biases = true;
  DType dtype = DType::f32;
};

/// Some queries have none, and keys come twice.
EdgeRows drawn_edges(const Size& size) {
  EdgeRows rows;
  for (Index i = 0; i < size.queries; ++i) {
    const auto seed = static_cast<std::uint64_t>(i);
    const Index count = static_cast<Index>(random_bits(1, seed) % at(size.most_edges + 1));
    for (Index e = 0; e < count; ++e) {
      const auto bits = random_bits(seed + 2, at(e / 2 * 2));
      rows.key.push_back(static_cast<std::int32_t>(bits % at(size.keys)));
      if (size.labels > 0) {
        rows.label.push_back(static_cast<std::int32_t>((bits >> 32) % at(size.labels)));
      }
    }
    rows.begin.push_back(rows.edges());
  }
  return rows;
}

struct Results {
  Doubles out, logsumexp, query, key, value, label_keys, label_biases;
};

struct Case {
  explicit Case(const Size& size, const Dropout& dropout = {})
      : query(random_normal_tensor({size.heads, size.queries, size.d}, 1, 1).to(size.dtype)),
        key(random_normal_tensor({size.heads, size.keys, size.d}, 1, 2).to(size.dtype)),
        value(random_normal_tensor({size.heads, size.keys, size.d}, 1, 3).to(size.dtype)),
        gradient(random_normal_tensor({size.queries, size.heads * size.d}, 1, 4).to(size.dtype)) {
    spec = {.heads = size.heads,
            .head_size = size.d,
            .scale = 1 / std::sqrt(static_cast<float>(size.d)),
            .rows = std::make_shared<const EdgeRows>(drawn_edges(size)),
            .dropout = dropout};
    if (size.labels > 0 && size.has_label_keys) {
      label_keys = random_normal_tensor({size.heads, size.labels, size.d}, 1, 5);
    }
    if (size.labels > 0 && size.has_label_biases) {
      label_biases = random_normal_tensor({size.heads, size.labels}, 1, 6);
    }
  }

  EdgeLabels labels() const {
    return {label_keys ? &*label_keys : nullptr, label_biases ? &*label_biases : nullptr};
  }
  Results run(int threads) const;
  Results truth() const;

  EdgeAttention spec;
  Tensor query, key, value, gradient;
  std::optional<Tensor> label_keys, label_biases;
};

Results Case::run(int threads) const {
  const auto like = [](const Tensor& x) { return Tensor(x.shape(), x.dtype()); };
  Tensor out = like(gradient), logsumexp({spec.heads, query.dimension(1)}, DType::f32);
  edge_attention(spec, {.query = query,
                        .key = key,
                        .value = value,
                        .labels = labels(),
                        .out = out,
                        .logsumexp = logsumexp,
                        .threads = threads});
  Tensor to_query = like(query), to_key = like(key), to_value = like(value);
  std::optional<Tensor> to_keys, to_biases;
  if (label_keys) to_keys = like(*label_keys);
  if (label_biases) to_biases = like(*label_biases);
  edge_attention_backward(spec, {.query = query,
                                 .key = key,
                                 .value = value,
                                 .labels = labels(),
                                 .out = out,
                                 .logsumexp = logsumexp,
                                 .out_gradient = gradient,
                                 .query_gradient = to_query,
                                 .key_gradient = to_key,
                                 .value_gradient = to_value,
                                 .label_key_gradient = to_keys ? &*to_keys : nullptr,
                                 .label_bias_gradient = to_biases ? &*to_biases : nullptr,
                                 .threads = threads});
  return {doubles(out),
          doubles(logsumexp),
          doubles(to_query),
          doubles(to_key),
          doubles(to_value),
          to_keys ? doubles(*to_keys) : Doubles(),
          to_biases ? doubles(*to_biases) : Doubles()};
}

/// One head of one query in double.
struct PlainQuery {
  const Case& of;
  Index head, row;

  Index place(const Tensor& x, Index i) const {
    return (head * x.dimension(1) + i) * of.spec.head_size;
  }
  void add(const std::vector<Doubles>& x, Results& to) const;
};

void PlainQuery::add(const std::vector<Doubles>& x, Results& to) const {
  const EdgeRows& rows = *of.spec.rows;
  const Index d = of.spec.head_size, labels = of.labels().count();
  const double scale = static_cast<double>(of.spec.scale);
  const Index begin = rows.begin[at(row)], count = rows.begin[at(row + 1)] - begin;
  const Index q = place(of.query, row), token = (row * of.spec.heads + head) * d;
  Doubles p(at(count)), kept(at(count), 1.0), passed(at(count));
  double sum = 0, mean = 0;
  const auto dropped = dropout_row(of.spec.dropout, head, row);
  for (Index e = 0; e < count; ++e) {
    const Index k = place(of.key, rows.key[at(begin + e)]);
    const Index l = labels == 0 ? 0 : head * labels + rows.label[at(begin + e)];
    double score = of.label_biases ? x[5][at(l)] : 0;
    for (Index c = 0; c < d; ++c) {
      score +=
          scale * x[0][at(q + c)] * (x[1][at(k + c)] + (of.label_keys ? x[4][at(l * d + c)] : 0.0));
    }
    sum += p[at(e)] = std::exp(score);
    if (!of.spec.dropout.active()) continue;
    const bool is_gone =
        dropped.bits(0x80000000u + static_cast<std::uint32_t>(e)) < of.spec.dropout.threshold();
    kept[at(e)] = is_gone ? 0 : static_cast<double>(of.spec.dropout.kept_factor());
  }
  to.logsumexp[at(head * rows.queries() + row)] =
      count == 0 ? -std::numeric_limits<double>::infinity() : std::log(sum);
  for (Index e = 0; e < count; ++e) {
    const Index k = place(of.key, rows.key[at(begin + e)]);
    p[at(e)] /= sum;
    for (Index c = 0; c < d; ++c) {
      to.out[at(token + c)] += p[at(e)] * kept[at(e)] * x[2][at(k + c)];
      to.value[at(k + c)] += p[at(e)] * kept[at(e)] * x[3][at(token + c)];
      passed[at(e)] += kept[at(e)] * x[2][at(k + c)] * x[3][at(token + c)];
    }
    mean += p[at(e)] * passed[at(e)];
  }
  for (Index e = 0; e < count; ++e) {
    const Index k = place(of.key, rows.key[at(begin + e)]);
    const Index l = labels == 0 ? 0 : head * labels + rows.label[at(begin + e)];
    const double ds = p[at(e)] * (passed[at(e)] - mean);
    if (of.label_biases) to.label_biases[at(l)] += ds;
    for (Index c = 0; c < d; ++c) {
      const double label = of.label_keys ? x[4][at(l * d + c)] : 0;
      to.query[at(q + c)] += ds * scale * (x[1][at(k + c)] + label);
      to.key[at(k + c)] += ds * scale * x[0][at(q + c)];
      if (of.label_keys) to.label_keys[at(l * d + c)] += ds * scale * x[0][at(q + c)];
    }
  }
}

Results Case::truth() const {
  const std::vector<Doubles> x = {doubles(query),
                                  doubles(key),
                                  doubles(value),
                                  doubles(gradient),
                                  label_keys ? doubles(*label_keys) : Doubles(),
                                  label_biases ? doubles(*label_biases) : Doubles()};
  Results t = {Doubles(x[3].size()), Doubles(at(spec.heads * query.dimension(1))),
               Doubles(x[0].size()), Doubles(x[1].size()),
               Doubles(x[2].size()), Doubles(x[4].size()),
               Doubles(x[5].size())};
  for (Index head = 0; head < spec.heads; ++head) {
    for (Index row = 0; row < query.dimension(1); ++row) PlainQuery{*this, head, row}.add(x, t);
  }
  return t;
}

void expect_near(const Doubles& found, const Doubles& wanted, double tolerance,
                 const std::string& name) {
  ASSERT_EQ(found.size(), wanted.size()) << name;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == -std::numeric_limits<double>::infinity()) {
      ASSERT_EQ(found[i], wanted[i]) << name << ' ' << i;
      continue;
    }
    ASSERT_TRUE(std::abs(found[i] - wanted[i]) <= tolerance * (1 + std::abs(wanted[i])))
        << name << ' ' << i << ": " << found[i] << ", expected " << wanted[i];
  }
}

void expect_plain_loops(const Size& size, const Dropout& dropout) {
  const Case one(size, dropout);
  const Results truth = one.truth();
  const double tolerance = size.dtype == DType::f32 ? 2e-5 : 3e-2;
  for (const int threads : {1, 2}) {
    const Results found = one.run(threads);
    expect_near(found.out, truth.out, tolerance, "out");
    expect_near(found.logsumexp, truth.logsumexp, tolerance, "logsumexp");
    expect_near(found.query, truth.query, tolerance, "query");
    expect_near(found.key, truth.key, tolerance, "key");
    expect_near(found.value, truth.value, tolerance, "value");
    // Sums over all edges of a label, which cancel: of a single label to 0.
    expect_near(found.label_keys, truth.label_keys, 5 * tolerance, "label keys");
    expect_near(found.label_biases, truth.label_biases, 5 * tolerance, "label biases");
  }
}

class EdgeSizes : public testing::TestWithParam<Size> {};

TEST_P(EdgeSizes, EqualPlainLoops) { expect_plain_loops(GetParam(), {}); }

TEST_P(EdgeSizes, DropoutEqualsPlainLoops) {
  expect_plain_loops(GetParam(), {.rate = 0.3f, .seed = 7});
}

INSTANTIATE_TEST_SUITE_P(Odd, EdgeSizes,
                         testing::Values(Size{1, 1, 1, 1, 1}, Size{2, 5, 17, 13, 4},
                                         Size{1, 3, 7, 9, 0}, Size{3, 33, 70, 31, 9, 5},
                                         Size{2, 64, 131, 131, 40, 1},
                                         Size{2, 7, 65, 40, 6, 3, true, false},
                                         Size{2, 7, 65, 40, 6, 3, false, true},
                                         Size{2, 16, 64, 200, 300, 150}, Size{1, 8, 0, 5, 3, 2},
                                         Size{2, 33, 31, 17, 8, 4, true, true, DType::bf16},
                                         Size{1, 64, 66, 70, 20, 0, true, true, DType::bf16}));

TEST(Edges, AreChecked) {
  EdgeRows rows;
  rows.begin = {0, 1, 3};
  rows.key = {4, 0, 2};
  EXPECT_NO_THROW(check(rows, 2, 5, 0));
  EXPECT_THROW(check(rows, 3, 5, 0), Error);
  EXPECT_THROW(check(rows, 2, 4, 0), Error);
  EXPECT_THROW(check(rows, 2, 5, 1), Error);
  rows.label = {0, 1, 1};
  EXPECT_NO_THROW(check(rows, 2, 5, 2));
  EXPECT_THROW(check(rows, 2, 5, 1), Error);
  rows.begin = {0, 4, 3};
  EXPECT_THROW(check(rows, 2, 5, 2), Error);
}

TEST(Edges, CountTheirWork) {
  EdgeRows rows;
  rows.begin = {0, 1, 3};
  rows.key = {4, 0, 2};
  const EdgeAttention spec = {
      .heads = 2, .head_size = 8, .rows = std::make_shared<const EdgeRows>(std::move(rows))};
  EXPECT_EQ(edge_attention_flops(spec, 0), 4.0 * 3 * 16);
  EXPECT_EQ(edge_attention_flops(spec, 5), 4.0 * 3 * 16 + 2.0 * 2 * 5 * 16);
}

}  // namespace
}  // namespace longformer::kernels::edges_test
