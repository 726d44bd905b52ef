#include "index/word_index.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "core/error.h"
#include "index/word_query.h"
#include "index/word_tokenizer.h"

namespace longformer::index {
namespace {

/// Those of FTS5, as is the rarity of a word that half of the passages or more have.
constexpr double kTermSaturation = 1.2, kLengthWeight = 0.75, kRarityOfCommon = 1e-6;

/// There is a pointer for every 512 passages.
constexpr Index kLargestId = Index{1} << 34;

/// FTS5 cuts longer words.
constexpr std::size_t kLongestWord = 32768;

/// The word of a term that the index has under one form at one place.
std::optional<std::string> single_word(text::WordSplitter& splitter, const std::string& term) {
  std::vector<std::string> forms;
  index_words(splitter, term, WordsOf::query, [&](const IndexWord& word) {
    forms.emplace_back(word.form);
    return forms.size() < 2;
  });
  if (forms.size() != 1 || forms[0].size() > kLongestWord) return std::nullopt;
  return forms[0];
}

}  // namespace

/// The formula of FTS5: its operations in their order, so that nothing is rounded otherwise.
class Bm25 {
 public:
  Bm25(Index passages, Index words)
      : passages_(passages),
        mean_length_(static_cast<double>(words) / static_cast<double>(passages)) {}

  double rarity(Index having) const {
    const auto others = static_cast<double>(passages_ - having);
    const double rarity = std::log((others + 0.5) / (static_cast<double>(having) + 0.5));
    return rarity > 0 ? rarity : kRarityOfCommon;
  }

  double operator()(double rarity, Index count, std::uint32_t length) const {
    const auto often = static_cast<double>(count);
    const double damping =
        kTermSaturation *
        (1 - kLengthWeight + kLengthWeight * static_cast<double>(length) / mean_length_);
    return rarity * ((often * (kTermSaturation + 1)) / (often + damping));
  }

