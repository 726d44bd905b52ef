// Spans of words as mentions, and links between them (kernels/span_scores.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/span_scores.h"
#include "ops/loss.h"

namespace longformer::ops {

using kernels::SpanFactors;
using kernels::SpanLinks;
using kernels::SpanTable;

/// The score of every span, [C, 1] fp32.
Tensor span_scores(const Context& context, const SpanTable& spans, const SpanFactors& factors);

using kernels::highest_rows;
using kernels::rows_above_zero;

/// See kernels::antecedent_loss.
LossSum antecedent_loss(const Context& context, const SpanLinks& links,
                        std::span<const std::int32_t> clusters, const LossOptions& options);

/// See kernels::best_antecedents. It has no backward pass.
std::vector<Index> best_antecedents(const Context& context, const SpanLinks& links);

}  // namespace longformer::ops
