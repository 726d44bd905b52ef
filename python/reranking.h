// The reranker, shared by the parts of the module.
#pragma once

#include "loaded.h"
#include "longformer/reranking.h"

namespace longformer {

using PythonReranker = Loaded<Reranker>;

}  // namespace longformer
