// Search by meaning over whole documents: passages with vectors, best matches for a question.
#pragma once

#include <cstdint>
#include <optional>
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

/// How passages become vectors; a saved index remembers it.
struct SearchOptions {
  Embedder::PassageOptions passages;
  /// What is put before every passage. Absent: the prompt "document" of the folder.
  std::optional<std::string> passage_prompt;
};

/// Passage vectors of a set of documents. Value type; holds the texts too, so that a saved index
/// answers without the files.
class SearchIndex {
 public:
  /// An empty index of the vectors that `embedder` makes.
  explicit SearchIndex(const Embedder& embedder, const SearchOptions& options = {});

  /// Reads an index written by save; it goes on with the options that it was made with. Throws
  /// Error when the file is not one, is damaged, or was made by another model (size or
  /// fingerprint).
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
  /// How the passages were made; every value is present.
  const SearchOptions& options() const { return options_; }

  /// The best passages, best first, that do not overlap each other. `prompt` is put before the
  /// question; absent, it is the prompt "query" of the folder.
  std::vector<SearchHit> query(const Embedder& embedder, const std::string& question,
                               std::int64_t top_k,
                               const std::optional<std::string>& prompt = {}) const;

 private:
  struct Document {
    std::string name;
    std::string text;
    std::vector<CharacterSpan> spans;
    std::vector<float> vectors;
  };
  SearchOptions options_;
  std::int64_t embedding_size_ = 0;
  std::uint64_t fingerprint_ = 0;
  std::vector<Document> documents_;
};

}  // namespace longformer
