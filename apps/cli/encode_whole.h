// A document as the tokens of one pass of a model.
#pragma once

#include <string>

#include "inputs.h"
#include "longformer/model.h"
#include "longformer/text.h"
#include "messages.h"

namespace longformer::cli {

struct WholeEncoder {
  const Model& model;
  const Tokenizer& tokenizer;
  /// Keep the first tokens of a document that is too long.
  bool truncate;
  Messages& messages;
};

/// Tokens of the text of a document, with special ones; notes what truncation cut off. Throws Error
/// for more tokens than the model takes.
Encoding encode_whole(const Document& document, const std::string& text,
                      const WholeEncoder& encoder);

}  // namespace longformer::cli
