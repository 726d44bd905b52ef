// Search by words and by meaning, and its evaluation.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/embedding.h"
#include "longformer/options.h"
#include "longformer/places.h"
#include "longformer/report.h"

namespace longformer {

class Reranker;  // reranking.h

namespace tasks {
class AskedQuestion;
}

// Search in whole documents by meaning and by words: passages with vectors in an index, best
// matches for a question.

/// Scores that rank passages: words (BM25), vectors of one kind (dense ones by the similarity of
/// the index, sparse ones by their product, those of tokens by MaxSim), or words and all kinds of
/// vectors that the index has.
enum class SearchMode { hybrid, dense, lexical, sparse, multi };

/// The languages that an index may have: of the stems of its words, or "none".
std::vector<std::string> search_languages();

struct SearchHit {
  std::string file;
  CharacterSpan span;
  /// Pages, paragraphs or chapters that the characters lie in, where the document has them.
  std::optional<PlaceSpan> place = {};
  /// Score that orders the hits: the similarity of a dense search, BM25 of a lexical one, a
  /// combination of the two for a hybrid one; the score of a reranker where there is one.
  float score = 0;
  /// Similarity of the vectors of question and passage: a cosine is −1 … 1. Absent in a lexical
  /// search.
  std::optional<float> similarity;
  /// BM25 of the question's words, 0 where none of them is in the passage; absent in a search by
  /// vectors alone.
  std::optional<float> words;
  /// Product of sparse vectors, and MaxSim of vectors of tokens (by their bytes); absent in
  /// searches without them.
  std::optional<float> sparse = {}, multi = {};
  std::string text;
  /// Characters of `text` that are words of the question.
  std::vector<CharacterSpan> matched;
  /// The metadata of its document, as a JSON object; empty: none.
  std::string metadata = {};
};

/// {"file", "begin", "end", "place": {"unit", "first", "last"}, "score", "similarity", "words",
/// "sparse", "multi", "text", "matched": [[begin, end], …], "metadata"}; "place", "similarity",
/// "words", "sparse", "multi" and "metadata" where the hit has them.
std::string to_json(const SearchHit& hit);

/// How passages become vectors; an index remembers it.
struct SearchOptions {
  Embedder::PassageOptions passages;
  /// Comparison of vectors. Absent: the one that the folder names (similarity_fn_name).
  std::optional<Similarity> similarity;
  /// Prefix of every passage. Absent: the prompt "document" of the folder.
  std::optional<std::string> passage_prompt;
  /// Words are compared by their stems in this language, one of search_languages(). Absent: the
  /// language of the index, "english" for a new one. Another language than that of an index makes
  /// its words again, and changes nothing else.
  std::optional<std::string> language;
  /// Kinds of vectors in the index. Absent: dense ones, or what the folder makes instead.
  std::optional<VectorKinds> vectors;
};

OptionFields fields(SearchOptions& options);

/// The options with what the folder says for those that are absent.
SearchOptions completed(const SearchOptions& options, const Embedder& embedder);

/// The options of a new index that is asked in this mode: with the vectors of the mode, unless the
/// options name others.
SearchOptions with_mode(SearchOptions options, SearchMode mode, const Embedder& embedder);

/// Cost of a third stage: passages that a reranker read, their tokens with those of the question,
/// and time.
struct RerankCost {
  std::int64_t texts = 0, tokens = 0;
  double seconds = 0;
};

struct SearchQuery {
  std::string question;
  /// Passages of query(), documents of rank().
  std::int64_t top_k = 3;
  SearchMode mode = SearchMode::hybrid;
  /// Only passages of the documents of these names, and of those below folders of these names;
  /// empty: of all.
  std::vector<std::string> within = {};
  /// Only passages of documents whose metadata meet all of these conditions, as "year>=2020" (the
  /// language is that of docs/search.md). They are applied before the best are taken.
  std::vector<std::string> filter = {};
  /// This text is put before the question for its vector; absent, it is the prompt "query" of the
  /// folder.
  std::optional<std::string> prompt = {};
  /// Words in quotation marks ("…", „…“, «…», 「…」) must be in a passage in these words, or other
  /// forms of them; where no passage has it, its words are searched. false: the marks mean nothing.
  bool phrases = true;
  /// Handling of a question that is longer than the model, for its vector.
  TooLong too_long = TooLong::refuse;
  /// A third stage: scores the best passages again, so many of them and never fewer than top_k.
  /// Null: none. It must outlive the query.
  const Reranker* reranker = nullptr;
  std::int64_t rerank_depth = 50;
  /// Called with what the third stage cost.
  std::function<void(const RerankCost&)> reranked = {};
  /// Called where no passage has the phrases, with a sentence that says so.
  std::function<void(const std::string&)> note = {};
};

/// Without the question.
OptionFields fields(SearchQuery& query);

/// SearchQuery::filter for a JSON value: a list of conditions, or an object of fields such as
/// {"author": "Smith", "year": {">=": 2020, "<": 2024}, "tag": ["a", "b"]}, where a list means any
/// of its values. Throws Error for anything else.
std::vector<std::string> search_filter(std::string_view json);

/// Throws Error for what is no condition of a SearchQuery::filter.
void check_filter(std::span<const std::string> filter);

/// The vectors of a question that its mode needs.
struct QuestionVectors {
  std::vector<float> dense;
  SparseEmbedding sparse;
  Embedding multi;
};

/// Cost of a search by vectors of tokens.
struct MultiVectorCost {
  std::int64_t vectors = 0;
  /// Memory that they take.
  std::int64_t bytes = 0;
  /// Time of a question of 32 tokens, by the speed of a small scan.
  double seconds = 0;
};

/// A document with the score of its best passage, as SearchHit has it. With a reranker that is the
/// logit of the passage for the first SearchQuery::rerank_depth documents, and the others stay in
/// their order behind them, with lower scores.
struct RankedDocument {
  std::string name;
  float score = 0;
};

/// A document with the passages that SearchIndex::prepare() has made of it.
struct PreparedDocument {
  std::string name;
  std::string_view text;
  PassageVectors passages;
  /// A JSON object; empty: none.
  std::string metadata = {};
  DocumentPlaces places = {};
};

/// A document of an index.
struct IndexedDocument {
  std::string name;
  std::int64_t passages = 0;
  std::int64_t characters = 0;
  /// The hash of its text tells whether it has changed.
  std::string hash;
  /// When it was read, UTC: 2026-11-24 23:44:46.
  std::string time;
  /// A JSON object; empty: none.
  std::string metadata = {};
};

/// {"file", "passages", "characters", "hash", "time"}.
std::string to_json(const IndexedDocument& document);

/// A passage of one document and one of another, its partner.
struct PassagePair {
  CharacterSpan a, b;
  /// Cosine of their vectors.
  float score = 0;
};

/// Two documents side by side, passage by passage.
struct DocumentComparison {
  /// Mean cosine of the passages of both documents with their best partners in the other one.
  float score = 0;
  /// Each passage with its best partner, in the order of document a; no pair twice.
  std::vector<PassagePair> pairs;
  /// Passages whose best partner is less similar than half of all pairs of passages are, by a
  /// random sample; they are in no pair.
  std::vector<CharacterSpan> only_a, only_b;
};

/// {"score", "pairs": [{"a": {"start", "end"}, "b": {"start", "end"}, "score"}, …],
/// "only_a": [{"start", "end"}, …], "only_b"}.
std::string to_json(const DocumentComparison& comparison);

/// Compares passages with vectors, as SearchIndex::prepare() and SearchIndex::vectors() give them.
/// The result depends on nothing else. Throws Error for vectors of different sizes.
DocumentComparison compare_passages(const Embedding& a, const Embedding& b);

/// Passages of documents with their vectors and words, in memory or in a file, a SQLite database.
/// Every document is written at once and whole: a process that is killed loses at most the document
/// in work. Several processes may read one file while others write it. One thread at a time uses an
/// object.
class SearchIndex {
 public:
  /// An empty index in memory, of the vectors that `embedder` makes.
  explicit SearchIndex(const Embedder& embedder, const SearchOptions& options = {});

