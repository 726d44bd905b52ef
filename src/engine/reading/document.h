// A document on its way through a model.
#pragma once

#include <string>
#include <vector>

#include "engine/reading/reading.h"
#include "longformer/error.h"

namespace longformer::engine {

/// Its rows, what the head says of each, or why there is nothing.
struct Document {
  Reading reading;
  /// Logits of each row that has been run: [outputs], or [n, outputs] of a head that speaks for
  /// every token.
  std::vector<std::vector<float>> outputs;
  std::string error;
  std::vector<Remedy> remedies;
};

/// Result of `read`; a document with an error when it throws Error.
template <typename Read>
Document read_document(Read&& read) {
  Document document;
  try {
    document.reading = read();
  } catch (const Error& error) {
    document.error = error.what();
    document.remedies = error.remedies();
  }
  return document;
}

}  // namespace longformer::engine
