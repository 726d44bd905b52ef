// The embedder, shared by the parts of the module.
#pragma once

#include "loaded.h"
#include "longformer/embedding.h"

namespace longformer {

using PythonEmbedder = Loaded<Embedder>;

}  // namespace longformer
