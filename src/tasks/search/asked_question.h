// One question to an index: its scores for all passages, their order, and the hits.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "index/passage_store.h"
#include "index/ranking.h"
#include "index/word_query.h"
#include "longformer/search.h"
#include "tasks/search/best_rows.h"

namespace longformer::tasks {

/// The kinds of vectors that a search of this mode compares, in an index of these kinds.
VectorKinds kinds_of(SearchMode mode, const VectorKinds& has);

/// A sparse vector as the index has it.
index::SparseVector index_vector(const SparseEmbedding& embedding);

/// Cost of a question to so many vectors of tokens.
MultiVectorCost cost_of(Index vectors, Index width, int threads);

class AskedQuestion {
 public:
  /// All must outlive the question.
  AskedQuestion(const index::PassageStore& store, SearchQuery query);
  AskedQuestion(AskedQuestion&&) = default;

  // Scores of passages. Dense and multi-vectors, or all passages, come first: what comes behind
  // them scores the same passages; else the passages are those that have a score.

  /// Compares all passages with the vector of the question.
  void add_vector(const index::Codes& codes, std::vector<float> vector, Similarity similarity,
                  int threads);
  void add_all_passages();
  void add_multi(const index::TokenCodes& codes, const Embedding& question, int threads);
  void add_sparse(const SparseEmbedding& question);

  std::vector<SearchHit> hits();
  std::vector<RankedDocument> documents();

 private:
  /// The scores of passages.
  struct Scores {
    std::vector<float> similarities, sparse, multi, words, ranked;
  };

  std::vector<float> scattered(std::span<const index::PassageScore> found);
  /// Only so many of the best passages are looked at, none: all.
  void rank_allowed(std::optional<Index> most);
  bool asks_for_words() const {
    return query_.mode == SearchMode::hybrid || query_.mode == SearchMode::lexical;
  }
  void find_words(std::optional<Index> most);
  void find_allowed();
  /// Whether no document meets the conditions of the question.
  bool is_filtered_away() const;
  std::vector<Index> passages_within() const;
  void allow_only(const std::vector<Index>& passages);
  void rank();
  void fuse();
  float score_with(Index row, float similarity) const;
  float fused(Index row, float similarity) const;
  std::vector<float> bounds() const;
  BestRows best_rows();
  std::vector<float> exact_scores(std::span<const Index> rows);
  std::vector<Index> passages_of(std::span<const Index> rows) const;
  std::vector<std::string> texts_of(const std::vector<Index>& rows) const;
  std::vector<SearchHit> without_overlaps();
  SearchHit hit(Index row, index::PassageRow passage) const;
  void mark(std::vector<SearchHit>& hits) const;

  const index::PassageStore& store_;
  /// Until the hits are found: a reranker takes long, and others want to write.
  std::unique_ptr<index::Snapshot> snapshot_;
  const SearchQuery query_;
  index::WordQuery words_;
  index::KnownWords known_;
  index::Fusion fusion_;
  /// The ids of the passages in question, ascending; row i of the scores is passage i of them.
  std::span<const Index> passages_;
  std::vector<Index> own_passages_;
  bool has_passages_ = false;
  std::vector<bool> allowed_;
  std::vector<float> vector_;
  /// Those of the passages' bytes.
  std::span<const float> scales_;
  Similarity similarity_ = Similarity::cosine;
  Scores scores_;
};

}  // namespace longformer::tasks
