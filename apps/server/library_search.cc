#include "library_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "failure.h"
#include "inputs.h"
#include "routes_rerank.h"
#include "schemas.h"

namespace longformer::server {
namespace {

SearchMode mode_of(const Json& body) {
  const std::string mode = text_of(body, "mode").value_or("hybrid");
  if (mode == "hybrid") return SearchMode::hybrid;
  if (mode == "dense") return SearchMode::dense;
  if (mode == "sparse") return SearchMode::sparse;
  if (mode == "multi") return SearchMode::multi;
  if (mode == "words" || mode == "lexical") return SearchMode::lexical;
  refuse("`mode`: expected hybrid, dense, words, sparse or multi, found '" + mode + "'");
}

/// A third stage of a search: a cross-encoder gives the best passages their scores.
struct ThirdStage {
  const Reranker& reranker;
  std::int64_t depth = SearchQuery().rerank_depth;
};

/// `rerank`: the name of a reranker that is served; an empty one stands for the first.
std::optional<ThirdStage> third_stage_of(const Api& api, const ApiCall& call) {
  const auto depth = whole_of(call.body, "rerank_depth", 1, kMostHits);
  const auto name = text_of(call.body, "rerank");
  if (!name && depth) refuse("`rerank_depth`: expected a reranker in `rerank` beside it");
  if (!name) return std::nullopt;
  ThirdStage stage = {*api.models().find(*name, Ability::rerank).reranker};
  stage.depth = depth.value_or(stage.depth);
  return stage;
}

void rerank(const Api& api, ApiCall& call, const ThirdStage& stage, const std::string& query,
            std::vector<LibraryHit>& hits) {
  Ranking ranking = {.reranker = stage.reranker, .query = query, .texts = {}, .list = "rerank"};
  for (const LibraryHit& found : hits) ranking.texts.push_back(found.hit.text);
  std::vector<LibraryHit> ordered;
  for (const RankedText& one : ranked(api, call, ranking)) {
    ordered.push_back(std::move(hits[one.index]));
    ordered.back().hit.score = one.outcome.score;
  }
  hits = std::move(ordered);
}

}  // namespace

std::vector<std::string> filter_of(const Json* value) {
  if (value == nullptr || value->is_null()) return {};
  try {
    return search_filter(value->dump(-1, ' ', false, Json::error_handler_t::replace));
  } catch (const Error& error) {
    throw Failure(422, "Validation", fmt::format("`filters`: {}", error.reason()));
  }
}

Error about_query(const Error& error, const char* question) {
  if (error.option() == "filter") {
    ErrorParts parts = error.parts();
    parts.subject = parts.option = "filters";
    return Error(std::move(parts));
  }
  if (!error.document()) return error;
  ErrorParts parts = error.parts();
  parts.document.reset();
  parts.option = question;
  return Error(std::move(parts));
}

Offsets offsets_of(Api& api, const HttpRequest& request, const std::string& id) {
  CharacterSpan all = {0, INT64_MAX};
  return {request, counts_units(request) ? api.library().text(id, all) : std::string()};
}

const Offsets& DocumentOffsets::of(const std::string& id) {
  auto found = known_.find(id);
  if (found == known_.end()) {
    Offsets offsets =
        texts_ ? Offsets(request_, (*texts_)[std::stoull(id)]) : offsets_of(api_, request_, id);
    found = known_.emplace(id, std::move(offsets)).first;
  }
  return found->second;
}

SearchQuery query_of(const Api& api, const ApiCall& call, const char* question) {
  SearchQuery query;
  query.question = needed_text(call.body, question);
  query.mode = mode_of(call.body);
  query.phrases = truth_of(call.body, "phrases").value_or(true);
  query.too_long = too_long_of(api, call, call.body);
  query.prompt = text_of(call.body, "prompt");
  query.filter = filter_of(member(call.body, "filters"));
  if (const auto name = text_of(call.body, "prompt_name"); name && !query.prompt) {
    EmbedOptions options;
    options.prompt_name = name;
    try {
      query.prompt = api.model_for(call, Ability::embed).embedder->prompt(options);
    } catch (const Error& error) {
      throw Failure(422, "Validation", error.what());
    }
  }
  return query;
}

FoundPassages passages_for(Api& api, ApiCall& call, LibrarySearch& search) {
  SearchQuery& query = search.query;
  const auto third_stage = third_stage_of(api, call);
  const auto top_k = static_cast<std::size_t>(query.top_k);
  if (third_stage) query.top_k = std::max(query.top_k, third_stage->depth);
  FoundPassages found;
  query.note = [&found](const std::string& sentence) { found.note = sentence; };
  if (search.texts && !query.filter.empty()) {
    refuse("`filters`: expected none beside `texts`, which have no metadata");
  }
  const auto given = texts_of(call.body, "documents");
  if (given && given->empty()) {
    refuse("`documents`: expected ids of documents, found none; without it all are searched");
  }
  const auto ids = given.value_or(std::vector<std::string>());
  call.lengths.inputs = 1;
  call.lengths.characters = characters_of(query.question);
  try {
    LibraryHits all = search.texts ? api.library().search_texts(query, *search.texts)
                                   : api.library().search(query, ids);
    found.hits = std::move(all.hits);
    found.passages = all.passages;
  } catch (const Error& error) {
    throw failure_of(about_query(error, search.question), search.question);
  }
  if (third_stage) {
    rerank(api, call, *third_stage, query.question, found.hits);
    found.hits.resize(std::min(found.hits.size(), top_k));
  }
  return found;
}

bool is_retrieved(const ApiCall& call, std::span<const char* const> texts) {
  if (member(call.body, "retrieve") == nullptr) {
    RetrieveOptions options;
    std::vector<std::string> names = {"documents", "filters", "mode",
                                      "phrases",   "rerank",  "rerank_depth"};
    for (const OptionField& field : fields(options)) names.push_back(field.name);
    for (const std::string& name : names) {
      if (member(call.body, name.c_str()) == nullptr) continue;
      refuse(fmt::format("`{}`: expected `retrieve` beside it, found none", name));
    }
    return false;
  }
  for (const char* name : texts) {
    if (member(call.body, name) != nullptr) {
      refuse(fmt::format("`{}`: expected none beside `retrieve`, which reads what it finds", name));
    }
  }
  return true;
}

RetrievedParts parts_for(Api& api, ApiCall& call, const char* question) {
  RetrievedParts found;
  read_fields(fields(found.options), call.body);
  LibrarySearch search = {.query = query_of(api, call, question), .question = question};
  search.query.top_k = found.options.retrieve;
  FoundPassages passages = passages_for(api, call, search);
  found.note = std::move(passages.note);
  std::map<std::string, std::string> names;
  std::vector<SearchHit> hits;
  for (LibraryHit& one : passages.hits) {
    names[one.document] = one.name;
    one.hit.file = one.document;
    hits.push_back(std::move(one.hit));
  }
  Library& library = api.library();
  const PassageDocuments documents = {
      .characters = [&](const std::string& id) -> std::optional<std::int64_t> {
        try {
          return library.find(id).characters;
        } catch (const Failure&) {
          return std::nullopt;
        }
      },
      .text = [&](const std::string& id, CharacterSpan span) { return library.text(id, span); },
      .places = [&](const std::string& id) { return library.places(id); }};
  found.parts = parts_around(std::move(hits), documents, found.options);
  for (const RetrievedPart& part : found.parts) found.names.push_back(names.at(part.file));
  return found;
}

std::vector<JsonLine> parts_json(DocumentOffsets& offsets, const RetrievedParts& found) {
  std::vector<JsonLine> rows;
  for (std::size_t i = 0; i < found.parts.size(); ++i) {
    const RetrievedPart& part = found.parts[i];
    const auto [start, end] = offsets.of(part.file).of(part.span);
    JsonLine& row = rows.emplace_back();
    row.add("document", part.file).add("name", found.names[i]);
    row.add("start", start).add("end", end);
    if (const auto place = place_of(part.places, part.span)) {
      row.add_json("place", to_json(*place));
    }
    row.add("score", part.score);
    if (!part.metadata.empty()) row.add_json("metadata", part.metadata);
  }
  return rows;
}

Json hits_schema() {
  return {{"type", "integer"}, {"minimum", 1}, {"maximum", kMostHits}, {"nullable", true}};
}

Json optional_texts_schema() {
  return optional_schema(Json{{"type", "array"}, {"items", {{"type", "string"}}}});
}

std::vector<ApiField> query_fields() {
  const Json mode = {{"type", "string"},
                     {"enum", {"hybrid", "dense", "words", "sparse", "multi"}},
                     {"nullable", true}};
  return {{"documents", optional_texts_schema()},
          {"filters",
           optional_schema(Json{
               {"oneOf",
                {{{"type", "object"}}, {{"type", "array"}, {"items", {{"type", "string"}}}}}}})},
          {"mode", mode},
          {"phrases", optional_schema("boolean")},
          {"prompt", optional_schema("string")},
          {"prompt_name", optional_schema("string")},
          {"rerank", optional_schema("string")},
          {"rerank_depth", hits_schema()}};
}

std::vector<ApiField> retrieve_fields(const std::vector<std::string>& names) {
  std::vector<ApiField> all = query_fields();
  RetrieveOptions options;
  append_options(all, only(fields(options), names));
  return all;
}

}  // namespace longformer::server
