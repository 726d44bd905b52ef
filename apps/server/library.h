// The documents of a server: an index of passages, in a file or in memory, that many requests share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/search.h"

namespace longformer::server {

/// A document as the routes show it.
struct LibraryDocument {
  std::string id, name;
  std::int64_t characters = 0, tokens = 0, passages = 0;
  double seconds = 0;
};

/// Any number of threads. Documents are acknowledged when they are in the index, whole.
class Library {
 public:
  /// An empty file name: in memory. `most_bytes` of text, beyond which Failure 413 is thrown.
  /// Throws Error for a file that is no index of this embedder.
  Library(const Embedder& embedder, const std::string& file, std::int64_t most_bytes);
  ~Library();

  bool is_in_file() const;

  /// The same text again is the document that is there. Throws Failure and Error.
  LibraryDocument add(const std::string& name, const std::string& text,
                      const ProgressCallback& progress);
  std::vector<LibraryDocument> list() const;
  /// Throws Failure, 404, for an id that nobody has.
  LibraryDocument find(const std::string& id) const;
  void remove(const std::string& id);
  /// Characters begin … end − 1 as far as there are any.
  std::string text(const std::string& id, CharacterSpan& span) const;
  /// Hits whose `file` is the id of their document.
  std::vector<SearchHit> search(const SearchQuery& query, std::span<const std::string> ids) const;
  std::int64_t passages() const;
  DocumentComparison compare(const std::string& a, const std::string& b) const;

 private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

}  // namespace longformer::server
