// Tasks over one text: /qa, /ner, /fill-mask, /choose, /coref.
#include "routes_tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "failure.h"
#include "library_search.h"
#include "schemas.h"

namespace longformer::server {

void refuse_outcome(const std::string& error, const std::vector<Remedy>& remedies,
                    std::string_view name) {
  throw failure_of(
      Error(ErrorParts{.reason = error, .option = std::string(name), .remedies = remedies}), name);
}

namespace {

JsonLine with_lengths(const Lengths& lengths) {
  JsonLine json;
  json.add("tokens", lengths.tokens).add("truncated", lengths.truncated);
  return json.add("segments", lengths.segments);
}

AnswerOptions answer_options_of(const Api& api, const ApiCall& call,
                                const QuestionAnswerer& answerer, const Json& where) {
  AnswerOptions options;
  options.too_long = too_long_of(api, call, where);
  options.stride = usual_stride(answerer.model(), where, options.stride);
  options.max_answer_tokens = std::min(options.max_answer_tokens, options.stride);
  options.batch_tokens = batch_tokens_of(api, answerer.model());
  read_fields(request_options(fields(options)), where);
  return options;
}

}  // namespace

AnswerOutcome answered(const Api& api, ApiCall& call, const QuestionAnswerer& answerer,
                       const Question& question, const Json& where) {
  const AnswerOptions options = answer_options_of(api, call, answerer, where);
  AnswerOutcome found;
  try {
    answerer.answer(
        source_over(std::span(&question, 1)),
        [&](const AnswerOutcome& outcome) { found = outcome; }, options);
  } catch (const Error& error) {
    throw failure_of(error, "context");
  }
  if (!found.error.empty()) refuse_outcome(found.error, found.remedies, "context");
  count(call.lengths, found.tokens, found.truncated, found.segments);
  return found;
}

namespace {

/// Answers out of what a search in the library finds.
HttpResponse answer_retrieved(Api& api, ApiCall& call, const QuestionAnswerer& answerer) {
  if (truth_of(call.body, "no_answer").value_or(false)) {
    refuse("`no_answer`: expected none beside `retrieve`, which compares the answers of all parts");
  }
  const AnswerOptions options = answer_options_of(api, call, answerer, call.body);
  const RetrievedParts read = parts_for(api, call, "question");
  RetrievedAnswers found;
  try {
    found =
        answers_in(read.parts, needed_text(call.body, "question"), answerer, options, read.options);
  } catch (const Error& error) {
    // A part that the reader refuses is no document of the client's.
    refuse_outcome(error.reason(), error.remedies(), "question");
  }
  DocumentOffsets offsets(api, call.request);
  std::vector<JsonLine> answers;
  for (const RetrievedAnswer& one : found.answers) {
    const std::string& document = read.parts[one.part].file;
    const auto [start, end] = offsets.of(document).of(one.answer.span);
    JsonLine& row = answers.emplace_back();
    row.add("answer", one.answer.text).add("score", one.answer.score);
    row.add("logit", one.answer.logit).add("document", document).add("name", read.names[one.part]);
    row.add("start", start).add("end", end);
    if (one.answer.place) row.add_json("place", to_json(*one.answer.place));
    row.add("part", static_cast<std::int64_t>(one.part)).add("rank", one.rank);
  }
  count(call.lengths, found.tokens, found.truncated, found.segments);
  JsonLine json;
  json.add_objects("answers", answers).add_objects("read", parts_json(offsets, read));
  if (!read.note.empty()) json.add("note", read.note);
  json.add_members(with_lengths(call.lengths).object());
  return json_response(json.object());
}

std::optional<HttpResponse> answer(Api& api, ApiCall& call) {
  const QuestionAnswerer& answerer = *api.model_for(call, Ability::answer).answerer;
  if (is_retrieved(call, std::array{"context", "document"})) {
    return answer_retrieved(api, call, answerer);
  }
  Question question;
  question.question = needed_text(call.body, "question");
  question.text = text_or_document(api, call, "context");
  const AnswerOutcome found = answered(api, call, answerer, question, call.body);
  const Offsets offsets(call.request, question.text);
  std::vector<JsonLine> answers;
  const auto add = [&](const Answer& one) {
    const auto [start, end] = offsets.of(one.span);
    JsonLine& row = answers.emplace_back();
    row.add("answer", one.text).add("score", one.score).add("logit", one.logit);
    row.add("start", start).add("end", end);
  };
  bool may_be_none = truth_of(call.body, "no_answer").value_or(false);
  for (const Answer& one : found.answers) {
    if (may_be_none && one.score < found.no_answer_score) {
      add({.score = found.no_answer_score, .logit = found.no_answer_logit, .span = {}, .text = {}});
      may_be_none = false;
    }
    add(one);
  }
  JsonLine json;
  json.add_objects("answers", answers).add("no_answer_score", found.no_answer_score);
  json.add_members(with_lengths(call.lengths).object());
  return json_response(json.object());
}

std::vector<ApiField> answer_fields() {
  std::vector<ApiField> all = {{"question", text_schema(), true},
                               {"context", optional_schema(text_schema())},
                               {"document", optional_schema("string")},
                               {"no_answer", optional_schema("boolean")},
                               truncate_field(),
                               model_field()};
  AnswerOptions options;
  append_options(all, request_options(fields(options)));
  std::ranges::move(retrieve_fields({"retrieve", "around", "search_weight"}),
                    std::back_inserter(all));
  return all;
}

}  // namespace

bool tags_tokens(const Json& where) {
  const auto strategy = text_of(where, "aggregation_strategy");
  return (strategy ? strategy : text_of(where, "aggregation")).value_or("simple") == "none";
}

TagOutcome tagged(const Api& api, ApiCall& call, const Tagger& tagger, const std::string& text,
                  const Json& where) {
  TagOptions options;
  options.too_long = too_long_of(api, call, where);
  options.stride = usual_stride(tagger.model(), where, options.stride);
  options.batch_tokens = batch_tokens_of(api, tagger.model());
  read_fields(request_options(fields(options)), where);
  // The pipeline of transformers has a longer name for it.
  if (const Json* strategy = member(where, "aggregation_strategy")) {
    read_fields(only(fields(options), {"aggregation"}), {{"aggregation", *strategy}});
  }
  TagOutcome found;
  try {
    tagger.tag(
        source_over(std::span(&text, 1)), [&](const TagOutcome& outcome) { found = outcome; },
        options);
  } catch (const Error& error) {
    throw failure_of(error, "inputs");
  }
  if (!found.error.empty()) refuse_outcome(found.error, found.remedies, "inputs");
  count(call.lengths, found.tokens, found.truncated, found.segments);
  return found;
}

std::string entities_json(const TagOutcome& found, const Offsets& offsets, bool are_tokens) {
  return json_list(found.entities, [&](std::string& json, const Entity& one) {
    const auto [start, end] = offsets.of(one.span);
    JsonLine row;
    if (are_tokens) {
      row.add("entity", one.label).add("score", one.score).add("index", one.first_token + 1);
    } else {
      row.add("entity_group", one.label).add("score", one.score);
    }
    json += row.add("word", one.text).add("start", start).add("end", end).object();
  });
}

namespace {

std::vector<ApiField> tag_fields() {
  const Json text = text_schema();
  std::vector<ApiField> all = {
      {"inputs", {{"oneOf", {text, {{"type", "array"}, {"minItems", 1}, {"items", text}}}}}, true},
      truncate_field(),
      model_field()};
  TagOptions options;
  append_options(all, request_options(fields(options)));
  // The name of transformers for the same option.
  all.push_back(
      {"aggregation_strategy", std::ranges::find(all, "aggregation", &ApiField::name)->schema});
  return all;
}

std::optional<HttpResponse> tag(Api& api, ApiCall& call) {
  const Tagger& tagger = *api.model_for(call, Ability::tag).tagger;
  const auto texts =
      texts_alone(inputs_of(api, call, call.body, "inputs", tagger.tokenizer()), "inputs");
  const auto one = [&](const std::string& text) {
    const TagOutcome found = tagged(api, call, tagger, text, call.body);
    return entities_json(found, Offsets(call.request, text), tags_tokens(call.body));
  };
  if (call.body["inputs"].is_string()) return json_response(one(texts[0]));
  return json_response(
      json_list(texts, [&](std::string& json, const std::string& text) { json += one(text); }));
}

/// The ids of words that alone may fill a mask; absent: any.
std::optional<std::vector<std::int32_t>> targets_of(const Tokenizer& tokenizer, const Json& where) {
  const auto words = texts_of(where, "targets");
  if (!words) return std::nullopt;
  std::vector<std::int32_t> ids;
  for (const std::string& word : *words) {
    auto id = tokenizer.id(word);
    if (!id) {
      // A word that is no entry stands for its first token, as in transformers.
      const auto tokens = encoded(tokenizer, word, false).ids;
      if (tokens.empty()) continue;
      id = tokens.front();
    }
    ids.push_back(*id);
  }
  if (ids.empty()) refuse("`targets`: expected at least one word of the vocabulary, found none");
  return ids;
}

/// The text with a token in place of one mask.
std::string sequence_with(const Tokenizer& tokenizer, std::vector<std::int32_t> ids,
                          std::int64_t position, std::int32_t id, bool is_single) {
  ids[static_cast<std::size_t>(position)] = id;
  return tokenizer.decode(ids, is_single);
}

std::string with_own_mask(const Tokenizer& tokenizer, std::string text) {
  const std::string own = tokenizer.token(*tokenizer.special_tokens().mask);
  for (const std::string_view mask : {"[MASK]", "<mask>"}) {
    if (mask == own) continue;
    for (std::size_t at = 0; (at = text.find(mask, at)) != std::string::npos; at += own.size()) {
      text.replace(at, mask.size(), own);
    }
  }
  return text;
}

/// Each candidate is answered with the text that it makes.
void check_fill_size(const MaskFiller& filler, const std::string& text, bool has_targets,
                     std::int64_t top_k) {
  const ModelInfo& info = filler.model().info();
  const Tokenizer& tokenizer = filler.tokenizer();
  const std::string mask = tokenizer.token(*tokenizer.special_tokens().mask);
  const std::string marked = with_own_mask(tokenizer, text);
  double masks = 0;
  for (std::size_t at = 0; (at = marked.find(mask, at)) != std::string::npos; at += mask.size()) {
    ++masks;
  }
  masks = std::min(masks, static_cast<double>(info.max_tokens));
  constexpr std::int64_t kTokenBytes = 8, kRowBytes = 100;
  const auto row = std::min(std::ssize(marked), info.max_tokens * kTokenBytes) + kRowBytes;
  const std::int64_t rows = std::min(top_k, info.vocabulary_size);
  check_answer_size(masks * static_cast<double>(rows * row), "top_k");
  // All candidates are looked at for the words that are wanted.
  if (has_targets) {
    check_answer_size(masks * static_cast<double>(info.vocabulary_size * kRowBytes), "targets");
  }
}

}  // namespace

std::string filled_json(const Api& api, ApiCall& call, const MaskFiller& filler,
                        const std::string& text, const Json& where) {
  const Tokenizer& tokenizer = filler.tokenizer();
  FillMaskOptions options;
  options.truncate = too_long_of(api, call, where) == TooLong::truncate;
  read_fields(request_options(fields(options)), where);
  const auto targets = targets_of(tokenizer, where);
  check_fill_size(filler, text, targets.has_value(), options.top_k);
  const auto top_k = static_cast<std::size_t>(options.top_k);
  if (targets) options.top_k = filler.model().info().vocabulary_size;
  FilledText found;
  try {
    found = filler.fill(text, options);
  } catch (const Error& error) {
    throw failure_of(
        Error(ErrorParts{.reason = error.what(), .document = 0, .remedies = error.remedies()}),
        "inputs");
  }
  count(call.lengths, found.tokens + found.truncated, found.truncated, 1);
  const auto ids =
      tokenizer
          .encode(with_own_mask(tokenizer, text), {.max_length = filler.model().info().max_tokens})
          .ids;
  const bool is_single = found.masks.size() == 1;
  std::string json = json_list(found.masks, [&](std::string& list, const FilledMask& mask) {
    std::vector<MaskCandidate> kept;
    for (const MaskCandidate& one : mask.candidates) {
      const bool is_wanted = !targets || std::ranges::find(*targets, one.id) != targets->end();
      if (is_wanted && kept.size() < top_k) kept.push_back(one);
    }
    list += json_list(kept, [&](std::string& rows, const MaskCandidate& one) {
      JsonLine row;
      row.add("score", static_cast<float>(one.probability)).add("token", std::int64_t{one.id});
      row.add("token_str", one.text);
      rows += row.add("sequence", sequence_with(tokenizer, ids, mask.position, one.id, is_single))
                  .object();
    });
  });
  return is_single ? json.substr(1, json.size() - 2) : json;
}

namespace {

std::vector<ApiField> fill_fields() {
  std::vector<ApiField> all = {{"inputs", text_schema(), true},
                               {"targets", optional_schema(texts_schema())},
                               truncate_field(),
                               model_field()};
  FillMaskOptions options;
  append_options(all, request_options(fields(options)));
  return all;
}

std::optional<HttpResponse> fill(Api& api, ApiCall& call) {
  const MaskFiller& filler = *api.model_for(call, Ability::fill).filler;
  const std::string text = needed_text(call.body, "inputs");
  call.lengths.characters += characters_of(text);
  return json_response(filled_json(api, call, filler, text, call.body));
}

std::vector<ApiField> choose_fields() {
  std::vector<ApiField> all = {{"question", text_schema(), true},
                               {"choices", texts_schema(), true},
                               {"context", optional_schema("string")},
                               truncate_field(),
                               model_field()};
  ChooseOptions options;
  append_options(all, request_options(fields(options)));
  return all;
}

std::optional<HttpResponse> choose(Api& api, ApiCall& call) {
  const Chooser& chooser = *api.model_for(call, Ability::choose).chooser;
  ChoiceQuestion question;
  question.question = needed_text(call.body, "question");
  question.context = text_of(call.body, "context").value_or("");
  const auto choices = texts_of(call.body, "choices");
  if (!choices) refuse_missing("choices");
  if (choices->empty()) refuse_empty("choices");
  check_batch_size(api, choices->size());
  for (std::size_t i = 0; i < choices->size(); ++i) {
    if ((*choices)[i].empty()) refuse_empty(fmt::format("choices[{}]", i));
  }
  if (chooser.model().info().head != "candidate-scoring") {
    check_repeated(question.question, choices->size(), "question");
    check_repeated(question.context, choices->size(), "context");
  }
  question.choices = *choices;
  call.lengths.characters += characters_of(question.context) + characters_of(question.question);
  ChooseOptions options;
  options.too_long = too_long_of(api, call, call.body);
  // Only a head that reads all candidates together takes a text in parts.
  if (options.too_long == TooLong::split && chooser.model().info().head != "candidate-scoring") {
    options.too_long = TooLong::refuse;
  }
  options.batch_tokens = batch_tokens_of(api, chooser.model());
  read_fields(request_options(fields(options)), call.body);
  ChoiceAnswer found;
  try {
    found = chooser.choose(std::span(&question, 1), options).at(0);
  } catch (const Error& error) {
    throw failure_of(error, "context");
  }
  count(call.lengths, found.tokens, found.truncated, found.segments);
  return json_response(to_json(found, question.choices));
}

std::vector<ApiField> resolve_fields() {
  std::vector<ApiField> all = {{"inputs", optional_schema(text_schema())},
                               {"document", optional_schema("string")},
                               model_field()};
  ResolveOptions options;
  append_options(all, request_options(fields(options)));
  return all;
}

std::optional<HttpResponse> resolve(Api& api, ApiCall& call) {
  const CoreferenceResolver& resolver = *api.model_for(call, Ability::resolve).resolver;
  const std::string text = text_or_document(api, call, "inputs");
  ResolveOptions options;
  options.batch_tokens = batch_tokens_of(api, resolver.model());
  read_fields(request_options(fields(options)), call.body);
  CoreferenceOutcome found = resolver.resolve(text, options);
  if (!found.error.empty()) refuse_outcome(found.error, found.remedies, "inputs");
  count(call.lengths, found.tokens, 0, found.segments);
  const Offsets offsets(call.request, text);
  for (auto& cluster : found.clusters) {
    for (Mention& mention : cluster) mention.span = offsets.of(mention.span);
  }
  return json_response(to_json(found));
}

}  // namespace

std::vector<Route> task_routes() {
  return {
      {.method = "POST",
       .path = "/qa",
       .summary = "Answers to a question, as spans of a text of any length, or of what a search "
                  "finds.",
       .handler = answer,
       .ability = Ability::answer,
       .fields = answer_fields,
       .one_of = {"context", "document", "retrieve"}},
      {.method = "POST",
       .path = "/ner",
       .summary = "The entities of each text.",
       .handler = tag,
       .ability = Ability::tag,
       .fields = tag_fields},
      {.method = "POST",
       .path = "/fill-mask",
       .summary = "The likeliest tokens for each mask of a text.",
       .handler = fill,
       .ability = Ability::fill,
       .fields = fill_fields},
      {.method = "POST",
       .path = "/choose",
       .summary = "The best of several answers.",
       .handler = choose,
       .ability = Ability::choose,
       .fields = choose_fields},
      {.method = "POST",
       .path = "/coref",
       .summary = "Mentions that mean the same.",
       .handler = resolve,
       .ability = Ability::resolve,
       .fields = resolve_fields,
       .one_of = {"inputs", "document"}}};
}

}  // namespace longformer::server
