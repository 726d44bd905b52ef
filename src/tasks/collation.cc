#include "tasks/collation.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/error.h"

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
  // Of an answer that goes on behind the range or before it there are tokens outside.
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

/// The rows of one document: which tokens of the text each holds, and how many stand before them.
struct Collator::Rows {
  std::vector<TokenRange> ranges;
  std::vector<Example> examples;
  Index prefix = 0;
};

Collator::Collator(const Tokenizer& tokenizer, CollationOptions options)
    : tokenizer_(tokenizer), options_(std::move(options)) {
  const Index capacity = options_.max_tokens - TextTemplate(tokenizer).size();
  require(capacity > 0, "rows: expected room for more than {} tokens, found {}",
          options_.max_tokens - capacity, options_.max_tokens);
  require(
      options_.too_long != TooLong::split || (options_.stride >= 0 && options_.stride < capacity),
      "stride: expected 0 to {} tokens, found {}", capacity - 1, options_.stride);
}

void Collator::count_truncated(Index tokens, Index truncated) {
  ++report_.documents;
  report_.tokens += tokens;
  report_.truncated_documents += truncated > 0 ? 1 : 0;
  report_.truncated_tokens += truncated;
}

TokenRow Collator::row_of(const Encoding& tokens, std::string_view text) {
  ++report_.rows;
  TokenRow row = {tokens.ids, tokens.type_ids, {}};
  if (options_.global_positions) row.global_positions = options_.global_positions(tokens, text);
  return row;
}

Collator::Rows Collator::rows_of(const Encoding& tokens, std::string_view text,
                                 const TextTemplate& around) {
  const bool split = options_.too_long == TooLong::split;
  const Index capacity = options_.max_tokens - around.size();
  const Index overlap = split ? options_.stride : 0;
  require(capacity > overlap,
          "question: expected at most {} tokens with the special ones, found {}",
          options_.max_tokens - 1 - overlap, around.size());
  auto read = static_cast<Index>(tokens.ids.size());
  const Index all = read + around.size();
  require(options_.too_long != TooLong::refuse || read <= capacity,
          "expected at most {} tokens, found {} (--truncate keeps the first ones, --stride N reads "
          "all)",
          options_.max_tokens, all);
  if (!split) read = std::min(read, capacity);
  count_truncated(all, all - around.size() - read);
  Rows rows;
  rows.prefix = around.prefix();
  rows.ranges = plan_segments(read, capacity, overlap);
  for (const TokenRange& range : rows.ranges) {
    rows.examples.emplace_back().rows.push_back(row_of(around.around(tokens, range), text));
  }
  return rows;
}

std::vector<Example> Collator::collate(const ClassificationExample& example) {
  std::vector<Example> examples;
  if (example.pair && options_.too_long != TooLong::split) {
    EncodeOptions options;
    if (options_.too_long == TooLong::truncate) options.max_length = options_.max_tokens;
    const Encoding tokens = tokenizer_.encode_pair(example.text, *example.pair, options);
    const auto size = static_cast<Index>(tokens.ids.size());
    require(size <= options_.max_tokens,
            "expected at most {} tokens, found {} (--truncate keeps the first ones)",
            options_.max_tokens, size);
    count_truncated(size + tokens.truncated, tokens.truncated);
    examples.emplace_back().rows.push_back(row_of(tokens, *example.pair));
  } else {
    const std::string& text = example.pair ? *example.pair : example.text;
    examples =
        rows_of(tokenizer_.encode(text, {.add_special_tokens = false, .max_length = {}}), text,
                example.pair ? TextTemplate(tokenizer_, example.text) : TextTemplate(tokenizer_))
            .examples;
  }
  for (Example& one : examples) {
    if (example.values.empty()) one.label = example.label;
    one.values = example.values;
  }
  return examples;
}

std::vector<Example> Collator::collate(const TaggingExample& example) {
  const WordTokens words = encode_words(tokenizer_, example.words);
  Rows rows = rows_of(words.tokens, words.text, TextTemplate(tokenizer_));
  const Index read = rows.ranges.back().end;
  const auto owned = owned_tokens(rows.ranges, read);
  for (std::size_t r = 0; r < rows.examples.size(); ++r) {
    auto& labels = rows.examples[r].token_labels;
    labels.assign(rows.examples[r].rows[0].ids.size(), kIgnoredLabel);
    for (Index token = owned[r].begin; token < owned[r].end; ++token) {
      const bool first = token == 0 || words.words[at(token)] != words.words[at(token - 1)];
      if (!first && !options_.label_all_pieces) continue;
      labels[at(rows.prefix + token - rows.ranges[r].begin)] =
          example.labels[at(words.words[at(token)])];
    }
  }
  std::vector<Index> seen(words.words.begin(), words.words.begin() + read);
  sort_and_unite(seen);
  report_.unread_words += static_cast<Index>(example.words.size() - seen.size());
  return std::move(rows.examples);
}

std::vector<Example> Collator::collate(const QuestionExample& example) {
  const Encoding text =
      tokenizer_.encode(*example.context, {.add_special_tokens = false, .max_length = {}});
  Rows rows = rows_of(text, *example.context, TextTemplate(tokenizer_, example.question));
  bool reached = example.answers.empty();
  for (std::size_t r = 0; r < rows.examples.size(); ++r) {
    Example& row = rows.examples[r];
    const Index shift = rows.prefix - rows.ranges[r].begin;
    for (const GoldAnswer& answer : example.answers) {
      const auto tokens = answer_tokens(text.offsets, rows.ranges[r], answer.span);
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
  return std::move(rows.examples);
}

std::vector<Example> Collator::collate(const ChoiceExample& example) {
  Example whole;
  whole.label = example.label;
  Index longest = 0, truncated = 0;
  EncodeOptions options;
  options.strategy = TruncationStrategy::only_first;
  if (options_.too_long != TooLong::refuse) options.max_length = options_.max_tokens;
  for (const std::string& choice : example.question.choices) {
    const auto [first, second] = choice_texts(example.question, choice);
    const Encoding tokens = tokenizer_.encode_pair(first, second, options);
    const auto size = static_cast<Index>(tokens.ids.size());
    require(size <= options_.max_tokens,
            "expected at most {} tokens, found {} (--truncate keeps the first ones)",
            options_.max_tokens, size);
    longest = std::max(longest, size + tokens.truncated);
    truncated = std::max(truncated, tokens.truncated);
    whole.rows.push_back(row_of(tokens, second));
  }
  count_truncated(longest, truncated);
  return {std::move(whole)};
}

Example Collator::collate(const CandidateRows& rows, std::int32_t label) {
  Example example;
  example.label = label;
  example.places = rows.places;
  for (const Encoding& row : rows.rows) example.rows.push_back(row_of(row, ""));
  count_truncated(rows.tokens, rows.truncated);
  return example;
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
    const Encoding word = tokenizer.encode(space ? " " + words[w] : words[w],
                                           {.add_special_tokens = false, .max_length = {}});
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

}  // namespace longformer::tasks
