#include "ops/attention_probabilities.h"

#include <algorithm>

#include "ops/global_rows.h"

namespace longformer::ops {
namespace {

std::span<float> numbers(Tensor& tensor) {
  return {tensor.data<float>(), static_cast<std::size_t>(tensor.size())};
}

/// The global rows of one document with their queries [H, g, d] and keys [H, n, d].
struct ProjectedGlobals {
  GlobalRows rows;
  Tensor query, key;
  AttentionSpec spec;
};

/// Nothing was computed for the rows of global tokens with the local projections.
void clear_rows(const GlobalRows& globals, Tensor& local) {
  const Index width = local.columns();
  for (const Index row : globals.rows) {
    std::fill_n(local.data<float>() + (row - globals.document.query_begin) * width, width, 0.0f);
  }
}

/// [n, g]: the transpose of what the kernel gives.
Tensor global_probabilities(const Context& context, const ProjectedGlobals& globals, Index head) {
  const Index g = globals.rows.count();
  const Index n = globals.rows.document.key_count;
  Tensor rows = context.memory.tensor({g, n}, DType::f32);
  kernels::attention_probabilities(globals.spec, globals.query, globals.key, {0, head},
                                   numbers(rows), context.threads);
  Tensor columns = context.memory.tensor({n, g}, DType::f32);
  const float* from = rows.data<float>();
  float* to = columns.data<float>();
  for (Index c = 0; c < g; ++c) {
    for (Index i = 0; i < n; ++i) to[i * g + c] = from[c * n + i];
  }
  return columns;
}

}  // namespace

void attention_probabilities(const Context& context, const AttentionSpec& spec,
                             const ProbabilityInputs& in, std::span<const Index> heads,
                             const std::function<void(const HeadProbabilities&)>& observe) {
  std::vector<GlobalRows> with_globals;
  if (in.projections != nullptr) with_globals = documents_with_globals(spec);
  auto next = with_globals.begin();
  for (std::size_t document = 0; document < spec.rows->documents.size(); ++document) {
    ProjectedGlobals globals;
    const bool has_globals =
        next != with_globals.end() &&
        next->document.query_begin == spec.rows->documents[document].query_begin;
    if (has_globals) {
      globals.rows = *next++;
      globals.query =
          project_global_queries(context, *in.x, globals.rows, *in.projections, spec.head_size);
      globals.key = project_document(context, *in.x, globals.rows, in.projections->key_weight,
                                     in.projections->key_bias, spec.head_size);
      globals.spec = global_rows_spec(spec, globals.rows);
    }
    for (const Index head : heads) {
      HeadProbabilities found{
          .which = {static_cast<Index>(document), head}, .local = {}, .global = {}};
      const auto layout = kernels::probability_layout(spec, found.which);
      found.local = context.memory.tensor({layout.rows, layout.columns}, DType::f32);
      kernels::attention_probabilities(spec, in.query, in.key, found.which, numbers(found.local),
                                       context.threads);
      if (has_globals) {
        clear_rows(globals.rows, found.local);
        found.global = global_probabilities(context, globals, head);
      }
      observe(found);
    }
  }
}

}  // namespace longformer::ops
