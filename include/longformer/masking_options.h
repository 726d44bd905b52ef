// How text for a masked LM is prepared.
#pragma once

#include <cstdint>

namespace longformer {

/// Which tokens of a text a masked-LM model has to guess.
struct MaskingOptions {
  /// A token is chosen with this probability; of the chosen ones 80 % become the mask, 10 % a
  /// random token, 10 % stay (RoBERTa, docs/spec/training.md#c3).
  double probability = 0.15;
  std::uint64_t seed = 1;
  /// Not 0: every so many-th token becomes the mask instead, without chance.
  std::int64_t every = 0;
  /// Length of a row with special tokens; 0 takes what the model takes.
  std::int64_t row_tokens = 0;
  /// Fill rows across the ends of documents, with a separator between.
  bool across_documents = true;
};

}  // namespace longformer
