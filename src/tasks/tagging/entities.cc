#include "tasks/tagging/entities.h"

#include <algorithm>
#include <cstddef>

#include "engine/frame/scores.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {
namespace {

/// A token or a word with the label that it has most probably.
struct Labelled {
  std::size_t label = 0;
  float score = 0;
  TokenRange tokens;
};

std::vector<float> probabilities(const TaggedTokens& tokens) {
  const std::size_t classes = tokens.labels.size();
  std::vector<float> result;
  for (std::size_t at = 0; at < tokens.logits.size(); at += classes) {
    const std::vector<float> row = softmax(tokens.logits.subspan(at, classes));
    result.insert(result.end(), row.begin(), row.end());
  }
  return result;
}

Labelled most_probable(std::span<const float> scores, TokenRange tokens) {
  const auto best = std::max_element(scores.begin(), scores.end());
  return {static_cast<std::size_t>(best - scores.begin()), *best, tokens};
}

/// The words, each with one label. `scores` [tokens, C].
std::vector<Labelled> label_words(std::span<const float> scores, const TaggedTokens& tokens,
                                  Aggregation aggregation) {
  const std::size_t classes = tokens.labels.size();
  const auto row = [&](Index token) {
    return scores.subspan(static_cast<std::size_t>(token) * classes, classes);
  };
  const auto surest = [&](Index token) {
    const auto values = row(token);
    return *std::max_element(values.begin(), values.end());
  };
  std::vector<Labelled> words;
  const auto count = static_cast<Index>(tokens.continues_word.size());
  for (Index begin = 0, end = 0; begin < count; begin = end) {
    end = begin + 1;
    while (end < count && tokens.continues_word[static_cast<std::size_t>(end)] != 0) ++end;
    if (aggregation == Aggregation::average) {
      std::vector<float> mean(classes, 0.0f);
      for (Index token = begin; token < end; ++token) {
        for (std::size_t c = 0; c < classes; ++c) mean[c] += row(token)[c];
      }
      for (float& value : mean) value /= static_cast<float>(end - begin);
      words.push_back(most_probable(mean, {begin, end}));
      continue;
    }
    Index speaker = begin;
    if (aggregation == Aggregation::max) {
      for (Index token = begin + 1; token < end; ++token) {
        if (surest(token) > surest(speaker)) speaker = token;
      }
    }
    words.push_back(most_probable(row(speaker), {begin, end}));
  }
  return words;
}

/// Whether a label begins an entity, and the rest of it. Labels without "B-" or "I-" continue.
struct GroupLabel {
  bool begins = false;
  std::string_view name;
  explicit GroupLabel(std::string_view label) : begins(label.starts_with("B-")), name(label) {
    if (begins || label.starts_with("I-")) name.remove_prefix(2);
  }
};

/// The pipeline names a group by what follows the first hyphen, whatever stands before it.
std::string group_name(const std::string& label) { return label.substr(label.find('-') + 1); }

std::vector<TokenEntity> grouped(std::span<const Labelled> parts,
                                 std::span<const std::string> labels) {
  std::vector<TokenEntity> groups;
  for (std::size_t begin = 0, end = 0; begin < parts.size(); begin = end) {
    double sum = 0;
    do {
      sum += static_cast<double>(parts[end].score);
      ++end;
    } while (end < parts.size() && !GroupLabel(labels[parts[end].label]).begins &&
             GroupLabel(labels[parts[end].label]).name ==
                 GroupLabel(labels[parts[end - 1].label]).name);
    groups.push_back({group_name(labels[parts[begin].label]),
                      static_cast<float>(sum / static_cast<double>(end - begin)),
                      {parts[begin].tokens.begin, parts[end - 1].tokens.end}});
  }
  return groups;
}

}  // namespace

std::vector<TokenEntity> group_entities(const TaggedTokens& tokens, Aggregation aggregation) {
  const std::vector<float> scores = probabilities(tokens);
  if (aggregation != Aggregation::none && aggregation != Aggregation::simple) {
    return grouped(label_words(scores, tokens, aggregation), tokens.labels);
  }
  const std::size_t classes = tokens.labels.size();
  std::vector<Labelled> parts;
  for (std::size_t i = 0; i < tokens.continues_word.size(); ++i) {
    const auto token = static_cast<Index>(i);
    parts.push_back(
        most_probable(std::span(scores).subspan(i * classes, classes), {token, token + 1}));
  }
  if (aggregation == Aggregation::simple) return grouped(parts, tokens.labels);
  std::vector<TokenEntity> entities;
  for (const Labelled& part : parts) {
    entities.push_back({tokens.labels[part.label], part.score, part.tokens});
  }
  return entities;
}

std::vector<std::uint8_t> continues_word(const Tokenizer& tokenizer, const Encoding& tokens,
                                         std::string_view text) {
  const std::vector<std::size_t> starts = character_starts(text);
  const auto character = [&](std::int64_t index) {
    const auto i = static_cast<std::size_t>(index);
    return text.substr(starts[i], starts[i + 1] - starts[i]);
  };
  const bool pieces = tokenizer.kind() == "WordPiece";
  const auto unknown = tokenizer.special_tokens().unk;
  std::vector<std::uint8_t> result;
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    const CharacterSpan span = tokens.offsets[i];
    bool continues = false;
    if (tokens.ids[i] == unknown) {
      continues = false;
    } else if (pieces) {
      const auto entry = character_starts(tokenizer.token(tokens.ids[i])).size() - 1;
      continues = static_cast<std::int64_t>(entry) != span.end - span.begin;
    } else if (span.begin > 0) {
      const auto characters = static_cast<std::int64_t>(starts.size()) - 1;
      continues = character(span.begin - 1) != " " &&
                  (span.begin >= characters || character(span.begin) != " ");
    }
    result.push_back(continues ? 1 : 0);
  }
  return result;
}

}  // namespace longformer::tasks
