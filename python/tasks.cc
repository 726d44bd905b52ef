// What models say of documents, and how well: the tasks, in the native half of the Python package.
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "longformer/choice.h"
#include "longformer/coreference.h"
#include "longformer/error.h"
#include "longformer/evaluation.h"
#include "longformer/hub.h"
#include "longformer/question_answering.h"

using nanobind::literals::operator""_a;

namespace longformer {
namespace {

/// begin, end, text.
using PythonMention = std::tuple<std::int64_t, std::int64_t, std::string>;
using PythonClusters = std::vector<std::vector<PythonMention>>;

/// Ends the work when Python has a signal, whose exception the caller raises when the call is over.
class Interrupted {};

ProgressCallback signals() {
  return [](const Progress&) {
    nb::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0) throw Interrupted();
  };
}

/// Takes one call at a time; Python threads take turns here, without the GIL.
class PythonCoreferenceResolver {
 public:
  PythonCoreferenceResolver(const std::string& folder, std::string dtype, int threads)
      : resolver_(load(
            folder, {.dtype = std::move(dtype), .threads = threads, .note = notes_.collector()})) {
    Notes::warn(notes_.take());
  }

  std::vector<PythonClusters> resolve(const std::vector<std::string>& texts, std::string segments,
                                      std::int64_t max_segment_length,
                                      std::optional<std::int64_t> stride, bool singletons) {
    ResolveOptions options;
    options.segments = std::move(segments);
    options.max_segment_tokens = max_segment_length;
    options.stride = stride;
    options.without_singletons = !singletons;
    options.progress = signals();
    std::vector<CoreferenceOutcome> outcomes;
    try {
      nb::gil_scoped_release release;
      std::lock_guard lock(mutex_);
      outcomes = resolver_.resolve(texts, options);
    } catch (const Interrupted&) {
      throw nb::python_error();
    }
    std::vector<PythonClusters> documents;
    for (CoreferenceOutcome& outcome : outcomes) {
      PythonClusters& clusters = documents.emplace_back();
      for (std::vector<Mention>& cluster : outcome.clusters) {
        auto& mentions = clusters.emplace_back();
        for (Mention& mention : cluster) {
          mentions.emplace_back(mention.span.begin, mention.span.end, std::move(mention.text));
        }
      }
    }
    return documents;
  }

 private:
  static CoreferenceResolver load(const std::string& folder, const LoadOptions& options) {
    nb::gil_scoped_release release;
    return CoreferenceResolver::load(find_model(folder), options);
  }

  Notes notes_;
  CoreferenceResolver resolver_;
  std::mutex mutex_;
};

/// Reads long documents as the verbs do: refused, cut, or in segments.
template <typename Options>
Options reading_long(Options options, bool truncate, const std::optional<std::int64_t>& stride) {
  if (truncate && stride) throw Error("truncate and stride: expected one of them, found both");
  if (truncate) options.too_long = TooLong::truncate;
  if (stride) {
    options.too_long = TooLong::split;
    options.stride = *stride;
  }
  return options;
}

/// document, score, logit, begin, end, text.
using PythonAnswer =
    std::tuple<std::int64_t, float, float, std::int64_t, std::int64_t, std::string>;

PythonAnswer python_answer(std::size_t document, Answer answer) {
  return {static_cast<std::int64_t>(document),
          answer.score,
          answer.logit,
          answer.span.begin,
          answer.span.end,
          std::move(answer.text)};
}

/// Takes one call at a time; Python threads take turns here, without the GIL.
class PythonQuestionAnswerer {
 public:
  PythonQuestionAnswerer(const std::string& folder, std::string dtype, int threads)
      : answerer_(load(
            folder, {.dtype = std::move(dtype), .threads = threads, .note = notes_.collector()})) {
    Notes::warn(notes_.take());
  }

  /// The answers of each document, or the best ones of all.
  std::vector<PythonAnswer> answer(const std::string& question,
                                   const std::vector<std::string>& documents, std::int64_t top_k,
                                   std::int64_t max_answer_tokens, bool truncate,
                                   std::optional<std::int64_t> stride, bool best) {
    AnswerOptions options;
    options.top_k = top_k;
    options.max_answer_tokens = max_answer_tokens;
    options = reading_long(std::move(options), truncate, stride);
    nb::gil_scoped_release release;
    std::lock_guard lock(mutex_);
    std::vector<PythonAnswer> answers;
    if (best) {
      for (DocumentAnswer& one : answerer_.best_answers(question, documents, options)) {
        answers.push_back(python_answer(one.document, std::move(one.answer)));
      }
      return answers;
    }
    std::vector<Question> questions;
    for (const std::string& document : documents) questions.push_back({question, document});
    std::size_t number = 0;
    for (AnswerOutcome& outcome : answerer_.answer(questions, options)) {
      for (Answer& one : outcome.answers) answers.push_back(python_answer(number, std::move(one)));
      ++number;
    }
    return answers;
  }

