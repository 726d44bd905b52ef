#include <algorithm>
#include <utility>

#include "core/error.h"
#include "engine/frame/labels.h"
#include "engine/reading/passages.h"
#include "engine/run/document_stream.h"
#include "engine/run/model_implementation.h"
#include "engine/run/task_folder.h"
#include "longformer/explanation.h"
#include "models/registry.h"
#include "tasks/classification/attribution.h"
#include "tasks/classification/classification.h"
#include "text/unicode.h"

namespace longformer {
namespace {

using engine::TokenRange;

/// Ranges that begin with these tokens.
std::vector<TokenRange> ranges_of(const std::vector<Index>& starts, Index tokens) {
  std::vector<TokenRange> ranges;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    ranges.push_back({starts[i], i + 1 < starts.size() ? starts[i + 1] : tokens});
  }
  return ranges;
}

/// Places of ranges of tokens in their text.
class TextSpans {
 public:
  TextSpans(std::string_view text, std::span<const CharacterSpan> offsets)
      : text_(text), offsets_(offsets), starts_(character_starts(text)) {}

  /// The span of the tokens without the blanks at its ends; of blanks alone, all of it.
  CharacterSpan span_of(const TokenRange& range) const {
    CharacterSpan span = offsets_[at(range.begin)];
    for (Index i = range.begin; i < range.end; ++i) {
      span.begin = std::min(span.begin, offsets_[at(i)].begin);
      span.end = std::max(span.end, offsets_[at(i)].end);
    }
    CharacterSpan inner = span;
    while (inner.begin < inner.end && is_blank(inner.begin)) ++inner.begin;
    while (inner.begin < inner.end && is_blank(inner.end - 1)) --inner.end;
    return inner.begin < inner.end ? inner : span;
  }

 private:
  bool is_blank(std::int64_t character) const {
    const char32_t value = text::decode_character(text_, starts_[at(character)]).value;
    return (text::character_flags(value) & text::CharacterFlags::whitespace) != 0;
  }

  std::string_view text_;
  std::span<const CharacterSpan> offsets_;
  std::vector<std::size_t> starts_;
};

std::vector<AttributedSpan> sums_of(const TextSpans& spans, std::span<const TokenRange> ranges,
                                    std::span<const float> values) {
  std::vector<AttributedSpan> all;
  for (const TokenRange& range : ranges) {
    AttributedSpan& one = all.emplace_back();
    one.span = spans.span_of(range);
    if (values.empty()) continue;
    for (Index i = range.begin; i < range.end; ++i) {
      one.value += static_cast<double>(values[at(i)]);
    }
  }
  return all;
}

/// The class that is explained, among those of the model.
std::size_t explained_class(const ModelInfo& info, const ExplainOptions& options,
                            const Classification& found) {
  const std::string& label = options.label.empty() ? found.scores.at(0).label : options.label;
  const auto place = engine::place_of_label(info.labels, label);
  require(place.has_value(), OptionName("label"), "expected one of {}, found '{}'",
          fmt::join(info.labels, ", "), label);
  return *place;
}

std::string_view baseline_name(const ExplainOptions& options) {
  if (options.method == ExplainMethod::occlusion) {
    return options.occlusion == Occlusion::remove ? "remove" : "mask";
  }
  if (options.baseline == Baseline::zero) return "zero";
  return options.baseline == Baseline::pad ? "pad" : "mask";
}

/// The baseline that stands for the usual one.
Baseline usual_baseline(const Model& model, const Tokenizer& tokenizer) {
  const bool normalises = model.implementation().encoder.normalises_words_alone();
  return normalises && tokenizer.special_tokens().mask ? Baseline::mask : Baseline::pad;
}

/// Reports the tokens of passes, out of `total`.
std::function<void(Index)> report_to(const ProgressCallback& progress, Index total) {
  if (!progress) return {};
  return [&progress, total, done = Index{0}](Index tokens) mutable {
    done = std::min(done + tokens, total);
    progress({.documents_total = 1, .tokens_done = done, .tokens_total = total});
  };
}

std::vector<std::vector<float>> outputs_of(const engine::Reading& reading,
                                           const tasks::RowPasses& passes) {
  std::vector<std::vector<float>> outputs(reading.rows.size());
  passes.logits(
      outputs.size(), [&](std::size_t i) { return tasks::GivenRow{.row = reading.rows[i]}; },
      [&](std::size_t i, std::vector<float> logits) { outputs[i] = std::move(logits); });
  return outputs;
}

/// The tokens of the reading and their places; nothing is attributed yet.
void add_tokens(const engine::Reading& reading, Explanation& explanation) {
  const auto count = static_cast<std::ptrdiff_t>(reading.read());
  const Encoding& tokens = reading.encoding;
  explanation.ids.assign(tokens.ids.begin(), tokens.ids.begin() + count);
  explanation.offsets.assign(tokens.offsets.begin(), tokens.offsets.begin() + count);
}

}  // namespace

Explainer Explainer::load(const std::string& folder, const LoadOptions& options) {
  LoadOptions wanted = options;
  wanted.task = tasks::classification().names().verb;
  models::EncoderConfig config = models::read_folder_config(folder, options.adapter);
  models::Weights weights =
      models::Weights::kept(models::Weights::open(folder, config.family->names, options.adapter));
  const engine::Task* task = engine::task_for(config, weights, wanted.task);
  Model model = Model::Implementation::model_of(
      std::make_shared<Model::Implementation>(std::move(config), std::move(weights), wanted, task));
  require_task(model, folder, tasks::classification());
  Tokenizer tokenizer = matching_tokenizer(model, folder);
  return {std::move(model), std::move(tokenizer)};
}

