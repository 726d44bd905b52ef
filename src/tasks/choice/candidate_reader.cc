#include "tasks/choice/candidate_reader.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/random.h"
#include "engine/frame/epoch_order.h"
#include "tasks/engine_names.h"
#include "text/unicode.h"

namespace longformer::tasks {
namespace {

constexpr std::int8_t kSpecial = -1;

/// The words of a text, parted as Python's str.split() parts them, with one space between.
std::string with_single_spaces(std::string_view text) {
  std::string result;
  bool parted = false;
  for (std::size_t at = 0; at < text.size();) {
    const text::DecodedCharacter character = text::decode_character(text, at);
    const bool blank =
        (text::character_flags(character.value) & text::CharacterFlags::whitespace) != 0 ||
        (character.value >= 0x1c && character.value <= 0x1f);
    if (!blank) {
      if (parted && !result.empty()) result += ' ';
      result += text.substr(at, character.size);
    }
    parted = blank;
    at += character.size;
  }
  return result;
}

/// Text with the spaces that tokenized corpora have around punctuation taken out.
std::string joined(std::string text) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kReplacements = {
      {{" .", "."},
       {" ,", ","},
       {" !", "!"},
       {" ?", "?"},
       {"( ", "("},
       {" )", ")"},
       {" 's", "'s"}}};
  for (const auto& [from, to] : kReplacements) {
    for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  }
  return with_single_spaces(text);
}

template <typename Item>
std::vector<Item> permuted(const std::vector<Item>& items, const std::vector<Index>& order) {
  std::vector<Item> result;
  for (const Index i : order) result.push_back(items[static_cast<std::size_t>(i)]);
  return result;
}

}  // namespace

CandidateReader::CandidateReader(const Tokenizer& tokenizer, ReadingOptions options)
    : tokenizer_(tokenizer),
      rows_(tokenizer, std::move(options)),
      marks_(mark_ids(tokenizer, kCandidateMarks)),
      ends_(row_ends(tokenizer)) {}

std::vector<std::int32_t> CandidateReader::encode(const std::string& text) const {
  const bool space = tokenizer_.kind() == "byte-level BPE";
  const std::string words = joined(text);
  auto ids = encode_plain(tokenizer_, space ? " " + words : words).ids;
  refuse_marks(ids, marks_, kCandidateMarks);
  return ids;
}

CandidateTokens CandidateReader::tokens(const ChoiceQuestion& question) const {
  require(!question.choices.empty(), "expected at least one candidate, found none");
  CandidateTokens tokens;
  tokens.question = encode(question.question);
  for (const std::string& choice : question.choices) tokens.candidates.push_back(encode(choice));
  for (const std::string& support : question.supports) tokens.supports.push_back(encode(support));
  if (question.supports.empty() && !question.context.empty()) {
    tokens.supports.push_back(encode(question.context));
  }
  return tokens;
}

Encoding CandidateReader::question_part(const CandidateTokens& tokens,
                                        std::vector<std::int64_t>& places) const {
  const auto [question, question_end, candidate, candidate_end] = marks_;
  Encoding part;
  append_token(part, ends_.first, 0, true);
  append_token(part, question, 0, true);
  append_ids(part, tokens.question, 0);
  append_token(part, question_end, 0, true);
  for (const auto& ids : tokens.candidates) {
    places.push_back(static_cast<std::int64_t>(part.ids.size()));
    append_token(part, candidate, 0, true);
    append_ids(part, ids, 0);
    append_token(part, candidate_end, 0, true);
  }
  return part;
}

Encoding CandidateReader::support_part(const CandidateTokens& tokens) const {
  Encoding part;
  for (const auto& support : tokens.supports) {
    append_token(part, ends_.separator, kSpecial, true);
    append_ids(part, support, 1);
    append_token(part, ends_.separator, kSpecial, true);
  }
  if (tokens.supports.empty()) append_token(part, ends_.separator, kSpecial, true);
  return part;
}

Reading CandidateReader::read(const CandidateTokens& tokens) const {
  Reading reading;
  const Encoding question = question_part(tokens, reading.places);
  const Encoding supports = support_part(tokens);
  reading.prefix = static_cast<Index>(question.ids.size());
  const auto all = static_cast<Index>(supports.ids.size());
  reading.ranges =
      rows_of(rows_.options(), all, reading.prefix, "question and candidates", /*filled=*/true);
  reading.tokens = reading.prefix + all;
  reading.truncated = all - reading.read();
  for (const TokenRange& range : reading.ranges) {
    Encoding row = question;
    append_tokens(row, supports, range);
    reading.rows.push_back(rows_.row_of(std::move(row), ""));
  }
  return reading;
}

std::vector<std::int64_t> of_candidate_part(const Encoding& row) {
  std::vector<std::int64_t> positions;
  while (positions.size() < row.sequence_ids.size() && row.sequence_ids[positions.size()] == 0) {
    positions.push_back(static_cast<std::int64_t>(positions.size()));
  }
  return positions;
}

ShuffledCandidates shuffled(const CandidateTokens& tokens, std::int32_t label, std::uint64_t seed) {
  const auto order =
      engine::shuffled(static_cast<Index>(tokens.candidates.size()), random_bits(seed, 0));
  const auto of_supports =
      engine::shuffled(static_cast<Index>(tokens.supports.size()), random_bits(seed, 1));
  ShuffledCandidates result;
  result.tokens = {.question = tokens.question,
                   .candidates = permuted(tokens.candidates, order),
                   .supports = permuted(tokens.supports, of_supports)};
  result.label =
      static_cast<std::int32_t>(std::find(order.begin(), order.end(), label) - order.begin());
  return result;
}

}  // namespace longformer::tasks
