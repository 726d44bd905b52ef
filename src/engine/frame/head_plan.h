// The plan for the head of a model that is converted to a Longformer
// (docs/spec/conversion.md#c1).
#pragma once

#include "models/convert/tensors.h"

namespace longformer::engine {

/// The layers of the task's head, from their names in the source to those of Longformer. Throws
/// Error for a head that is none of the table or computes something else than Longformer's.
models::HeadPlan plan_head(const models::EncoderConfig& source, const models::Weights& weights);

}  // namespace longformer::engine
