#include "kernels/span_scores.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>

#include "core/threads.h"
#include "kernels/gemm.h"
#include "kernels/link_scores.h"
#include "kernels/link_search.h"

namespace longformer::kernels {
namespace {

/// Rows that are multiplied with the keys around them: a band as a product of full matrices costs a
/// third more than the band at the usual 30 keys, and runs at the rate of the GEMM.
constexpr Index kBandRows = 64;

/// Directions along which the bounds of links multiply; of 117,000 spans of a trained head (13.5 s)
/// 122 take a seventh longer, of 40,000 (2.4 s) 250 a quarter.
constexpr Index kLinkDirections = 154;
/// Fewer spans than this have all their scores computed, which takes less than finding directions.
constexpr Index kFewestBounded = 8192;

/// The rows [begin, end) of a band and the end of the keys that their spans reach.
struct Band {
  Index begin = 0, end = 0, keys_end = 0;
  Index rows() const { return end - begin; }
  Index keys() const { return keys_end - begin; }
};

Index rows_of_band(const SpanTable& spans) { return std::max(kBandRows, spans.widest); }

Index bands_of(const SpanTable& spans) {
  const Index rows = rows_of_band(spans);
  return (spans.rows() + rows - 1) / rows;
}

Band band_of(const SpanTable& spans, Index number) {
  const Index rows = rows_of_band(spans);
  Band band = {.begin = number * rows, .end = std::min(spans.rows(), (number + 1) * rows)};
  band.keys_end = std::min(spans.rows(), band.end + std::max<Index>(spans.widest - 1, 0));
  return band;
}

/// Calls body(row of the band, key of the band, number of the span).
template <typename Body>
void for_spans(const SpanTable& spans, const Band& band, const Body& body) {
  for (Index row = 0; row < band.rows(); ++row) {
    const Index first = spans.first[at(band.begin + row)];
    const Index count = spans.first[at(band.begin + row + 1)] - first;
    for (Index width = 0; width < count; ++width) body(row, row + width, first + width);
  }
}

template <typename T = float>
const T* row_from(const Tensor& matrix, Index row) {
  return matrix.data<T>() + row * matrix.columns();
}
float* row_from(Tensor& matrix, Index row) { return matrix.data<float>() + row * matrix.columns(); }

/// query · keyᵀ of a band.
template <typename T>
void band_products(const SpanFactors& factors, const Band& band, float* products) {
  gemm({.m = band.rows(), .n = band.keys(), .k = factors.key.columns(), .transpose_b = true},
       row_from<T>(factors.query, band.begin), row_from<T>(factors.key, band.begin), products);
}

/// A span before another of the same cluster, and the score of both.
struct RightLink {
  Index before = 0;
  float score = 0;
};

/// −log of the probability of what is right for span u; turns its `count` scores into their
/// gradient, of which those from u on are 0.
double link_loss(std::span<const std::int32_t> clusters, Index u, double scale, float* scores,
                 Index count) {
  const std::int32_t cluster = clusters[at(u)];
  std::vector<RightLink> right;
  float highest = 0;
  for (Index v = 0; v < u; ++v) highest = std::max(highest, scores[v]);
  double all = std::exp(-static_cast<double>(highest));
  for (Index v = 0; v < u; ++v) {
    if (cluster >= 0 && clusters[at(v)] == cluster) right.push_back({v, scores[v]});
    scores[v] = std::exp(scores[v] - highest);
    all += static_cast<double>(scores[v]);
  }
  for (Index v = 0; v < u; ++v) {
    scores[v] = static_cast<float>(scale * static_cast<double>(scores[v]) / all);
  }
  std::fill(scores + u, scores + count, 0.0f);
  const double log_all = static_cast<double>(highest) + std::log(all);
  if (right.empty()) return log_all;
  float highest_right = right[0].score;
  for (const RightLink& link : right) highest_right = std::max(highest_right, link.score);
  double sum = 0;
  for (RightLink& link : right) {
    link.score = std::exp(link.score - highest_right);
    sum += static_cast<double>(link.score);
  }
  for (const RightLink& link : right) {
    scores[link.before] -= static_cast<float>(scale * static_cast<double>(link.score) / sum);
  }
  return log_all - static_cast<double>(highest_right) - std::log(sum);
}

/// From the gradients [rows, end] of the scores of spans `begin` … `end` − 1 to those of the
/// factors.
void send_links(const SpanLinks& links, Index begin, Index end, const float* gradient,
                const LinkGradients& to) {
  const Index rows = end - begin;
  auto* mentions = to.mentions.data<float>();
  for (Index row = 0; row < rows; ++row) {
    const float* from = gradient + row * end;
    float sum = 0;
    for (Index v = 0; v < begin + row; ++v) {
      mentions[v] += from[v];
      sum += from[v];
    }
    mentions[begin + row] += sum;
  }
  const auto send = [&](const Tensor& query, const Tensor& key, Tensor& to_query, Tensor& to_key) {
    const Index width = key.columns();
    gemm({.m = rows, .n = width, .k = end, .alpha = links.scale}, gradient, key.data<float>(),
         row_from(to_query, begin));
    gemm({.m = end, .n = width, .k = rows, .transpose_a = true, .alpha = links.scale, .beta = 1},
         gradient, row_from(query, begin), to_key.data<float>());
  };
  send(links.start_query, links.start_key, to.start_query, to.start_key);
  send(links.end_query, links.end_key, to.end_query, to.end_key);
}

}  // namespace

namespace {

template <typename T>
void add_link_products(const SpanLinks& links, RowRange rows, RowRange keys, float alpha,
                       float* products) {
  const Index width = links.start_key.columns();
  GemmShape shape = {.m = rows.end - rows.begin,
                     .n = keys.end - keys.begin,
                     .k = width,
                     .transpose_b = true,
                     .alpha = alpha};
  gemm(shape, links.start_query.data<T>() + rows.begin * width,
       links.start_key.data<T>() + keys.begin * width, products);
  shape.beta = 1;
  gemm(shape, links.end_query.data<T>() + rows.begin * width,
       links.end_key.data<T>() + keys.begin * width, products);
}

}  // namespace

void link_products(const SpanLinks& links, RowRange rows, RowRange keys, float* products) {
  if (links.start_key.dtype() == DType::f32) {
    add_link_products<float>(links, rows, keys, links.scale, products);
    return;
  }
  add_link_products<BFloat16>(links, rows, keys, 1, products);
  const Index count = (rows.end - rows.begin) * (keys.end - keys.begin);
  std::for_each(products, products + count, [&](float& product) { product *= links.scale; });
}

SpanTable SpanTable::of(std::span<const Index> counts) {
  SpanTable table;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    assert(counts[i] >= 0 && counts[i] <= static_cast<Index>(counts.size() - i));
    table.first.push_back(table.first.back() + counts[i]);
    table.widest = std::max(table.widest, counts[i]);
  }
  return table;
}

