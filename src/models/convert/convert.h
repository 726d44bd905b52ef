// Folders of encoders into Longformer folders (spec.md C.1).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace longformer::models {

/// See longformer::ConvertOptions of the public header.
struct ConversionOptions {
  std::optional<Index> max_positions = {};
  /// One for all layers, or one for each; empty keeps those of the source, or takes 512.
  std::vector<Index> windows = {};
  std::string format = "safetensors";
  std::string dtype = {};
  bool overwrite = false;
  std::function<void(const std::string&)> note = {};
};

/// What the source was.
struct ConversionSource {
  std::string model_type;
  Index max_tokens = 0;
};

/// See longformer::convert. Throws Error.
ConversionSource convert_folder(const std::string& source_folder, const std::string& target_folder,
                                const ConversionOptions& options);

}  // namespace longformer::models
