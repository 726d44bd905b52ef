// The options of a conversion that its target has.
#pragma once

#include "longformer/options.h"

namespace longformer {

/// Throws Error that names an option which was given and means nothing for the target, or beside an
/// adapter that is merged.
void refuse_other_options(ConvertOptions options);

}  // namespace longformer
