#include "text/piece_encoder.h"

#include <algorithm>
#include <utility>

#include "text/graphemes.h"

namespace longformer::text {
namespace {

constexpr std::size_t padding = 32;  // behind a piece, for PieceCache::key_of
constexpr std::string_view kSpaceMark = "\u2581";
constexpr char32_t kSpaceMarkCharacter = 0x2581;

bool is_whitespace(char32_t c) { return (character_flags(c) & CharacterFlags::whitespace) != 0; }

bool stands_alone(GraphemeClass value) {
  return value == GraphemeClass::other || value == GraphemeClass::pictographic ||
         value == GraphemeClass::hangul_lv || value == GraphemeClass::hangul_lvt;
}

char first_byte(char32_t character) {
  std::string bytes;
  append_utf8(character, bytes);
  return bytes[0];
}

}  // namespace

PieceEncoder::Model PieceEncoder::model_of(const TokenizerSpec& spec) {
  if (spec.kind == TokenizerKind::unigram) return UnigramModel(spec.vocabulary, spec.unigram);
  if (spec.kind == TokenizerKind::word_level) {
    return WordLevelModel(spec.vocabulary, spec.word_level);
  }
  return BytePairEncoder(spec.vocabulary, spec.merges, spec.byte_pair);
}

void PieceEncoder::encode_with_model(std::string_view piece, Workspace& work) const {
  if (const auto* unigram = std::get_if<UnigramModel>(&model_)) {
    unigram->encode(piece, work.best, work.tokens);
  } else if (const auto* pairs = std::get_if<BytePairEncoder>(&model_)) {
    pairs->encode(piece, work.merging, work.tokens);
  } else {
    std::get<WordLevelModel>(model_).encode(piece, work.tokens);
  }
}

PieceEncoder::PieceEncoder(const TokenizerSpec& spec, const std::string& guards)
    : model_(model_of(spec)),
      steps_(spec.normalization),
      cuts_(spec.cuts),
      guards_(guards),
      guarded_spaces_(
          std::any_of(guards.begin(), guards.end(), [](char c) { return c <= ' ' || c > '~'; })),
      has_map_(contains(steps_, NormalizationKind::map)),
      has_prepend_(contains(steps_, NormalizationKind::prepend)) {
  const auto* pairs = std::get_if<BytePairEncoder>(&model_);
  cuts_before_marks_ = pairs != nullptr && pairs->may_cut_before(kSpaceMark);
  by_words_ = works_by_words();
  joins_spaces_ = cuts_.size() == 1;
  if (by_words_) append_utf8(cuts_.back().replacement, mark_);
  ascii_form_.fill(0);
  for (std::size_t byte = '!'; by_words_ && byte < ascii_form_.size(); ++byte) {
    const auto form = normal_form(static_cast<char32_t>(byte));
    const bool plain = form.kind == NormalForm::Kind::simple && form.same_size;
    if (plain) ascii_form_[byte] = form.bytes[0];
  }
}

// Whether text between single spaces becomes tokens by itself.
bool PieceEncoder::works_by_words() const {
  const auto count = cuts_.size();
  if (guarded_spaces_ || count == 0 || count > 2) return false;
  if (count == 2 && cuts_[0].kind != PieceCut::Kind::whitespace) return false;
  if (cuts_.back().kind != PieceCut::Kind::metaspace || !cuts_.back().split) return false;
  for (const auto& step : steps_) {
    if (step.kind != NormalizationKind::replace) continue;
    const bool spaces = step.pattern.find(U' ') != std::u32string::npos;
    if (spaces && step.run < 2) return false;
  }
  const auto space = normalize(steps_, " ", 0, 1, {.begin = false, .end = false});
  return space.size() == 1 && space[0].value == ' ';
}

bool PieceEncoder::is_inert(char32_t c) const {
  return !is_whitespace(c) && c != cuts_.back().replacement && combining_class(c) == 0 &&
         stands_alone(grapheme_class(c)) && guards_.find(first_byte(c)) == std::string::npos;
}

// Whether what the steps make of a character, one after another, is part of a pattern.
bool PieceEncoder::meets_pattern(std::string_view character) const {
  for (auto step = steps_.begin(); step != steps_.end(); ++step) {
    if (step->pattern.empty()) continue;
    const std::vector<NormalizationStep> before(steps_.begin(), step);
    for (const auto& c :
         normalize(before, character, 0, character.size(), {.begin = false, .end = false})) {
      if (step->pattern.find(c.value) != std::u32string::npos) return true;
    }
  }
  return false;
}

PieceEncoder::NormalForm PieceEncoder::normal_form(char32_t character) const {
  NormalForm form;
  form.kind = NormalForm::Kind::context;
  std::string text, bytes;
  append_utf8(character, text);
  if (!is_inert(character) || meets_pattern(text)) return form;
  const auto normalized = normalize(steps_, text, 0, text.size(), {.begin = false, .end = false});
  for (const auto& c : normalized) {
    if (!is_inert(c.value)) return form;
    append_utf8(c.value, bytes);
  }
  if (bytes.empty() || bytes.size() > form.bytes.size()) return form;
  form.kind = NormalForm::Kind::simple;
  form.same_size = normalized.size() == 1 && bytes.size() == text.size();
  form.size = static_cast<std::uint8_t>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), form.bytes.begin());
  return form;
}

