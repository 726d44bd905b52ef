#include "tasks/collation.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace longformer::tasks {
namespace {

/// First and last token of an answer, when it lies whole in the tokens of the range.
std::optional<TokenRange> answer_tokens(std::span<const CharacterSpan> offsets, TokenRange range,
                                        CharacterSpan answer) {
  const auto begin = offsets.begin() + range.begin;
  const auto end = offsets.begin() + range.end;
  const auto first = std::find_if(
      begin, end, [&](const CharacterSpan& token) { return token.end > answer.begin; });
  if (first == end || first->begin >= answer.end) return std::nullopt;
  const auto behind = std::find_if(
      first, end, [&](const CharacterSpan& token) { return token.begin >= answer.end; });
  // An answer that goes on behind the range or before it has tokens outside.
  const auto outside = [&](Index token) {
    const CharacterSpan& span = offsets[at(token)];
    return span.begin < answer.end && span.end > answer.begin;
  };
  if (range.begin > 0 && first == begin && outside(range.begin - 1)) return std::nullopt;
  const auto count = static_cast<Index>(offsets.size());
  if (behind == end && range.end < count && outside(range.end)) return std::nullopt;
  return TokenRange{first - offsets.begin(), behind - offsets.begin()};
}

void sort_and_unite(std::vector<Index>& positions) {
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
}

}  // namespace

Collator::Collator(const Tokenizer& tokenizer, ReadingOptions options, bool label_all_pieces)
    : reader_(tokenizer, std::move(options)), label_all_pieces_(label_all_pieces) {}

void Collator::count(const Reading& reading) {
  ++report_.documents;
  report_.tokens += reading.tokens;
  report_.truncated_documents += reading.truncated > 0 ? 1 : 0;
  report_.truncated_tokens += reading.truncated;
  report_.rows += static_cast<Index>(reading.rows.size());
}

std::vector<Example> Collator::examples_of(Reading& reading) {
  count(reading);
  std::vector<Example> examples;
  for (TokenRow& row : reading.rows) examples.emplace_back().rows.push_back(std::move(row));
  return examples;
}

Example Collator::example_of(Reading reading, std::int32_t label) {
  count(reading);
  Example example;
  example.rows = std::move(reading.rows);
  example.places = std::move(reading.places);
  example.label = label;
  return example;
}

std::vector<Example> Collator::collate(const ClassificationExample& example) {
  Reading reading =
      example.pair ? reader_.read_pair(example.text, *example.pair) : reader_.read(example.text);
  std::vector<Example> examples = examples_of(reading);
  for (Example& one : examples) {
    if (example.values.empty()) one.label = example.label;
    one.values = example.values;
  }
  return examples;
}

std::vector<Example> Collator::collate(const TaggingExample& example) {
  Reading reading = reader_.read(example.words);
  std::vector<Example> examples = examples_of(reading);
  const std::vector<Index>& words = reading.words;
  const auto owned = owned_tokens(reading.ranges, reading.read());
  for (std::size_t r = 0; r < examples.size(); ++r) {
    auto& labels = examples[r].token_labels;
    labels.assign(examples[r].rows[0].ids.size(), kIgnoredLabel);
    for (Index token = owned[r].begin; token < owned[r].end; ++token) {
      const bool first = token == 0 || words[at(token)] != words[at(token - 1)];
      if (!first && !label_all_pieces_) continue;
      labels[at(reading.prefix + token - reading.ranges[r].begin)] =
          example.labels[at(words[at(token)])];
    }
  }
  std::vector<Index> seen(words.begin(), words.begin() + reading.read());
  sort_and_unite(seen);
  report_.unread_words += static_cast<Index>(example.words.size() - seen.size());
  return examples;
}

std::vector<Example> Collator::collate(const QuestionExample& example) {
  Reading reading = reader_.read(example.question, *example.context);
  std::vector<Example> examples = examples_of(reading);
  bool reached = example.answers.empty();
  for (std::size_t r = 0; r < examples.size(); ++r) {
    Example& row = examples[r];
    const Index shift = reading.prefix - reading.ranges[r].begin;
    for (const GoldAnswer& answer : example.answers) {
      const auto tokens = answer_tokens(reading.encoding.offsets, reading.ranges[r], answer.span);
      if (!tokens) continue;
      row.starts.push_back(tokens->begin + shift);
      row.ends.push_back(tokens->end - 1 + shift);
    }
    row.has_answer = !row.starts.empty();
    reached = reached || row.has_answer;
    if (!row.has_answer) {
      row.starts = {0};
      row.ends = {0};
    }
    sort_and_unite(row.starts);
    sort_and_unite(row.ends);
  }
  if (!reached) ++report_.unreached_answers;
  return examples;
}

std::vector<Example> Collator::collate(const ChoiceExample& example) {
  return {example_of(reader_.read(example.question), example.label)};
}

Example Collator::collate(Reading candidates, std::int32_t label) {
  return example_of(std::move(candidates), label);
}

}  // namespace longformer::tasks
