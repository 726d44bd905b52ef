// The file behind a search index: documents, passages with their texts and vectors, and a full-text
// index of the stems of their words, in one SQLite database. Every change of a document is one
// transaction, so a process that is killed loses at most the document in work, and others may read
// and write meanwhile.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "index/database.h"
#include "index/metadata_store.h"
#include "index/token_store.h"
#include "index/word_index.h"
#include "index/word_query.h"
#include "index/word_tokenizer.h"
#include "kernels/vector_scan.h"
#include "longformer/places.h"

namespace longformer::index {

/// Settings that made the vectors of an index, by name.
using Settings = std::map<std::string, std::string>;

struct DocumentRow {
  Index id = 0;
  std::string name;
  Index passages = 0;
  Index characters = 0;
  /// The hash of its text as hexadecimal digits.
  std::string hash;
  /// When it was put in, UTC as in 2026-11-24 23:44:46.
  std::string time;
  /// A JSON object; empty: none.
  std::string metadata = {};
};

/// A document that goes in.
struct NewDocument {
  std::string_view name, text;
  /// A JSON object of normal_metadata(); empty: none.
  std::string metadata = {};
  DocumentPlaces places = {};
};

/// A passage that goes in: characters begin … end − 1 of its document.
struct NewPassage {
  Index begin = 0, end = 0;
  std::string_view text;
};

/// The vectors of passages that go in, of the kinds that the index has.
struct NewVectors {
  /// [passages, width]
  std::span<const float> dense = {};
  /// One for each passage.
  std::span<const SparseVector> sparse = {};
  /// For each passage those of its tokens, [tokens, multi_width].
  std::span<const std::span<const float>> multi = {};
  Index multi_width = 0;
};

/// A passage as it is stored.
struct PassageRow {
  std::string document;
  Index begin = 0, end = 0;
  std::string text;
  /// The metadata of its document, as a JSON object; empty: none.
  std::string metadata = {};
  std::optional<PlaceSpan> place = {};
};

/// Every question by meaning is compared with these; row i of each is the same passage, in
/// ascending order of ids.
struct Codes {
  std::vector<Index> passages;
  kernels::ByteVectors vectors;
};

/// The words of a question as an index knows them.
struct KnownWords {
  /// Phrases, and words that tell passages apart, which one does not that half of them have.
  std::vector<std::string> terms;
  /// BM25 of a passage that is full of every word.
  double reach = 0;
};

class PassageStore {
 public:
  /// Opens an index, or with Access::write makes one where there is none; an empty name is one in
  /// memory. Throws Error for what is not an index of this version, and unless it is only read for
  /// a file that cannot be written. The words of an older version, and those of another language
  /// than the one that is asked for, are made again from the passages, which needs a file that can
  /// be written.
  PassageStore(const std::string& file, Access access,
               const std::optional<std::string>& language = {});

  const std::string& file() const { return database_.file(); }
  /// The language of the stems of words.
  const std::string& language() const { return language_; }
  /// The language that the words had before this object made them again for another one.
  const std::optional<std::string>& former_language() const { return former_language_; }
  /// Empty before they are set.
  Settings settings() const;
  /// Sets those that nobody has set.
  void set(const Settings& settings) const;

  Index documents() const;
  Index passages() const;
  /// In the order of their names.
  std::vector<DocumentRow> list() const;
  /// Calls `use` with the name of every document, in order; nothing is kept.
  void each_name(const std::function<void(const std::string&)>& use) const;
  /// Whether this very text is in the index under this name.
  bool contains(const std::string& name, std::string_view text) const;
  /// A document whose text has this text_hash().
  std::optional<DocumentRow> with_hash(const std::string& hash) const;
  /// Bytes of the texts of all documents; not where the index is only read.
  Index text_bytes() const;
  /// Puts a document in, or in the place of one of this name: true. All numbers are finite.
  bool put(const NewDocument& document, std::span<const NewPassage> passages,
           const NewVectors& vectors) const;
  /// Gives a document of the index other metadata; whether they were others before.
  bool describe(const std::string& name, const std::string& metadata) const;
  /// All that `work` puts into this object is there together or, if it throws, not at all.
  void together(const std::function<void()>& work) const;
  const MetadataStore& metadata() const { return metadata_; }
  /// Sparse vectors and vectors of tokens.
  const TokenStore& tokens() const { return tokens_; }
  /// Makes the tables for them where they are not there.
  void make_token_tables(bool sparse, bool multi);
  /// The ids of all passages, ascending.
  std::vector<Index> passage_ids() const;
  /// Removes what `find` finds; gives how many documents that were.
  Index remove(const std::string& name) const;
  /// The ids of the document of this name, or of the documents below the folder of this name; where
  /// there is none, those of canonically equivalent names.
  std::vector<Index> find(const std::string& name) const;
  /// The document of exactly this name.
  std::optional<DocumentRow> document(const std::string& name) const;
  /// Characters begin … end − 1 of a document, as far as there are any, out of its passages. Nobody
  /// stores the white space between passages: a single character of it is a blank; a longer gap
  /// begins and ends with a line break.
  std::string text(const DocumentRow& document, Index begin, Index end) const;
  /// The pages, paragraphs or chapters of a document; none where it has none.
  DocumentPlaces places_of(Index document) const;
  /// The ids of the passages of a document, ascending.
  std::vector<Index> passages_of(Index document) const;
  /// The names of the documents that passages are of.
  std::vector<std::string> document_names(std::span<const Index> passages) const;

