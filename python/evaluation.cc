// How well models do on data with labels.
#include "longformer/evaluation.h"

#include <optional>
#include <string>
#include <utility>

#include "bindings.h"
#include "embedder.h"
#include "fetched.h"
#include "longformer/checkpoint.h"
#include "longformer/generation.h"
#include "longformer/reranking.h"
#include "longformer/search.h"
#include "model.h"
#include "options.h"
#include "writing.h"

using nanobind::literals::operator""_a;

namespace longformer {
namespace {

Options dict_of(const Evaluation& found) {
  nb::dict metrics;
  for (const auto& [name, value] : found.metrics) metrics[name.c_str()] = value;
  nb::list labels;
  for (const LabelMetrics& one : found.labels) {
    labels.append(nb::make_tuple(one.label, one.precision, one.recall, one.f1, one.support));
  }
  nb::dict dict;
  dict["task"] = found.task;
  dict["metrics"] = metrics;
  dict["labels"] = labels;
  nb::dict numbers;
  numbers["examples"] = found.examples;
  numbers["tokens"] = found.tokens;
  const auto add = [&numbers](const Counter& counter, std::int64_t number) {
    numbers[nb::str(counter.name.data(), counter.name.size())] = number;
  };
  // Those of other tasks are 0.
  for (const Counter* counter : evaluation_counters()) add(*counter, 0);
  for (const auto& [counter, number] : found.counts.all()) add(*counter, number);
  dict["counts"] = numbers;
  dict["first_skipped"] = found.first_skipped;
  dict["notes"] = found.notes;
  dict["seconds"] = found.seconds;
  return dict;
}

/// Files that an evaluation writes on request, besides its numbers.
struct Written {
  std::string predictions, official, selected;

  static std::function<void(std::string_view)> into(std::string& text, bool wanted,
                                                    const char* behind) {
    if (!wanted) return {};
    return [&text, behind](std::string_view part) {
      text += part;
      text += behind;
    };
  }
};

Record with_written(const Evaluation& found, const Written& written) {
  const auto bytes = [](const std::string& text) { return nb::bytes(text.data(), text.size()); };
  return nb::make_tuple(dict_of(found), bytes(written.predictions), bytes(written.official),
                        bytes(written.selected));
}

/// Which files the caller writes.
struct Wanted {
  bool predictions = false, official = false, selected = false;
};

Wanted take_wanted(Keywords& keywords) {
  Wanted wanted;
  keywords.take("predictions", wanted.predictions);
  keywords.take("official_predictions", wanted.official);
  keywords.take("write_selected", wanted.selected);
  return wanted;
}

Record evaluate_search(const PythonModel& model, const std::string& data, Keywords& keywords) {
  RetrievalEvaluation options;
  Written written;
  const Wanted wanted = take_wanted(keywords);
  take_fields(keywords, fields(options));
  bool truncate = false;
  std::string reranker;
  keywords.take("rerank", reranker).take("top_k", options.top_k).take("truncate", truncate);
  keywords.take("skip_invalid", options.data.skip_invalid).finish();
  if (truncate) options.too_long = TooLong::truncate;
  options.predictions = Written::into(written.predictions, wanted.predictions, "\n");
  options.official_predictions = Written::into(written.official, wanted.official, "");
  const Evaluation found = without_gil([&] {
    const Embedder embedder = Embedder::of(model.model(), model.folder(), model.adapter());
    std::optional<Reranker> loaded;
    if (!reranker.empty()) {
      loaded.emplace(Reranker::load(fetch_model(reranker)));
      options.reranker = &*loaded;
    }
    return evaluate_retrieval(embedder, data, options);
  });
  return with_written(found, written);
}

void take_scoring(Keywords& keywords, EvaluateOptions& options) {
  const std::string task = options.task;
  take_fields(keywords, fields(options));
  options.task = task;
  take_singletons(keywords, options.data.coreference.without_singletons);
  options.generation.seed = options.masking.seed;
}

Record evaluate_task(const PythonModel& model, const std::string& data, Keywords& keywords,
                     const std::string& task) {
  EvaluateOptions options;
  options.task = task;
  Written written;
  const Wanted wanted = take_wanted(keywords);
  take_scoring(keywords, options);
  const bool writes = model.info().head == "sequence-to-sequence" && task != "embedding";
  if (writes) {
    options.generation.options = generation_options(keywords);
  } else {
    keywords.take("max_length", options.generation.options.max_length).finish();
  }
  options.predictions = Written::into(written.predictions, wanted.predictions, "\n");
  options.official_predictions = Written::into(written.official, wanted.official, "");
  options.selected = Written::into(written.selected, wanted.selected, "");
  const Evaluation found = without_gil([&] {
    std::optional<Embedder> embedder;
    std::optional<TextGenerator> generator;
    if (task == "embedding") {
      embedder.emplace(Embedder::of(model.model(), model.folder(), model.adapter()));
      options.embedder = &*embedder;
    }
    if (writes) {
      generator.emplace(TextGenerator::of(model.model(), model.folder()));
      options.generator = &*generator;
    }
    return evaluate(model.model(), model.tokenizer(), data, options);
  });
  return with_written(found, written);
}

Record evaluate_model(const PythonModel& model, const Path& path, const Options& given) {
  const std::string data = path.string();
  Keywords keywords("evaluate", given);
  std::string task;
  keywords.take("task", task);
  return task == "retrieval" ? evaluate_search(model, data, keywords)
                             : evaluate_task(model, data, keywords, task);
}

Options score_predictions(const Path& predictions, const Path& data, const Options& given) {
  ScoreOptions options;
  Keywords keywords("score", given);
  take_fields(keywords, fields(options.data));
  keywords.take("skip_invalid", options.data.skip_invalid);
  take_fields(keywords, task_fields(options.data, OptionUse::evaluation));
  take_singletons(keywords, options.data.coreference.without_singletons);
  keywords.take("task", options.task).take("split", options.data.retrieval.split);
  keywords.take("keep_identical_ids", options.data.retrieval.keep_identical_ids).finish();
  return dict_of(without_gil([&] { return score(predictions.string(), data.string(), options); }));
}

}  // namespace

void bind_evaluation(nb::module_& module) {
  module.def("evaluate", &evaluate_model, "model"_a, "data"_a, "options"_a);
  module.def("score", &score_predictions, "predictions"_a, "data"_a, "options"_a);
}

}  // namespace longformer
