// Funnel Transformer, whose layers read fewer rows block by block
// (docs/spec/other-attentions.md#funnel).
#pragma once

#include "models/registry.h"

namespace longformer::models {

Family funnel_family();

}  // namespace longformer::models
