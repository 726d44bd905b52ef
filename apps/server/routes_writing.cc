// Texts about texts: /summarize and /generate, whole or as a stream of events.
#include <fmt/format.h>

#include <array>
#include <iterator>

#include "event_stream.h"
#include "failure.h"
#include "library_search.h"
#include "routes_tasks.h"
#include "schemas.h"

namespace longformer::server {
namespace {

/// The members that are options of transformers' generate().
Json generation_members(const Json& where) {
  GenerationOptions names;
  Json chosen = Json::object();
  for_each_generation_option(
      [&](const char* name, const char*, auto&) {
        if (const Json* value = member(where, name)) chosen[name] = *value;
      },
      names);
  for (const char* key : {"generate_parameters", "generation_parameters"}) {
    const Json* more = member(where, key);
    if (more == nullptr) continue;
    if (!more->is_object()) refuse_type(key, "an object", *more);
    chosen.update(*more);
  }
  return chosen;
}

/// A request has one document, so none are written together.
OptionFields options_of_requests(GenerationRequest& request) {
  return without(request_options(fields(request)), {"together"});
}

}  // namespace

GenerationRequest writing_request(const Api& api, const ApiCall& call, const Json& where) {
  GenerationRequest request;
  request.too_long = too_long_of(api, call, where);
  try {
    request.options = parse_generation_options(generation_members(where).dump());
  } catch (const Error& error) {
    throw Failure(422, "Validation", error.what());
  }
  read_fields(options_of_requests(request), where);
  return request;
}

WrittenDocument written(ApiCall& call, const TextGenerator& writer, const std::string& text,
                        const GenerationRequest& request, const GenerationCallback& callback) {
  WrittenDocument found;
  try {
    found = writer.generate(std::span(&text, 1), request, callback).at(0);
  } catch (const Error& error) {
    throw failure_of(error, "inputs");
  }
  if (!found.error.empty()) {
    throw failure_of(
        Error(ErrorParts{.subject = "inputs", .reason = found.error, .remedies = found.remedies}),
        "inputs");
  }
  count(call.lengths, found.source_tokens, found.truncated, found.segments);
  return found;
}

namespace {

Json schema_of(const std::optional<bool>&) { return {{"type", "boolean"}}; }
Json schema_of(const std::optional<std::int64_t>&) { return {{"type", "integer"}}; }
Json schema_of(const std::optional<double>&) { return {{"type", "number"}}; }
Json schema_of(const std::optional<std::string>&) { return {{"type", "string"}}; }
Json list_of(Json one) { return {{"type", "array"}, {"items", std::move(one)}}; }
Json schema_of(const std::optional<std::vector<std::string>>&) {
  return list_of({{"type", "string"}});
}
Json schema_of(const std::optional<std::vector<std::int32_t>>&) {
  return {{"oneOf", {{{"type", "integer"}}, list_of({{"type", "integer"}})}}};
}
Json schema_of(const std::optional<std::vector<std::vector<std::int32_t>>>&) {
  return list_of(list_of({{"type", "integer"}}));
}
Json schema_of(const std::optional<std::vector<SequenceBias>>&) { return list_of(Json::object()); }
Json schema_of(const std::optional<std::pair<std::int64_t, double>>&) {
  return list_of({{"type", "number"}});
}

std::vector<ApiField> writing_fields() {
  std::vector<ApiField> all = {{"inputs", optional_schema(text_schema())},
                               {"document", optional_schema("string")},
                               {"stream", optional_schema("boolean")},
                               truncate_field(),
                               model_field()};
  GenerationOptions names;
  for_each_generation_option(
      [&](const char* name, const char* help, auto& option) {
        Json schema = schema_of(option);
        schema["description"] = help;
        schema["nullable"] = true;
        all.push_back({name, schema});
      },
      names);
  GenerationRequest request;
  append_options(all, options_of_requests(request));
  return all;
}

std::string finish_reason(const WrittenDocument& found, std::int64_t most) {
  const bool is_cut = !found.texts.empty() && std::ssize(found.texts[0].ids) >= most;
  return is_cut ? "length" : "stop";
}

/// A text that is asked for.
struct Writing {
  const TextGenerator& writer;
  GenerationRequest request;
  bool is_summary = true;
  /// Members of the answer about what a search has found, as a JSON object; empty: it was not
  /// asked.
  std::string read = {};
};

std::string done_json(const Writing& writing, const WrittenDocument& found) {
  if (!writing.is_summary) return to_json(found);
  const GenerationOptions& folder = writing.writer.folder_options();
  const auto& options = writing.request.options;
  const std::int64_t most = options.max_new_tokens  ? *options.max_new_tokens + 1
                            : options.max_length    ? *options.max_length
                            : folder.max_new_tokens ? *folder.max_new_tokens + 1
                                                    : folder.max_length.value_or(1 << 30);
  JsonLine json;
  const std::string text = found.texts.empty() ? "" : found.texts[0].text;
  const auto tokens = found.texts.empty() ? std::int64_t{0} : std::ssize(found.texts[0].ids);
  json.add("summary_text", text).add("tokens_in", found.source_tokens - found.truncated);
  json.add("tokens_out", tokens).add("finish_reason", finish_reason(found, most));
  json.add("tokens", found.source_tokens).add("truncated", found.truncated);
  json.add("segments", found.segments);
  if (!writing.read.empty()) json.add_members(writing.read);
  return json.object();
}

/// Events as the text grows; the client may be gone at any time.
void stream_text(ApiCall& call, const Writing& writing, const std::string& text) {
  EventStream events(*call.exchange);
  events.begin();
  const KeptAlive alive(call.meanwhile, events);
  std::int64_t index = 0, step = 0;
  const auto& folder = writing.writer.folder_options();
  const bool has_beams =
      writing.request.options.num_beams.value_or(folder.num_beams.value_or(1)) > 1;
  const auto callback = [&](const GenerationEvent& now) {
    if (now.document >= 0 && !now.text.empty()) {
      events.send("token", JsonLine().add("index", index++).add("text", now.text).object());
    } else if (has_beams && now.tokens_written > step) {
      step = now.tokens_written;
      events.send("progress", JsonLine().add("step", step).object());
    } else {
      events.keep_alive();
    }
    return !events.is_gone();
  };
  try {
    const WrittenDocument found = written(call, writing.writer, text, writing.request, callback);
    events.send("done", done_json(writing, found));
  } catch (const Failure& failure) {
    events.send("error", error_json(failure));
  }
  events.end();
}

/// One text of all that a search in the library finds about a question.
std::string retrieved_text(Api& api, ApiCall& call, Writing& writing) {
  const RetrievedParts found = parts_for(api, call, "question");
  if (found.parts.empty()) {
    throw Failure(422, "Validation", "`question`: expected passages about it, found none");
  }
  std::string text = joined_text(found.parts);
  call.lengths.characters += characters_of(text);
  DocumentOffsets offsets(api, call.request);
  JsonLine json;
  json.add_objects("read", parts_json(offsets, found));
  if (!found.note.empty()) json.add("note", found.note);
  writing.read = json.object();
  return text;
}

std::optional<HttpResponse> write_text(Api& api, ApiCall& call, bool is_summary) {
  const TextGenerator& writer = *api.model_for(call, Ability::write).writer;
  Writing writing = {
      .writer = writer, .request = writing_request(api, call, call.body), .is_summary = is_summary};
  const bool is_searched = is_summary && is_retrieved(call, std::array{"inputs", "document"});
  const std::string text =
      is_searched ? retrieved_text(api, call, writing) : text_or_document(api, call, "inputs");
  if (is_summary) writing.request = writer.for_summaries(std::move(writing.request));
  if (wants_stream(call)) {
    stream_text(call, writing, text);
    return std::nullopt;
  }
  return json_response(done_json(writing, written(call, writer, text, writing.request, {})));
}

std::optional<HttpResponse> summarize(Api& api, ApiCall& call) {
  return write_text(api, call, true);
}

std::optional<HttpResponse> generate(Api& api, ApiCall& call) {
  return write_text(api, call, false);
}

/// /generate writes about a text, and has no search before it.
std::vector<ApiField> summary_fields() {
  std::vector<ApiField> all = writing_fields();
  all.push_back({"question", optional_schema("string")});
  std::ranges::move(retrieve_fields({"retrieve", "around"}), std::back_inserter(all));
  return all;
}

}  // namespace

std::vector<Route> writing_routes() {
  return {
      {.method = "POST",
       .path = "/summarize",
       .summary = "A summary of a text of any length, or of what a search finds; as a stream of "
                  "events where asked for.",
       .handler = summarize,
       .ability = Ability::write,
       .fields = summary_fields,
       .one_of = {"inputs", "document", "retrieve"}},
      {.method = "POST",
       .path = "/generate",
       .summary = "The texts that a decoder writes about a text; as a stream where asked for.",
       .handler = generate,
       .ability = Ability::write,
       .fields = writing_fields,
       .one_of = {"inputs", "document"}}};
}

}  // namespace longformer::server
