// BM25 of the passages of an index, from the lists of its words.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "index/database.h"
#include "index/posting_reader.h"
#include "text/search_words.h"

namespace longformer::index {

/// Passages by id with what a query of words gives them.
using WordScores = std::vector<std::pair<Index, double>>;

class Bm25;

/// The scores are those of FTS5's bm25(), the same sums in the same order: to the last bit where
/// compilers do not fuse products and sums (x86-64), else within a few roundings.
class WordIndex {
 public:
  explicit WordIndex(const Database& database) : database_(database) {}

  /// The splitter of the index's words, which must live as long.
  void use(text::WordSplitter& splitter) { splitter_ = &splitter; }
  /// Passages that have each of some words or phrases.
  std::vector<Index> count(std::span<const std::string> terms);
  /// BM25 (k1 1.2, b 0.75) of all passages that have any of some words or phrases, in ascending
  /// order of ids.
  WordScores match(std::span<const std::string> terms);
  /// Those with the highest scores in fp32, of equal ones those with the lower ids; 1 or more.
  WordScores best(std::span<const std::string> terms, Index most);
  /// Must be called when this connection has changed passages.
  void forget_counts() { counts_.clear(); }

 private:
  static constexpr std::size_t kBlock = 512;
  /// The number of words of passages that follow each other; 0: not read yet.
  using Lengths = std::array<std::uint32_t, kBlock>;
  using Scores = std::array<double, kBlock>;
  template <typename Block>
  using Blocks = std::vector<std::unique_ptr<Block>>;
  using Use = std::function<void(std::span<const Posting>)>;

  void note_version();
  void each(PostingReader& reader, const std::string& term, const Use& use);
  void each_by_match(const std::string& term, const Use& use) const;
  Index count(PostingReader& reader, const std::string& term);
  void read_lengths(std::size_t block);
  template <typename Visit>
  static void each_above(const double& bar, const Blocks<Scores>& scores, const Visit& visit);
  Blocks<Scores> score(std::span<const std::string> terms);
  void add(std::span<const Posting> postings, const Bm25& bm25, double rarity, Blocks<Scores>& to);

  const Database& database_;
  text::WordSplitter* splitter_ = nullptr;
  /// A state of the documents, and what was counted in it.
  Index version_ = -1;
  std::unordered_map<std::string, Index> counts_;
  /// A passage keeps its text as long as it has its id.
  Blocks<Lengths> lengths_;
};

}  // namespace longformer::index
