// Inputs and patterns for the tests of attention in training.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attention_testing.h"
#include "core/error.h"
#include "kernels/attention/backward.h"
#include "kernels/reference.h"

namespace longformer::kernels {

/// Additional inputs of a case with relative positions.
struct Positions {
  Tensor content_bias, position_bias, keys;
};

inline Positions random_positions(const AttentionSpec& spec, unsigned seed,
                                  DType dtype = DType::f32) {
  Index steps = 1;
  for (std::size_t head = 0; head < spec.heads.size(); ++head) {
    for (const AttentionDocument& document : spec.rows->documents) {
      const Index last = document.query_offset + document.query_count - 1;
      steps = std::max(steps,
                       1 + std::min(spec.heads[head].reach_left, last / spec.heads[head].dilation));
    }
  }
  const auto heads = static_cast<Index>(spec.heads.size());
  return {random_tensor({heads, spec.head_size}, seed),
          random_tensor({heads, spec.head_size}, seed + 1),
          random_tensor({heads, steps, spec.head_size}, seed + 2, dtype)};
}

inline AttentionSpec with_dropout(AttentionSpec spec, float rate = 0.3f) {
  spec.dropout = {.rate = rate, .seed = 11};
  return spec;
}

inline AttentionSpec with_positions(AttentionSpec spec) {
  spec.relative_positions = true;
  return spec;
}

inline AttentionSpec causal(AttentionSpec spec) {
  spec.causal = true;
  return spec;
}

inline AttentionSpec with_globals(AttentionSpec spec, std::vector<Index> globals,
                                  GlobalQueries queries = GlobalQueries::windowed) {
  edit(spec).global_keys = std::move(globals);
  spec.global_queries = queries;
  return spec;
}

inline AttentionSpec masked(AttentionSpec spec, const std::vector<Index>& rows) {
  mask(spec, rows);
  return spec;
}

inline AttentionSpec with_heads(AttentionSpec spec, std::vector<HeadPattern> heads) {
  spec.heads = std::move(heads);
  return spec;
}

inline AttentionSpec with_documents(AttentionSpec spec, std::vector<AttentionDocument> documents) {
  set_documents(spec, std::move(documents));
  return spec;
}

struct Gradients {
  std::vector<float> query, key, value;
  std::vector<float> content_bias, position_bias, relative_keys;
};

/// Buffers of results start as NaN: what is left out shows.
inline Tensor unwritten(const Tensor& like) {
  const std::vector<float> nan(static_cast<std::size_t>(like.size()), std::nanf(""));
  return Tensor::from(nan, like.shape()).to(like.dtype());
}

struct TrainingInputs {
  Inputs in;
  Positions positions;
  Tensor out_gradient;
  /// Gradients of the reference, also in the dtype of the inputs.
  ReferenceAttention<double> truth;
  Tensor out, logsumexp;

  TrainingInputs(const AttentionSpec& spec, unsigned seed, DType dtype)
      : in(random_inputs(spec, seed, dtype)), positions(random_positions(spec, seed + 3, dtype)) {
    const auto heads = static_cast<Index>(spec.heads.size());
    const Shape shape = {spec.rows->query_count(), heads * spec.head_size};
    out_gradient = random_tensor(shape, seed + 6, dtype);
    const RelativePositions given = relative();
    truth = reference_attention<double>(spec, in.query, in.key, in.value,
                                        {.relative = spec.relative_positions ? &given : nullptr});
    out = Tensor::from(std::vector<float>(truth.out.begin(), truth.out.end()), shape).to(dtype);
    logsumexp = Tensor::from(std::vector<float>(truth.logsumexp.begin(), truth.logsumexp.end()),
                             {heads, spec.rows->query_count()});
  }
  RelativePositions relative() const {
    return {positions.content_bias, positions.position_bias, positions.keys};
  }
};

/// Output of fused attention, or of another backend, in rows that begin as NaN.
struct FusedResult {
  Tensor out, logsumexp;

  FusedResult(const AttentionSpec& spec, const TrainingInputs& x, int threads,
              AttentionBackend backend = AttentionBackend::fused)
      : out(unwritten(x.out)), logsumexp(unwritten(x.logsumexp)) {
    const RelativePositions relative = x.relative();
    attention(backend, spec,
              {.query = x.in.query,
               .key = x.in.key,
               .value = x.in.value,
               .out = out,
               .logsumexp = &logsumexp,
               .threads = threads,
               .relative = spec.relative_positions ? &relative : nullptr});
  }
};

/// How gradients are computed: in the form that this CPU takes, in the given one, or by OpenCL.
struct BackwardWay {
  std::optional<BackwardForm> form = std::nullopt;
  AttentionBackend backend = AttentionBackend::fused;
};

inline Gradients run_backward(const AttentionSpec& spec, const TrainingInputs& x, int threads,
                              BackwardWay way = {}) {
  Tensor query = unwritten(x.in.query), key = unwritten(x.in.key), value = unwritten(x.in.value);
  Tensor content = unwritten(x.positions.content_bias);
  Tensor position = unwritten(x.positions.position_bias);
  Tensor keys = unwritten(x.positions.keys);
  const RelativePositions relative = x.relative();
  const RelativeGradients gradients = {content, position, keys};
  const bool given = spec.relative_positions;
  const AttentionBackwardArguments in = {.query = x.in.query,
                                         .key = x.in.key,
                                         .value = x.in.value,
                                         .out = x.out,
                                         .logsumexp = x.logsumexp,
                                         .out_gradient = x.out_gradient,
                                         .query_gradient = query,
                                         .key_gradient = key,
                                         .value_gradient = value,
                                         .relative = given ? &relative : nullptr,
                                         .relative_gradients = given ? &gradients : nullptr,
                                         .threads = threads};
  if (way.backend == AttentionBackend::fused) {
    attention_backward(spec, in, way.form.value_or(backward_form(spec, x.in.query.dtype())));
  } else {
    attention_backward(way.backend, spec, in);
  }
  Gradients result = {query.to_floats(), key.to_floats(), value.to_floats(), {}, {}, {}};
  if (!given) return result;
  result.content_bias = content.to_floats();
  result.position_bias = position.to_floats();
  result.relative_keys = keys.to_floats();
  return result;
}

}  // namespace longformer::kernels
