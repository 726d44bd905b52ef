// How texts are written, as the parts of the module share it.
#pragma once

#include "keywords.h"
#include "longformer/options.h"

namespace longformer {

/// Those that no field has taken, under the names of `transformers`. Throws Error for others.
GenerationOptions generation_options(const Keywords& keywords);

}  // namespace longformer
