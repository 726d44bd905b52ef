// Documents on their way into an index of `search`: files, folders, and what is gone from them.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>

#include "inputs.h"
#include "longformer/files.h"
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

/// Adds what is new or has changed, tells of what could not be read, and returns how many documents
/// were added.
std::int64_t add_documents(const SearchDocuments& documents, const Embedder& embedder,
                           SearchIndex& index, IndexNames& names, Messages& messages);

}  // namespace longformer::cli
