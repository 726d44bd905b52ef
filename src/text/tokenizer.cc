// The public tokenizer: added tokens, the model between them, truncation, templates, offsets.
#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/fork.h"
#include "longformer/report.h"
#include "longformer/text.h"
#include "text/added_tokens.h"
#include "text/bert_words.h"
#include "text/byte_level.h"
#include "text/encoder_folder.h"
#include "text/encoding_time.h"
#include "text/piece_encoder.h"
#include "text/tokenizer_spec.h"
#include "text/unicode.h"

namespace longformer {
namespace {

using text::AddedToken;
using text::NormalizedCharacter;
using text::TokenSpan;

// Whitespace characters at both ends of a token.
struct EndSpaces {
  std::uint16_t leading = 0;
  std::uint16_t trailing = 0;
};

bool counts_as_space(char32_t c) {
  if (c > ' ' && c < 0x80) return false;
  return c == text::character_of_byte(' ') ||
         (text::character_flags(c) & text::CharacterFlags::whitespace) != 0;
}

EndSpaces end_spaces(std::string_view token) {
  constexpr std::size_t most = 0xffff;
  EndSpaces spaces;
  for (std::size_t i = 0; i < token.size() && spaces.leading < most; ++spaces.leading) {
    const auto character = text::decode_character(token, i);
    if (!counts_as_space(character.value)) break;
    i += character.size;
  }
  for (std::size_t end = token.size(); end > 0 && spaces.trailing < most; ++spaces.trailing) {
    auto begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(token[begin]) & 0xc0) == 0x80) --begin;
    if (!counts_as_space(text::decode_character(token, begin).value)) break;
    end = begin;
  }
  return spaces;
}

// Text that is known to be valid UTF-8; a repaired copy when it was not.
class ValidText {
 public:
  explicit ValidText(std::string_view text) : view_(text) {
    constexpr std::size_t limit = (std::size_t{1} << 32) - 64;
    if (!text::is_valid_utf8(text)) view_ = repaired_ = text::repaired_utf8(text);
    require(view_.size() <= limit, "text: expected at most {} bytes, found {}", limit,
            view_.size());
  }
  std::string_view view() const { return view_; }

 private:
  std::string repaired_;
  std::string_view view_;
};

// How many tokens of the two texts remain, as the Rust library computes it.
std::array<std::int64_t, 2> kept_tokens(std::array<std::int64_t, 2> counts, bool pair,
                                        std::int64_t limit, TruncationStrategy strategy) {
  auto& [first, second] = counts;
  const auto excess = first + second - limit;
  if (excess <= 0) return counts;
  if (limit == 0) return {0, 0};
  if (strategy != TruncationStrategy::longest_first) {
    const bool cut_first = strategy == TruncationStrategy::only_first;
    require(cut_first || pair, "truncation: expected a pair for only_second, found one text");
    auto& target = cut_first ? first : second;
    require(target > excess, "truncation: expected a text of more than {} tokens to cut, found {}",
            excess, target);
    target -= excess;
    return counts;
  }
  if (!pair) return {limit, 0};
  const bool swapped = first > second;
  if (swapped) std::swap(first, second);
  second = first > limit ? first : std::max(first, limit - first);
  if (first + second > limit) {
    first = limit / 2;
    second = first + limit % 2;
  }
  if (swapped) std::swap(first, second);
  return counts;
}

// The text that stands for the token: it is looked for, and the token is decoded to it.
std::string text_of(const text::TokenizerSpec& spec, const AddedToken& token) {
  if (!token.normalized || spec.normalization.empty()) return token.content;
  std::string normalized;
  for (const auto& c :
       text::normalize(spec.normalization, token.content, 0, token.content.size())) {
    text::append_utf8(c.value, normalized);
  }
  return normalized;
}