  /// Changes when anybody has changed the documents.
  Index version() const;
  /// The vectors of all passages. Throws Error unless all have one of `width` elements.
  Codes codes(Index width) const;
  /// Adds those of the passages behind the last one.
  void add_new_codes(Codes& codes) const;
  /// Throws Error unless each passage has one of the `count` rows of some table.
  void require_of_all_passages(Index count) const;
  std::vector<PassageRow> passages(std::span<const Index> ids) const;
  /// The vectors of some passages behind each other. Throws Error where one is damaged.
  std::vector<float> vectors(std::span<const Index> ids, Index width) const;

  /// All that is read while it lives is of one state of the index, also of words that another
  /// process has made again for another language.
  std::unique_ptr<Snapshot> snapshot() const;
  KnownWords known(const WordQuery& words) const;
  /// BM25 (k1 1.2, b 0.75) of all passages that have any of some words or phrases, in ascending
  /// order of ids. Like best() and known() it does not see what together() has in work.
  WordScores match(std::span<const std::string> terms) const;
  /// Those with the highest scores in fp32, of equal ones those with the lower ids.
  WordScores best(std::span<const std::string> terms, Index most) const;
  /// The ids of the passages that match a query of FTS5, ascending.
  std::vector<Index> matching(const std::string& query) const;
  /// Finds words and phrases in texts of passages as the full-text index does; the store must live
  /// as long.
  TermFinder finder(std::span<const std::string> terms) const { return {*splitter_, terms}; }

 private:
  /// Within a transaction; gives the bytes of its text.
  Index remove_document(Index id) const;
  void put_places(Index document, const DocumentPlaces& places) const;
  /// The query that place_of() asks.
  Statement place_rows() const;
  static std::optional<PlaceSpan> place_of(Statement& rows, Index document, CharacterSpan span);
  Index stored_bytes() const;
  struct Counts {
    Index documents = 0, passages = 0;
  };
  /// Read once for each version of the documents: SQLite counts by reading all of their rows.
  const Counts& counts() const;

  /// Documents with a canonically equivalent name: a file system may have decomposed letters.
  std::vector<Index> find_equivalent(const std::string& name) const;
  void read_words(const std::optional<std::string>& language, bool writes);
  void use_language(const std::string& language) const;

  /// The columns of a document, as document_of() reads them, and what stands behind them.
  Statement document_rows(std::string_view condition) const;
  DocumentRow document_of(const Statement& row) const;

  Database database_;
  TokenStore tokens_;
  MetadataStore metadata_;
  mutable WordIndex words_;
  /// Whether the file has the places of documents.
  bool has_places_ = false;
  mutable std::string language_;
  std::optional<std::string> former_language_;
  mutable std::unique_ptr<text::WordSplitter> splitter_;
  /// text_bytes() of a version of the documents, without what this object has changed since.
  mutable std::optional<Index> bytes_;
  mutable Index bytes_version_ = 0;
  mutable std::optional<Counts> counts_;
  mutable Index counts_version_ = 0;
  /// together() has begun a transaction.
  mutable bool is_together_ = false;
};

/// 64 bits of a text as hexadecimal digits: whether a document has changed.
std::string text_hash(std::string_view text);

}  // namespace longformer::index
