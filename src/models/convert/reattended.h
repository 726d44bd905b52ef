// Folders of encoders into the same encoders with another attention: Linformer, Performer,
// BlockBERT, Sparse Transformer, BigBird (docs/spec/low-rank-and-kernels.md#e5, #f6).
#pragma once

#include <string>

#include "formats/json.h"
#include "longformer/options.h"
#include "models/convert/tensors.h"

namespace longformer::models {

/// config.json of the result. Throws Error for a source that is no BERT, RoBERTa or Longformer, and
/// for options that the result cannot have.
nlohmann::ordered_json reattended_config(const std::string& source_folder,
                                         const nlohmann::ordered_json& source,
                                         const EncoderConfig& config, const ConvertOptions& options,
                                         Index max_tokens);

/// All weights of the source but those that only a Longformer has, and the projections or features
/// of `target`, drawn from the seed.
ConvertedWeights reattended_weights(const EncoderConfig& config, const Weights& source,
                                    const EncoderConfig& target, const WeightPlan& plan,
                                    std::uint64_t seed);

}  // namespace longformer::models