std::vector<std::pair<std::string, const AddedToken*>> patterns_of(const text::TokenizerSpec& spec,
                                                                   bool normalized) {
  // Special tokens come first, as the one that is found when two have the same normal form.
  std::vector<std::pair<std::string, const AddedToken*>> patterns;
  for (const bool special : {true, false}) {
    for (const auto& token : spec.added) {
      if (token.special != special || token.normalized != normalized) continue;
      patterns.emplace_back(text_of(spec, token), &token);
    }
  }
  return patterns;
}

}  // namespace

struct Tokenizer::Implementation {
  explicit Implementation(text::TokenizerSpec read)
      : spec(std::move(read)),
        raw_matcher(patterns_of(spec, false)),
        normalized_matcher(patterns_of(spec, true)) {
    switch (spec.kind) {
      case text::TokenizerKind::byte_level_bpe:
      case text::TokenizerKind::bytes:
        byte_level.emplace(spec);
        break;
      case text::TokenizerKind::word_piece:
        bert_words.emplace(spec);
        break;
      case text::TokenizerKind::unigram:
      case text::TokenizerKind::byte_pair:
      case text::TokenizerKind::word_level:
        pieces.emplace(spec, normalized_matcher.first_bytes());
        break;
    }
    id_end = spec.vocabulary.id_end();
    for (const auto& token : spec.added) {
      id_end = std::max(id_end, token.id + 1);
      added_texts[token.id] = text_of(spec, token);
      if (token.special) special_texts.insert(token.content);
    }
    if (spec.trimming.empty()) return;
    spaces.resize(static_cast<std::size_t>(id_end));
    for (std::int32_t id = 0; id < id_end; ++id) {
      spaces[static_cast<std::size_t>(id)] = end_spaces(token_text(id));
    }
  }

  // Buffers and caches of one call; calls borrow them so that several threads may encode at once.
  struct Workspace {
    text::ByteLevelEncoder::Workspace byte_level;
    text::BertWordEncoder::Workspace bert_words;
    text::PieceEncoder::Workspace pieces;
    std::array<std::vector<TokenSpan>, 2> spans;
  };

  std::unique_ptr<Workspace> borrow() const {
    const ForkSafeLock lock(mutex);
    if (idle.empty()) return std::make_unique<Workspace>();
    auto workspace = std::move(idle.back());
    idle.pop_back();
    return workspace;
  }

  void give_back(std::unique_ptr<Workspace> workspace) const {
    constexpr std::size_t kept = 1 << 20;
    for (auto& spans : workspace->spans) {
      if (spans.capacity() > kept) spans = {};
    }
    const ForkSafeLock lock(mutex);
    idle.push_back(std::move(workspace));
  }

  std::string_view token_text(std::int32_t id) const {
    const auto found = added_texts.find(id);
    return found == added_texts.end() ? spec.vocabulary.token(id) : found->second;
  }

  void encode_model(std::string_view text, std::size_t begin, std::size_t end, Workspace& work,
                    std::vector<TokenSpan>& spans) const {
    if (byte_level) {
      byte_level->encode(text, begin, end, work.byte_level, spans);
    } else {
      bert_words->encode(text, begin, end, work.bert_words, spans);
    }
  }

  // Normalises a part as a whole, for added tokens in normalised text and for byte-level models.
  void encode_normalized(std::string_view text, std::size_t begin, std::size_t end, Workspace& work,
                         std::vector<TokenSpan>& spans) const {
    const auto characters = text::normalize(spec.normalization, text, begin, end);
    std::string normalized;
    std::vector<std::uint32_t> character_at;  // of each byte
    for (std::uint32_t i = 0; i < characters.size(); ++i) {
      text::append_utf8(characters[i].value, normalized);
      character_at.resize(normalized.size(), i);
    }
    for (const auto& part : normalized_matcher.split(normalized)) {
      const auto first = character_at[part.begin];
      const auto last = character_at[part.end - 1];
      if (part.token) {
        spans.push_back({part.token->id, characters[first].begin, characters[last].end, true});
      } else if (byte_level) {
        const auto tokens_before = spans.size();
        byte_level->encode(normalized, part.begin, part.end, work.byte_level, spans);
        for (auto i = tokens_before; i < spans.size(); ++i) {
          spans[i].begin = characters[character_at[spans[i].begin]].begin;
          spans[i].end = characters[character_at[spans[i].end - 1]].end;
        }
      } else {
        const auto subspan = std::span(characters).subspan(first, last - first + 1);
        if (pieces) {
          pieces->encode_normalized(subspan, work.pieces, spans);
        } else {
          bert_words->encode_normalized(subspan, work.bert_words, spans);
        }
      }
    }
  }

