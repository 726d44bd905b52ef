// Questions over several paragraphs: /qa_multi_hop.
#include <fmt/format.h>

#include <cmath>

#include "failure.h"
#include "routes_tasks.h"
#include "schemas.h"

namespace longformer::server {
namespace {

struct NumberedParagraph {
  std::size_t number;
  const Json& json;

  std::string name() const { return fmt::format("paragraphs[{}]", number); }
};

/// A paragraph of a request, whose sentences, behind each other, are its text.
Paragraph paragraph_in(const NumberedParagraph& given) {
  if (!given.json.is_object()) {
    refuse_type(given.name(), "an object with title and text", given.json);
  }
  const auto title = text_of(given.json, "title"), text = text_of(given.json, "text");
  if (!text) refuse_missing(given.name() + ".text");
  if (text->empty()) refuse_empty(given.name() + ".text");
  return paragraph_of(title.value_or(""), *text);
}

/// A question with the texts that its answers are in.
struct AskedParagraphs {
  MultiHopQuestion question = {};
  std::vector<std::string> texts = {};
};

AskedParagraphs asked_of(const Api& api, ApiCall& call) {
  AskedParagraphs asked;
  asked.question.question = needed_text(call.body, "question");
  const Json* list = member(call.body, "paragraphs");
  if (list == nullptr) refuse_missing("paragraphs");
  if (!list->is_array()) refuse_type("paragraphs", "a list of objects", *list);
  if (list->empty()) refuse_empty("paragraphs");
  check_batch_size(api, list->size());
  for (const Json& one : *list) {
    asked.question.paragraphs.push_back(paragraph_in({asked.texts.size(), one}));
    asked.texts.push_back(one.at("text").get<std::string>());
    call.lengths.characters += characters_of(asked.texts.back());
  }
  call.lengths.inputs = 1;
  return asked;
}

JsonLine json_of(const AskedParagraphs& asked, const ParagraphSpan& span,
                 const HttpRequest& request) {
  const auto number = static_cast<std::size_t>(span.paragraph);
  const std::string& title = asked.question.paragraphs[number].title;
  const ParagraphPart part = part_of(asked.question, span, {.names = {}, .is_joined = true});
  const Offsets offsets(request, span.sentence < 0 ? title : asked.texts[number]);
  const auto [start, end] = offsets.of(part.span);
  JsonLine json;
  json.add("title", title).add("paragraph", span.paragraph);
  if (span.sentence < 0) {
    json.add_null("sentence");
  } else {
    json.add("sentence", span.sentence);
  }
  return json.add("start", start).add("end", end).add("text", part.text);
}

std::optional<HttpResponse> answer_over_paragraphs(Api& api, ApiCall& call) {
  const MultiHopAnswerer& answerer = *api.model_for(call, Ability::answer_hops).hop_answerer;
  const AskedParagraphs asked = asked_of(api, call);
  MultiHopAnswerOptions options;
  options.too_long = too_long_of(api, call, call.body);
  options.batch_tokens = batch_tokens_of(api, answerer.model());
  read_fields(request_options(fields(options)), call.body);
  MultiHopOutcome found;
  try {
    found = answerer.answer(asked.question, options);
  } catch (const Error& error) {
    throw failure_of(error, "paragraphs");
  }
  if (!found.error.empty()) refuse_outcome(found.error, found.remedies, "paragraphs");
  count(call.lengths, found.tokens, found.truncated, found.segments);
  JsonLine json;
  json.add("answer", found.answer).add("type", found.type).add("score", found.score);
  json.add("logit", found.logit);
  if (found.span) {
    json.add_json("span", json_of(asked, *found.span, call.request).object());
  } else {
    json.add_null("span");
  }
  std::vector<JsonLine> evidence, paragraphs;
  for (const Evidence& one : found.evidence) {
    evidence.push_back(json_of(asked, span_of(asked.question, one), call.request));
    evidence.back().add("score", one.probability()).add("logit", one.logit);
  }
  for (const float logit : found.paragraph_logits) {
    JsonLine& row = paragraphs.emplace_back();
    row.add("title", asked.question.paragraphs[paragraphs.size() - 1].title);
    std::isfinite(logit) ? row.add("logit", logit) : row.add_null("logit");
  }
  json.add_objects("evidence", evidence).add_objects("paragraphs", paragraphs);
  json.add("tokens", found.tokens).add("truncated", found.truncated);
  return json_response(json.add("segments", found.segments).object());
}

std::vector<ApiField> paragraph_fields() {
  const Json paragraph = {
      {"type", "object"},
      {"required", {"text"}},
      {"properties", {{"title", optional_schema("string")}, {"text", text_schema()}}}};
  const Json list = {{"type", "array"}, {"minItems", 1}, {"items", paragraph}};
  std::vector<ApiField> all = {{"question", text_schema(), true},
                               {"paragraphs", list, true},
                               truncate_field(),
                               model_field()};
  MultiHopAnswerOptions options;
  append_options(all, request_options(fields(options)));
  return all;
}

}  // namespace

std::vector<Route> multi_hop_routes() {
  return {{.method = "POST",
           .path = "/qa_multi_hop",
           .summary = "The answer to a question over several paragraphs, with its evidence.",
           .handler = answer_over_paragraphs,
           .ability = Ability::answer_hops,
           .fields = paragraph_fields}};
}

}  // namespace longformer::server
