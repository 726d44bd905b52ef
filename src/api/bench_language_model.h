// How fast a language model reads a text and goes on with it.
#pragma once

#include "longformer/analysis.h"

namespace longformer {

/// See bench_generate. `config_file` is that of the model; without `has_weights` they are drawn.
GenerateBenchResult bench_language_model(const GenerateBenchOptions& options,
                                         const std::string& config_file, bool has_weights);

}  // namespace longformer
