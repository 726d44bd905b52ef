// The embedder, shared by the parts of the module.
#pragma once

#include "keywords.h"
#include "loaded.h"
#include "longformer/embedding.h"

namespace longformer {

using PythonEmbedder = Loaded<Embedder>;

/// passage_tokens, overlapping_passages, overlap_tokens and context.
void take_passages(Keywords& keywords, Embedder::PassageOptions& passages);

}  // namespace longformer
