#include "tasks/multi_hop/multi_hop_reader.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "tasks/multi_hop/edge_rules.h"

namespace longformer::tasks {
namespace {

constexpr std::int8_t kOfNoText = -1, kOfQuestion = 0, kOfParagraphs = 1;

}  // namespace

MultiHopPlaces MultiHopReading::places() const {
  MultiHopPlaces places = {.row_starts = row_starts, .paragraphs = {}, .sentences = {}};
  const auto take = [](const std::vector<Index>& marks, std::vector<Index>& to) {
    std::copy_if(marks.begin(), marks.end(), std::back_inserter(to),
                 [](Index mark) { return mark != kUnread; });
  };
  take(paragraphs, places.paragraphs);
  for (const auto& marks : sentences) take(marks, places.sentences);
  return places;
}

/// A row on its way, and the first token that it has among those of all rows.
struct MultiHopReader::Row {
  Encoding tokens;
  Index begin = 0;
};

MultiHopReader::MultiHopReader(const Tokenizer& tokenizer, ReadingOptions options)
    : tokenizer_(tokenizer),
      // Rows do not overlap: any stride will do.
      rows_(tokenizer,
            [&] {
              options.stride = 0;
              return std::move(options);
            }()),
      marks_(mark_ids(tokenizer, kMultiHopMarks)),
      ends_(row_ends(tokenizer)) {}

Encoding MultiHopReader::encode(const std::string& text) const {
  constexpr const char* kSpaces = " \t\n\r";
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string::npos) return {};
  const std::string words = text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
  const bool space = tokenizer_.kind() == "byte-level BPE";
  Encoding tokens = encode_plain(tokenizer_, space ? " " + words : words);
  refuse_marks(tokens.ids, marks_, kMultiHopMarks);
  const auto first = static_cast<Index>(begin);
  const Index shift = first - (space ? 1 : 0);
  for (CharacterSpan& span : tokens.offsets) {
    span = {std::max(first, span.begin + shift), std::max(first, span.end + shift)};
  }
  return tokens;
}

Encoding MultiHopReader::question_part(const std::string& question) const {
  Encoding part;
  append_token(part, ends_.first, kOfQuestion, true);
  append_token(part, marks_[0], kOfQuestion, true);
  append_text(part, encode(question), kOfQuestion);
  append_token(part, marks_[1], kOfQuestion, true);
  return part;
}

MultiHopReader::Part MultiHopReader::part_of(const Paragraph& paragraph) const {
  const auto [question, question_end, title, title_end, sentence_end] = marks_;
  Part part;
  append_token(part.tokens, title, kOfParagraphs, true);
  part.title = append_text(part.tokens, encode(paragraph.title), kOfParagraphs);
  append_token(part.tokens, title_end, kOfNoText, true);
  for (const std::string& sentence : paragraph.sentences) {
    part.sentences.push_back(append_text(part.tokens, encode(sentence), kOfParagraphs));
    append_token(part.tokens, sentence_end, kOfParagraphs, true);
  }
  return part;
}

std::vector<std::vector<Index>> MultiHopReader::rows_for(std::span<const Part> parts,
                                                         Index room) const {
  std::vector<std::vector<Index>> rows(1);
  Index left = room;
  for (Index i = 0; i < std::ssize(parts); ++i) {
    const Index size = std::ssize(parts[at(i)].tokens.ids);
    const bool begins = rows_.options().too_long == TooLong::split && size > left;
    if (begins && !rows.back().empty()) {
      rows.emplace_back();
      left = room;
    }
    rows.back().push_back(i);
    left = std::max<Index>(0, left - size);
  }
  return rows;
}