 private:
  static QuestionAnswerer load(const std::string& folder, const LoadOptions& options) {
    nb::gil_scoped_release release;
    return QuestionAnswerer::load(find_model(folder), options);
  }

  Notes notes_;
  QuestionAnswerer answerer_;
  std::mutex mutex_;
};

/// Takes one call at a time; Python threads take turns here, without the GIL.
class PythonChooser {
 public:
  PythonChooser(const std::string& folder, std::string dtype, int threads)
      : chooser_(load(
            folder, {.dtype = std::move(dtype), .threads = threads, .note = notes_.collector()})) {
    Notes::warn(notes_.take());
  }

  /// Number of the best choice, and the probability of each.
  std::tuple<std::int64_t, std::vector<float>> choose(
      std::string question, std::vector<std::string> choices, std::string context,
      std::vector<std::string> supports, bool truncate, std::optional<std::int64_t> stride) {
    const ChoiceQuestion asked = {.context = std::move(context),
                                  .question = std::move(question),
                                  .choices = std::move(choices),
                                  .supports = std::move(supports)};
    const ChooseOptions options = reading_long(ChooseOptions(), truncate, stride);
    nb::gil_scoped_release release;
    std::lock_guard lock(mutex_);
    ChoiceAnswer answer = std::move(chooser_.choose({&asked, 1}, options)[0]);
    return {answer.best, std::move(answer.probabilities)};
  }

 private:
  static Chooser load(const std::string& folder, const LoadOptions& options) {
    nb::gil_scoped_release release;
    return Chooser::load(find_model(folder), options);
  }

  Notes notes_;
  Chooser chooser_;
  std::mutex mutex_;
};

using Metrics = std::vector<std::pair<std::string, double>>;

Metrics scored(const std::string& predictions, const std::string& data, std::string task,
               bool singletons, std::string split, bool keep_identical_ids) {
  ScoreOptions options;
  options.task = std::move(task);
  options.data.coreference.without_singletons = !singletons;
  options.data.retrieval = {.split = std::move(split), .keep_identical_ids = keep_identical_ids};
  nb::gil_scoped_release release;
  return score(predictions, data, options).metrics;
}

}  // namespace

void bind_tasks(nb::module_& module) {
  nb::class_<PythonCoreferenceResolver>(module, "CoreferenceResolver")
      .def(
          "__init__",
          [](PythonCoreferenceResolver* self, const std::string& folder, std::string dtype,
             int threads) {
            new (self) PythonCoreferenceResolver(folder, std::move(dtype), threads);
          },
          "folder"_a, "dtype"_a, "threads"_a)
      .def("resolve", &PythonCoreferenceResolver::resolve, "texts"_a, "segments"_a,
           "max_segment_length"_a, "stride"_a.none(), "singletons"_a);
  nb::class_<PythonQuestionAnswerer>(module, "QuestionAnswerer")
      .def(
          "__init__",
          [](PythonQuestionAnswerer* self, const std::string& folder, std::string dtype,
             int threads) { new (self) PythonQuestionAnswerer(folder, std::move(dtype), threads); },
          "folder"_a, "dtype"_a, "threads"_a)
      .def("answer", &PythonQuestionAnswerer::answer, "question"_a, "documents"_a, "top_k"_a,
           "max_answer_tokens"_a, "truncate"_a, "stride"_a.none(), "best"_a);
  nb::class_<PythonChooser>(module, "Chooser")
      .def(
          "__init__",
          [](PythonChooser* self, const std::string& folder, std::string dtype, int threads) {
            new (self) PythonChooser(folder, std::move(dtype), threads);
          },
          "folder"_a, "dtype"_a, "threads"_a)
      .def("choose", &PythonChooser::choose, "question"_a, "choices"_a, "context"_a, "supports"_a,
           "truncate"_a, "stride"_a.none());
  module.def("score", &scored, "predictions"_a, "data"_a, "task"_a, "singletons"_a, "split"_a,
             "keep_identical_ids"_a);
}

}  // namespace longformer