Explanation Explainer::explain(const std::string& text, const ExplainOptions& given) const {
  ExplainOptions options = given;
  if (options.baseline == Baseline::usual) options.baseline = usual_baseline(model_, tokenizer_);
  require(options.reading.batch_tokens > 0, OptionName("batch_tokens", "batch tokens"),
          "expected more than 0, found {}", options.reading.batch_tokens);
  const engine::RowReader reader(tokenizer_, reading_options(model_, options.reading));
  tasks::RowPasses passes(model_, options.reading.batch_tokens);
  Document document;
  document.reading = reader.read(text);
  document.outputs = outputs_of(document.reading, passes);
  Explanation result;
  result.classification = tasks::classification_of(model_.info(), document, options.reading);
  const std::size_t label = explained_class(model_.info(), options, result.classification);
  result.method = options.method;
  result.label = model_.info().labels[label];
  result.logit = static_cast<double>(result.classification.logits[label]);
  for (const ClassScore& one : result.classification.scores) {
    if (one.label == result.label) result.score = static_cast<double>(one.score);
  }
  result.baseline = baseline_name(options);
  add_tokens(document.reading, result);
  const tasks::ExplainedDocument explained = {.model = model_,
                                              .tokenizer = tokenizer_,
                                              .reader = reader,
                                              .reading = document.reading,
                                              .outputs = document.outputs,
                                              .label = static_cast<Index>(label),
                                              .options = options};
  check_possible(explained);
  const auto tokens = static_cast<Index>(result.ids.size());
  const TextSpans spans(document.reading.text, result.offsets);
  const std::vector<TokenRange> sentences =
      ranges_of(engine::sentence_starts(document.reading.text, result.offsets), tokens);
  if (options.method == ExplainMethod::occlusion) {
    passes.set_report(report_to(options.progress, occlusion_tokens(explained, sentences)));
    result.sentences = sums_of(spans, sentences, {});
    occlude_sentences(explained, passes, sentences, result);
    return result;
  }
  passes.set_report(report_to(options.progress, attribution_tokens(explained)));
  attribute_tokens(explained, passes, result);
  const std::vector<TokenRange> words =
      ranges_of(engine::word_starts(document.reading.text, result.offsets), tokens);
  result.words = sums_of(spans, words, result.values);
  result.sentences = sums_of(spans, sentences, result.values);
  return result;
}

namespace {

void add_places(JsonLine& json, const CharacterSpan& span, std::span<const std::size_t> starts) {
  json.add("begin", span.begin).add("end", span.end);
  json.add("begin_byte", static_cast<std::int64_t>(starts[at(span.begin)]));
  json.add("end_byte", static_cast<std::int64_t>(starts[at(span.end)]));
}

std::vector<JsonLine> part_json(std::span<const AttributedSpan> parts, std::string_view text,
                                std::span<const std::size_t> starts) {
  std::vector<JsonLine> all;
  for (const auto& [span, value] : parts) {
    JsonLine& json = all.emplace_back();
    add_places(json, span, starts);
    const std::size_t begin = starts[at(span.begin)];
    json.add("value", value).add("text", text.substr(begin, starts[at(span.end)] - begin));
  }
  return all;
}

std::string json_of_tokens(const Explanation& explanation, std::span<const std::size_t> starts) {
  std::vector<std::int64_t> begins, ends, begin_bytes, end_bytes;
  for (const CharacterSpan& span : explanation.offsets) {
    begins.push_back(span.begin);
    ends.push_back(span.end);
    begin_bytes.push_back(static_cast<std::int64_t>(starts[at(span.begin)]));
    end_bytes.push_back(static_cast<std::int64_t>(starts[at(span.end)]));
  }
  JsonLine json;
  json.add("id", std::span<const std::int32_t>(explanation.ids));
  json.add("begin", std::span<const std::int64_t>(begins));
  json.add("end", std::span<const std::int64_t>(ends));
  json.add("begin_byte", std::span<const std::int64_t>(begin_bytes));
  json.add("end_byte", std::span<const std::int64_t>(end_bytes));
  json.add("value", std::span<const float>(explanation.values));
  return json.object();
}

}  // namespace

std::string to_json(const Explanation& explanation, std::string_view text) {
  const std::vector<std::size_t> starts = character_starts(text);
  const bool occludes = explanation.method == ExplainMethod::occlusion;
  JsonLine json;
  json.add("method", name_of(explanation.method)).add("label", explanation.label);
  json.add("logit", explanation.logit).add("score", explanation.score);
  json.add(occludes ? "occlusion" : "baseline", explanation.baseline);
  if (explanation.method == ExplainMethod::integrated) {
    json.add("steps", explanation.steps).add("baseline_logit", explanation.baseline_logit);
    json.add("sum", explanation.sum).add("error", explanation.error);
    json.add("complete", explanation.is_complete);
  }
  if (!occludes) {
    json.add_json("tokens", json_of_tokens(explanation, starts));
    json.add_objects("words", part_json(explanation.words, text, starts));
  }
  json.add_objects("sentences", part_json(explanation.sentences, text, starts));
  return json.object();
}

}  // namespace longformer
