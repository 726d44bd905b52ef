// Bytes as tokens, for encoders that begin without a tokenizer (docs/spec/file-formats.md#o10).
#pragma once

#include <cstdint>
#include <filesystem>

#include "text/tokenizer_spec.h"

namespace longformer::text {

/// Ids of the special tokens [PAD], [CLS], [SEP] and [MASK]; byte b has the id kFirstByte + b.
inline constexpr std::int32_t kBytePad = 0, kByteCls = 1, kByteSep = 2, kByteMask = 3;
inline constexpr std::int32_t kFirstByte = 4;
inline constexpr std::int32_t kByteTokens = kFirstByte + 256;

/// Whether the config.json of a folder has the vocabulary "bytes". A language model has symbols of
/// its own, so false. False for a file that cannot be read: its other readers report that.
bool reads_bytes(const std::filesystem::path& folder);

/// The tokenizer: [CLS] text [SEP], and [CLS] text [SEP] pair [SEP] whose second part has type 1.
TokenizerSpec byte_tokenizer();

}  // namespace longformer::text
