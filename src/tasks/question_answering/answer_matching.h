// Places of the known answers to a question in a text: right spans for distantly supervised data,
// which give an answer without its place (TriviaQA, HotpotQA).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "longformer/options.h"
#include "longformer/text.h"

namespace longformer::tasks {

/// Lower case, "_", ASCII punctuation and ‘ ’ ´ ` as spaces, without the articles a, an and the,
/// words apart by one space: the normalisation of TriviaQA's evaluation, under which "Campbell-
/// Bannerman" is two words (normalized_answer, of SQuAD, makes it one).
std::string normalized_trivia_answer(std::string_view text);

/// Finds answers in texts. Texts are read once, however many answers there are.
class AnswerMatcher {
 public:
  explicit AnswerMatcher(std::span<const std::string> answers,
                         AnswerMatching matching = AnswerMatching::words);

  /// The characters of all matches, ascending; with AnswerMatching::words from the first character
  /// of the first word to the last of the last one. Matches of several answers may overlap; with
  /// AnswerMatching::substring those of one answer do not. Answers that are empty, after
  /// normalisation for words, match nothing.
  std::vector<CharacterSpan> find(std::string_view text) const;

 private:
  /// A tree of the answers: symbols are the numbers of known words, or characters.
  struct Tree {
    static constexpr std::uint32_t kNone = 0xffffffff;

    /// The node behind a symbol; kNone when no answer goes on so.
    std::uint32_t next(std::uint32_t node, std::uint32_t symbol) const {
      const auto found = edges.find(key(node, symbol));
      return found == edges.end() ? kNone : found->second;
    }
    void add(std::span<const std::uint32_t> symbols);
    static std::uint64_t key(std::uint32_t node, std::uint32_t symbol) {
      return std::uint64_t{node} << 32 | symbol;
    }

    std::unordered_map<std::uint64_t, std::uint32_t> edges;
    /// Whether an answer ends at each node.
    std::vector<bool> ends = {false};
  };

  std::vector<CharacterSpan> find_words(std::string_view text) const;
  std::vector<CharacterSpan> find_substrings(std::string_view text) const;

  AnswerMatching matching_;
  /// Numbers of the words that answers have.
  std::unordered_map<std::string, std::uint32_t> words_;
  Tree tree_;
};

}  // namespace longformer::tasks