/// Appends as much of the paragraph as the row has room for, and notes where things stand.
void MultiHopReader::add(const Part& part, Index number, Index most, Row& row,
                         MultiHopReading& result) const {
  const Index first = row.begin + std::ssize(row.tokens.ids);
  const Index size = std::ssize(part.tokens.ids);
  const Index read = std::min(size, most - std::ssize(row.tokens.ids));
  append_tokens(row.tokens, part.tokens, {0, read});
  result.reading.truncated += size - read;
  const auto mark_at = [&](Index token, Index& unread) {
    unread += token < read ? 0 : 1;
    return token < read ? first + token : kUnread;
  };
  const auto note = [&](Index sentence, TokenRange tokens) {
    const Index count = std::min(tokens.end, read) - tokens.begin;
    if (count <= 0) return;
    ReadText& text = result.texts.emplace_back();
    text = {.paragraph = number,
            .sentence = sentence,
            .first = first + tokens.begin,
            .read = count,
            .offsets = {part.tokens.offsets.begin() + tokens.begin,
                        part.tokens.offsets.begin() + tokens.end}};
  };
  result.paragraphs.push_back(mark_at(0, result.unread_paragraphs));
  note(kTitle, part.title);
  auto& sentences = result.sentences.emplace_back();
  for (Index s = 0; s < std::ssize(part.sentences); ++s) {
    const TokenRange tokens = part.sentences[at(s)];
    note(s, tokens);
    sentences.push_back(mark_at(tokens.end, result.unread_sentences));
  }
}

std::vector<models::Edge> MultiHopReader::edges_of(const MultiHopQuestion& question,
                                                   const Encoding& prefix,
                                                   const MultiHopReading& reading,
                                                   std::size_t first, Index begin) const {
  // The question stands between its marks, behind the first token.
  std::vector<LinkedText> texts = {
      {.text = question.question,
       .offsets = std::span(prefix.offsets).subspan(2, prefix.offsets.size() - 3),
       .first = 2}};
  for (const ReadText& one : std::span(reading.texts).subspan(first)) {
    const Paragraph& paragraph = question.paragraphs[at(one.paragraph)];
    const bool is_title = one.sentence == kTitle;
    const Index mark = is_title ? reading.paragraphs[at(one.paragraph)]
                                : reading.sentences[at(one.paragraph)][at(one.sentence)];
    texts.push_back({.text = is_title ? paragraph.title : paragraph.sentences[at(one.sentence)],
                     .offsets = std::span(one.offsets).first(at(one.read)),
                     .first = one.first - begin,
                     .paragraph = one.paragraph,
                     .is_title = is_title,
                     .mark = mark == kUnread ? kUnread : mark - begin});
  }
  return linked_tokens(texts, rows_.options().edges);
}

MultiHopReading MultiHopReader::read(const MultiHopQuestion& question) const {
  const Encoding prefix = question_part(question.question);
  std::vector<Part> parts;
  for (const Paragraph& paragraph : question.paragraphs) parts.push_back(part_of(paragraph));
  const Index all = std::accumulate(
      parts.begin(), parts.end(), Index{0},
      [](Index sum, const Part& part) { return sum + std::ssize(part.tokens.ids); });
  MultiHopReading result;
  Reading& reading = result.reading;
  reading.prefix = std::ssize(prefix.ids);
  reading.tokens = reading.prefix + all + 1;
  const Index most = rows_.options().max_tokens - 1;
  const Index room = most - reading.prefix;
  require(room > 0, "question: expected at most {} tokens with the special ones, found {}", most,
          reading.prefix + 1);
  require(all <= room || rows_.options().too_long != TooLong::refuse,
          {Remedy::truncate, Remedy::split}, "expected at most {} tokens, found {}",
          rows_.options().max_tokens, reading.tokens);
  Index begin = 0, body = 0;
  for (const auto& paragraphs : rows_for(parts, room)) {
    Row row = {.tokens = prefix, .begin = begin};
    result.row_starts.push_back(begin);
    const std::size_t first_text = result.texts.size();
    for (const Index number : paragraphs) add(parts[at(number)], number, most, row, result);
    const Index read = std::ssize(row.tokens.ids) - reading.prefix;
    reading.ranges.push_back({body, body + read});
    body += read;
    append_token(row.tokens, ends_.separator, kOfNoText, true);
    const Index tokens = std::ssize(row.tokens.ids);
    TokenRow& made = reading.rows.emplace_back(rows_.row_of(std::move(row.tokens), ""));
    if (!rows_.options().edges.empty()) {
      made.edges = edges_of(question, prefix, result, first_text, begin);
    }
    begin += tokens;
  }
  return result;
}

std::vector<Index> multi_hop_globals(const Encoding& row) {
  std::vector<Index> positions;
  for (std::size_t i = 0; i < row.ids.size(); ++i) {
    const bool is_mark = row.sequence_ids[i] == kOfParagraphs && row.special_tokens_mask[i] != 0;
    if (row.sequence_ids[i] == kOfQuestion || is_mark) positions.push_back(static_cast<Index>(i));
  }
  return positions;
}

}  // namespace longformer::tasks
