// What models say of documents, and how well: the tasks, in the native half of the Python package.
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "longformer/coreference.h"
#include "longformer/error.h"
#include "longformer/evaluation.h"
#include "longformer/hub.h"

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

using Metrics = std::vector<std::pair<std::string, double>>;

Metrics scored(const std::string& predictions, const std::string& data, std::string task,
               bool singletons) {
  ScoreOptions options;
  options.task = std::move(task);
  options.data.coreference.without_singletons = !singletons;
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
  module.def("score", &scored, "predictions"_a, "data"_a, "task"_a, "singletons"_a);
}

}  // namespace longformer