void span_scores(const SpanTable& spans, const SpanFactors& factors, Tensor& scores, int threads) {
  const auto* starts = factors.starts.data<float>();
  const auto* ends = factors.ends.data<float>();
  auto* to = scores.data<float>();
  parallel_for(threads, bands_of(spans), [&](Index number) {
    const Band band = band_of(spans, number);
    std::vector<float> products(at(band.rows() * band.keys()));
    if (factors.key.dtype() == DType::f32) {
      band_products<float>(factors, band, products.data());
    } else {
      band_products<BFloat16>(factors, band, products.data());
    }
    for_spans(spans, band, [&](Index row, Index key, Index number_of_span) {
      to[number_of_span] = starts[band.begin + row] + ends[band.begin + key] +
                           factors.scale * products[at(row * band.keys() + key)];
    });
  });
}

void span_scores_backward(const SpanTable& spans, const SpanFactors& factors,
                          const Tensor& gradient, const SpanGradients& to, int threads) {
  const auto* from = gradient.data<float>();
  std::memset(to.starts.raw(), 0, to.starts.bytes());
  std::memset(to.ends.raw(), 0, to.ends.bytes());
  std::memset(to.key.raw(), 0, to.key.bytes());
  const Index width = factors.key.columns();
  const auto send = [&](Index number) {
    const Band band = band_of(spans, number);
    std::vector<float> products(at(band.rows() * band.keys()), 0.0f);
    for_spans(spans, band, [&](Index row, Index key, Index number_of_span) {
      const float value = from[number_of_span];
      to.starts.data<float>()[band.begin + row] += value;
      to.ends.data<float>()[band.begin + key] += value;
      products[at(row * band.keys() + key)] = value;
    });
    gemm({.m = band.rows(), .n = width, .k = band.keys(), .alpha = factors.scale}, products.data(),
         row_from(factors.key, band.begin), row_from(to.query, band.begin));
    gemm({.m = band.keys(),
          .n = width,
          .k = band.rows(),
          .transpose_a = true,
          .alpha = factors.scale,
          .beta = 1},
         products.data(), row_from(factors.query, band.begin), row_from(to.key, band.begin));
  };
  // The keys of a band reach into the next one alone, so every other band may run at a time.
  const Index bands = bands_of(spans);
  for (const Index odd : {Index{0}, Index{1}}) {
    parallel_for(threads, (bands + 1 - odd) / 2, [&](Index i) { send(2 * i + odd); });
  }
}

