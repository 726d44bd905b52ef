// Documents that the server keeps: /documents, /search, /compare.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>

#include "event_stream.h"
#include "failure.h"
#include "http_text.h"
#include "inputs.h"
#include "routes_rerank.h"
#include "schemas.h"

namespace longformer::server {
namespace {

constexpr std::size_t kLongestName = 4096;
constexpr std::int64_t kMostHits = 10000;

std::string json_of(const LibraryDocument& document) {
  JsonLine json;
  json.add("id", document.id).add("name", document.name);
  json.add("characters", document.characters);
  if (document.tokens) json.add("tokens", *document.tokens);
  json.add("passages", document.passages);
  if (document.seconds) json.add("seconds", *document.seconds);
  if (!document.metadata.empty()) json.add_json("metadata", document.metadata);
  return json.object();
}

/// The JSON text of an object; empty for an absent one. Throws Failure.
std::string metadata_of(const Json* value) {
  if (value == nullptr || value->is_null()) return {};
  if (!value->is_object()) refuse_type("metadata", "an object", *value);
  return value->dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Conditions on metadata, of `filters`. Throws Failure.
std::vector<std::string> filter_of(const Json* value) {
  if (value == nullptr || value->is_null()) return {};
  try {
    return search_filter(value->dump(-1, ' ', false, Json::error_handler_t::replace));
  } catch (const Error& error) {
    throw Failure(422, "Validation", fmt::format("`filters`: {}", error.reason()));
  }
}

/// JSON in the address, null where there is none. Throws Failure.
Json json_of_address(const HttpRequest& request, const char* key) {
  const auto text = request.query_value(key);
  if (!text) return {};
  Json value = Json::parse(*text, nullptr, false);
  if (value.is_discarded()) refuse(fmt::format("`{}`: expected JSON, found none", key));
  return value;
}

/// The text of a file that is the body.
DocumentContents contents_of(std::string_view body, const std::string& name) {
  // The name says nothing here: it is a label.
  FileOutcome outcome = file_contents(body, {});
  if (outcome.contents) return std::move(*outcome.contents);
  const std::string error = outcome.fault == FileFault::none
                                ? "expected a file of the type that the request says, found text"
                                : outcome.error;
  throw Failure(422, "Validation", fmt::format("{}: {}", name, error));
}

Upload upload_of(const ApiCall& call) {
  const HttpRequest& request = call.request;
  Upload upload;
  const std::string type = content_type_of(request);
  if (is_media_type_of_documents(type)) {
    const auto name = request.query_value("name");
    if (!name || name->empty()) refuse("missing `name` in the address");
    const Json given = json_of_address(request, "metadata");
    upload.name = *name;
    upload.metadata = metadata_of(&given);
    if (type != "text/plain") {
      upload.contents = contents_of(request.body, upload.name);
    } else {
      upload.contents.text = request.body;
    }
    if (!is_utf8(upload.contents.text)) {
      throw Failure(400, "Validation", "expected a text in UTF-8, found other bytes");
    }
    if (upload.contents.text.empty()) throw Failure(400, "Empty", "the text cannot be empty");
  } else {
    upload.name = needed_text(call.body, "name");
    upload.contents.text = needed_text(call.body, "text");
    upload.metadata = metadata_of(member(call.body, "metadata"));
  }
  if (upload.name.size() > kLongestName) {
    refuse(fmt::format("`name`: expected at most {} bytes, found {}", kLongestName,
                       upload.name.size()));
  }
  return upload;
}

AddedDocument added(Api& api, ApiCall& call, const Upload& upload,
                    const ReadingCallback& progress) {
  try {
    AddedDocument found = api.library().add(upload, progress);
    call.lengths.inputs = 1;
    call.lengths.characters = characters_of(upload.contents.text);
    if (found.is_new) count(call.lengths, found.document.tokens.value_or(0), 0, 1);
    return found;
  } catch (const Error& error) {
    throw failure_of(error, "text");
  }
}

std::optional<HttpResponse> add_document(Api& api, ApiCall& call) {
  const Upload upload = upload_of(call);
  const auto accept = call.request.header("accept").value_or("");
  if (accept.find("text/event-stream") == accept.npos) {
    const AddedDocument found = added(api, call, upload, {});
    return json_response(json_of(found.document), found.is_new ? 201 : 200);
  }
  EventStream events(*call.exchange);
  const KeptAlive alive(call.meanwhile, events);
  try {
    const auto progress = [&](const std::string& id, const Progress& now) {
      JsonLine json;
      json.add("tokens_done", now.tokens_done).add("tokens_total", now.tokens_total);
      events.send("progress", json.add("id", id).object());
    };
    const AddedDocument found = added(api, call, upload, progress);
    events.send("done", json_of(found.document));
  } catch (const Failure& failure) {
    if (!events.has_begun()) throw;
    events.send("error", error_json(failure));
  }
  events.end();
  return std::nullopt;
}

/// The one text of a question has no number, and its conditions are `filters`.
Error about_query(const Error& error) {
  if (error.option() == "filter") {
    ErrorParts parts = error.parts();
    parts.subject = parts.option = "filters";
    return Error(std::move(parts));
  }
  if (!error.document()) return error;
  ErrorParts parts = error.parts();
  parts.document.reset();
  parts.option = "query";
  return Error(std::move(parts));
}

std::optional<HttpResponse> list_documents(Api& api, ApiCall& call) {
  const Json filters = json_of_address(call.request, "filters");
  std::vector<LibraryDocument> documents;
  try {
    documents = api.library().list(filter_of(&filters));
  } catch (const Error& error) {
    throw failure_of(about_query(error), "filters");
  }
  const std::string list = json_list(
      documents,
      [](std::string& json, const LibraryDocument& document) { json += json_of(document); });
  return json_response(JsonLine().add_json("documents", list).object());
}

std::optional<HttpResponse> show_document(Api& api, ApiCall& call) {
  return json_response(json_of(api.library().find(call.parts.at(0))));
}

std::optional<HttpResponse> delete_document(Api& api, ApiCall& call) {
  api.library().remove(call.parts.at(0));
  return HttpResponse{.status = 204};
}

/// A position of the address.
std::int64_t position_of(const HttpRequest& request, const char* key, std::int64_t absent) {
  const auto given = request.query_value(key);
  if (!given) return absent;
  std::int64_t value = 0;
  const char* end = given->data() + given->size();
  const auto read = std::from_chars(given->data(), end, value);
  if (read.ec != std::errc() || read.ptr != end || value < 0) {
    refuse(
        fmt::format("`{}`: expected a whole number from 0, found '{}'", key, given->substr(0, 40)));
  }
  return value;
}

/// Offsets of a document, whose text is only read where they are no code points.
Offsets offsets_of(Api& api, const HttpRequest& request, const std::string& id) {
  CharacterSpan all = {0, INT64_MAX};
  return {request, counts_units(request) ? api.library().text(id, all) : std::string()};
}

std::optional<HttpResponse> show_text(Api& api, ApiCall& call) {
  const std::string& id = call.parts.at(0);
  const Offsets offsets = offsets_of(api, call.request, id);
  CharacterSpan span = offsets.characters_of(
      {position_of(call.request, "start", 0), position_of(call.request, "end", INT64_MAX)});
  const std::string text = api.library().text(id, span);
  const auto [start, end] = offsets.of(span);
  return json_response(JsonLine().add("text", text).add("start", start).add("end", end).object());
}

SearchMode mode_of(const Json& body) {
  const std::string mode = text_of(body, "mode").value_or("hybrid");
  if (mode == "hybrid") return SearchMode::hybrid;
  if (mode == "dense") return SearchMode::dense;
  if (mode == "sparse") return SearchMode::sparse;
  if (mode == "multi") return SearchMode::multi;
  if (mode == "words" || mode == "lexical") return SearchMode::lexical;
  refuse("`mode`: expected hybrid, dense, words, sparse or multi, found '" + mode + "'");
}

SearchQuery query_of(const Api& api, const ApiCall& call) {
  SearchQuery query;
  query.question = needed_text(call.body, "query");
  query.top_k = whole_of(call.body, "top_k", 1, kMostHits).value_or(10);
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

JsonLine json_of(const LibraryHit& found, bool is_text, const Offsets& offsets,
                 const HttpRequest& request) {
  const SearchHit& hit = found.hit;
  const auto [start, end] = offsets.of(hit.span);
  const Offsets within(request, hit.text);
  std::vector<CharacterSpan> matched;
  for (const CharacterSpan& span : hit.matched) matched.push_back(within.of(span));
  JsonLine json;
  if (is_text) {
    json.add_json("document", found.document).add_null("name");
  } else {
    json.add("document", found.document).add("name", found.name);
  }
  json.add("start", start).add("end", end);
  if (hit.place) json.add_json("place", to_json(*hit.place));
  json.add("score", hit.score);
  if (hit.similarity) json.add("cosine", *hit.similarity);
  if (hit.words) json.add("words", *hit.words);
  json.add("text", hit.text).add("matched", std::span<const CharacterSpan>(matched));
  if (!hit.metadata.empty()) json.add_json("metadata", hit.metadata);
  return json;
}

/// Texts to search in, where nothing is kept.
std::optional<std::vector<std::string>> texts_to_search(const Api& api, const ApiCall& call) {
  auto texts = texts_of(call.body, "texts");
  if (!texts) return texts;
  if (texts->empty()) refuse_empty("texts");
  check_batch_size(api, texts->size());
  for (std::size_t i = 0; i < texts->size(); ++i) {
    if ((*texts)[i].empty()) {
      refuse_empty(fmt::format("texts[{}]", i));
    }
  }
  return texts;
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

void rerank(const Api& api, ApiCall& call, const ThirdStage& stage, std::vector<LibraryHit>& hits) {
  Ranking ranking = {.reranker = stage.reranker,
                     .query = needed_text(call.body, "query"),
                     .texts = {},
                     .list = "rerank"};
  for (const LibraryHit& found : hits) ranking.texts.push_back(found.hit.text);
  std::vector<LibraryHit> ordered;
  for (const RankedText& one : ranked(api, call, ranking)) {
    ordered.push_back(std::move(hits[one.index]));
    ordered.back().hit.score = one.outcome.score;
  }
  hits = std::move(ordered);
}

std::optional<HttpResponse> search(Api& api, ApiCall& call) {
  const auto begin = std::chrono::steady_clock::now();
  SearchQuery query = query_of(api, call);
  const auto third_stage = third_stage_of(api, call);
  const auto top_k = static_cast<std::size_t>(query.top_k);
  if (third_stage) query.top_k = std::max(query.top_k, third_stage->depth);
  std::string note;
  query.note = [&note](const std::string& sentence) { note = sentence; };
  const auto texts = texts_to_search(api, call);
  if (texts && !query.filter.empty())
    refuse("`filters`: expected none beside `texts`, which have no metadata");
  const auto ids = texts_of(call.body, "documents").value_or(std::vector<std::string>());
  call.lengths.inputs = 1;
  call.lengths.characters = characters_of(query.question);
  LibraryHits found;
  try {
    found = texts ? api.library().search_texts(query, *texts) : api.library().search(query, ids);
  } catch (const Error& error) {
    throw failure_of(about_query(error), "query");
  }
  if (third_stage) {
    rerank(api, call, *third_stage, found.hits);
    found.hits.resize(std::min(found.hits.size(), top_k));
  }
  std::vector<JsonLine> hits;
  std::map<std::string, Offsets> offsets;
  for (const LibraryHit& hit : found.hits) {
    auto known = offsets.find(hit.document);
    if (known == offsets.end()) {
      known = offsets
                  .emplace(hit.document,
                           texts ? Offsets(call.request, (*texts)[std::stoull(hit.document)])
                                 : offsets_of(api, call.request, hit.document))
                  .first;
    }
    hits.push_back(json_of(hit, texts.has_value(), known->second, call.request));
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  JsonLine json;
  json.add_objects("hits", hits).add("passages", found.passages);
  if (!note.empty()) json.add("note", note);
  return json_response(json.add("seconds", seconds.count()).object());
}

std::optional<HttpResponse> compare(Api& api, ApiCall& call) {
  const std::string a = needed_text(call.body, "a"), b = needed_text(call.body, "b");
  DocumentComparison found = api.library().compare(a, b);
  const Offsets of_a = offsets_of(api, call.request, a), of_b = offsets_of(api, call.request, b);
  for (PassagePair& pair : found.pairs) {
    pair.a = of_a.of(pair.a);
    pair.b = of_b.of(pair.b);
  }
  for (CharacterSpan& span : found.only_a) span = of_a.of(span);
  for (CharacterSpan& span : found.only_b) span = of_b.of(span);
  return json_response(to_json(found));
}

std::vector<ApiField> document_fields() {
  return {{"name", text_schema(), true},
          {"text", text_schema(), true},
          {"metadata", optional_schema("object")}};
}

Json optional_texts() {
  return optional_schema(Json{{"type", "array"}, {"items", {{"type", "string"}}}});
}

std::vector<ApiField> search_fields() {
  const Json top_k = {
      {"type", "integer"}, {"minimum", 1}, {"maximum", kMostHits}, {"nullable", true}};
  const Json mode = {{"type", "string"},
                     {"enum", {"hybrid", "dense", "words", "sparse", "multi"}},
                     {"nullable", true}};
  return {{"query", text_schema(), true},
          {"top_k", top_k},
          {"documents", optional_texts()},
          {"filters",
           optional_schema(Json{
               {"oneOf",
                {{{"type", "object"}}, {{"type", "array"}, {"items", {{"type", "string"}}}}}}})},
          {"texts", optional_texts()},
          {"mode", mode},
          {"phrases", optional_schema("boolean")},
          {"prompt", optional_schema("string")},
          {"prompt_name", optional_schema("string")},
          {"rerank", optional_schema("string")},
          {"rerank_depth", top_k},
          truncate_field()};
}

std::vector<ApiField> compare_fields() {
  return {{"a", text_schema(), true}, {"b", text_schema(), true}};
}

}  // namespace

std::vector<Route> library_routes() {
  const auto route = [](std::string_view method, std::string_view path, std::string_view summary,
                        Handler handler, std::vector<ApiField> (*fields)() = nullptr) {
    return Route{.method = method,
                 .path = path,
                 .summary = summary,
                 .handler = handler,
                 .ability = Ability::embed,
                 .fields = fields};
  };
  Route add = route("POST", "/documents",
                    "Puts in a document of any length; as a stream of events where asked for.",
                    add_document, document_fields);
  add.takes_text = true;
  Route text = route("GET", "/documents/{id}/text",
                     "Characters `start` to `end` of a document, in code points.", show_text);
  text.positions = {"start", "end"};
  return {
      add,
      route("GET", "/documents",
            "All documents that are whole, or those that meet `filters` (JSON).", list_documents),
      text,
      route("GET", "/documents/{id}", "A document, also while it is read.", show_document),
      route("DELETE", "/documents/{id}", "Removes a document.", delete_document),
      route("POST", "/search",
            "The best passages of documents, or of texts, by meaning and by words.", search,
            search_fields),
      route("POST", "/compare", "The passages of two documents that mean the same.", compare,
            compare_fields)};
}

}  // namespace longformer::server
