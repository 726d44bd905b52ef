// Folders of encoders into Longformer folders (spec.md C.1).
#pragma once

#include <string>

#include "longformer/convert.h"

namespace longformer::models {

/// longformer::convert of the public header.
ConvertedFrom convert_folder(const std::string& source_folder, const std::string& target_folder,
                             const ConvertOptions& options);

}  // namespace longformer::models
