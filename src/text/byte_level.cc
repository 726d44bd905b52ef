#include "text/byte_level.h"

#include <array>

namespace longformer::text {
namespace {

using CharacterClass = std::uint8_t;
constexpr CharacterClass other = 1, letter = 2, number = 3, space = 4;  // 0: not yet known
constexpr CharacterClass not_ascii = 5;

constexpr std::array<CharacterClass, 256> classes_of_bytes() {
  std::array<CharacterClass, 256> classes{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    const unsigned folded = byte | 0x20;
    classes[byte] = byte >= 0x80                               ? not_ascii
                    : folded >= 'a' && folded <= 'z'           ? letter
                    : byte >= '0' && byte <= '9'               ? number
                    : byte == ' ' || (byte >= 9 && byte <= 13) ? space
                                                               : other;
  }
  return classes;
}

constexpr auto byte_classes = classes_of_bytes();

// Cuts valid UTF-8 text into the matches of
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
class Splitter {
 public:
  Splitter(std::string_view text, std::size_t end, CharacterTable<CharacterClass>& classes)
      : text_(text.data()), end_(end), classes_(classes) {}

  /// End of the piece that starts at `begin`, which lies before the end of the text.
  std::size_t piece_end(std::size_t begin) const {
    auto position = begin;
    if (text_[begin] == '\'') {
      if (const auto size = contraction(begin)) return begin + size;
    } else if (text_[begin] == ' ') {
      if (++position == end_) return end_;
    }
    const auto [kind, size] = class_at(position);
    return kind == space ? whitespace_end(begin) : run_end(kind, position + size);
  }

  /// End of the piece that a space put before `begin` would start.
  std::size_t prefixed_end(std::size_t begin) const {
    const auto [kind, size] = class_at(begin);
    if (kind != space) return run_end(kind, begin + size);
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

  Classified class_at(std::size_t position) const {
    const auto kind = byte_classes[static_cast<unsigned char>(text_[position])];
    if (kind != not_ascii) return {kind, 1};
    const auto character = decode_valid(text_ + position);
    auto& known = classes_.at(character.value);
    if (known == 0) {
      const auto flags = character_flags(character.value);
      known = flags & CharacterFlags::letter       ? letter
              : flags & CharacterFlags::number     ? number
              : flags & CharacterFlags::whitespace ? space
                                                   : other;
    }
    return {known, character.size};
  }

  std::size_t run_end(CharacterClass kind, std::size_t position) const {
    while (position < end_) {
      const auto next = byte_classes[static_cast<unsigned char>(text_[position])];
      if (next == kind) {
        ++position;
        continue;
      }
      if (next != not_ascii) break;
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
      if (character.kind != space) break;
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

  const char* text_;
  std::size_t end_;
  CharacterTable<CharacterClass>& classes_;
};

}  // namespace

ByteLevelEncoder::ByteLevelEncoder(const TokenizerSpec& spec)
    : merges_(spec.vocabulary, spec.merges, spec.byte_pair),
      add_prefix_space_(spec.add_prefix_space),
      split_words_(spec.split_words) {}

void ByteLevelEncoder::append_piece(std::string_view piece, std::size_t readable,
                                    std::uint32_t base, Workspace& work,
                                    std::vector<TokenSpan>& spans) const {
  const auto append = [&](std::int32_t id, std::uint32_t begin, std::uint32_t end) {
    spans.push_back({id, base + begin, base + end, false});
  };
  std::uint32_t begin = 0;
  const bool cacheable = piece.size() <= PieceCache::longest_piece;
  PieceCache::Key key;
  if (cacheable) {
    key = PieceCache::key_of(piece.data(), piece.size(), readable);
    if (const auto& entry = work.cache.entry(key); entry.key == key) {
      for (std::size_t i = 0; i < entry.count; ++i) {
        append(entry.ids[i], begin, entry.ends[i]);
        begin = entry.ends[i];
      }
      return;
    }
  }
  merges_.encode(piece, work.merging, work.tokens);
  if (cacheable) work.cache.store(key, work.tokens);
  for (const auto& token : work.tokens) {
    append(token.id, begin, token.end);
    begin = token.end;
  }
}

// The first piece with a space before it; the space takes the place of the first character.
std::size_t ByteLevelEncoder::encode_prefixed(std::string_view text, std::size_t begin,
                                              std::size_t end, Workspace& work,
                                              std::vector<TokenSpan>& spans) const {
  const auto piece_end = split_words_ ? Splitter(text, end, work.classes).prefixed_end(begin) : end;
  work.prefixed = ' ';
  work.prefixed += text.substr(begin, piece_end - begin);
  const auto first = spans.size();
  append_piece(work.prefixed, work.prefixed.size(), 0, work, spans);
  const auto base = static_cast<std::uint32_t>(begin);
  const auto character = decode_valid(text.data() + begin).size;
  for (auto i = first; i < spans.size(); ++i) {
    auto& span = spans[i];
    span.begin = span.begin == 0 ? base : base + span.begin - 1;
    span.end = span.end <= 1 ? base + character : base + span.end - 1;
  }
  return piece_end;
}

void ByteLevelEncoder::encode(std::string_view text, std::size_t begin, std::size_t end,
                              Workspace& work, std::vector<TokenSpan>& spans) const {
  if (begin == end) return;
  if (add_prefix_space_ && text[begin] != ' ') {
    begin = encode_prefixed(text, begin, end, work, spans);
  }
  const Splitter splitter(text, end, work.classes);
  while (begin < end) {
    const auto piece_end = split_words_ ? splitter.piece_end(begin) : end;
    append_piece(text.substr(begin, piece_end - begin), text.size() - begin,
                 static_cast<std::uint32_t>(begin), work, spans);
    begin = piece_end;
  }
}

}  // namespace longformer::text
