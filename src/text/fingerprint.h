// Telling tokenizers apart by what they do: files that are written anew stay the same tokenizer.
#pragma once

#include <cstdint>

#include "longformer/text.h"

namespace longformer::text {

/// A number that tokenizers with another vocabulary, or that cut or normalise texts otherwise,
/// hardly share.
std::uint64_t fingerprint(const Tokenizer& tokenizer);

}  // namespace longformer::text
