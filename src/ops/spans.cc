#include "ops/spans.h"

#include <utility>

#include "ops/gradients.h"

namespace longformer::ops {

Tensor span_scores(const Context& context, const SpanTable& spans, const SpanFactors& factors) {
  Tensor scores = context.memory.tensor({spans.size(), 1}, DType::f32);
  kernels::span_scores(spans, factors, scores, context.threads);
  if (!wants_backward(context, factors.starts, factors.ends, factors.query, factors.key)) {
    return scores;
  }
  record(context, "span_scores", scores,
         [context, spans, starts = factors.starts, ends = factors.ends, query = factors.query,
          key = factors.key, scale = factors.scale](const Tensor& gradient) {
           const auto like = [&](const Tensor& x) {
             return context.memory.tensor(x.shape(), DType::f32);
           };
           Tensor to_starts = like(starts), to_ends = like(ends);
           Tensor to_query = like(query), to_key = like(key);
           kernels::span_scores_backward(spans, {starts, ends, query, key, scale}, gradient,
                                         {to_starts, to_ends, to_query, to_key}, context.threads);
           send_gradient(context, starts, std::move(to_starts));
           send_gradient(context, ends, std::move(to_ends));
           send_gradient(context, query, std::move(to_query));
           send_gradient(context, key, std::move(to_key));
         });
  return scores;
}

LossSum antecedent_loss(const Context& context, const SpanLinks& links,
                        std::span<const std::int32_t> clusters, const LossOptions& options) {
  if (!wants_backward(context, links.mentions, links.start_query, links.end_query, links.start_key,
                      links.end_key)) {
    return kernels::antecedent_loss(links, clusters, options, nullptr, context.threads);
  }
  const auto like = [&](const Tensor& x) { return context.memory.tensor(x.shape(), DType::f32); };
  Tensor mentions = like(links.mentions);
  Tensor start_query = like(links.start_query), end_query = like(links.end_query);
  Tensor start_key = like(links.start_key), end_key = like(links.end_key);
  const kernels::LinkGradients to = {mentions, start_query, end_query, start_key, end_key};
  const LossSum loss = kernels::antecedent_loss(links, clusters, options, &to, context.threads);
  send_gradient(context, links.mentions, std::move(mentions));
  send_gradient(context, links.start_query, std::move(start_query));
  send_gradient(context, links.end_query, std::move(end_query));
  send_gradient(context, links.start_key, std::move(start_key));
  send_gradient(context, links.end_key, std::move(end_key));
  return loss;
}

std::vector<Index> best_antecedents(const Context& context, const SpanLinks& links) {
  refuse_gradient(context, "best_antecedents", links.mentions, links.start_query, links.end_query);
  return kernels::best_antecedents(links, context.threads);
}

}  // namespace longformer::ops
