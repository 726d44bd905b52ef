#include "ops/attention_probabilities.h"

#include "kernels/attention/global_rows.h"
#include "kernels/rows.h"

namespace longformer::ops {
namespace {

std::span<float> numbers(Tensor& tensor) {
  return {tensor.data<float>(), static_cast<std::size_t>(tensor.size())};
}

/// The global rows of one document with their queries [H, g, d] and keys [H, n, d].
struct ProjectedGlobals {
  kernels::GlobalRows rows;
  Tensor query, key;
  AttentionSpec spec;
};

/// [n, g]: the transpose of what the kernel gives.
Tensor global_probabilities(const Context& context, const ProjectedGlobals& globals, Index head) {
  const Index g = globals.rows.count();
  const Index n = globals.rows.document.key_count;
  Tensor rows = context.memory.tensor({g, n}, DType::f32);
  kernels::attention_probabilities(globals.spec, {globals.query, globals.key}, {0, head},
                                   numbers(rows), context.threads);
  Tensor columns = context.memory.tensor({n, g}, DType::f32);
  kernels::transpose(rows, columns);
  return columns;
}

}  // namespace

void attention_probabilities(const Context& context, const AttentionSpec& spec,
                             const ProbabilityInputs& in, std::span<const Index> heads,
                             const std::function<void(const HeadProbabilities&)>& observe) {
  std::vector<kernels::GlobalRows> with_globals;
  std::optional<kernels::DistanceKeys> distances;
  if (in.distance_keys != nullptr) distances = view_of(*in.distance_keys);
  if (in.projections != nullptr) with_globals = kernels::documents_with_globals(spec);
  auto next = with_globals.begin();
  for (std::size_t document = 0; document < spec.rows->documents.size(); ++document) {
    ProjectedGlobals globals;
    const bool has_globals =
        next != with_globals.end() &&
        next->document.query_begin == spec.rows->documents[document].query_begin;
    if (has_globals) {
      globals.rows = *next++;
      globals.query =
          kernels::project_global_queries(globals.rows, *in.projections, *in.x, spec.head_size);
      globals.key = context.memory.tensor(
          {static_cast<Index>(spec.heads.size()), globals.rows.document.key_count, spec.head_size},
          DType::f32);
      kernels::project_document(
          globals.rows, {in.projections->key_weight, in.projections->key_bias, spec.head_size},
          *in.x, globals.key, context.threads);
      globals.spec = kernels::global_rows_spec(spec, globals.rows);
    }
    for (const Index head : heads) {
      HeadProbabilities found{
          .which = {static_cast<Index>(document), head}, .local = {}, .global = {}};
      const auto layout = kernels::probability_layout(spec, found.which);
      found.local = context.memory.tensor({layout.rows, layout.columns}, DType::f32);
      kernels::attention_probabilities(
          spec, {in.query, in.key, in.distance_bias, distances ? &*distances : nullptr},
          found.which, numbers(found.local), context.threads);
      if (has_globals) {
        // Nothing was computed for the rows of global tokens with the local projections.
        kernels::clear_rows(found.local, globals.rows.rows, globals.rows.document.query_begin);
        found.global = global_probabilities(context, globals, head);
      }
      observe(found);
    }
  }
}

}  // namespace longformer::ops
