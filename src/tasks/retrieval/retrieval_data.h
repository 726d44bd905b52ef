// A corpus, queries and judgements of relevance in the layout of BEIR, and rankings in files of
// TREC.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/dtype.h"
#include "engine/frame/data_file.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

/// How relevant documents are to a query, by their ids: above 0 is relevant, and more is better.
using Relevance = std::map<std::string, std::int64_t>;

struct JudgedQuery {
  Origin origin;
  std::string text;
  Relevance relevance;
};

struct RetrievalData {
  /// The files of queries and judgements.
  std::string file, judgements;
  /// In the order of their file; each has judgements.
  std::vector<JudgedQuery> queries;
  /// Queries that have none in this split, which are left out.
  Index unjudged = 0;
  /// Its examples are queries.
  DataReport report;
};

/// Whether it is a folder with a folder of judgements.
bool is_retrieval_data(const std::string& path);

/// Reads queries.jsonl and qrels/SPLIT.tsv or .txt of a folder: lines of query, document and
/// relevance between tabs behind a header, or TREC's lines of query, iteration, document and
/// relevance. Throws Error that names file and line, or the file that is missing.
RetrievalData read_retrieval(const std::string& folder, const DataOptions& options);

struct CorpusDocument {
  std::string id;
  /// Title, a blank and the text, without blanks around them, as BEIR embeds a document.
  std::string text;
};

/// Calls `read` with every document of corpus.jsonl of a folder, so that the texts are never held
/// together; what it throws is said of the document's line. Returns their ids. Throws Error that
/// names file and line, or a corpus without documents.
std::unordered_set<std::string> read_corpus(const std::string& folder, const DataOptions& options,
                                            DataReport& report,
                                            const std::function<void(const CorpusDocument&)>& read);

struct ScoredDocument {
  std::string id;
  float score = 0;
};

/// The documents that were found for a query.
using Ranking = std::vector<ScoredDocument>;

/// In the order of trec_eval: the highest score first, and of equal ones the id that is last in the
/// order of its bytes.
void sort_as_trec_eval(Ranking& ranking);

/// Reads a run, TREC's lines of query, Q0, document, rank, score and tag: rankings in the order of
/// trec_eval by the ids of queries. As there the scores count, as single-precision numbers, and not
/// the ranks. Throws Error that names file and line.
std::map<std::string, Ranking> read_run(const std::string& path);

/// The lines of such a file for one query. Throws Error for an id with blanks.
std::string run_lines(const std::string& query, const Ranking& ranking);
/// Throws Error for an id that run_lines() refuses.
void check_run_id(const std::string& id);

}  // namespace longformer::tasks
