#include "text/byte_level.h"

namespace longformer::text {

ByteLevelEncoder::ByteLevelEncoder(const TokenizerSpec& spec)
    : merges_(spec.vocabulary, spec.merges, spec.byte_pair),
      expressions_(spec.expressions),
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
  const auto piece_end =
      split_words_ ? ExpressionSplitter(gpt2_, text, end, work.classes).prefixed_end(begin) : end;
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
  encode_words(text, {begin, end}, expressions_, work, spans);
}

void ByteLevelEncoder::encode_words(std::string_view text, Range range,
                                    std::span<const WordExpression> expressions, Workspace& work,
                                    std::vector<TokenSpan>& spans) const {
  auto [begin, end] = range;
  if (begin == end) return;
  if (!expressions.empty()) {
    const ExpressionSplitter splitter(expressions[0], text, end, work.classes);
    while (begin < end) {
      const auto word_end = splitter.word_end(begin);
      encode_words(text, {begin, word_end}, expressions.subspan(1), work, spans);
      begin = word_end;
    }
    return;
  }
  if (add_prefix_space_ && text[begin] != ' ') {
    begin = encode_prefixed(text, begin, end, work, spans);
  }
  const ExpressionSplitter splitter(gpt2_, text, end, work.classes);
  while (begin < end) {
    const auto piece_end = split_words_ ? splitter.word_end(begin) : end;
    append_piece(text.substr(begin, piece_end - begin), text.size() - begin,
                 static_cast<std::uint32_t>(begin), work, spans);
    begin = piece_end;
  }
}

}  // namespace longformer::text
