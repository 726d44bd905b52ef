// Searches in the documents of the library, for the routes that give passages and for those that
// read them.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api.h"
#include "longformer/retrieved.h"
#include "offsets.h"

namespace longformer::server {

/// Most passages of one search.
constexpr std::int64_t kMostHits = 10000;

/// Conditions on metadata, of `filters`. Throws Failure.
std::vector<std::string> filter_of(const Json* value);

/// The same error about the member that has the question: there is one, so it has no number, and
/// its conditions are `filters`.
Error about_query(const Error& error, const char* question);

/// Offsets of a document, whose text is only read where they are no code points.
Offsets offsets_of(Api& api, const HttpRequest& request, const std::string& id);

/// Those of many places in few documents: a text is read once.
class DocumentOffsets {
 public:
  /// A document is an id of the library or, where there are texts, the index of one.
  DocumentOffsets(Api& api, const HttpRequest& request,
                  const std::optional<std::vector<std::string>>& texts = std::nullopt)
      : api_(api), request_(request) {
    if (texts) texts_ = *texts;
  }
  const Offsets& of(const std::string& id);

 private:
  Api& api_;
  const HttpRequest& request_;
  std::optional<std::span<const std::string>> texts_;
  std::map<std::string, Offsets> known_;
};

/// The search that a request asks for; `question` is the member that has the question. Throws
/// Failure.
SearchQuery query_of(const Api& api, const ApiCall& call, const char* question);

struct LibrarySearch {
  SearchQuery query;
  /// The member of the request that has the question.
  const char* question = "query";
  /// Texts to search in, which nobody keeps; absent: in `documents` of the request, or in all.
  std::optional<std::vector<std::string>> texts = {};
};

struct FoundPassages {
  std::vector<LibraryHit> hits;
  /// Passages that were searched.
  std::int64_t passages = 0;
  /// A sentence where no passage has the phrases of the question.
  std::string note;
};

/// The best passages, with the reranker that the request names. Throws Failure.
FoundPassages passages_for(Api& api, ApiCall& call, LibrarySearch& search);

/// Whether a request has a model read only what a search finds: it has `retrieve`. Throws Failure
/// where it has a text to read too, under one of these names.
bool is_retrieved(const ApiCall& call, std::span<const char* const> texts);

/// Parts of documents that a search in the library has found for a model to read.
struct RetrievedParts {
  RetrieveOptions options;
  /// Their files are ids of documents.
  std::vector<RetrievedPart> parts;
  /// Names of the documents, by part.
  std::vector<std::string> names;
  std::string note;
};

/// Throws Failure.
RetrievedParts parts_for(Api& api, ApiCall& call, const char* question);
/// [{"document", "name", "start", "end", "place", "score", "metadata"}, …].
std::vector<JsonLine> parts_json(DocumentOffsets& offsets, const RetrievedParts& found);

/// Members of requests that search in the library, without the question.
std::vector<ApiField> query_fields();
/// These with `retrieve` and such options of it.
std::vector<ApiField> retrieve_fields(const std::vector<std::string>& names);
Json hits_schema();
Json optional_texts_schema();

}  // namespace longformer::server