  /// An index file to read, or to search in by words, without a model. Throws Error when it is not
  /// one, is of another version, or damaged. An index of an older version, or of another language
  /// than the one that is asked for, gets its words made again from its passages; this throws Error
  /// where the file cannot be written.
  static SearchIndex open(const std::string& file, const std::optional<std::string>& language = {});
  /// Opens an index for questions to `embedder`. Throws Error too when other weights, another size
  /// or another number type made its vectors; an index of words alone has none, and suits all.
  static SearchIndex open(const std::string& file, const Embedder& embedder,
                          const std::optional<std::string>& language = {});
  /// Opens an index to add and remove documents; makes the file if there is none. An index goes on
  /// with the options that it was made with. Throws Error too for a file that cannot be written.
  static SearchIndex edit(const std::string& file, const Embedder& embedder,
                          const SearchOptions& options = {});
  /// Opens an index of words alone to add and remove documents, whose passages are cut by the
  /// tokens of some tokenizer. It needs no model, and whatever made it may add to it. Throws Error
  /// too for an index that has vectors.
  static SearchIndex edit(const std::string& file, const Tokenizer& tokenizer,
                          const SearchOptions& options = {});
  /// Opens an existing index to remove documents only.
  static SearchIndex edit(const std::string& file, const std::optional<std::string>& language = {});

