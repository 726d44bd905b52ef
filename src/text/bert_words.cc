#include "text/bert_words.h"

#include <algorithm>

namespace longformer::text {
namespace {

enum class Kind { word, isolated, space };

Kind kind_of(char32_t character) {
  const auto flags = character_flags(character);
  if (flags & CharacterFlags::whitespace) return Kind::space;
  return flags & CharacterFlags::punctuation ? Kind::isolated : Kind::word;
}

// ASCII capitals of eight bytes to lower case; other bytes below 0x80 stay.
std::uint64_t lowercase_bytes(std::uint64_t bytes) {
  constexpr std::uint64_t ones = 0x0101010101010101u;
  const auto from_a = bytes + ones * (0x80 - 'A');
  const auto beyond_z = bytes + ones * (0x7f - 'Z');
  const auto capital = (from_a ^ beyond_z) & (ones * 0x80);
  return bytes | (capital >> 2);
}

char lowercase_byte(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

}  // namespace

BertWordEncoder::BertWordEncoder(const TokenizerSpec& spec)
    : pieces_(spec.vocabulary, spec.word_piece),
      steps_(spec.normalization),
      decomposes_(contains(steps_, NormalizationKind::decompose) ||
                  contains(steps_, NormalizationKind::decompose_compatible)),
      composes_(contains(steps_, NormalizationKind::compose) ||
                contains(steps_, NormalizationKind::compose_compatible)),
      lowercases_ascii_(contains(steps_, NormalizationKind::lowercase)) {
  byte_effects_.fill(Effect::several);
  for (std::size_t byte = 0; byte < 128; ++byte) {
    const auto form = normal_form(static_cast<char32_t>(byte));
    const auto plain = static_cast<char>(byte);
    const bool same =
        form.size == 1 && form.bytes[0] == (lowercases_ascii_ ? lowercase_byte(plain) : plain);
    if (form.effect == Effect::space || same) byte_effects_[byte] = form.effect;
  }
}

BertWordEncoder::NormalForm BertWordEncoder::normal_form(char32_t character) const {
  NormalForm form;
  if (composes_ && character >= 0x80) {
    form.effect = Effect::context;
    return form;
  }
  std::string text;
  append_utf8(character, text);
  const auto normalized = normalize(steps_, text, 0, text.size());
  std::string bytes;
  int words = 0, isolated = 0, spaces = 0;
  for (const auto& c : normalized) {
    if (decomposes_ && combining_class(c.value) != 0) {
      form.effect = Effect::context;
      return form;
    }
    const auto kind = kind_of(c.value);
    words += kind == Kind::word;
    isolated += kind == Kind::isolated;
    spaces += kind == Kind::space;
    if (kind != Kind::space) append_utf8(c.value, bytes);
  }
  const bool between_spaces =
      words == 1 && spaces == 2 && kind_of(normalized[1].value) == Kind::word;
  const bool fits = bytes.size() <= form.bytes.size();
  form.effect = Effect::several;
  if (normalized.empty()) {
    form.effect = Effect::dropped;
  } else if (fits && isolated + words == 0) {
    form.effect = Effect::space;
  } else if (fits && isolated == 0 && spaces == 0) {
    form.effect = Effect::word;
  } else if (fits && (isolated == 0 ? between_spaces : isolated == 1 && words == 0)) {
    form.effect = Effect::isolated;
  }
  form.size = static_cast<std::uint8_t>(std::min(bytes.size(), form.bytes.size()));
  std::copy_n(bytes.begin(), form.size, form.bytes.begin());
  return form;
}

void BertWordEncoder::flush(Workspace& work, std::vector<TokenSpan>& spans) const {
  if (work.word.empty()) return;
  pieces_.encode(work.word, work.matching, work.tokens);
  std::uint32_t begin = 0;
  for (const auto& token : work.tokens) {
    spans.push_back({token.id, work.begins[begin], work.ends[token.end - 1], false});
    begin = token.end;
  }
  work.word.clear();
  work.begins.clear();
  work.ends.clear();
}

void BertWordEncoder::feed(const NormalizedCharacter& character, Workspace& work,
                           std::vector<TokenSpan>& spans) const {
  const auto kind = kind_of(character.value);
  if (kind != Kind::word) flush(work, spans);
  if (kind == Kind::space) return;
  append_utf8(character.value, work.word);
  work.begins.resize(work.word.size(), character.begin);
  work.ends.resize(work.word.size(), character.end);
  if (kind == Kind::isolated) flush(work, spans);
}

void BertWordEncoder::encode_normalized(std::span<const NormalizedCharacter> characters,
                                        Workspace& work, std::vector<TokenSpan>& spans) const {
  for (const auto& character : characters) feed(character, work, spans);
  flush(work, spans);
}

bool BertWordEncoder::encode_general_word(std::string_view text, std::size_t& position,
                                          std::size_t end, Workspace& work,
                                          std::vector<TokenSpan>& spans) const {
  while (position < end) {
    const auto character = decode_valid(text.data() + position);
    auto& form = work.forms.at(character.value);
    if (form.effect == Effect::not_known_yet) form = normal_form(character.value);
    const auto next = position + character.size;
    if (form.effect == Effect::context) return false;
    if (form.effect == Effect::several) {
      for (auto part : normalize(steps_, text, position, next)) feed(part, work, spans);
    } else if (form.effect != Effect::dropped) {
      if (form.effect != Effect::word) flush(work, spans);
      if (form.effect != Effect::space) {
        work.word.append(form.bytes.data(), form.size);
        work.begins.resize(work.word.size(), static_cast<std::uint32_t>(position));
        work.ends.resize(work.word.size(), static_cast<std::uint32_t>(next));
      }
      if (form.effect == Effect::isolated) flush(work, spans);
    }
    position = next;
    if (work.word.empty()) break;
  }
  flush(work, spans);
  return true;
}

void BertWordEncoder::encode_ascii_word(std::string_view text, std::size_t begin, std::size_t end,
                                        Workspace& work, std::vector<TokenSpan>& spans) const {
  const auto size = end - begin;
  const auto base = static_cast<std::uint32_t>(begin);
  std::uint32_t token_begin = 0;
  const auto append = [&](std::int32_t id, std::uint32_t token_end) {
    spans.push_back({id, base + token_begin, base + token_end, false});
    token_begin = token_end;
  };
  if (size > PieceCache::longest_piece) {
    work.word.assign(text.substr(begin, size));
    if (lowercases_ascii_) {
      std::transform(work.word.begin(), work.word.end(), work.word.begin(), lowercase_byte);
    }
    pieces_.encode(work.word, work.matching, work.tokens);
    work.word.clear();
    for (const auto& token : work.tokens) append(token.id, token.end);
    return;
  }
  auto key = PieceCache::key_of(text.data() + begin, size, text.size() - begin);
  if (lowercases_ascii_) {
    for (auto& word : key.words) word = lowercase_bytes(word);
  }
  if (const auto& entry = work.cache.entry(key); entry.key == key) {
    for (std::size_t i = 0; i < entry.count; ++i) append(entry.ids[i], entry.ends[i]);
    return;
  }
  const std::string_view word(reinterpret_cast<const char*>(key.words.data()), size);
  pieces_.encode(word, work.matching, work.tokens);
  work.cache.store(key, work.tokens);
  for (const auto& token : work.tokens) append(token.id, token.end);
}

void BertWordEncoder::encode(std::string_view text, std::size_t begin, std::size_t end,
                             Workspace& work, std::vector<TokenSpan>& spans) const {
  const auto tokens_before = spans.size();
  const auto effect_at = [&](std::size_t position) {
    return byte_effects_[static_cast<unsigned char>(text[position])];
  };
  auto position = begin;
  while (position < end) {
    const auto effect = effect_at(position);
    if (effect == Effect::space) {
      ++position;
      continue;
    }
    auto word_end = position + 1;
    if (effect == Effect::word) {
      while (word_end < end && effect_at(word_end) == Effect::word) ++word_end;
    }
    const bool plain =
        effect == Effect::isolated ||
        (effect == Effect::word && (word_end == end || effect_at(word_end) != Effect::several));
    if (plain) {
      encode_ascii_word(text, position, word_end, work, spans);
      position = word_end;
    } else if (!encode_general_word(text, position, end, work, spans)) {
      // A mark that normalisation may reorder: rare enough to start over.
      work.word.clear();
      work.begins.clear();
      work.ends.clear();
      spans.resize(tokens_before);
      encode_normalized(normalize(steps_, text, begin, end), work, spans);
      return;
    }
  }
}

}  // namespace longformer::text
