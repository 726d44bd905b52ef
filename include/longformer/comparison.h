// How far two models of one vocabulary are from each other on given texts, layer by layer: what a
// conversion has changed, and what training has brought back.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "longformer/model.h"
#include "longformer/tokenizer.h"

namespace longformer {

struct LayerDifference {
  /// Frobenius norm of the difference of the hidden states by that of the first model's.
  double relative_error = 0;
  /// The same of a layer that was given what the first model's layer reads: what this layer changes
  /// by itself, without what the layers below it have changed. Of the embeddings as relative_error.
  double alone = 0;
  /// Mean over the texts of the cosine between the mean vectors of both.
  double cosine = 0;
};

struct ModelComparison {
  /// Embeddings first, then one for each layer.
  std::vector<LayerDifference> layers;
  std::int64_t texts = 0, tokens = 0;
};

/// Texts longer than `max_length` tokens (0: than either model reads) are cut. Throws Error for
/// models of different layers, widths or vocabularies, when there is no text, and for hidden states
/// that are not finite.
ModelComparison compare_models(const Model& first, const Model& second, const Tokenizer& tokenizer,
                               std::span<const std::string> texts, std::int64_t max_length = 0,
                               const std::function<void(std::int64_t done)>& progress = {});

}  // namespace longformer