  // Text between added tokens of the raw text.
  void encode_part(std::string_view text, std::size_t begin, std::size_t end, Workspace& work,
                   std::vector<TokenSpan>& spans) const {
    if (pieces) {
      const auto spans_before = spans.size();
      if (pieces->encode(text, begin, end, work.pieces, spans)) return;
      spans.resize(spans_before);
      encode_normalized(text, begin, end, work, spans);
      return;
    }
    const bool raw = spec.normalization.empty();
    if (!raw && (byte_level || !normalized_matcher.empty() ||
                 text::depends_on_context(spec.normalization))) {
      encode_normalized(text, begin, end, work, spans);
      return;
    }
    if (normalized_matcher.empty()) {
      encode_model(text, begin, end, work, spans);
      return;
    }
    for (const auto& part : normalized_matcher.split(text.substr(begin, end - begin))) {
      if (part.token) {
        spans.push_back({part.token->id, static_cast<std::uint32_t>(begin + part.begin),
                         static_cast<std::uint32_t>(begin + part.end), true});
      } else {
        encode_model(text, begin + part.begin, begin + part.end, work, spans);
      }
    }
  }

  void encode_text(std::string_view text, Workspace& work, std::vector<TokenSpan>& spans) const {
    spans.clear();
    spans.reserve(text.size() / 4 + 16);
    for (const auto& part : raw_matcher.split(text)) {
      if (part.token) {
        spans.push_back({part.token->id, static_cast<std::uint32_t>(part.begin),
                         static_cast<std::uint32_t>(part.end), true});
      } else {
        encode_part(text, part.begin, part.end, work, spans);
      }
    }
  }

  EndSpaces spaces_of(const TokenSpan& span, std::string_view text) const {
    return span.added ? end_spaces(text.substr(span.begin, span.end - span.begin))
                      : spaces[static_cast<std::size_t>(span.id)];
  }

  void trim(const TokenSpan& span, bool first, std::string_view text, CharacterSpan& place) const {
    const auto [leading, trailing] = spaces_of(span, text);
    for (const auto& trimming : spec.trimming) {
      if (leading > 0) {
        const bool added = (first || place.begin == 0) && trimming.add_prefix_space && leading == 1;
        place.begin = std::min(place.begin + (added ? 0 : leading), place.end);
      }
      if (trailing > 0 && place.end >= trailing) {
        place.end = std::max(place.end - trailing, place.begin);
      }
    }
  }

