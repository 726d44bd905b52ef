// How well a search finds what is relevant, on a corpus with queries and judgements in the layout
// of BEIR; metrics as trec_eval counts them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "longformer/dataset.h"
#include "longformer/embedding.h"
#include "longformer/evaluation_result.h"
#include "longformer/progress.h"
#include "longformer/search.h"

namespace longformer {

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
  /// The language of words, as SearchOptions has it.
  std::optional<std::string> language = {};
  /// Absent: the prompt "query" of the folder.
  std::optional<std::string> query_prompt = {};
  /// What becomes of queries longer than the model; documents have passages.
  TooLong too_long = TooLong::refuse;
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

/// Searches for the queries of a folder with corpus.jsonl, queries.jsonl and judgements in qrels as
/// SearchIndex::rank does, without phrases: quotation marks in a query mean nothing. A document
/// longer than a passage has the score of its best one. Throws Error that names file and line for
/// data that cannot be read, for an index of another model, corpus or other passages, and, unless
/// `data.skip_invalid`, for a line that is broken or a query that is too long.
Evaluation evaluate_retrieval(const Embedder& embedder, const std::string& folder,
                              const RetrievalEvaluation& options = {});

}  // namespace longformer
