// The part of an index file that has more than one vector for a passage: an inverted list of
// weights of tokens (sparse vectors), and the vectors of the tokens of passages as bytes
// (multi-vectors).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "index/database.h"
#include "kernels/vector_scan.h"

namespace longformer::index {

/// Passages by id with their scores, ascending.
using PassageScore = std::pair<Index, double>;

/// Weights of entries of a vocabulary.
struct SparseVector {
  std::vector<std::int32_t> tokens;
  std::vector<float> weights;
};

/// Vectors of the tokens of passages: those of passage i are starts[i] … starts[i + 1] − 1.
struct TokenCodes {
  /// Ids, ascending.
  std::vector<Index> passages;
  std::vector<Index> starts = {0};
  kernels::ByteVectors vectors;
};

class TokenStore {
 public:
  /// The database must outlive the store, which has no tables so far.
  explicit TokenStore(const Database& database) : database_(database) {}
  TokenStore(const TokenStore&) = delete;
  TokenStore& operator=(const TokenStore&) = delete;

  /// Takes the tables that are there.
  void find_tables();

  /// Makes the tables that are not there, within a transaction.
  void make(bool sparse, bool multi);

  /// Adds a vector of a passage, within a transaction; the tables must be there.
  void put(Index passage, const SparseVector& vector) const;
  /// `vectors` is [tokens, width], of finite numbers.
  void put(Index passage, std::span<const float> vectors, Index width) const;
  /// Removes the vectors of the passages of a document, within a transaction.
  void remove_document(Index document) const;

  /// The products of a query with all passages that share a token with it.
  std::vector<PassageScore> match(const SparseVector& query) const;

  /// How many vectors of tokens there are, and their elements; 0 where there is none.
  Index token_vectors() const;
  Index width() const;
  /// All of them. Throws Error for vectors of another width.
  TokenCodes codes(Index width) const;
  /// Adds those of the passages behind the last one.
  void add_new_codes(TokenCodes& codes) const;

 private:
  bool has_table(const char* name) const;

  const Database& database_;
  bool has_sparse_ = false, has_multi_ = false;
};

/// scores[i] = for each vector of the query [m, width] its largest product with a vector of passage
/// i, summed; 0 where the passage has none.
void max_sim(const TokenCodes& codes, std::span<const float> query, std::span<float> scores,
             int threads);

}  // namespace longformer::index