const PieceEncoder::NormalForm& PieceEncoder::form_at(const char* position, std::uint32_t& size,
                                                      Workspace& work) const {
  const auto character = decode_valid(position);
  size = character.size;
  auto& form = work.forms.at(character.value);
  if (form.kind == NormalForm::Kind::not_known_yet) form = normal_form(character.value);
  return form;
}

bool PieceEncoder::is_simple(std::string_view text, std::size_t position, Workspace& work) const {
  const auto byte = static_cast<unsigned char>(text[position]);
  if (byte < ascii_form_.size() && ascii_form_[byte] != 0) return true;
  std::uint32_t size = 0;
  return form_at(text.data() + position, size, work).kind == NormalForm::Kind::simple;
}

std::size_t PieceEncoder::simple_end(std::string_view text, std::size_t begin,
                                     Workspace& work) const {
  auto position = begin;
  while (position < text.size()) {
    const auto byte = static_cast<unsigned char>(text[position]);
    if (byte < ascii_form_.size() && ascii_form_[byte] != 0) {
      ++position;
      continue;
    }
    if (byte == ' ') break;
    std::uint32_t size = 0;
    if (form_at(text.data() + position, size, work).kind != NormalForm::Kind::simple) break;
    position += size;
  }
  return position;
}

bool PieceEncoder::is_cut(std::string_view text, std::size_t position, bool behind_simple,
                          Workspace& work) const {
  return behind_simple && text[position] == ' ' && position + 1 < text.size() &&
         is_simple(text, position + 1, work);
}

std::size_t PieceEncoder::next_cut(std::string_view text, std::size_t position, bool behind_simple,
                                   Workspace& work) const {
  while (position < text.size() && !is_cut(text, position, behind_simple, work)) {
    behind_simple = is_simple(text, position, work);
    position += decode_valid(text.data() + position).size;
  }
  return position;
}

bool PieceEncoder::encode(std::string_view text, std::size_t begin, std::size_t end,
                          Workspace& work, std::vector<TokenSpan>& spans) const {
  if (!by_words_) {
    return guards_.empty() && encode_region(text, begin, end, {}, work, spans);
  }
  text = text.substr(0, end);
  // Each region but the first begins with a space between two simple characters.
  for (auto region = begin; region < end;) {
    const bool first = region == begin;
    const auto word = first ? region : region + 1;
    const auto word_end = simple_end(text, word, work);
    const bool has_word = word_end > word;
    const bool whole = word_end == end || is_cut(text, word_end, has_word, work);
    if (has_word && whole && !(first && has_prepend_)) {
      encode_word(text.substr(0, word_end), word, !first, work, spans);
      region = word_end;
      continue;
    }
    const auto next = next_cut(text, word_end, has_word, work);
    if (first && has_map_ && drops_beginning(steps_, text.substr(begin, next - begin))) {
      return guards_.empty() && encode_region(text, begin, end, {}, work, spans);
    }
    if (!encode_region(text, region, next, {first, next == end}, work, spans)) return false;
    region = next;
  }
  return true;
}

bool PieceEncoder::encode_region(std::string_view text, std::size_t begin, std::size_t end,
                                 TextEnds ends, Workspace& work,
                                 std::vector<TokenSpan>& spans) const {
  const auto characters = normalize(steps_, text, begin, end, ends);
  const bool guarded =
      !guards_.empty() && std::any_of(characters.begin(), characters.end(), [&](const auto& c) {
        return guards_.find(first_byte(c.value)) != std::string::npos;
      });
  if (guarded) return false;
  encode_normalized(characters, work, spans);
  return true;
}

