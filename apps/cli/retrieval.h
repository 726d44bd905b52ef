// Retrieval before reading: the flags of verbs that read only what a search finds, and the search.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "flags.h"
#include "inputs.h"
#include "longformer/reranking.h"
#include "longformer/retrieved.h"
#include "longformer/search.h"
#include "longformer/search_files.h"
#include "search_documents.h"

namespace longformer::cli {

struct RetrievalFlags {
  std::string index, embedder, reranker;
  SearchQuery query;
  RetrieveOptions options;
  FilePatterns patterns;
  bool is_retrieve_given = false, is_mode_given = false;

  /// Whether the verb reads only what a search finds.
  bool is_asked() const { return is_retrieve_given || !index.empty() || !embedder.empty(); }
};

/// --retrieve and what goes with it.
void add_retrieval(CLI::App& verb, RetrievalFlags& flags);

/// A verb's flags, model and inputs. Tokens of the model cut passages for a search by words.
struct RetrievalInputs {
  const RetrievalFlags& flags;
  const ModelFlags& model;
  const InputOptions& inputs;
};

/// Throws UsageError for flags that do not go together.
void check(const RetrievalInputs& given);

/// An index with the model that made it, and questions to it.
class Retrieval {
 public:
  /// Reads the documents that are not in the index. The inputs have passed check().
  Retrieval(const RetrievalInputs& given, Messages& messages);

  /// The parts of documents for a question, with the names that files have here.
  std::vector<RetrievedPart> parts(const std::string& question);
  const RetrieveOptions& options() const { return flags_.options; }

 private:
  void open(const RetrievalInputs& given);

  const RetrievalFlags& flags_;
  Messages& messages_;
  SearchDocuments documents_;
  SearchQuery query_;
  /// One of these makes passages; none where no file is read.
  std::optional<Embedder> embedder_;
  std::optional<Tokenizer> tokenizer_;
  std::optional<SearchIndex> index_;
  std::optional<Reranker> reranker_;
  std::optional<IndexNames> names_;
};

/// Calls `ask` with each question of the flags or, without any, with each line of stdin.
void each_question(const std::vector<std::string>& questions, const TextEncoding& encoding,
                   const std::function<void(const std::string&)>& ask);

}  // namespace longformer::cli
