// Checkpoints with the names of Transformer-XL's own code, or of `transformers` as long as it had
// the model, into folders of language models (docs/spec/language-models.md#g1-import).
#pragma once

#include <filesystem>
#include <string>

#include "formats/json.h"
#include "longformer/options.h"

namespace longformer::models {

/// Writes config.json and the weights into a folder; returns what the source was. Throws Error for
/// a source with an adaptive softmax, with embeddings of another width, of another attention, or
/// that does not say what its numbers stand for.
ConvertedFrom convert_transformer_xl(const std::string& source_folder,
                                     const std::filesystem::path& target,
                                     const ConvertOptions& options);

}  // namespace longformer::models
