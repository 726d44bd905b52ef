// Reformers of `transformers` into folders of language models
// (docs/spec/other-attentions.md#h3-import).
#pragma once

#include <filesystem>
#include <string>

#include "formats/json.h"
#include "longformer/options.h"

namespace longformer::models {

/// Writes config.json, the weights and the tokenizer into a folder; returns what the source was.
/// Throws Error for a source that is no decoder, or does not say what its numbers stand for.
ConvertedFrom convert_reformer(const std::string& source_folder,
                               const std::filesystem::path& target, const ConvertOptions& options);

}  // namespace longformer::models
