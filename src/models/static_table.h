// Static embeddings: a table of tokens in place of a model with layers
// (docs/spec/other-vectors.md#v1).
#pragma once

#include <string>

#include "models/config.h"
#include "models/layers.h"

namespace longformer::models {

/// Whether a folder holds a table of tokens: config.json says model2vec, or modules.json begins
/// with a StaticEmbedding.
bool is_static_table(const std::string& folder);

/// The configuration of such a folder, which the shapes of its tensors tell: an encoder without
/// layers. Throws Error that names file and tensor.
EncoderConfig static_config(const std::string& folder);

/// The rows of all tokens, [V, D]. Where the file has rows for groups of tokens (`mapping`) or a
/// weight for each token (`weights`), they are multiplied out.
Tensor static_rows(const EncoderConfig& config, const LayerSource& source);

}  // namespace longformer::models
