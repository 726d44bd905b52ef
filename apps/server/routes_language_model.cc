// Text that a language model draws behind a prompt: /complete, whole or as a stream of events.
#include "event_stream.h"
#include "failure.h"
#include "inputs.h"
#include "schemas.h"

namespace longformer::server {
namespace {

std::vector<ApiField> completion_fields() {
  std::vector<ApiField> all = {
      {"prompt", optional_schema("string")}, {"stream", optional_schema("boolean")}, model_field()};
  GenerateOptions options;
  append_options(all, fields(options));
  return all;
}

/// Draws until the client is gone; `tell` gets the pieces of the text.
std::string drawn(ApiCall& call, const LanguageModel& model, const std::string& prompt,
                  const std::function<void(std::string_view)>& tell) {
  GenerateOptions options;
  read_fields(fields(options), call.body);
  std::string text;
  const auto callback = [&](std::string_view piece) {
    text += piece;
    ++call.lengths.tokens;
    if (tell) tell(piece);
    return !call.exchange->is_gone();
  };
  try {
    model.generate(prompt, options, callback);
  } catch (const Error& error) {
    throw failure_of(error, "prompt");
  }
  return JsonLine().add("prompt", prompt).add("text", text).object();
}

void stream_completion(ApiCall& call, const LanguageModel& model, const std::string& prompt) {
  EventStream events(*call.exchange);
  const KeptAlive alive(call.meanwhile, events);
  std::int64_t index = 0;
  const auto tell = [&](std::string_view piece) {
    events.send("token", JsonLine().add("index", index++).add("text", piece).object());
  };
  try {
    const std::string json = drawn(call, model, prompt, tell);
    events.send("done", json);
  } catch (const Failure& failure) {
    if (!events.has_begun()) throw;
    events.send("error", error_json(failure));
  }
  events.end();
}

std::optional<HttpResponse> complete(Api& api, ApiCall& call) {
  const LanguageModel& model = *api.model_for(call, Ability::complete).language_model;
  const std::string prompt = text_of(call.body, "prompt").value_or("");
  call.lengths.inputs = 1;
  call.lengths.characters = characters_of(prompt);
  if (wants_stream(call)) {
    stream_completion(call, model, prompt);
    return std::nullopt;
  }
  return json_response(drawn(call, model, prompt, {}));
}

}  // namespace

std::vector<Route> language_model_routes() {
  return {{.method = "POST",
           .path = "/complete",
           .summary = "The text that a language model draws; as a stream of events if asked for.",
           .handler = complete,
           .ability = Ability::complete,
           .fields = completion_fields}};
}

}  // namespace longformer::server