void PieceEncoder::find_tokens(std::size_t size, Workspace& work) const {
  work.piece.resize(size + padding);
  const std::string_view piece(work.piece.data(), size);
  if (size > PieceCache::longest_piece) {
    encode_with_model(piece, work);
    return;
  }
  const auto key = PieceCache::key_of(piece.data(), size, work.piece.size());
  if (const auto& entry = work.cache.entry(key); entry.key == key) {
    work.tokens.resize(entry.count);
    for (std::size_t i = 0; i < entry.count; ++i) work.tokens[i] = {entry.ids[i], entry.ends[i]};
    return;
  }
  encode_with_model(piece, work);
  work.cache.store(key, work.tokens);
}

// The word goes to the end of the text.
void PieceEncoder::encode_word(std::string_view text, std::size_t begin, bool behind_space,
                               Workspace& work, std::vector<TokenSpan>& spans) const {
  const bool joins = behind_space && joins_spaces_;
  const bool marked = joins || takes_prefix(begin, cuts_.back());
  work.piece.assign(marked ? mark_ : "");
  bool same_places = true;
  std::uint32_t size = 0;
  for (auto i = begin; i < text.size(); i += size) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < ascii_form_.size() && ascii_form_[byte] != 0) {
      work.piece += ascii_form_[byte];
      size = 1;
      continue;
    }
    const auto& form = form_at(text.data() + i, size, work);
    work.piece.append(form.bytes.data(), form.size);
    same_places = same_places && form.same_size;
  }
  const auto mark_size = marked ? mark_.size() : 0;
  const auto mark_begin = joins ? begin - 1 : begin;
  const auto mark_end = joins ? begin : begin + decode_valid(text.data() + begin).size;
  if (!same_places) {
    work.begins.assign(mark_size, static_cast<std::uint32_t>(mark_begin));
    work.ends.assign(mark_size, static_cast<std::uint32_t>(mark_end));
    for (auto i = begin; i < text.size(); i += size) {
      const auto& form = form_at(text.data() + i, size, work);
      work.begins.resize(work.begins.size() + form.size, static_cast<std::uint32_t>(i));
      work.ends.resize(work.ends.size() + form.size, static_cast<std::uint32_t>(i + size));
    }
  }
  find_tokens(work.piece.size(), work);
  std::uint32_t token_begin = 0, last_end = 0;
  for (const auto& token : work.tokens) {
    if (token.end != last_end) token_begin = std::exchange(last_end, token.end);
    auto place_begin = token_begin < mark_size ? mark_begin : begin + token_begin - mark_size;
    auto place_end = token.end <= mark_size ? mark_end : begin + token.end - mark_size;
    if (!same_places) {
      place_begin = work.begins[token_begin];
      place_end = work.ends[token.end - 1];
    }
    spans.push_back({token.id, static_cast<std::uint32_t>(place_begin),
                     static_cast<std::uint32_t>(place_end), false});
  }
}

void PieceEncoder::encode_piece(std::span<const NormalizedCharacter> characters, Workspace& work,
                                std::vector<TokenSpan>& spans) const {
  work.piece.clear();
  work.begins.clear();
  work.ends.clear();
  for (const auto& c : characters) {
    append_utf8(c.value, work.piece);
    work.begins.resize(work.piece.size(), c.begin);
    work.ends.resize(work.piece.size(), c.end);
  }
  find_tokens(work.piece.size(), work);
  std::uint32_t begin = 0, last_end = 0;
  for (const auto& token : work.tokens) {
    if (token.end != last_end) begin = std::exchange(last_end, token.end);
    spans.push_back({token.id, work.begins[begin], work.ends[token.end - 1], false});
  }
}

void PieceEncoder::encode_normalized(std::span<const NormalizedCharacter> normalized,
                                     Workspace& work, std::vector<TokenSpan>& spans) const {
  if (normalized.empty()) return;
  Characters characters(normalized.begin(), normalized.end());
  PieceRanges pieces{{0, characters.size()}};
  for (const auto& cut : cuts_) apply(cut, characters, pieces);
  const std::span all(characters);
  for (auto [begin, end] : pieces) {
    for (auto i = begin + 1; cuts_before_marks_ && i < end; ++i) {
      if (characters[i].value != kSpaceMarkCharacter ||
          characters[i - 1].value == kSpaceMarkCharacter) {
        continue;
      }
      encode_piece(all.subspan(begin, i - begin), work, spans);
      begin = i;
    }
    encode_piece(all.subspan(begin, end - begin), work, spans);
  }
}

}  // namespace longformer::text
