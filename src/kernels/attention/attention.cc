#include "kernels/attention/attention.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "kernels/attention/backends.h"
#include "kernels/attention/fused.h"
#include "kernels/opencl/attention.h"

namespace longformer::kernels {
namespace {

constexpr std::array<std::pair<AttentionBackend, std::string_view>, 5> kNames = {{
    {AttentionBackend::loop, "loop"},
    {AttentionBackend::chunks, "chunks"},
    {AttentionBackend::fused, "fused"},
    {AttentionBackend::full, "full"},
    {AttentionBackend::opencl, "opencl"},
}};

void check_shape(const char* name, const Tensor& tensor, const Shape& expected) {
  require(tensor.shape() == expected, "attention: expected {} {}, found {}", name,
          to_string(expected), to_string(tensor.shape()));
}

/// Steps of the farthest key that some query of the head may see.
Index farthest_steps(const AttentionSpec& spec, const HeadPattern& head) {
  Index farthest = 0;
  for (const AttentionDocument& document : spec.rows->documents) {
    const Index last = document.query_offset + document.query_count - 1;
    farthest = std::max(farthest, std::min(head.most_left(), last / head.dilation));
  }
  return farthest;
}

/// Throws Error unless there is a relative key for every pair of places.
void check_places(const AttentionSpec& spec, Index distances) {
  const RowPlaces& places = *spec.rows->places;
  const auto first_of = [](std::span<const Index> all) {
    const auto found = std::ranges::find_if(all, [](Index p) { return p != RowPlaces::kNone; });
    return found == all.end() ? RowPlaces::kNone : *found;
  };
  for (const AttentionDocument& document : spec.rows->documents) {
    const auto queries =
        std::span(places.queries).subspan(at(document.query_begin), at(document.query_count));
    const auto keys =
        std::span(places.keys).subspan(at(document.key_begin), at(document.key_count));
    const Index query = first_of(queries), key = first_of(keys);
    if (query == RowPlaces::kNone || key == RowPlaces::kNone) continue;
    const Index nearest = places.origin + query - keys.back();
    const Index farthest = places.origin + queries.back() - key;
    require(nearest >= 0 && farthest < distances,
            "attention: expected relative keys for the distances {} to {}, found {} to {}",
            nearest - places.origin, farthest - places.origin, -places.origin,
            distances - 1 - places.origin);
  }
}

void check_kind_scores(const AttentionSpec& spec, const Tensor* scores) {
  const auto& places = spec.rows->places;
  const bool has_kinds = places && !places->key_kinds.empty();
  require((scores != nullptr) == has_kinds,
          "attention: expected scores of kinds exactly when keys have kinds");
  if (!has_kinds) return;
  const Index kinds = scores->shape().size() == 3 ? scores->dimension(2) : 0;
  check_shape("scores of kinds", *scores,
              {static_cast<Index>(spec.heads.size()), spec.rows->query_count(), kinds});
  require(scores->dtype() == DType::f32, "attention: expected scores of kinds in fp32, found {}",
          name_of(scores->dtype()));
  for (const std::uint8_t kind : places->key_kinds) {
    require(kind == RowPlaces::kNoKind || kind < kinds,
            "attention: expected kinds of keys below {}, found {}", kinds, kind);
  }
}

void check_relative(const AttentionSpec& spec, const AttentionInputs& in) {
  require((in.relative != nullptr) == spec.relative_positions,
          "attention: expected relative keys exactly when the spec has relative positions");
  if (!spec.relative_positions) return;
  const auto heads = static_cast<Index>(spec.heads.size());
  const auto& [content, position, keys, kind_scores] = *in.relative;
  check_shape("a content bias", content, {heads, spec.head_size});
  check_shape("a position bias", position, {heads, spec.head_size});
  require(content.dtype() == DType::f32 && position.dtype() == DType::f32,
          "attention: expected the biases of relative positions in fp32, found {} and {}",
          name_of(content.dtype()), name_of(position.dtype()));
  const Index distances = keys.shape().size() == 3 ? keys.dimension(1) : 0;
  check_shape("relative keys", keys, {heads, distances, spec.head_size});
  require(keys.dtype() == in.query.dtype(), "attention: expected relative keys in {}, found {}",
          name_of(in.query.dtype()), name_of(keys.dtype()));
  check_kind_scores(spec, kind_scores);
  if (spec.rows->places) return check_places(spec, distances);
  for (const HeadPattern& head : spec.heads) {
    const Index farthest = farthest_steps(spec, head);
    require(distances > farthest, "attention: expected relative keys for {} distances, found {}",
            farthest + 1, distances);
  }
}

void check_distance_bias(const AttentionSpec& spec, const AttentionInputs& in) {
  require((in.distance_bias != nullptr) == spec.distance_bias,
          "attention: expected biases exactly when the spec has biases by distance");
  if (!spec.distance_bias) return;
  const Tensor& biases = *in.distance_bias;
  const Index columns = biases.shape().size() == 2 ? biases.dimension(1) : 1;
  check_shape("biases by distance", biases, {static_cast<Index>(spec.heads.size()), columns});
  require(columns % 2 == 1,
          "attention: expected biases of as many distances on either side, found {}", columns);
  require(biases.dtype() == DType::f32, "attention: expected biases by distance in fp32, found {}",
          name_of(biases.dtype()));
}

void check_distance_keys(const AttentionSpec& spec, const AttentionInputs& in) {
  require((in.distance_keys != nullptr) == spec.distance_keys,
          "attention: expected keys of distances exactly when the spec has them");
  if (!spec.distance_keys) return;
  const DistanceKeys& distances = *in.distance_keys;
  const Index count = distances.count();
  for (const Tensor* rows : {distances.keys, distances.queries}) {
    if (rows == nullptr) continue;
    check_shape("keys and queries of distances", *rows,
                {static_cast<Index>(spec.heads.size()), count, spec.head_size});
    require(rows->dtype() == in.query.dtype(),
            "attention: expected keys and queries of distances in {}, found {}",
            name_of(in.query.dtype()), name_of(rows->dtype()));
  }
  const auto& places = distances.rows;
  require(count > 0 && places.size() % 2 == 1,
          "attention: expected rows for as many distances on either side, found {}", places.size());
  require(
      std::is_sorted(places.begin(), places.end()) && places.front() >= 0 && places.back() < count,
      "attention: expected ascending rows of distances below {}", count);
}

/// Runs a backend that computes in fp32 on tensors of either dtype.
template <typename Backend>
void run_in_fp32(Backend backend, const AttentionSpec& spec, const AttentionArguments& in) {
  if (in.out.dtype() == DType::f32) return backend(spec, in);
  const Tensor query = in.query.to(DType::f32);
  const Tensor key = in.key.to(DType::f32);
  const Tensor value = in.value.to(DType::f32);
  Tensor wide(in.out.shape(), DType::f32);
  const Tensor relative_keys = in.relative != nullptr ? in.relative->keys.to(DType::f32) : Tensor();
  std::optional<RelativePositions> relative;
  if (in.relative != nullptr) {
    relative.emplace(RelativePositions{in.relative->content_bias, in.relative->position_bias,
                                       relative_keys, in.relative->kind_scores});
  }
  backend(spec, {.query = query,
                 .key = key,
                 .value = value,
                 .out = wide,
                 .logsumexp = in.logsumexp,
                 .threads = in.threads,
                 .relative = relative ? &*relative : nullptr,
                 .distance_bias = in.distance_bias,
                 .distance_keys = in.distance_keys});
  const float* source = wide.data<float>();
  std::transform(source, source + wide.size(), in.out.data<BFloat16>(),
                 [](float x) { return BFloat16(x); });
}

}  // namespace

void check_inputs(const AttentionSpec& spec, const AttentionInputs& in) {
  const Index heads = static_cast<Index>(spec.heads.size());
  const Index d = spec.head_size;
  const Index nq = spec.rows->query_count();
  const Index nk = spec.rows->key_count();
  check_shape("queries", in.query, {heads, nq, d});
  check_shape("keys", in.key, {heads, nk, d});
  check_shape("values", in.value, {heads, nk, d});
  check_shape("an output", in.out, {nq, heads * d});
  const DType dtype = in.query.dtype();
  require(dtype == DType::f32 || dtype == DType::bf16,
          "attention: expected fp32 or bf16 queries, found {}", name_of(dtype));
  const bool alike =
      in.key.dtype() == dtype && in.value.dtype() == dtype && in.out.dtype() == dtype;
  require(alike, "attention: expected keys, values and output in {}, found {}, {} and {}",
          name_of(dtype), name_of(in.key.dtype()), name_of(in.value.dtype()),
          name_of(in.out.dtype()));
  check_relative(spec, in);
  check_distance_bias(spec, in);
  check_distance_keys(spec, in);
  if (in.logsumexp == nullptr) return;
  check_shape("a logsumexp", *in.logsumexp, {heads, nq});
  require(in.logsumexp->dtype() == DType::f32, "attention: expected a logsumexp in fp32, found {}",
          name_of(in.logsumexp->dtype()));
}

std::string_view name_of(AttentionBackend backend) {
  return kNames[static_cast<std::size_t>(backend)].second;
}

AttentionBackend attention_backend(const std::string& name) {
  for (const auto& [backend, known] : kNames) {
    if (known == name) return backend;
  }
  fail("attention backend: expected loop, chunks, fused, full or opencl, found \"{}\"", name);
}

std::optional<std::string> why_not(AttentionBackend backend, const AttentionSpec& spec) {
  if (backend == AttentionBackend::fused) return std::nullopt;
  if (backend == AttentionBackend::opencl) return why_not_opencl(spec);
  if (spec.dropout.active()) return "dropout of probabilities is left to the fused backend";
  if (spec.relative_positions) {
    return "relative positions are left to the fused backend and to OpenCL";
  }
  if (spec.distance_keys) return "keys of distances are left to the fused backend";
  if (spec.distance_bias && backend != AttentionBackend::loop) {
    return "biases by distance are left to the fused backend, to the loop and to OpenCL";
  }
  return backend == AttentionBackend::chunks ? why_not_chunks(spec) : std::nullopt;
}

void attention(AttentionBackend backend, const AttentionSpec& spec, const AttentionArguments& in) {
  check(spec);
  check_inputs(spec, {in.query, in.key, in.value, in.out, in.logsumexp, in.relative,
                      in.distance_bias, in.distance_keys});
  if (const auto reason = why_not(backend, spec)) {
    fail("attention backend {}: {}", name_of(backend), *reason);
  }
  switch (backend) {
    case AttentionBackend::loop:
      run_in_fp32(attention_loop, spec, in);
      break;
    case AttentionBackend::chunks:
      run_in_fp32(attention_chunks, spec, in);
      break;
    case AttentionBackend::full:
      run_in_fp32(attention_full, spec, in);
      break;
    case AttentionBackend::opencl:
      run_in_fp32([is_narrow = in.query.dtype() == DType::bf16](
                      const AttentionSpec& of,
                      const AttentionArguments& wide) { attention_opencl(of, wide, is_narrow); },
                  spec, in);
      break;
    case AttentionBackend::fused:
      attention_fused(spec, in);
  }
  // A number that is added to all scores does not change their softmax.
  if (spec.log_weight == 0 || in.logsumexp == nullptr) return;
  float* logsumexp = in.logsumexp->data<float>();
  for (Index i = 0; i < in.logsumexp->size(); ++i) logsumexp[i] += spec.log_weight;
}

}  // namespace longformer::kernels
