// Classes: /predict and /classify.
#include "routes_classes.h"

#include <fmt/format.h>

#include <algorithm>

#include "failure.h"
#include "inputs.h"
#include "schemas.h"

namespace longformer::server {

namespace {

/// A text, or a list of one text or of a pair.
ClassifyInput input_of(const Json& value, const std::string& name) {
  ClassifyInput input;
  if (value.is_string()) {
    input.text = value.get<std::string>();
  } else if (value.is_array() && !value.empty() && value.size() <= 2 &&
             std::ranges::all_of(value, [](const Json& one) { return one.is_string(); })) {
    input.text = value[0].get<std::string>();
    if (value.size() == 2) input.pair = value[1].get<std::string>();
  } else {
    refuse_type(name, "a text, or a list of a text or a pair of texts", value);
  }
  if (input.text.empty()) refuse_empty(name);
  return input;
}

}  // namespace

ClassifyOptions classify_options_of(const Api& api, const ApiCall& call,
                                    const Classifier& classifier, const Json& where) {
  ClassifyOptions options;
  options.too_long = too_long_of(api, call, where);
  options.stride = usual_stride(classifier.model(), where, options.stride);
  options.batch_tokens = batch_tokens_of(api, classifier.model());
  read_fields(request_options(fields(options)), where);
  if (truth_of(where, "raw_scores").value_or(false)) options.function = ScoreFunction::none;
  return options;
}

std::vector<Classification> classified(ApiCall& call, const Classifier& classifier,
                                       std::span<const ClassifyInput> inputs,
                                       const ClassifyOptions& options, const char* list) {
  std::vector<Classification> found;
  const auto sink = [&](const ClassifyOutcome& outcome) {
    if (!outcome.error.empty()) {
      throw failure_of(Error(ErrorParts{.reason = outcome.error,
                                        .document = std::ssize(found),
                                        .remedies = outcome.remedies}),
                       list);
    }
    found.push_back(outcome.classification);
    count(call.lengths, found.back().tokens, found.back().truncated, found.back().segments);
  };
  classifier.classify(source_over(inputs), sink, options);
  return found;
}

std::vector<Classification> classified(const Api& api, ApiCall& call, const Classifier& classifier,
                                       std::vector<ClassifyInput> inputs, const Json& where) {
  const ClassifyOptions options = classify_options_of(api, call, classifier, where);
  const bool is_left_cut = cuts_left(where) && options.too_long == TooLong::truncate;
  for (ClassifyInput& input : inputs) {
    if (is_left_cut && !input.pair) {
      input.text = without_begin(classifier.tokenizer(), input.text,
                                 classifier.model().info().max_tokens, call.lengths.truncated);
    }
    call.lengths.characters += characters_of(input.text) + characters_of(input.pair.value_or(""));
  }
  call.lengths.inputs = std::ssize(inputs);
  return classified(call, classifier, inputs, options, "inputs");
}

std::string scores_json(const Classification& found, std::int64_t top_k) {
  const std::size_t kept = top_k == 0
                               ? found.scores.size()
                               : std::min(found.scores.size(), static_cast<std::size_t>(top_k));
  return json_list(std::span(found.scores).first(kept),
                   [](std::string& json, const ClassScore& one) {
                     json += JsonLine().add("score", one.score).add("label", one.label).object();
                   });
}

namespace {

std::vector<ApiField> predict_fields() {
  const Json text = text_schema();
  const Json one = {{"type", "array"}, {"items", text}, {"minItems", 1}, {"maxItems", 2}};
  std::vector<ApiField> all = {{"inputs", {{"oneOf", {text, one, pairs_schema()}}}, true},
                               truncate_field(),
                               truncation_direction_field(),
                               {"raw_scores", optional_schema("boolean")},
                               {"top_k", optional_whole_schema(1)},
                               model_field()};
  ClassifyOptions options;
  append_options(all, request_options(fields(options)));
  return all;
}

std::optional<HttpResponse> predict(Api& api, ApiCall& call) {
  const Classifier& classifier = *api.model_for(call, Ability::classify).classifier;
  const Json* value = member(call.body, "inputs");
  if (value == nullptr) refuse_missing("inputs");
  if (value->empty()) refuse_empty("inputs");
  const bool is_batch = value->is_array() && value->front().is_array();
  std::vector<ClassifyInput> inputs;
  if (is_batch) {
    check_batch_size(api, value->size());
    for (const Json& one : *value) {
      inputs.push_back(input_of(one, fmt::format("inputs[{}]", inputs.size())));
    }
  } else {
    inputs.push_back(input_of(*value, "inputs"));
  }
  const std::int64_t top_k = whole_of(call.body, "top_k", 1, 1 << 30).value_or(0);
  const auto found = classified(api, call, classifier, std::move(inputs), call.body);
  if (!is_batch) return json_response(scores_json(found[0], top_k));
  return json_response(json_list(found, [&](std::string& json, const Classification& one) {
    json += scores_json(one, top_k);
  }));
}

}  // namespace

std::vector<Route> class_routes() {
  return {
      {.method = "POST",
       .path = "/predict",
       .summary = "The classes of a text or of a pair, best first; of a list of lists, of each.",
       .handler = predict,
       .ability = Ability::classify,
       .fields = predict_fields},
      {.method = "POST",
       .path = "/classify",
       .summary = "The same as /predict.",
       .handler = predict,
       .ability = Ability::classify,
       .fields = predict_fields}};
}

}  // namespace longformer::server
