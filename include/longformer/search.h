// Search by meaning over whole documents: passages with vectors, best matches for a question.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/embedding.h"

namespace longformer {

struct SearchHit {
  std::string file;
  CharacterSpan span;
  /// Cosine similarity, −1 … 1.
  float score = 0;
  std::string text;
};

/// Passage vectors of a set of documents. Value type; holds the texts too, so that a saved index
/// answers without the files.
class SearchIndex {
 public:
  /// An empty index of the vectors that `embedder` makes.
  SearchIndex(const Embedder& embedder, const Embedder::PassageOptions& passages);

  /// Reads an index written by save. Throws Error when the file is not one, is damaged, or was made
  /// by another model (hidden size, or weights fingerprint).
  static SearchIndex load(const std::string& file, const Embedder& embedder);
  /// Writes to a temporary name and renames.
  void save(const std::string& file) const;

  /// Adds a document under a name; replaces one of the same name.
  void add(const Embedder& embedder, const std::string& name, std::string text,
           const ProgressCallback& progress = {});

  /// Whether this very text is in the index under this name.
  bool contains(const std::string& name, std::string_view text) const;
  std::int64_t documents() const;
  std::int64_t passages() const;
  /// How the passages were made.
  const Embedder::PassageOptions& passage_options() const { return options_; }

  /// The best passages, best first, that do not overlap each other.
  std::vector<SearchHit> query(const Embedder& embedder, const std::string& question,
                               std::int64_t top_k) const;

 private:
  struct Document {
    std::string name;
    std::string text;
    std::vector<CharacterSpan> spans;
    std::vector<float> vectors;
  };
  Embedder::PassageOptions options_;
  std::int64_t hidden_size_ = 0;
  std::uint64_t fingerprint_ = 0;
  std::vector<Document> documents_;
};

}  // namespace longformer
