// The two-stage way through many documents: a search finds passages, and a model reads these alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "longformer/options.h"
#include "longformer/places.h"
#include "longformer/search.h"
#include "longformer/tasks.h"

namespace longformer {

struct RetrieveOptions {
  /// Passages that are read.
  std::int64_t retrieve = 4;
  /// Characters of the document that are read before and behind each of them.
  std::int64_t around = 200;
  /// An answer loses so many times the share by which the score of its part falls behind the best
  /// one: readers take passages that answer nothing for sure ones. experiments/retrieval/answers.py
  /// chose 15.
  double search_weight = 15;
};

OptionFields fields(RetrieveOptions& options);

/// Parts of documents that are read: passages with what stands around them, joined where they
/// touch.
struct RetrievedPart {
  std::string file;
  CharacterSpan span;
  /// The best score of a passage in it.
  float score = 0;
  std::string text;
  /// The metadata of its document, as a JSON object; empty: none.
  std::string metadata = {};
  /// Those of the whole document.
  DocumentPlaces places = {};
};

/// {"file", "begin", "end", "place", "score", "metadata"}, without the text.
std::string to_json(const RetrievedPart& part);

/// The documents that passages were found in.
struct PassageDocuments {
  /// Characters of a document; absent where it is gone.
  std::function<std::optional<std::int64_t>(const std::string& file)> characters;
  std::function<std::string(const std::string& file, CharacterSpan span)> text;
  std::function<DocumentPlaces(const std::string& file)> places;
};

/// The parts around passages that a search has found, best first. Passages of documents that are
/// gone are left out.
std::vector<RetrievedPart> parts_around(std::vector<SearchHit> passages,
                                        const PassageDocuments& documents,
                                        const RetrieveOptions& options = {});

/// The parts around the best passages for a question, best first. `embedder` may be null for a
/// search by words; query.top_k has no meaning. Throws Error as SearchIndex::query().
std::vector<RetrievedPart> retrieved_parts(const SearchIndex& index, const Embedder* embedder,
                                           SearchQuery query, const RetrieveOptions& options = {});

struct RetrievedAnswer {
  /// The number of its part.
  std::size_t part = 0;
  /// In characters of the document, with their place where it has any.
  Answer answer;
  /// Answers are ordered by this: the logit, less what the search counts.
  float rank = 0;
};

struct RetrievedAnswers {
  /// Best first.
  std::vector<RetrievedAnswer> answers;
  /// Tokens of all parts, with those of the question, before truncation.
  std::int64_t tokens = 0;
  /// Tokens that TooLong::truncate cut off, and segments that were read.
  std::int64_t truncated = 0, segments = 0;
};

/// The best answers.top_k answers in any of the parts. Throws Error for a question that is too long
/// for the model.
RetrievedAnswers answers_in(const std::vector<RetrievedPart>& parts, const std::string& question,
                            const QuestionAnswerer& answerer, const AnswerOptions& answers,
                            const RetrieveOptions& options = {});

/// One text of the parts for a model that writes: documents by their best part, the parts of each
/// in their order, with an empty line between them.
std::string joined_text(const std::vector<RetrievedPart>& parts);

}  // namespace longformer
