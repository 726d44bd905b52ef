#include "ops/global_attention.h"

#include <memory>
#include <utility>
#include <vector>

#include "kernels/attention/global_attention.h"
#include "ops/gradients.h"
#include "ops/on_device.h"

namespace longformer::ops {
namespace {

using kernels::GlobalRows;

/// Tensors kept for the backward pass of a layer.
struct Kept {
  AttentionSpec spec;
  GlobalProjections projections;
  Tensor x;
  std::vector<GlobalRows> documents;
  std::vector<kernels::GlobalSummary> summaries;
};

float* sum_of(const Tensor& parameter) {
  return wants_gradient(parameter) ? parameter_gradient(parameter).data<float>() : nullptr;
}

void global_attention_backward(const Context& context, const Kept& kept, Dropout dropout,
                               Tensor& gradient) {
  const GlobalProjections& p = kept.projections;
  const kernels::GlobalGradients sums = {.query_weight = sum_of(p.query_weight),
                                         .query_bias = sum_of(p.query_bias),
                                         .key_weight = sum_of(p.key_weight),
                                         .value_weight = sum_of(p.value_weight),
                                         .value_bias = sum_of(p.value_bias)};
  Tensor dx = context.memory.zeros(kept.x.shape(), kept.x.dtype());
  for (std::size_t i = 0; i < kept.documents.size(); ++i) {
    kernels::global_attention_backward(
        {kept.spec, p, kept.documents[i], kept.x, dropout, context.threads}, kept.summaries[i],
        sums, gradient, dx);
  }
  send_gradient(context, kept.x, std::move(dx));
}

}  // namespace

void global_attention(const Context& context, const AttentionSpec& spec,
                      const GlobalProjections& projections, const Tensor& x, Tensor& attended) {
  if (x.is_on_device()) return on_device::global_attention(spec, projections, x, attended);
  // A pass without a backward pass projects all tokens instead if many of them are global.
  // Ranks that share a document would have to send keys and values.
  const bool serves =
      (context.tape == nullptr || !context.tape->keeps_steps()) && !spec.rows->division;
  const bool trained = wants_backward(context, x, attended, projections);
  // The masks of the local probabilities are others.
  const Dropout dropout = {.rate = spec.dropout.rate, .seed = random_bits(spec.dropout.seed, 1)};
  auto kept = std::make_shared<Kept>();
  std::vector<GlobalRows> documents = kernels::documents_with_globals(spec);
  if (documents.empty()) return;
  for (GlobalRows& globals : documents) {
    const kernels::GlobalAttention in{spec, projections, globals, x, dropout, context.threads};
    if (globals.count() > spec.head_size && serves && !dropout.active()) {
      kernels::write_projected_global_rows(in, context.memory, attended);
      continue;
    }
    kernels::GlobalSummary summary = kernels::summarise(in);
    kernels::write_global_rows(in, summary, attended);
    if (!trained) continue;
    kept->summaries.push_back(std::move(summary));
    kept->documents.push_back(std::move(globals));
  }
  if (!trained) return;
  if (!wants_gradient(attended)) Tape::track(attended);
  if (kept->documents.empty()) return;
  kept->spec = spec;
  kept->projections = projections;
  kept->x = x;
  context.tape->record("global_attention", [context, kept, dropout, slot = attended.gradient()] {
    if (slot->sum.empty()) return;
    slot->sum = owned(context, std::move(slot->sum));
    global_attention_backward(context, *kept, dropout, slot->sum);
  });
}

}  // namespace longformer::ops
