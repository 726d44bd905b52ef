// Documents on their way into an index of `search`: files, folders, and what is gone from them.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "flags.h"
#include "inputs.h"
#include "longformer/files.h"
#include "longformer/reranking.h"
#include "longformer/search.h"
#include "longformer/search_files.h"
#include "messages.h"

namespace longformer::cli {

struct SearchDocuments {
  InputOptions inputs = {.format = "auto"};
  FilePatterns patterns;
  /// Take those out of the index of which the files are gone from a folder that was named.
  bool prune = false;
};

/// FILES and the flags of the above.
void add_search_documents(CLI::App& verb, SearchDocuments& documents);

/// Throws UsageError for flags that do not go together.
void check(const SearchDocuments& documents);

/// The flags of a model that is not the first one of the verb. An adapter is of that one.
ModelFlags other_model(const ModelFlags& flags, const std::string& folder);

/// The model of --rerank; none for an empty name.
std::optional<Reranker> loaded_reranker(const ModelFlags& flags, const std::string& folder,
                                        Messages& messages);

/// The file of an index, which need not be there where documents are read into it. An empty name
/// is an index in memory.
struct IndexFile {
  std::string name;
  bool reads_documents = false;

  /// Throws Error for a file that is not there and is not made.
  void check() const;
  /// Throws Error as SearchIndex does.
  SearchIndex open(const Embedder& embedder, const SearchOptions& options) const;
};

/// The passages of texts, an outcome for each.
using MakePassages = std::function<std::vector<PassagesOutcome>(std::span<const std::string_view>,
                                                                const ProgressCallback&)>;
MakePassages passages_with_vectors(const Embedder& embedder, const SearchIndex& index);
MakePassages passages_of_words(const Tokenizer& tokenizer, const SearchIndex& index);

/// Adds what is new or has changed, tells of what could not be read, and returns how many documents
/// were added.
std::int64_t add_documents(const SearchDocuments& documents, const MakePassages& make,
                           SearchIndex& index, IndexNames& names, Messages& messages);

}  // namespace longformer::cli
