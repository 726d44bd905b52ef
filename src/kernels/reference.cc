#include "kernels/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "kernels/attention/distance_bias.h"
#include "kernels/attention/distance_keys.h"

namespace longformer::kernels {
namespace {

template <typename Real>
std::vector<Real> values_of(const Tensor& tensor) {
  if (tensor.dtype() == DType::f64) {
    const double* values = tensor.data<double>();
    return std::vector<Real>(values, values + tensor.size());
  }
  const std::vector<float> values = tensor.to_floats();
  return std::vector<Real>(values.begin(), values.end());
}

template <typename Real>
Real dot(const Real* a, const Real* b, Index count) {
  Real sum = 0;
  for (Index i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/// A key that the query sees, its score, and what of its probability is kept.
template <typename Real>
struct Score {
  Index key;
  Real value;
  Real kept = 1;
};

/// Turns scores into probabilities and returns the logarithm of the denominator; −∞ for no scores.
template <typename Real>
Real softmax(std::span<Score<Real>> scores) {
  if (scores.empty()) return -std::numeric_limits<Real>::infinity();
  Real largest = scores.front().value;
  for (const auto& score : scores) largest = std::max(largest, score.value);
  Real denominator = 0;
  for (const auto& score : scores) denominator += std::exp(score.value - largest);
  for (auto& score : scores) score.value = std::exp(score.value - largest) / denominator;
  return largest + std::log(denominator);
}

/// Σ softmax(scores)_j · kept_j · values_j into out [d], and the logarithm of the denominator. Row
/// j of `values` starts at j · stride.
template <typename Real>
Real weigh(std::span<Score<Real>> scores, const Real* values, Index stride, std::span<Real> out) {
  std::fill(out.begin(), out.end(), Real{0});
  const Real logsumexp = softmax(scores);
  for (const auto& score : scores) {
    for (std::size_t c = 0; c < out.size(); ++c) {
      out[c] += score.value * score.kept * values[score.key * stride + static_cast<Index>(c)];
    }
  }
  return logsumexp;
}

bool in_window(const HeadPattern& pattern, Index query_position, Index key_position) {
  const Index distance = key_position - query_position;
  if (distance % pattern.dilation != 0) return false;
  const auto block_of = [&](Index position) {
    const Index within = (position % pattern.block + pattern.block) % pattern.block;
    return (position - within) / pattern.block;
  };
  const Index offset = pattern.block == 1 ? distance / pattern.dilation
                                          : block_of(key_position) - block_of(query_position);
  return -pattern.reach_left <= offset && offset <= pattern.reach_right;
}

const AttentionDocument& document_of(const AttentionSpec& spec, Index query) {
  const auto holds = [query](const AttentionDocument& document) {
    return document.query_begin <= query && query < document.query_begin + document.query_count;
  };
  return *std::find_if(spec.rows->documents.begin(), spec.rows->documents.end(), holds);
}

/// Terms of positions, widened to Real; empty without.
template <typename Real>
struct PositionInputs {
  std::vector<Real> content_bias, position_bias, keys, kind_scores, biases;
  Index kinds = 0;
  std::vector<Real> distance_keys, distance_queries;
  const DistanceKeys* distances;

  explicit PositionInputs(const PositionTerms& terms) : distances(terms.distance_keys) {
    if (distances != nullptr && distances->keys != nullptr) {
      distance_keys = values_of<Real>(*distances->keys);
    }
    if (distances != nullptr && distances->queries != nullptr) {
      distance_queries = values_of<Real>(*distances->queries);
    }
    if (terms.distance_bias != nullptr) biases = values_of<Real>(*terms.distance_bias);
    if (terms.relative == nullptr) return;
    content_bias = values_of<Real>(terms.relative->content_bias);
    position_bias = values_of<Real>(terms.relative->position_bias);
    keys = values_of<Real>(terms.relative->keys);
    if (terms.relative->kind_scores == nullptr) return;
    kind_scores = values_of<Real>(*terms.relative->kind_scores);
    kinds = terms.relative->kind_scores->dimension(2);
  }
};

/// One head of the inputs; rows of d numbers. Terms of positions are null where there are none.
template <typename Real>
struct HeadInputs {
  const Real* query;
  const Real* key;
  const Real* value;
  const Real* content_bias = nullptr;
  const Real* position_bias = nullptr;
  const Real* relative_keys = nullptr;
  /// [nq, K]
  const Real* kind_scores = nullptr;
  Index kinds = 0;
  /// The bias of distance 0.
  const Real* biases = nullptr;
  Index bias_reach = 0;
  const DistanceKeys* distances = nullptr;
  const Real* distance_keys = nullptr;
  const Real* distance_queries = nullptr;
};

template <typename Real>
HeadInputs<Real> with_positions(HeadInputs<Real> in, const PositionInputs<Real>& terms, Index head,
                                Index heads) {
  const auto of_head = [&](const std::vector<Real>& values) {
    return values.data() + head * static_cast<Index>(values.size()) / heads;
  };
  if (!terms.biases.empty()) {
    in.bias_reach = static_cast<Index>(terms.biases.size()) / heads / 2;
    in.biases = of_head(terms.biases) + in.bias_reach;
  }
  in.distances = terms.distances;
  if (!terms.distance_keys.empty()) in.distance_keys = of_head(terms.distance_keys);
  if (!terms.distance_queries.empty()) in.distance_queries = of_head(terms.distance_queries);
  if (terms.keys.empty()) return in;
  in.content_bias = of_head(terms.content_bias);
  in.position_bias = of_head(terms.position_bias);
  in.relative_keys = of_head(terms.keys);
  if (terms.kinds == 0) return in;
  in.kind_scores = of_head(terms.kind_scores);
  in.kinds = terms.kinds;
  return in;
}

/// The relative key of a query and a key: dilation steps back, or what their places say; −1 where
/// one has no place.
Index relative_row(const AttentionSpec& spec, const AttentionDocument& document, Index head,
                   Index query, Index key) {
  if (const auto& places = spec.rows->places) {
    const Index from = places->queries[at(query)], to = places->keys[at(key)];
    return from == RowPlaces::kNone || to == RowPlaces::kNone ? -1 : places->origin + from - to;
  }
  const Index query_position = query - document.query_begin + document.query_offset;
  return (query_position - (key - document.key_begin)) / spec.heads[head].dilation;
}

/// Place of the score of the key's kind in those of a head; −1 for none.
Index kind_place(const AttentionSpec& spec, Index kinds, Index query, Index key) {
  if (kinds == 0) return -1;
  const std::uint8_t kind = spec.rows->places->key_kinds[at(key)];
  return kind == RowPlaces::kNoKind ? -1 : query * kinds + kind;
}

/// The distance from query to key, or the farthest that has a bias.
template <typename Real>
Index bias_distance(const AttentionDocument& document, const HeadInputs<Real>& in, Index query,
                    Index key) {
  const Index query_position = query - document.query_begin + document.query_offset;
  return std::clamp(key - document.key_begin - query_position, -in.bias_reach, in.bias_reach);
}

/// Row of the distance from key to query; 0 without such rows.
template <typename Real>
Index distance_row(const AttentionDocument& document, const HeadInputs<Real>& in, Index query,
                   Index key) {
  if (in.distances == nullptr) return 0;
  const Index query_position = query - document.query_begin + document.query_offset;
  return row_at(*in.distances, query_position - (key - document.key_begin));
}

/// The keys that a query sees, in order.
template <typename Real>
std::vector<Score<Real>> scores_of(const AttentionSpec& spec, const HeadInputs<Real>& in,
                                   Index head, Index query) {
  const Index d = spec.head_size;
  const AttentionDocument& document = document_of(spec, query);
  const Real scale = 1 / std::sqrt(static_cast<Real>(d));
  const Real* q = in.query + query * d;
  const DropoutRow mask = dropout_row(spec.dropout, head, query);
  std::vector<Score<Real>> scores;
  for (Index key = document.key_begin; key < document.key_begin + document.key_count; ++key) {
    if (!sees(spec, document, head, query, key)) continue;
    const Real* k = in.key + key * d;
    Score<Real> score = {key, dot(q, k, d)};
    if (in.relative_keys != nullptr) {
      const Index t = relative_row(spec, document, head, query, key);
      const Real* r = in.relative_keys + t * d;
      score.value += dot(in.content_bias, k, d);
      if (t >= 0) score.value += dot(q, r, d) + dot(in.position_bias, r, d);
    }
    const Index row = distance_row(document, in, query, key);
    if (in.distance_keys != nullptr) score.value += dot(q, in.distance_keys + row * d, d);
    if (in.distance_queries != nullptr) score.value += dot(k, in.distance_queries + row * d, d);
    score.value *= scale;
    if (const Index place = kind_place(spec, in.kinds, query, key); place >= 0) {
      score.value += in.kind_scores[place];
    }
    if (in.biases != nullptr) score.value += in.biases[bias_distance(document, in, query, key)];
    if (spec.dropout.active()) {
      const bool dropped = mask.bits(static_cast<std::uint32_t>(key)) < spec.dropout.threshold();
      score.kept = dropped ? Real{0} : 1 / (1 - static_cast<Real>(spec.dropout.rate));
    }
    scores.push_back(score);
  }
  return scores;
}

template <typename Real>
Real attend(const AttentionSpec& spec, const HeadInputs<Real>& in, Index head, Index query,
            std::span<Real> out) {
  std::vector<Score<Real>> scores = scores_of(spec, in, head, query);
  return weigh<Real>(scores, in.value, spec.head_size, out);
}

/// One head of the gradients.
template <typename Real>
struct HeadGradients {
  Real* query;
  Real* key;
  Real* value;
  Real* content_bias = nullptr;
  Real* position_bias = nullptr;
  Real* relative_keys = nullptr;
  Real* kind_scores = nullptr;
  Real* biases = nullptr;
  Real* distance_keys = nullptr;
  Real* distance_queries = nullptr;
};

/// Adds what one query contributes: with p the probabilities, m what is kept of them and g the
/// gradient of the output, ∂p_j = m_j·(g·v_j), and ∂score_j = p_j·(∂p_j − Σ p·∂p).
template <typename Real>
void send_back(const AttentionSpec& spec, const HeadInputs<Real>& in, Index head, Index query,
               const Real* gradient, const HeadGradients<Real>& to) {
  const Index d = spec.head_size;
  const Real scale = 1 / std::sqrt(static_cast<Real>(d));
  std::vector<Score<Real>> scores = scores_of(spec, in, head, query);
  softmax<Real>(scores);
  Real mean = 0;
  for (const auto& [key, probability, kept] : scores) {
    mean += probability * kept * dot(gradient, in.value + key * d, d);
  }
  const Real* q = in.query + query * d;
  for (const auto& [key, probability, kept] : scores) {
    const Real* k = in.key + key * d;
    const Real change = kept * dot(gradient, in.value + key * d, d) - mean;
    const Real weight = scale * probability * change;
    for (Index c = 0; c < d; ++c) {
      to.value[key * d + c] += probability * kept * gradient[c];
      to.query[query * d + c] += weight * k[c];
      to.key[key * d + c] += weight * q[c];
    }
    if (in.biases != nullptr) {
      to.biases[bias_distance(document_of(spec, query), in, query, key)] += probability * change;
    }
    const Index row = distance_row(document_of(spec, query), in, query, key) * d;
    for (Index c = 0; in.distance_keys != nullptr && c < d; ++c) {
      to.query[query * d + c] += weight * in.distance_keys[row + c];
      to.distance_keys[row + c] += weight * q[c];
    }
    for (Index c = 0; in.distance_queries != nullptr && c < d; ++c) {
      to.key[key * d + c] += weight * in.distance_queries[row + c];
      to.distance_queries[row + c] += weight * k[c];
    }
    if (in.relative_keys == nullptr) continue;
    for (Index c = 0; c < d; ++c) {
      to.key[key * d + c] += weight * in.content_bias[c];
      to.content_bias[c] += weight * k[c];
    }
    if (const Index place = kind_place(spec, in.kinds, query, key); place >= 0) {
      to.kind_scores[place] += probability * change;
    }
    const Index t = relative_row(spec, document_of(spec, query), head, query, key);
    if (t < 0) continue;
    const Real* r = in.relative_keys + t * d;
    for (Index c = 0; c < d; ++c) {
      to.query[query * d + c] += weight * r[c];
      to.position_bias[c] += weight * r[c];
      to.relative_keys[t * d + c] += weight * (q[c] + in.position_bias[c]);
    }
  }
}

/// y = x·Wᵀ + b for x [n, in].
template <typename Real>
std::vector<Real> project(const ReferenceLinear& linear, const std::vector<Real>& x, Index rows) {
  const Index outputs = linear.weight.dimension(0);
  const Index inputs = linear.weight.dimension(1);
  const std::vector<Real> weight = values_of<Real>(linear.weight);
  const std::vector<Real> bias = values_of<Real>(linear.bias);
  std::vector<Real> y(static_cast<std::size_t>(rows * outputs));
  for (Index row = 0; row < rows; ++row) {
    for (Index o = 0; o < outputs; ++o) {
      y[row * outputs + o] = bias[o] + dot(&x[row * inputs], &weight[o * inputs], inputs);
    }
  }
  return y;
}

/// Queries, keys and values of all heads side by side, [n, D].
template <typename Real>
struct Projections {
  std::vector<Real> query, key, value;
};

/// Whether token i sees token j in the self-attention of a Longformer layer.
bool longformer_sees(const ReferenceLongformerAttention& in, const HeadPattern& pattern, Index i,
                     Index j) {
  if (in.kinds[j] == 0) return false;
  return in.kinds[i] == 2 || in.kinds[j] == 2 || in_window(pattern, i, j);
}

}  // namespace

bool sees(const AttentionSpec& spec, const AttentionDocument& document, Index head, Index query,
          Index key) {
  const auto masked = [&](Index row) {
    return !spec.rows->key_mask.empty() && spec.rows->key_mask[row] == 0;
  };
  const auto global = [&](Index row) {
    return std::binary_search(spec.rows->global_keys.begin(), spec.rows->global_keys.end(), row);
  };
  const Index query_position = query - document.query_begin + document.query_offset;
  const Index key_position = key - document.key_begin;
  if (masked(key)) return false;
  if (spec.rows->self_attention && masked(query)) return false;
  if (spec.causal && key_position > query_position) return false;
  if (in_window(spec.heads[head], query_position, key_position) || global(key)) return true;
  const bool has_key_row = 0 <= query_position && query_position < document.key_count;
  return spec.global_queries == GlobalQueries::see_everything && has_key_row &&
         global(document.key_begin + query_position);
}

template <typename Real>
ReferenceAttention<Real> reference_attention(const AttentionSpec& spec, const Tensor& query,
                                             const Tensor& key, const Tensor& value,
                                             const PositionTerms& terms) {
  const Index heads = static_cast<Index>(spec.heads.size());
  const Index d = spec.head_size;
  const Index nq = spec.rows->query_count();
  const Index nk = spec.rows->key_count();
  const std::vector<Real> q = values_of<Real>(query);
  const std::vector<Real> k = values_of<Real>(key);
  const std::vector<Real> v = values_of<Real>(value);
  const PositionInputs<Real> positions(terms);
  ReferenceAttention<Real> result;
  result.out.resize(static_cast<std::size_t>(nq * heads * d));
  result.logsumexp.resize(static_cast<std::size_t>(heads * nq));
  for (Index head = 0; head < heads; ++head) {
    const auto in = with_positions<Real>(
        {q.data() + head * nq * d, k.data() + head * nk * d, v.data() + head * nk * d}, positions,
        head, heads);
    for (Index row = 0; row < nq; ++row) {
      const std::span<Real> out(&result.out[(row * heads + head) * d], static_cast<std::size_t>(d));
      result.logsumexp[head * nq + row] =
          attend(spec, in, head, row, out) + static_cast<Real>(spec.log_weight);
    }
  }
  return result;
}

template <typename Real>
ReferenceGradients<Real> reference_attention_backward(const AttentionSpec& spec,
                                                      const Tensor& query, const Tensor& key,
                                                      const Tensor& value,
                                                      const Tensor& out_gradient,
                                                      const PositionTerms& terms) {
  const Index heads = static_cast<Index>(spec.heads.size());
  const Index d = spec.head_size;
  const Index nq = spec.rows->query_count();
  const Index nk = spec.rows->key_count();
  const std::vector<Real> q = values_of<Real>(query);
  const std::vector<Real> k = values_of<Real>(key);
  const std::vector<Real> v = values_of<Real>(value);
  const std::vector<Real> gradient = values_of<Real>(out_gradient);
  const PositionInputs<Real> positions(terms);
  ReferenceGradients<Real> result;
  result.query.resize(q.size());
  result.key.resize(k.size());
  result.value.resize(v.size());
  result.content_bias.resize(positions.content_bias.size());
  result.position_bias.resize(positions.position_bias.size());
  result.relative_keys.resize(positions.keys.size());
  result.kind_scores.resize(positions.kind_scores.size());
  result.distance_bias.resize(positions.biases.size());
  result.distance_keys.resize(positions.distance_keys.size());
  result.distance_queries.resize(positions.distance_queries.size());
  const Index steps = static_cast<Index>(positions.keys.size()) / (heads * d);
  for (Index head = 0; head < heads; ++head) {
    const auto in = with_positions<Real>(
        {q.data() + head * nq * d, k.data() + head * nk * d, v.data() + head * nk * d}, positions,
        head, heads);
    HeadGradients<Real> to = {result.query.data() + head * nq * d,
                              result.key.data() + head * nk * d,
                              result.value.data() + head * nk * d};
    if (in.biases != nullptr) {
      to.biases = result.distance_bias.data() + head * (2 * in.bias_reach + 1) + in.bias_reach;
    }
    const auto rows_of = [&](std::vector<Real>& rows) {
      return rows.data() + head * static_cast<Index>(rows.size()) / heads;
    };
    to.distance_keys = rows_of(result.distance_keys);
    to.distance_queries = rows_of(result.distance_queries);
    if (terms.relative != nullptr) {
      to.content_bias = result.content_bias.data() + head * d;
      to.position_bias = result.position_bias.data() + head * d;
      to.relative_keys = result.relative_keys.data() + head * steps * d;
      to.kind_scores = rows_of(result.kind_scores);
    }
    for (Index row = 0; row < nq; ++row) {
      send_back(spec, in, head, row, &gradient[(row * heads + head) * d], to);
    }
  }
  return result;
}

template <typename Real>
std::vector<Real> reference_attention_row(const AttentionSpec& spec, const Tensor& query,
                                          const Tensor& key, const Tensor& value, Index head,
                                          Index query_row) {
  const auto head_of = [head](const Tensor& tensor) {
    const Tensor one = tensor.slice_rows(head, 1);
    return values_of<Real>(one);
  };
  const std::vector<Real> q = head_of(query);
  const std::vector<Real> k = head_of(key);
  const std::vector<Real> v = head_of(value);
  std::vector<Real> out(static_cast<std::size_t>(spec.head_size));
  attend<Real>(spec, {q.data(), k.data(), v.data()}, head, query_row, out);
  return out;
}

template <typename Real>
std::vector<Real> reference_attention_probabilities(const AttentionSpec& spec, const Tensor& query,
                                                    const Tensor& key, DocumentHead which,
                                                    const Tensor* distance_bias) {
  const auto& document = spec.rows->documents[static_cast<std::size_t>(which.document)];
  const HeadPattern& pattern = spec.heads[static_cast<std::size_t>(which.head)];
  const ProbabilityLayout layout = probability_layout(spec, which);
  const Index d = spec.head_size;
  const std::vector<Real> q = values_of<Real>(query.slice_rows(which.head, 1));
  const std::vector<Real> k = values_of<Real>(key.slice_rows(which.head, 1));
  const Real scale = 1 / std::sqrt(static_cast<Real>(d));
  const HeadBiases biases(distance_bias, which.head);
  std::vector<Real> out(static_cast<std::size_t>(layout.rows * layout.columns));
  for (Index i = 0; i < layout.rows; ++i) {
    Real denominator = 0;
    const Index row = document.query_begin + i;
    Index globals_before = 0;
    for (Index j = 0; j < document.key_count; ++j) {
      const Index key_row = document.key_begin + j;
      const bool global =
          std::binary_search(spec.rows->global_keys.begin(), spec.rows->global_keys.end(), key_row);
      const Index distance = j - (document.query_offset + i);
      const Index offset = layout.globals + pattern.most_left() + distance / pattern.dilation;
      const Index column = layout.dense ? j : (global ? globals_before : offset);
      globals_before += global ? 1 : 0;
      if (!sees(spec, document, which.head, row, key_row)) continue;
      const Real score = scale * dot(&q[row * d], &k[key_row * d], d);
      const Real weight = std::exp(score + static_cast<Real>(biases.at(distance)));
      out[i * layout.columns + column] = weight;
      denominator += weight;
    }
    for (Index c = 0; denominator > 0 && c < layout.columns; ++c) {
      out[i * layout.columns + c] /= denominator;
    }
  }
  return out;
}

template <typename Real>
std::vector<Real> reference_longformer_attention(const ReferenceLongformerAttention& in) {
  const Index n = in.hidden.dimension(0);
  const Index width = in.hidden.dimension(1);
  const Index heads = static_cast<Index>(in.heads.size());
  const Index d = width / heads;
  const std::vector<Real> x = values_of<Real>(in.hidden);
  const Projections<Real> local = {project(in.query, x, n), project(in.key, x, n),
                                   project(in.value, x, n)};
  const Projections<Real> global = {project(in.query_global, x, n), project(in.key_global, x, n),
                                    project(in.value_global, x, n)};
  const Real scale = 1 / std::sqrt(static_cast<Real>(d));
  std::vector<Real> out(x.size());
  for (Index i = 0; i < n; ++i) {
    const Projections<Real>& used = in.kinds[i] == 2 ? global : local;
    for (Index head = 0; head < heads; ++head) {
      std::vector<Score<Real>> scores;
      for (Index j = 0; in.kinds[i] != 0 && j < n; ++j) {
        if (!longformer_sees(in, in.heads[head], i, j)) continue;
        const Real* q = &used.query[i * width + head * d];
        const Real* k = &used.key[j * width + head * d];
        scores.push_back({j, scale * dot(q, k, d)});
      }
      const std::span<Real> row(&out[i * width + head * d], static_cast<std::size_t>(d));
      weigh<Real>(scores, used.value.data() + head * d, width, row);
    }
  }
  return out;
}

template ReferenceAttention<float> reference_attention(const AttentionSpec&, const Tensor&,
                                                       const Tensor&, const Tensor&,
                                                       const PositionTerms&);
template ReferenceAttention<double> reference_attention(const AttentionSpec&, const Tensor&,
                                                        const Tensor&, const Tensor&,
                                                        const PositionTerms&);
template ReferenceGradients<double> reference_attention_backward(const AttentionSpec&,
                                                                 const Tensor&, const Tensor&,
                                                                 const Tensor&, const Tensor&,
                                                                 const PositionTerms&);
template std::vector<float> reference_attention_row(const AttentionSpec&, const Tensor&,
                                                    const Tensor&, const Tensor&, Index, Index);
template std::vector<double> reference_attention_row(const AttentionSpec&, const Tensor&,
                                                     const Tensor&, const Tensor&, Index, Index);
template std::vector<double> reference_attention_probabilities(const AttentionSpec&, const Tensor&,
                                                               const Tensor&, DocumentHead,
                                                               const Tensor*);
template std::vector<float> reference_longformer_attention(const ReferenceLongformerAttention&);
template std::vector<double> reference_longformer_attention(const ReferenceLongformerAttention&);

}  // namespace longformer::kernels