  // Writes the tokens of a text behind those that the encoding has.
  void append_text(std::span<const TokenSpan> spans, std::string_view text,
                   const text::TemplatePiece& piece, Encoding& encoding) const {
    const text::CharacterIndex index(text);
    const auto start = encoding.ids.size();
    const auto size = start + spans.size();
    encoding.ids.resize(size);
    encoding.offsets.resize(size);
    encoding.type_ids.resize(size, piece.type_id);
    encoding.special_tokens_mask.resize(size, 0);
    encoding.sequence_ids.resize(size, static_cast<std::int8_t>(piece.sequence));
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const auto& span = spans[i];
      encoding.ids[start + i] = span.id;
      CharacterSpan place{index.starts_before(span.begin), index.starts_before(span.end)};
      if (span.begin < span.end) place.begin = index.character_of(span.begin);
      if (!spec.trimming.empty()) trim(span, i == 0, text, place);
      encoding.offsets[start + i] = place;
    }
  }

  static void append_special(const text::TemplatePiece& piece, Encoding& encoding) {
    for (const auto id : piece.ids) {
      encoding.ids.push_back(id);
      encoding.offsets.push_back({});
      encoding.type_ids.push_back(piece.type_id);
      encoding.special_tokens_mask.push_back(1);
      encoding.sequence_ids.push_back(-1);
    }
  }

  Encoding assemble(std::span<const std::string_view> texts, const Workspace& work,
                    const EncodeOptions& options) const {
    const bool pair = texts.size() == 2;
    const auto& places = pair ? spec.pair : spec.single;
    std::int64_t added = 0;
    for (const auto& piece : places) added += static_cast<std::int64_t>(piece.ids.size());
    if (!options.add_special_tokens) added = 0;
    const std::array<std::int64_t, 2> counts{
        static_cast<std::int64_t>(work.spans[0].size()),
        pair ? static_cast<std::int64_t>(work.spans[1].size()) : 0};
    auto kept = counts;
    if (options.max_length) {
      require(*options.max_length >= added, OptionName("max_length"),
              "expected at least {} for the special tokens, found {}", added, *options.max_length);
      kept = kept_tokens(counts, pair, *options.max_length - added, options.strategy);
    }
    Encoding encoding;
    encoding.truncated = counts[0] + counts[1] - kept[0] - kept[1];
    const auto total = static_cast<std::size_t>(kept[0] + kept[1] + added);
    encoding.ids.reserve(total);
    encoding.offsets.reserve(total);
    encoding.type_ids.reserve(total);
    encoding.special_tokens_mask.reserve(total);
    encoding.sequence_ids.reserve(total);
    for (const auto& piece : places) {
      if (piece.sequence >= 0) {
        const auto which = static_cast<std::size_t>(piece.sequence);
        if (which >= texts.size()) continue;
        const auto count = static_cast<std::size_t>(kept[which]);
        const std::span<const TokenSpan> all = work.spans[which];
        append_text(spec.truncates_left ? all.last(count) : all.first(count), texts[which], piece,
                    encoding);
      } else if (options.add_special_tokens) {
        append_special(piece, encoding);
      }
    }
    return encoding;
  }

  Encoding encode(std::span<const std::string_view> texts, const EncodeOptions& options) const {
    auto work = borrow();
    for (std::size_t i = 0; i < texts.size(); ++i) encode_text(texts[i], *work, work->spans[i]);
    auto encoding = assemble(texts, *work, options);
    give_back(std::move(work));
    return encoding;
  }

  text::TokenizerSpec spec;
  text::AddedTokenMatcher raw_matcher;
  text::AddedTokenMatcher normalized_matcher;
  std::optional<text::ByteLevelEncoder> byte_level;
  std::optional<text::BertWordEncoder> bert_words;
  std::optional<text::PieceEncoder> pieces;
  std::int32_t id_end = 0;
  std::map<std::int32_t, std::string> added_texts;
  std::set<std::string, std::less<>> special_texts;
  std::vector<EndSpaces> spaces;  // of each id, when offsets are trimmed
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<Workspace>> idle;
};

Tokenizer::Tokenizer(std::shared_ptr<const Implementation> implementation)
    : implementation_(std::move(implementation)) {}

std::string tokenizer_folder(const std::string& folder, const std::string& adapter) {
  return !adapter.empty() && text::has_tokenizer(adapter) ? adapter : folder;
}

Tokenizer Tokenizer::load(const std::string& folder, std::span<const std::string> added,
                          bool lowercase) {
  text::TokenizerSpec spec = text::read_tokenizer(text::encoder_folder(folder));
  if (lowercase) {
    spec.normalization.emplace(spec.normalization.begin(), text::NormalizationKind::lowercase);
  }
  for (const std::string& token : added) {
    // One that is looked for in normalised text would not be found where that has no capitals.
    const auto is_known = [&](const text::AddedToken& one) {
      return one.content == token && !one.normalized;
    };
    if (std::ranges::any_of(spec.added, is_known)) continue;
    text::add_token(spec, {.content = token, .normalized = false, .special = true}, folder);
  }
  return Tokenizer(std::make_shared<const Implementation>(std::move(spec)));
}

