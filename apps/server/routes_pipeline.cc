// The shapes of huggingface_hub's InferenceClient: POST / and POST /models/NAME.
#include <fmt/format.h>

#include "failure.h"
#include "routes_classes.h"
#include "routes_tasks.h"
#include "schemas.h"

namespace longformer::server {
namespace {

/// The members of `parameters`, else those of the body.
Json parameters_of(const Json& body) {
  const Json* parameters = member(body, "parameters");
  if (parameters == nullptr) return body;
  if (!parameters->is_object()) refuse_type("parameters", "an object", *parameters);
  return *parameters;
}

const Json& inputs_member(const Json& body) {
  const Json* inputs = member(body, "inputs");
  if (inputs == nullptr) refuse_missing("inputs");
  return *inputs;
}

std::string one_text(ApiCall& call) {
  const std::string text = needed_text(call.body, "inputs");
  call.lengths.characters += characters_of(text);
  return text;
}

std::optional<HttpResponse> classes(Api& api, ApiCall& call, const ServedModel& model) {
  // Without parameters it is TEI's client, which wants the list itself.
  if (member(call.body, "parameters") == nullptr) return api.forward(call, "/predict");
  const Json where = parameters_of(call.body);
  const Json& inputs = inputs_member(call.body);
  std::vector<ClassifyInput> texts;
  if (inputs.is_string()) {
    texts.push_back({.text = one_text(call)});
  } else {
    for (std::string& text : texts_of(call.body, "inputs").value_or(std::vector<std::string>())) {
      if (text.empty()) refuse_empty(fmt::format("inputs[{}]", texts.size()));
      texts.push_back({.text = std::move(text)});
    }
    check_batch_size(api, texts.size());
  }
  if (texts.empty()) refuse_empty("inputs");
  const std::int64_t top_k = whole_of(where, "top_k", 1, 1 << 30).value_or(0);
  const auto found = classified(api, call, *model.classifier, std::move(texts), where);
  return json_response(json_list(found, [&](std::string& json, const Classification& one) {
    json += scores_json(one, top_k);
  }));
}

std::optional<HttpResponse> tokens(Api& api, ApiCall& call, const ServedModel& model) {
  const Json where = parameters_of(call.body);
  const std::string text = one_text(call);
  const TagOutcome found = tagged(api, call, *model.tagger, text, where);
  return json_response(entities_json(found, Offsets(call.request, text), tags_tokens(where)));
}

std::optional<HttpResponse> answers(Api& api, ApiCall& call, const ServedModel& model) {
  const Json& inputs = inputs_member(call.body);
  if (!inputs.is_object()) refuse_type("inputs", "an object with question and context", inputs);
  Json where = parameters_of(call.body);
  // The names of the pipeline.
  if (const Json* stride = member(where, "doc_stride")) where["stride"] = *stride;
  if (const Json* most = member(where, "max_answer_len")) where["max_answer_tokens"] = *most;
  const Question question = {.question = needed_text(inputs, "question"),
                             .text = needed_text(inputs, "context")};
  call.lengths.characters += characters_of(question.text);
  const AnswerOutcome found = answered(api, call, *model.answerer, question, where);
  const Offsets offsets(call.request, question.text);
  const bool may_be_none = truth_of(where, "handle_impossible_answer").value_or(false);
  std::vector<JsonLine> rows;
  const auto add = [&](const Answer& one) {
    const auto [start, end] = offsets.of(one.span);
    JsonLine& row = rows.emplace_back().add("answer", one.text).add("score", one.score);
    row.add("start", start).add("end", end);
  };
  for (const Answer& one : found.answers) add(one);
  if (may_be_none &&
      (found.answers.empty() || found.no_answer_score > found.answers.front().score)) {
    rows.clear();
    add({.score = found.no_answer_score, .logit = found.no_answer_logit, .span = {}, .text = {}});
  }
  if (whole_of(where, "top_k", 1, 1 << 30).value_or(1) == 1 && !rows.empty()) {
    return json_response(rows[0].object());
  }
  return json_response(
      json_list(rows, [](std::string& json, const JsonLine& row) { json += row.object(); }));
}

std::optional<HttpResponse> masks(Api& api, ApiCall& call, const ServedModel& model) {
  const std::string text = one_text(call);
  return json_response(filled_json(api, call, *model.filler, text, parameters_of(call.body)));
}

std::optional<HttpResponse> summary(Api& api, ApiCall& call, const ServedModel& model) {
  const std::string text = one_text(call);
  const Json where = parameters_of(call.body);
  const GenerationRequest request = model.writer->for_summaries(writing_request(api, call, where));
  const WrittenDocument found = written(call, *model.writer, text, request, {});
  return json_response(json_list(found.texts, [](std::string& json, const WrittenText& one) {
    json += JsonLine().add("summary_text", one.text).object();
  }));
}

/// The task of the model's head. A masked LM fills masks where a text has one and embeds others.
std::optional<HttpResponse> run(Api& api, ApiCall& call) {
  const ServedModel& model = api.models().named(call.wanted_model());
  call.model_name = model.name;
  const bool is_pair = inputs_member(call.body).is_object();
  if (model.filler && !is_pair && member(call.body, "parameters") != nullptr) {
    return masks(api, call, model);
  }
  if (model.embedder) {
    const VectorKinds kinds = model.embedder->kinds();
    return api.forward(call, is_pair       ? "/similarity"
                             : kinds.dense ? "/embed"
                             : kinds.multi ? "/embed_multi"
                                           : "/embed_sparse");
  }
  if (model.can(Ability::rerank) && member(call.body, "query") != nullptr) {
    return api.forward(call, "/rerank");
  }
  if (model.classifier) return classes(api, call, model);
  if (model.tagger) return tokens(api, call, model);
  if (model.answerer) return answers(api, call, model);
  if (model.writer) return summary(api, call, model);
  if (model.language_model) {
    call.body["prompt"] = inputs_member(call.body);
    return api.forward(call, "/complete");
  }
  return api.forward(call, model.chooser        ? "/choose"
                           : model.hop_answerer ? "/qa_multi_hop"
                                                : "/coref");
}

std::vector<ApiField> run_fields() {
  const Json one = {{"type", "object"}};
  return {{"inputs",
           {{"description", "as the head of the model takes them"},
            {"oneOf", {inputs_schema(), pairs_schema(), one}}},
           true},
          {"parameters", optional_schema("object")},
          model_field()};
}

}  // namespace

std::vector<Route> pipeline_routes() {
  std::vector<Route> all;
  for (const std::string_view path : {"/", "/invocations", "/models/{name}"}) {
    all.push_back({.method = "POST",
                   .path = path,
                   .summary = "The task of the model's head, as huggingface_hub asks for it.",
                   .handler = run,
                   .fields = run_fields});
  }
  return all;
}

}  // namespace longformer::server
