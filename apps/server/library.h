// The documents of a server: an index of passages, in a file or in memory, that many requests
// share.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/document_files.h"
#include "longformer/search.h"

namespace longformer::server {

/// A document as the routes show it.
struct LibraryDocument {
  std::string id, name;
  std::int64_t characters = 0, passages = 0;
  /// Absent where another process has read the document.
  std::optional<std::int64_t> tokens = {};
  std::optional<double> seconds = {};
  /// A JSON object; empty: none.
  std::string metadata = {};
};

/// A document on its way into the library.
struct Upload {
  std::string name;
  DocumentContents contents = {};
  /// A JSON object; empty: none.
  std::string metadata = {};
};

struct AddedDocument {
  LibraryDocument document;
  /// Whether nobody has put in this text before.
  bool is_new = true;
};

struct LibraryHit {
  /// The id of the document; of texts that are only searched, the index of the text.
  std::string document;
  std::string name;
  SearchHit hit;
};

struct LibraryHits {
  std::vector<LibraryHit> hits;
  /// Passages that were searched.
  std::int64_t passages = 0;
};

struct LibraryLimits {
  /// Text of all documents, beyond which Failure 413 is thrown.
  std::int64_t bytes = std::int64_t{1} << 30;
  /// Tokens of one pass of a document; see pass_tokens().
  std::int64_t batch_tokens = 16384;
};

/// Called on the thread that reads, with the id of the document.
using ReadingCallback = std::function<void(const std::string& id, const Progress& progress)>;

/// Any number of threads. Documents are acknowledged when they are in the index, whole. While a
/// document is read, all else goes on, and where its passages have no context they are found as far
/// as they are read. An exception of a callback, or an Interruption, ends the reading, and nothing
/// of the document is kept. An id is made of name and text, so it stays with the index file.
class Library {
 public:
  /// An empty file name: in memory. Throws Error for a file that is no index of this embedder,
  /// which must outlive the library.
  Library(const Embedder& embedder, const std::string& file, const LibraryLimits& limits);
  ~Library();

  bool is_in_file() const;

  /// The same text again is the document that is there, with the metadata of the upload where it
  /// has some. Another text gets another name where one of its name is there. Throws Failure and
  /// Error.
  AddedDocument add(const Upload& upload, const ReadingCallback& progress = {});
  /// Whole documents that meet the conditions of a SearchQuery::filter. Throws Error.
  std::vector<LibraryDocument> list(std::span<const std::string> filter = {}) const;
  /// Also a document that is being read. Throws Failure, 404, for an id that nobody has.
  LibraryDocument find(const std::string& id) const;
  /// Ends the reading of a document that is being read. Throws Failure as find().
  void remove(const std::string& id);
  /// Characters begin … end − 1 as far as there are any. White space between passages is that of
  /// the text while the process that has read it lives; else blanks and line breaks stand for it,
  /// as SearchIndex::text() gives them. Throws Failure as find().
  std::string text(const std::string& id, CharacterSpan& span) const;
  /// The pages, paragraphs or chapters of a whole document; none where it has none.
  /// Throws Failure as find().
  DocumentPlaces places(const std::string& id) const;
  /// Searches in some documents; without ids in all. Throws Failure as find(), and Error.
  LibraryHits search(SearchQuery query, std::span<const std::string> ids) const;
  /// Searches in texts that nobody keeps. Throws Error.
  LibraryHits search_texts(const SearchQuery& query, std::span<const std::string> texts) const;
  std::int64_t passages() const;
  /// Throws Failure as find(), and for a document that is being read.
  DocumentComparison compare(const std::string& a, const std::string& b) const;

 private:
  struct Contents;
  class Reading;
  std::unique_ptr<Contents> contents_;
};

}  // namespace longformer::server