  SearchIndex(SearchIndex&&) noexcept;
  SearchIndex& operator=(SearchIndex&&) noexcept;
  ~SearchIndex();

  /// Adds a document under a name; replaces one of the same name. The metadata are a JSON object,
  /// or empty.
  void add(const Embedder& embedder, const std::string& name, std::string_view text,
           const ProgressCallback& progress = {}, const std::string& metadata = {});
  /// The passages of a text with their vectors, as add() makes them. Several threads may call it,
  /// also while another one uses the index. `batch_tokens` as in EmbedOptions: with fewer, other
  /// calls of the model wait less.
  PassageVectors prepare(const Embedder& embedder, std::string_view text,
                         const ProgressCallback& progress = {},
                         std::int64_t batch_tokens = EmbedOptions().batch_tokens) const;
  /// Those of several texts, an outcome for each.
  std::vector<PassagesOutcome> prepare_each(
      const Embedder& embedder, std::span<const std::string_view> texts,
      const ProgressCallback& progress = {},
      std::int64_t batch_tokens = EmbedOptions().batch_tokens) const;
  /// Passages of an index of words alone.
  PassageVectors prepare(const Tokenizer& tokenizer, std::string_view text) const;
  std::vector<PassagesOutcome> prepare_each(const Tokenizer& tokenizer,
                                            std::span<const std::string_view> texts) const;
  /// Adds a document whose passages prepare() has made, or to an index of dense vectors alone one
  /// with these. Throws Error where vectors are missing.
  void put(const std::string& name, std::string_view text, const PassageVectors& passages,
           const DocumentPlaces& places = {});
  void put(const std::string& name, std::string_view text, const Embedding& passages);
  /// Adds all of them or, where it throws, none. Many short documents take a fraction of the time
  /// that each takes by itself, as the disk is waited for once.
  void put(std::span<const PreparedDocument> documents);
  /// Gives documents, by their names, other metadata, which are JSON objects or empty, and keeps
  /// their passages; all or, where it throws, none. Gives how many had others before.
  std::int64_t describe(const std::map<std::string, std::string>& metadata);
  /// Removes the document of this name, or those below the folder of this name; gives how many.
  std::int64_t remove(const std::string& name);

  /// Whether this very text is in the index under this name.
  bool contains(const std::string& name, std::string_view text) const;
  /// The document of exactly this name.
  std::optional<IndexedDocument> document(const std::string& name) const;
  /// IndexedDocument::hash of a text.
  static std::string hash_of(std::string_view text);
  /// A document of this hash, under whatever name.
  std::optional<IndexedDocument> document_of(const std::string& hash) const;
  /// Bytes of the texts of all documents, of an index that is edited.
  std::int64_t text_bytes() const;
  /// Characters of a document, as far as there are any, out of its passages. The index does not
  /// keep white space between passages: one character of it is a blank, several begin and end with
  /// a line break. So every character is in its place. Throws Error for a name that is not in the
  /// index.
  std::string text(const std::string& name, CharacterSpan span) const;
  /// The pages, paragraphs or chapters of a document; none where it has none. Throws Error as
  /// text().
  DocumentPlaces places(const std::string& name) const;
  /// The passages of a document with their vectors. Throws Error as text().
  Embedding vectors(const std::string& name) const;
  /// Compares two documents by the vectors of the index, without a model. Throws Error as text().
  DocumentComparison compare(const std::string& a, const std::string& b) const;
  std::int64_t documents() const;
  std::int64_t passages() const;
  /// All documents that meet the conditions of a SearchQuery::filter, in the order of their names.
  std::vector<IndexedDocument> list(std::span<const std::string> filter = {}) const;
  /// The fields that conditions may name: "path", and those of the metadata.
  std::vector<std::string> fields() const;
  /// Throws Error as check_filter(), and for a field that no document has.
  void check(std::span<const std::string> filter) const;
  /// Calls `use` with the name of every document, in order, and keeps none: an index may have more
  /// of them than memory.
  void each_name(const std::function<void(const std::string&)>& use) const;
  /// How the passages were made; every value is present.
  const SearchOptions& options() const;
  /// The language that the words had before opening the index made them again for another one.
  std::optional<std::string> former_language() const;
  /// The model that made the vectors: its folder and number type, and their size.
  const std::string& model() const;
  const std::string& dtype() const;
  std::int64_t vector_size() const;
  /// The kinds of its vectors.
  VectorKinds kinds() const;
  MultiVectorCost multi_cost() const;
  /// Whether the program may take names for paths from the folder of the index file; those of older
  /// indexes are paths from where the program was called.
  bool names_are_from_its_folder() const;

