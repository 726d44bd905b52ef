#include "tasks/passages.h"

#include <algorithm>
#include <string>

#include "core/error.h"

namespace longformer::tasks {
namespace {

/// How good it is to stop before a token: the larger, the better.
enum class Stop { inside_word, word, sentence, paragraph };

/// Judges the text between two tokens.
class StopJudge {
 public:
  StopJudge(std::string_view text, std::span<const CharacterSpan> offsets)
      : text_(text), starts_(character_starts(text)), offsets_(offsets) {}

  /// The kind of boundary between token − 1 and token.
  Stop before(Index token) const {
    const auto i = static_cast<std::size_t>(token);
    const std::string_view gap = between(offsets_[i - 1].end, offsets_[i].begin);
    const std::string_view lead = between(offsets_[i].begin, offsets_[i].end);
    const bool space = !gap.empty() || (!lead.empty() && is_space(lead.front()));
    if (!space) return Stop::inside_word;
    if (std::count(gap.begin(), gap.end(), '\n') >= 2) return Stop::paragraph;
    return ends_sentence(i) ? Stop::sentence : Stop::word;
  }

 private:
  static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

  std::string_view between(std::int64_t begin, std::int64_t end) const {
    if (begin >= end) return {};
    const std::size_t from = starts_[static_cast<std::size_t>(begin)];
    return text_.substr(from, starts_[static_cast<std::size_t>(end)] - from);
  }

  /// Whether the tokens before this one end in . ! ? or one of them behind closing quotes.
  bool ends_sentence(std::size_t token) const {
    constexpr std::string_view kClosing = "\"')]_\u201d\u2019";
    for (std::size_t back = 1; back <= 3 && back <= token; ++back) {
      const std::string_view piece =
          between(offsets_[token - back].begin, offsets_[token - back].end);
      if (piece.ends_with('.') || piece.ends_with('!') || piece.ends_with('?')) return true;
      if (piece.empty() || kClosing.find(piece) == std::string_view::npos) return false;
    }
    return false;
  }

  std::string_view text_;
  std::vector<std::size_t> starts_;
  std::span<const CharacterSpan> offsets_;
};

/// Where a passage that starts at `begin` ends: the latest of the best stops in its last third.
Index passage_end(const StopJudge& judge, Index begin, Index limit, Index total) {
  if (begin + limit >= total) return total;
  Index best = begin + limit;
  Stop quality = judge.before(best);
  const Index earliest = begin + std::max<Index>(1, limit - limit / 3);
  for (Index end = best - 1; end >= earliest && quality != Stop::paragraph; --end) {
    const Stop here = judge.before(end);
    if (here > quality) {
      quality = here;
      best = end;
    }
  }
  return best;
}

}  // namespace

std::vector<TokenRange> cut_passages(std::string_view text, std::span<const CharacterSpan> offsets,
                                     const PassageRules& rules) {
  require(rules.tokens >= 1, "passages: expected at least 1 token each, found {}", rules.tokens);
  const StopJudge judge(text, offsets);
  const Index total = static_cast<Index>(offsets.size());
  std::vector<TokenRange> passages;
  Index begin = 0;
  while (begin < total) {
    const Index end = passage_end(judge, begin, rules.tokens, total);
    passages.push_back({begin, end});
    if (end == total) break;
    begin = rules.overlapping
                ? passage_end(judge, begin, std::max<Index>(1, (end - begin) / 2), total)
                : end;
  }
  return passages;
}

std::vector<Index> sentence_starts(std::string_view text, std::span<const CharacterSpan> offsets) {
  const StopJudge judge(text, offsets);
  std::vector<Index> starts;
  for (Index token = 0; token < static_cast<Index>(offsets.size()); ++token) {
    if (token == 0 || judge.before(token) >= Stop::sentence) starts.push_back(token);
  }
  return starts;
}

}  // namespace longformer::tasks
