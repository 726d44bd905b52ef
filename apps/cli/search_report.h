// Output of `search`: hits of a question, and what is in an index.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "longformer/report.h"
#include "longformer/search.h"
#include "messages.h"
#include "results.h"

namespace longformer::cli {

/// A question with what was found.
struct SearchAnswer {
  std::string question;
  std::vector<SearchHit> hits;
  /// A note about the hits; often empty.
  std::string note;
  double seconds = 0;
};

/// Contents of the index, and the time that its new documents took.
struct IndexState {
  std::int64_t documents = 0, passages = 0;
  double seconds = 0;
};

/// "document" or "none": what --context calls it.
const char* context_name(const SearchOptions& options);

/// The similarity of the vectors of an index: "cosine", "dot" …
std::string similarity_name(const SearchOptions& options);

/// Words of the question are set in bold for a terminal, which gets control characters as text that
/// can be seen; else they stand between stars.
std::string answer_text(const SearchAnswer& answer, const std::string& similarity, bool terminal);
JsonLine answer_json(const SearchAnswer& answer, const IndexState& state);

/// Tells of a question that has no answer; the results have it under this name, with the error.
void tell_failure(const char* name, const std::string& question, const Error& error,
                  Messages& messages, Results& results);

/// A line for each document.
std::string documents_text(const std::vector<IndexedDocument>& documents, bool json);
std::string statistics_text(const SearchIndex& index, const std::string& file, bool json);

}  // namespace longformer::cli
