// Text as characters of a small alphabet, for character language models
// (docs/spec/language-models.md#d4).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longformer::text {

/// All 256 byte values (enwik8), or space and a to z (text8).
enum class Alphabet { bytes, text8 };

/// "bytes" and "text8".
std::string_view name_of(Alphabet alphabet);
/// Throws Error for any other name.
Alphabet alphabet(const std::string& name);

/// 256 or 27.
std::int64_t alphabet_size(Alphabet alphabet);

/// `name` stands for the text in messages. Throws Error for a byte outside the alphabet, with its
/// place.
void check_characters(Alphabet alphabet, std::string_view text, const std::string& name);

/// Number of each byte of a text of the alphabet: its value, or 0 for a space and 1 to 26 for the
/// letters.
std::vector<std::int32_t> encode_characters(Alphabet alphabet, std::string_view text);

char decode_character(Alphabet alphabet, std::int32_t id);

/// The text8 form of a Wikipedia dump by the published rules of Mahoney's "About the test data":
/// what a reader of the pages sees, in lower case, digits spelled out, all else one space.
std::string text8_of(std::string_view dump);

}  // namespace longformer::text
