// Cutting of text into words as the published expressions of byte-level tokenizers do, without an
// engine for expressions (docs/spec/tokenizers.md#j1, #j3).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "text/unicode.h"

namespace longformer::text {

/// In what the published expressions differ. Each matches every character of a text.
struct WordExpression {
  /// GPT-2 has 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+;
  /// else
  /// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
  /// \s*[\r\n]+|\s+(?!\S)|\s+ with what follows.
  bool is_gpt2 = true;
  /// Most digits of a number.
  std::size_t longest_number = 3;
  /// \p{M} counts as \p{L}.
  bool marks_are_letters = false;
};

/// The expression as it stands in tokenizer.json; nothing for one that is not known.
std::optional<WordExpression> word_expression(std::string_view expression);

enum class CharacterClass : std::uint8_t {
  not_yet_known,
  other,
  letter,
  number,
  space,
  mark,
  not_ascii
};

constexpr std::array<CharacterClass, 256> classes_of_bytes() {
  using Class = CharacterClass;
  std::array<Class, 256> classes{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    const unsigned folded = byte | 0x20;
    classes[byte] = byte >= 0x80                               ? Class::not_ascii
                    : folded >= 'a' && folded <= 'z'           ? Class::letter
                    : byte >= '0' && byte <= '9'               ? Class::number
                    : byte == ' ' || (byte >= 9 && byte <= 13) ? Class::space
                                                               : Class::other;
  }
  return classes;
}

inline constexpr auto byte_classes = classes_of_bytes();

/// Finds the words of valid UTF-8 text.
class ExpressionSplitter {
 public:
  using Classes = CharacterTable<CharacterClass>;

  ExpressionSplitter(const WordExpression& expression, std::string_view text, std::size_t end,
                     Classes& classes)
      : expression_(expression), text_(text.data()), end_(end), classes_(classes) {}

  /// End of the word that starts at `begin`, which lies before the end of the text.
  std::size_t word_end(std::size_t begin) const {
    return expression_.is_gpt2 ? gpt2_end(begin) : later_end(begin);
  }

  /// End of the word that a space put before `begin` would start; that of GPT-2 alone.
  std::size_t prefixed_end(std::size_t begin) const {
    const auto [kind, size] = class_at(begin);
    if (kind != CharacterClass::space) return run_end(kind, begin + size);
    const auto run = whitespace_run(begin);
    return run.end == end_ ? end_ : run.last;
  }

 private:
  struct Classified {
    CharacterClass kind;
    std::uint32_t size;
  };
  struct Run {
    std::size_t last;  // start of the last character
    std::size_t end;
  };

  std::size_t gpt2_end(std::size_t begin) const {
    auto position = begin;
    if (text_[begin] == '\'') {
      if (const auto size = contraction(begin)) return begin + size;
    } else if (text_[begin] == ' ') {
      if (++position == end_) return end_;
    }
    const auto [kind, size] = class_at(position);
    return kind == CharacterClass::space ? whitespace_end(begin) : run_end(kind, position + size);
  }

  std::size_t later_end(std::size_t begin) const;

  Classified class_at(std::size_t position) const {
    const auto kind = byte_classes[static_cast<unsigned char>(text_[position])];
    if (kind != CharacterClass::not_ascii) return {kind, 1};
    const auto character = decode_valid(text_ + position);
    auto& known = classes_.at(character.value);
    if (known == CharacterClass::not_yet_known) known = class_of(character.value);
    if (known != CharacterClass::mark) return {known, character.size};
    const bool is_letter = expression_.marks_are_letters;
    return {is_letter ? CharacterClass::letter : CharacterClass::other, character.size};
  }

  static CharacterClass class_of(char32_t character) {
    const auto flags = character_flags(character);
    return flags & CharacterFlags::letter       ? CharacterClass::letter
           : flags & CharacterFlags::number     ? CharacterClass::number
           : flags & CharacterFlags::whitespace ? CharacterClass::space
           : flags & CharacterFlags::later_mark ? CharacterClass::mark
                                                : CharacterClass::other;
  }

  std::size_t run_end(CharacterClass kind, std::size_t position) const {
    while (position < end_) {
      const auto next = byte_classes[static_cast<unsigned char>(text_[position])];
      if (next == kind) {
        ++position;
        continue;
      }
      if (next != CharacterClass::not_ascii) break;
      const auto character = class_at(position);
      if (character.kind != kind) break;
      position += character.size;
    }
    return position;
  }

  Run whitespace_run(std::size_t position) const {
    Run run{position, position};
    while (run.end < end_) {
      const auto character = class_at(run.end);
      if (character.kind != CharacterClass::space) break;
      run.last = run.end;
      run.end += character.size;
    }
    return run;
  }

  // All of it at the end of the text; otherwise the last character is left for the next word.
  std::size_t whitespace_end(std::size_t begin) const {
    const auto run = whitespace_run(begin);
    return run.end == end_ || run.last == begin ? run.end : run.last;
  }

  /// Size of 's, 't, 're, 've, 'm, 'll or 'd.
  std::size_t contraction(std::size_t begin) const {
    const auto left = end_ - begin;
    if (left < 2) return 0;
    const char first = text_[begin + 1];
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    if (left < 3) return 0;
    const char second = text_[begin + 2];
    const bool two = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                     (first == 'l' && second == 'l');
    return two ? 3 : 0;
  }

  /// Takes capitals too, and ſ for s.
  std::size_t folded_contraction(std::size_t begin) const;

  const WordExpression& expression_;
  const char* text_;
  std::size_t end_;
  Classes& classes_;
};

}  // namespace longformer::text
