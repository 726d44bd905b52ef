#include "engine/reading/reading.h"

#include <algorithm>

#include "core/error.h"

namespace longformer::engine {
namespace {

/// Full rows with the least overlap; the last one may be short.
std::vector<TokenRange> filled_rows(Index tokens, Index capacity, Index overlap) {
  std::vector<TokenRange> rows;
  for (Index begin = 0, end = 0; end < tokens; begin = end - overlap) {
    end = std::min(tokens, begin + capacity);
    rows.push_back({begin, end});
  }
  return rows;
}

}  // namespace

std::vector<TokenRange> rows_of(const ReadingOptions& options, Index tokens, Index around,
                                const char* what, bool filled) {
  const Index capacity = options.max_tokens - around;
  const bool splits = options.too_long == TooLong::split && tokens > capacity;
  const Index overlap = splits ? options.stride : 0;
  require(capacity > overlap, "{}: expected at most {} tokens with the special ones, found {}",
          what, options.max_tokens - 1 - overlap, around);
  if (tokens > capacity && options.too_long != TooLong::split) {
    require(options.too_long == TooLong::truncate, {Remedy::truncate, Remedy::split},
            "expected at most {} tokens, found {}", options.max_tokens, tokens + around);
    tokens = capacity;
  }
  return filled ? filled_rows(tokens, capacity, overlap) : plan_segments(tokens, capacity, overlap);
}

RowReader::RowReader(const Tokenizer& tokenizer, ReadingOptions options)
    : tokenizer_(tokenizer), options_(std::move(options)), around_(tokenizer) {
  const Index capacity = options_.max_tokens - around_.size();
  require(capacity > 0, OptionName(options_.length_option),
          "expected at least {} tokens, one more than stand around a text, found {}",
          around_.size() + 1, options_.max_tokens);
  require(
      options_.too_long != TooLong::split || (options_.stride >= 0 && options_.stride < capacity),
      OptionName("stride"), "expected 0 to {} tokens, found {}", capacity - 1, options_.stride);
}

Reading RowReader::read(std::string text) const {
  Encoding tokens = encode_plain(tokenizer_, text);
  return read(std::move(tokens), std::move(text));
}

Reading RowReader::read(Encoding tokens, std::string text) const {
  Reading reading;
  reading.text = std::move(text);
  reading.encoding = std::move(tokens);
  cut(around_, reading);
  return reading;
}

Reading RowReader::read(std::string_view question, std::string text) const {
  Reading reading;
  reading.text = std::move(text);
  reading.encoding = encode_plain(tokenizer_, reading.text);
  const TextTemplate around(tokenizer_, question, options_.max_question_tokens);
  cut(around, reading);
  reading.tokens += around.cut_question_tokens();
  reading.truncated += around.cut_question_tokens();
  return reading;
}

Reading RowReader::read_pair(const std::string& text, std::string pair) const {
  if (options_.too_long == TooLong::split) return read(text, std::move(pair));
  Reading reading;
  add_pair(text, pair, {}, Remedy::truncate, reading);
  return reading;
}

Reading RowReader::read(std::span<const std::string> words) const {
  WordTokens tokens = encode_words(tokenizer_, words);
  Reading reading;
  reading.text = std::move(tokens.text);
  reading.encoding = std::move(tokens.tokens);
  reading.words = std::move(tokens.words);
  reading.word_count = words.size();
  cut(around_, reading);
  return reading;
}

Reading RowReader::read(const ChoiceQuestion& question) const {
  const bool has_context = !question.context.empty();
  EncodeOptions options;
  options.strategy = TruncationStrategy::only_first;
  Reading reading;
  for (const std::string& choice : question.choices) {
    const auto [first, second] = choice_texts(question, choice);
    add_pair(first, second, options,
             has_context ? Remedy::truncate_context : Remedy::truncate_question, reading);
  }
  return reading;
}

void RowReader::add_pair(std::string_view first, std::string_view second, const EncodeOptions& how,
                         Remedy remedy, Reading& reading) const {
  EncodeOptions options = how;
  if (options_.too_long != TooLong::refuse) options.max_length = options_.max_tokens;
  Encoding tokens = tokenizer_.encode_pair(first, second, options);
  const auto count = static_cast<Index>(tokens.ids.size());
  require(count <= options_.max_tokens, {remedy}, "expected at most {} tokens, found {}",
          options_.max_tokens, count);
  reading.tokens = std::max(reading.tokens, count + tokens.truncated);
  reading.truncated = std::max<Index>(reading.truncated, tokens.truncated);
  reading.rows.push_back(row_of(std::move(tokens), second));
}

TokenRow RowReader::row_of(Encoding tokens, std::string_view text) const {
  TokenRow row;
  if (options_.global_positions) row.global_positions = options_.global_positions(tokens, text);
  row.ids = std::move(tokens.ids);
  row.types = std::move(tokens.type_ids);
  return row;
}

void RowReader::cut(const TextTemplate& around, Reading& reading) const {
  const auto tokens = static_cast<Index>(reading.encoding.ids.size());
  reading.ranges = rows_of(options_, tokens, around.size(), "question");
  reading.prefix = around.prefix();
  reading.tokens = tokens + around.size();
  reading.truncated = tokens - reading.read();
  for (const TokenRange& range : reading.ranges) {
    reading.rows.push_back(row_of(around.around(reading.encoding, range), reading.text));
  }
}

Encoding encode_plain(const Tokenizer& tokenizer, std::string_view text) {
  return tokenizer.encode(text, {.add_special_tokens = false, .max_length = {}});
}

WordTokens encode_words(const Tokenizer& tokenizer, std::span<const std::string> words) {
  WordTokens result;
  Encoding& tokens = result.tokens;
  const auto append = [](auto& all, const auto& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  const bool byte_level = tokenizer.kind() == "byte-level BPE";
  std::int64_t begin = 0;  // of the word, in characters of the text
  for (std::size_t w = 0; w < words.size(); ++w) {
    const bool space = byte_level && !words[w].starts_with(' ');
    const Encoding word = encode_plain(tokenizer, space ? " " + words[w] : words[w]);
    append(tokens.ids, word.ids);
    append(tokens.type_ids, word.type_ids);
    append(tokens.special_tokens_mask, word.special_tokens_mask);
    append(tokens.sequence_ids, word.sequence_ids);
    const std::int64_t shift = begin - (space ? 1 : 0);
    for (const CharacterSpan& span : word.offsets) {
      tokens.offsets.push_back(
          {std::max(begin, span.begin + shift), std::max(begin, span.end + shift)});
    }
    result.words.resize(tokens.ids.size(), static_cast<Index>(w));
    result.text += (w == 0 ? "" : " ") + words[w];
    begin += static_cast<std::int64_t>(character_starts(words[w]).size());
  }
  return result;
}

std::pair<std::string, std::string> choice_texts(const ChoiceQuestion& question,
                                                 const std::string& choice) {
  if (question.context.empty()) return {question.question, choice};
  if (question.question.empty()) return {question.context, choice};
  return {question.context, question.question + " " + choice};
}

std::vector<Index> from_second_text(const Encoding& pair) {
  const auto& ids = pair.sequence_ids;
  const auto second = std::find(ids.begin(), ids.end(), 1);
  std::vector<Index> positions;
  if (second == ids.end()) return positions;
  for (Index i = second - ids.begin(); i < static_cast<Index>(ids.size()); ++i) {
    positions.push_back(i);
  }
  return positions;
}

}  // namespace longformer::engine