double& text::seconds_on_tokens() {
  thread_local double seconds = 0;
  return seconds;
}

double Tokenizer::seconds_spent() { return text::seconds_on_tokens(); }

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  Interruption::poll();
  const text::EncodingTime time;
  const ValidText valid(text);
  const std::array<std::string_view, 1> texts{valid.view()};
  EncodeOptions how = options;
  how.add_special_tokens = how.add_special_tokens && has_template_;
  Encoding encoding = implementation_->encode(texts, how);
  check_rows(encoding);
  return encoding;
}

Encoding Tokenizer::encode_pair(std::string_view text, std::string_view pair,
                                const EncodeOptions& options) const {
  Interruption::poll();
  const text::EncodingTime time;
  const ValidText first(text);
  const ValidText second(pair);
  const std::array<std::string_view, 2> texts{first.view(), second.view()};
  EncodeOptions how = options;
  how.add_special_tokens = how.add_special_tokens && has_template_;
  Encoding encoding = implementation_->encode(texts, how);
  check_rows(encoding);
  return encoding;
}

Tokenizer Tokenizer::without_template() const {
  Tokenizer plain = *this;
  plain.has_template_ = false;
  return plain;
}

Tokenizer Tokenizer::with_rows(std::int64_t rows) const {
  Tokenizer limited = *this;
  limited.rows_ = rows;
  return limited;
}

void Tokenizer::check_rows(const Encoding& encoding) const {
  if (rows_ >= implementation_->id_end) return;
  for (const auto id : encoding.ids) {
    require(id < rows_,
            "expected tokens of the model, whose table has {} rows (vocab_size), found '{}' with "
            "the id {} of the tokenizer",
            rows_, implementation_->token_text(id), id);
  }
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  for (const auto id : ids) {
    require(id >= 0 && id < implementation_->id_end, "ids: expected ids from 0 to {}, found {}",
            implementation_->id_end - 1, id);
    const auto token = implementation_->token_text(id);
    const bool known =
        implementation_->added_texts.contains(id) || implementation_->spec.vocabulary.has(id);
    const bool skipped = skip_special_tokens && implementation_->special_texts.contains(token);
    if (known && !skipped) tokens.emplace_back(token);
  }
  return text::decode(implementation_->spec.decoding, std::move(tokens));
}

std::string Tokenizer::token(std::int32_t id) const {
  const auto& all = *implementation_;
  require(id >= 0 && id < all.id_end, "id: expected 0 to {}, found {}", all.id_end - 1, id);
  return std::string(all.token_text(id));
}

std::optional<std::int32_t> Tokenizer::id(std::string_view token) const {
  return text::find_token(implementation_->spec, token);
}

std::int64_t Tokenizer::vocabulary_size() const {
  return std::min<std::int64_t>(implementation_->id_end, rows_);
}

const SpecialTokens& Tokenizer::special_tokens() const { return implementation_->spec.special; }

std::string Tokenizer::kind() const {
  switch (implementation_->spec.kind) {
    case text::TokenizerKind::byte_level_bpe:
      return "byte-level BPE";
    case text::TokenizerKind::word_piece:
      return "WordPiece";
    case text::TokenizerKind::unigram:
      return "Unigram";
    case text::TokenizerKind::byte_pair:
      return "BPE";
    case text::TokenizerKind::word_level:
      return "WordLevel";
    case text::TokenizerKind::bytes:
      return "bytes";
  }
  return "";
}

const std::vector<std::string>& Tokenizer::notes() const { return implementation_->spec.notes; }

std::vector<std::size_t> character_starts(std::string_view text) {
  std::vector<std::size_t> starts;
  starts.reserve(text.size() + 1);
  for (std::size_t i = 0; i < text.size(); i += text::decode_character(text, i).size) {
    starts.push_back(i);
  }
  starts.push_back(text.size());
  return starts;
}

}  // namespace longformer
