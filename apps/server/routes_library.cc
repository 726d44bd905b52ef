// Documents that the server keeps: /documents, /search, /compare.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include "event_stream.h"
#include "failure.h"
#include "http_text.h"
#include "inputs.h"
#include "library_search.h"
#include "schemas.h"

namespace longformer::server {
namespace {

constexpr std::size_t kLongestName = 4096;

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
  const std::string error =
      outcome.fault == FileFault::none
          ? "expected a PDF, a Word document, an OpenDocument text or an EPUB "
            "book, found bytes of another kind"
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
    // A program that knows no better says "text/plain" of a PDF too.
    if (type != "text/plain" || may_be_document_file(request.body)) {
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

std::optional<HttpResponse> list_documents(Api& api, ApiCall& call) {
  const Json filters = json_of_address(call.request, "filters");
  std::vector<LibraryDocument> documents;
  try {
    documents = api.library().list(filter_of(&filters));
  } catch (const Error& error) {
    throw failure_of(about_query(error, "filters"), "filters");
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

std::optional<HttpResponse> show_text(Api& api, ApiCall& call) {
  const std::string& id = call.parts.at(0);
  const Offsets offsets = offsets_of(api, call.request, id);
  CharacterSpan span = offsets.characters_of(
      {position_of(call.request, "start", 0), position_of(call.request, "end", INT64_MAX)});
  const std::string text = api.library().text(id, span);
  const auto [start, end] = offsets.of(span);
  return json_response(JsonLine().add("text", text).add("start", start).add("end", end).object());
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

std::optional<HttpResponse> search(Api& api, ApiCall& call) {
  const auto begin = std::chrono::steady_clock::now();
  LibrarySearch asked = {.query = query_of(api, call, "query"),
                         .texts = texts_to_search(api, call)};
  asked.query.top_k = whole_of(call.body, "top_k", 1, kMostHits).value_or(10);
  const FoundPassages found = passages_for(api, call, asked);
  std::vector<JsonLine> hits;
  DocumentOffsets offsets(api, call.request, asked.texts);
  for (const LibraryHit& hit : found.hits) {
    const Offsets& own = offsets.of(hit.document);
    hits.push_back(json_of(hit, asked.texts.has_value(), own, call.request));
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  JsonLine json;
  json.add_objects("hits", hits).add("passages", found.passages);
  if (!found.note.empty()) json.add("note", found.note);
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

std::vector<ApiField> search_fields() {
  std::vector<ApiField> all = {
      {"query", text_schema(), true}, {"top_k", hits_schema()}, {"texts", optional_texts_schema()}};
  std::ranges::move(query_fields(), std::back_inserter(all));
  all.push_back(truncate_field());
  return all;
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