 private:
  Index passages_;
  double mean_length_;
};

void WordIndex::note_version() {
  const Index version = database_.version();
  if (version == version_) return;
  version_ = version;
  counts_.clear();
  // Another process may have made the words again, for another language.
  lengths_.clear();
}

/// Calls `use` with the passages that have a term.
void WordIndex::each(PostingReader& reader, const std::string& term, const Use& use) {
  const auto word = reader.can_read() ? single_word(*splitter_, term) : std::nullopt;
  if (word) {
    reader.each(*word, use);
  } else {
    each_by_match(term, use);
  }
}

/// Phrases, and words of several forms, are matched by FTS5.
void WordIndex::each_by_match(const std::string& term, const Use& use) const {
  constexpr std::size_t kMost = 1024;
  std::vector<Posting> found;
  Statement rows = database_.prepare(
      fmt::format("SELECT rowid, {}(words) FROM words WHERE words MATCH ?", kOccurrences));
  for (rows.bind(1, fts_string(term)); rows.step();) {
    found.push_back({rows.integer(0), rows.integer(1)});
    if (found.size() < kMost) continue;
    use(found);
    found.clear();
  }
  if (!found.empty()) use(found);
}

Index WordIndex::count(PostingReader& reader, const std::string& term) {
  constexpr std::size_t kMostKept = 10000;
  const auto known = counts_.find(term);
  if (known != counts_.end()) return known->second;
  Index count = 0;
  each(reader, term, [&](std::span<const Posting> found) { count += std::ssize(found); });
  if (counts_.size() >= kMostKept) counts_.clear();
  counts_.emplace(term, count);
  return count;
}

std::vector<Index> WordIndex::count(std::span<const std::string> terms) {
  const Snapshot snapshot(database_);
  note_version();
  PostingReader reader(database_);
  std::vector<Index> counts;
  for (const std::string& term : terms) counts.push_back(count(reader, term));
  return counts;
}

void WordIndex::read_lengths(std::size_t block) {
  auto& lengths = lengths_[block];
  if (!lengths) lengths = std::make_unique<Lengths>();
  lengths->fill(0);
  Statement rows = database_.prepare("SELECT id, sz FROM words_docsize WHERE id BETWEEN ? AND ?");
  const auto first = static_cast<Index>(block * kBlock);
  for (rows.bind(1, first).bind(2, first + Index{kBlock} - 1); rows.step();) {
    std::size_t place = 0;
    const std::uint64_t length = read_varint(unsigned_bytes(rows.bytes(1)), place);
    (*lengths)[at(rows.integer(0) - first)] = static_cast<std::uint32_t>(length);
  }
}

/// Adds what a word gives to the passages that have it.
void WordIndex::add(std::span<const Posting> postings, const Bm25& bm25, double rarity,
                    Blocks<Scores>& to) {
  std::size_t block = std::numeric_limits<std::size_t>::max();
  Lengths* lengths = nullptr;
  double* scores = nullptr;
  for (const auto& [passage, count] : postings) {
    const auto id = static_cast<std::size_t>(passage);
    const std::size_t row = id % kBlock;
    if (id / kBlock != block) {
      block = id / kBlock;
      if (block >= to.size()) database_.fail_damaged();
      if (!to[block]) to[block] = std::make_unique<Scores>();
      scores = to[block]->data();
      if (!lengths_[block]) read_lengths(block);
      lengths = lengths_[block].get();
    }
    // A passage that was put in after its neighbours were read.
    if ((*lengths)[row] == 0) read_lengths(block);
    if ((*lengths)[row] == 0) database_.fail_damaged();
    scores[row] += bm25(rarity, count, (*lengths)[row]);
  }
}

/// The scores of all passages, and no block where none of its passages has a word.
WordIndex::Blocks<WordIndex::Scores> WordIndex::score(std::span<const std::string> terms) {
  const Snapshot snapshot(database_);
  note_version();
  PostingReader reader(database_);
  Statement last = database_.prepare("SELECT max(id) FROM words_docsize");
  last.step();
  if (last.integer(0) < 0 || last.integer(0) > kLargestId) database_.fail_damaged();
  Blocks<Scores> scores(static_cast<std::size_t>(last.integer(0)) / kBlock + 1);
  if (lengths_.size() < scores.size()) lengths_.resize(scores.size());
  const Bm25 bm25(reader.passages(), reader.words());
  for (const std::string& term : terms) {
    const double rarity = bm25.rarity(count(reader, term));
    each(reader, term, [&](auto postings) { add(postings, bm25, rarity, scores); });
  }
  return scores;
}

/// Calls `visit` with the id and the score of each passage above a bar, which it may raise, in
/// ascending order.
template <typename Visit>
void WordIndex::each_above(const double& bar, const Blocks<Scores>& scores, const Visit& visit) {
  for (std::size_t block = 0; block < scores.size(); ++block) {
    if (!scores[block]) continue;
    const double highest = std::reduce(scores[block]->begin(), scores[block]->end(), 0.0,
                                       [](double a, double b) { return a > b ? a : b; });
    if (highest <= bar) continue;
    for (std::size_t row = 0; row < kBlock; ++row) {
      const double score = (*scores[block])[row];
      if (score > bar) visit(static_cast<Index>(block * kBlock + row), score);
    }
  }
}

WordScores WordIndex::match(std::span<const std::string> terms) {
  WordScores found;
  each_above(0, score(terms), [&](Index id, double one) { found.emplace_back(id, one); });
  return found;
}

WordScores WordIndex::best(std::span<const std::string> terms, Index most) {
  using Found = std::pair<Index, double>;
  const auto is_better = [](const Found& a, const Found& b) {
    const auto first = static_cast<float>(a.second), second = static_cast<float>(b.second);
    return first != second ? first > second : a.first < b.first;
  };
  WordScores found;
  double bar = 0;
  const auto drop_worst = [&] {
    if (std::ssize(found) <= most) return;
    std::nth_element(found.begin(), found.begin() + most - 1, found.end(), is_better);
    found.resize(at(most));
    bar = found.back().second;
  };
  // Ids ascend, so that a score as high as the bar is no better.
  each_above(bar, score(terms), [&](Index id, double one) {
    found.emplace_back(id, one);
    if (std::ssize(found) >= std::max<Index>(2 * most, 1024)) drop_worst();
  });
  drop_worst();
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace longformer::index
