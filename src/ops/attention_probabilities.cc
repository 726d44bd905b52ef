#include "ops/attention_probabilities.h"

#include "kernels/attention/global_rows.h"
#include "kernels/rows.h"
#include "ops/device.h"

namespace longformer::ops {
namespace {

std::span<float> numbers(Tensor& tensor) {
  return {tensor.data<float>(), static_cast<std::size_t>(tensor.size())};
}

/// The global rows of one document with their queries [H, g, d], and the keys that they see.
struct ProjectedGlobals {
  kernels::GlobalRows rows;
  Tensor query, key;
  AttentionSpec spec;
};

ProjectedGlobals project(const Context& context, const AttentionSpec& spec,
                         const ProbabilityInputs& in, const kernels::GlobalRows& rows) {
  if (in.projections == nullptr) {
    return {rows, kernels::global_queries(rows, in.query), in.key,
            kernels::own_rows_spec(spec, rows)};
  }
  ProjectedGlobals globals = {
      rows, kernels::project_global_queries(rows, *in.projections, *in.x, spec.head_size),
      context.memory.tensor(
          {static_cast<Index>(spec.heads.size()), rows.document.key_count, spec.head_size},
          DType::f32),
      kernels::global_rows_spec(spec, rows)};
  kernels::project_document(rows,
                            {in.projections->key_weight, in.projections->key_bias,
                             in.projections->key_addition, spec.head_size},
                            *in.x, globals.key, context.threads);
  return globals;
}

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
  refuse_device("attention_probabilities", in.query);
  // Global tokens see everything, by projections of their own or by those of all.
  const bool globals_see_all =
      in.projections != nullptr || spec.global_queries == kernels::GlobalQueries::see_everything;
  AttentionSpec windows = spec;
  windows.global_queries = kernels::GlobalQueries::windowed;
  std::vector<kernels::GlobalRows> with_globals;
  std::optional<kernels::DistanceKeys> distances;
  if (in.distance_keys != nullptr) distances = view_of(*in.distance_keys);
  std::optional<kernels::RelativePositions> relative;
  if (in.relative != nullptr) relative.emplace(view_of(*in.relative));
  if (globals_see_all) with_globals = kernels::documents_with_globals(spec);
  auto next = with_globals.begin();
  for (std::size_t document = 0; document < spec.rows->documents.size(); ++document) {
    ProjectedGlobals globals;
    const bool has_globals =
        next != with_globals.end() &&
        next->document.query_begin == spec.rows->documents[document].query_begin;
    if (has_globals) globals = project(context, spec, in, *next++);
    const kernels::ScoreTerm term = in.score_term
                                        ? in.score_term(spec.rows->documents[document].key_count)
                                        : kernels::ScoreTerm();
    for (const Index head : heads) {
      HeadProbabilities found{
          .which = {static_cast<Index>(document), head}, .local = {}, .global = {}};
      const auto layout = kernels::probability_layout(windows, found.which);
      found.local = context.memory.tensor({layout.rows, layout.columns}, DType::f32);
      kernels::attention_probabilities(
          windows,
          {in.query, in.key, in.distance_bias, distances ? &*distances : nullptr,
           relative ? &*relative : nullptr, term},
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