  /// The best passages, best first, that do not overlap each other; a lexical search gives only
  /// those that have a word of the question. Throws Error for a name in `within` that is not in the
  /// index.
  std::vector<SearchHit> query(const Embedder& embedder, const SearchQuery& query) const;
  /// A lexical search, which needs no model.
  std::vector<SearchHit> query(const SearchQuery& query) const;
  /// The vectors of a question for the next query(). Several threads may call it, also while
  /// another one uses the index.
  QuestionVectors vectors_of(const Embedder& embedder, const SearchQuery& query) const;
  /// A search for a question whose vectors vectors_of() has made; a lexical search ignores them.
  std::vector<SearchHit> query(const QuestionVectors& vectors, const SearchQuery& query) const;
  /// The best documents, best first, by the scores that query() gives their passages. Throws Error
  /// as query().
  std::vector<RankedDocument> rank(const Embedder& embedder, const SearchQuery& query) const;

 private:
  struct Contents;
  KindOptions passage_options(std::int64_t batch_tokens) const;
  tasks::AskedQuestion asked(const QuestionVectors& vectors, const SearchQuery& query) const;
  explicit SearchIndex(std::unique_ptr<Contents> contents);
  void put_one(const PreparedDocument& document);

  std::unique_ptr<Contents> contents_;
};

// How well a search finds what is relevant, on a corpus with queries and judgements in the layout
// of BEIR; metrics as trec_eval counts them.

struct RetrievalEvaluation {
  DataOptions data = {};
  SearchMode mode = SearchMode::hybrid;
  /// Documents per query, at least 1.
  std::int64_t top_k = 1000;
  /// Longest passage. Absent: what an index file has; for a new one the longest text that the model
  /// takes, so that a document which fits is one vector, or 128 with the document as context.
  std::optional<std::int64_t> passage_tokens = {};
  /// Absent: what an index file has, else what the folder of the model says.
  std::optional<PassageContext> context = {};
  std::optional<std::string> passage_prompt = {};
  /// Kinds of vectors in a new index. Absent: as SearchOptions has it, and that of the mode.
  std::optional<VectorKinds> vectors = {};
  /// The language of words, as SearchOptions has it.
  std::optional<std::string> language = {};
  /// Absent: the prompt "query" of the folder.
  std::optional<std::string> query_prompt = {};
  /// Handling of queries longer than the model; documents have passages.
  TooLong too_long = TooLong::refuse;
  /// SearchQuery::reranker and its depth.
  const Reranker* reranker = nullptr;
  std::int64_t rerank_depth = SearchQuery().rerank_depth;
  /// The file of the index, which is made, or completed where documents are missing or have
  /// changed; empty: an index in memory. It must hold no other documents.
  std::string index = {};
  /// Called with every query, a JSON object on one line without its line break; the keys are those
  /// of docs/cli.md.
  std::function<void(std::string_view)> predictions = {};
  /// Called with the parts of a run, TREC's lines of query, Q0, document, rank, score and tag.
  std::function<void(std::string_view)> official_predictions = {};
  /// Documents are those of the corpus, then the queries; the total of tokens is an estimate.
  ProgressCallback progress = {};
};

/// Without `top_k`, and of `data` the options of retrieval alone.
OptionFields fields(RetrievalEvaluation& options);

/// Searches for the queries of a folder with corpus.jsonl, queries.jsonl and judgements in qrels as
/// SearchIndex::rank does, without phrases: quotation marks in a query mean nothing. A document
/// longer than a passage has the score of its best one. Throws Error that names file and line for
/// data that cannot be read, for an index of another model, corpus or other passages, and, unless
/// `data.skip_invalid`, for a line that is broken or a query that is too long.
Evaluation evaluate_retrieval(const Embedder& embedder, const std::string& folder,
                              const RetrievalEvaluation& options = {});

}  // namespace longformer