std::vector<Index> highest_rows(const Tensor& scores, Index count) {
  assert(count <= scores.rows());
  const auto* values = scores.data<float>();
  const auto rank = [&](Index row) {
    return std::isnan(values[row]) ? -std::numeric_limits<float>::infinity() : values[row];
  };
  std::vector<Index> rows(at(scores.rows()));
  std::iota(rows.begin(), rows.end(), Index{0});
  std::nth_element(rows.begin(), rows.begin() + count, rows.end(), [&](Index a, Index b) {
    return rank(a) != rank(b) ? rank(a) > rank(b) : a < b;
  });
  rows.resize(at(count));
  std::sort(rows.begin(), rows.end());
  return rows;
}

std::vector<Index> rows_above_zero(const Tensor& scores, std::span<const Index> rows) {
  const auto* values = scores.data<float>();
  std::vector<Index> above;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(above),
               [&](Index row) { return values[row] > 0; });
  return above;
}

LossSum antecedent_loss(const SpanLinks& links, std::span<const std::int32_t> clusters,
                        const LossOptions& options, const LinkGradients* to, int threads) {
  const Index count = links.size();
  assert(static_cast<Index>(clusters.size()) == count);
  if (to != nullptr) {
    for (Tensor* one : {&to->mentions, &to->start_key, &to->end_key}) {
      std::memset(one->raw(), 0, one->bytes());
    }
  }
  LossSum loss;
  std::vector<float> scores(at(std::min(count, kLinkRows) * count));
  std::vector<double> losses(at(std::min(count, kLinkRows)));
  for (Index begin = 0; begin < count; begin += kLinkRows) {
    const Index end = std::min(count, begin + kLinkRows);
    link_products(links, {begin, end}, {0, end}, scores.data());
    const auto* mentions = links.mentions.data<float>();
    parallel_for(threads, end - begin, [&](Index row) {
      const Index u = begin + row;
      float* own = scores.data() + row * end;
      for (Index v = 0; v < u; ++v) own[v] += mentions[u] + mentions[v];
      losses[at(row)] = link_loss(clusters, u, options.scale, own, end);
    });
    for (Index row = 0; row < end - begin; ++row) loss.sum += losses[at(row)];
    if (to != nullptr) send_links(links, begin, end, scores.data(), *to);
  }
  loss.weight = static_cast<double>(count);
  return loss;
}

std::vector<Index> best_antecedents(const SpanLinks& links, int threads) {
  const bool pays =
      links.size() >= kFewestBounded && 2 * links.start_key.columns() >= 4 * kLinkDirections;
  return pays ? bounded_antecedents(links, kLinkDirections, threads, nullptr)
              : unbounded_antecedents(links, threads);
}

}  // namespace longformer::kernels
