// Specs, inputs and comparisons for the tests of attention.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "core/error.h"
#include "kernels/attention/attention.h"
#include "opencl_testing.h"

namespace longformer::kernels {

/// Those that every machine has.
inline constexpr std::array kBackends = {AttentionBackend::loop, AttentionBackend::chunks,
                                         AttentionBackend::fused, AttentionBackend::full};

/// kBackends, and `opencl` where there is a device.
inline const std::vector<AttentionBackend>& every_backend() {
  static const std::vector<AttentionBackend> backends = [] {
    std::vector<AttentionBackend> all(kBackends.begin(), kBackends.end());
    if (has_opencl()) all.push_back(AttentionBackend::opencl);
    return all;
  }();
  return backends;
}

/// Largest |a − b|; NaN when there is a NaN anywhere, so that "≤ tolerance" fails.
template <typename A, typename B>
double max_difference(const A& a, const B& b) {
  if (a.size() != b.size()) return std::nan("");
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = a[i] == b[i] ? 0.0 : std::abs(double(a[i]) - double(b[i]));
    if (!(difference <= largest)) largest = difference;
    if (std::isnan(largest)) return largest;
  }
  return largest;
}

inline Tensor random_tensor(const Shape& shape, unsigned seed, DType dtype = DType::f32) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
  for (float& value : values) value = normal(generator);
  return Tensor::from(values, shape).to(dtype);
}

/// The message of the Error that the action throws, or "no error".
inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

struct Inputs {
  Tensor query, key, value;
};

inline Inputs random_inputs(const AttentionSpec& spec, unsigned seed, DType dtype = DType::f32) {
  const Index heads = static_cast<Index>(spec.heads.size());
  const Shape queries = {heads, spec.rows->query_count(), spec.head_size};
  const Shape keys = {heads, spec.rows->key_count(), spec.head_size};
  return {random_tensor(queries, seed, dtype), random_tensor(keys, seed + 1, dtype),
          random_tensor(keys, seed + 2, dtype)};
}

struct Result {
  std::vector<float> out;
  std::vector<float> logsumexp;
};

/// The buffers start as NaN: what a backend leaves out shows.
inline Result run(AttentionBackend backend, const AttentionSpec& spec, const Inputs& in,
                  int threads = 2) {
  const Index heads = static_cast<Index>(spec.heads.size());
  const Index nq = spec.rows->query_count();
  const auto unwritten = [](const Shape& shape) {
    return Tensor::from(
        std::vector<float>(static_cast<std::size_t>(element_count(shape)), std::nanf("")), shape);
  };
  Tensor out = unwritten({nq, heads * spec.head_size}).to(in.query.dtype());
  Tensor logsumexp = unwritten({heads, nq});
  attention(backend, spec, {in.query, in.key, in.value, out, &logsumexp, threads});
  return {out.to_floats(), logsumexp.to_floats()};
}

inline HeadPattern symmetric(Index reach, Index dilation = 1) { return {reach, reach, dilation}; }
inline HeadPattern previous(Index reach, Index dilation = 1) { return {reach, 0, dilation}; }

/// The rows of a spec, to be changed; those that other specs share stay as they are.
inline AttentionRows& edit(AttentionSpec& spec) {
  auto rows = std::make_shared<AttentionRows>(*spec.rows);
  AttentionRows& edited = *rows;
  spec.rows = std::move(rows);
  return edited;
}

/// Queries and keys are rows of their own.
inline void set_documents(AttentionSpec& spec, std::vector<AttentionDocument> documents) {
  AttentionRows& rows = edit(spec);
  rows.documents = std::move(documents);
  rows.self_attention = false;
}

inline AttentionSpec ragged(const std::vector<Index>& lengths, Index heads, Index head_size,
                            HeadPattern pattern) {
  AttentionSpec spec = self_attention(0, heads, head_size, pattern);
  std::vector<Index> starts = {0};
  for (const Index length : lengths) starts.push_back(starts.back() + length);
  spec.rows = shared(self_attention_rows(starts));
  return spec;
}

/// Masks the rows, and takes them out of the global keys.
inline void mask(AttentionSpec& spec, const std::vector<Index>& rows) {
  AttentionRows& edited = edit(spec);
  if (edited.key_mask.empty()) edited.key_mask.assign(at(edited.key_count()), 1);
  for (const Index row : rows) {
    edited.key_mask[at(row)] = 0;
    std::erase(edited.global_keys, row);
  }
}

inline std::vector<Index> all_rows(Index n) {
  std::vector<Index> rows(static_cast<std::size_t>(n));
  for (Index i = 0; i < n; ++i) rows[i] = i;
  return rows;
}

inline AttentionSpec random_spec(std::mt19937& generator) {
  const auto below = [&](Index limit) {
    return std::uniform_int_distribution<Index>(0, limit - 1)(generator);
  };
  const bool plain = below(2) == 0;
  std::vector<Index> lengths;
  for (Index d = 0; d <= below(4); ++d) lengths.push_back(below(1 + (below(2) == 0 ? 40 : 220)));
  AttentionSpec spec = ragged(lengths, 1 + below(3), 1 + below(70), symmetric(below(50)));
  for (HeadPattern& head : spec.heads) {
    if (plain) continue;
    head = {below(80), below(80), 1 + below(2) * below(6)};
    if (head.dilation == 1 && below(3) == 0) head = {below(4), below(4), 1, 2 + below(70)};
    if (below(5) == 0) head.reach_left = kUnlimitedReach;
  }
  if (below(5) == 0) spec.log_weight = static_cast<float>(below(40) - 20) / 10;
  spec.causal = !plain && below(2) == 0;
  const Index n = spec.rows->key_count();
  const Index share = std::array<Index, 4>{1000, 50, 5, 1}[below(4)];
  for (Index j = 0; j < n; ++j) {
    if (below(share) == 0) edit(spec).global_keys.push_back(j);
  }
  if (below(2) == 0) spec.global_queries = GlobalQueries::see_everything;
  const Index holes = std::array<Index, 4>{0, 20, 3, 2}[below(4)];
  for (Index j = 0; holes > 0 && j < n; ++j) {
    if (below(holes) == 0) mask(spec, {j});
  }
  if (below(4) == 0) edit(spec).self_attention = false;
  return spec;
}

}  // namespace longformer::kernels
