// The table of compare, which convert shows too.
#pragma once

#include <string>

#include "flags.h"
#include "inputs.h"

namespace longformer::cli {

struct ComparisonReport {
  std::string first, second;
  /// 0: as many tokens as both models read.
  std::int64_t max_length = 0;

  /// A table, or a line of JSON. Throws Error for texts that cannot be read.
  std::string text(Inputs& inputs, const ModelFlags& flags, Messages& messages) const;
};

}  // namespace longformer::cli
