// Folders of encoders into Longformer folders (docs/spec/conversion.md#c1).
#pragma once

#include <string>

#include "longformer/options.h"
#include "models/convert/tensors.h"

namespace longformer::models {

/// longformer::convert of the public header; `plan_head` says what becomes of heads.
ConvertedFrom convert_folder(const std::string& source_folder, const std::string& target_folder,
                             const ConvertOptions& options, const PlanHead& plan_head);

}  // namespace longformer::models
