// Models that write texts, in the native half of the Python package.
#include "longformer/generation.h"

#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "longformer/error.h"
#include "longformer/hub.h"
#include "model.h"

using nanobind::literals::operator""_a;

namespace longformer {
namespace {

/// ids, score, why it ended.
using Written = std::tuple<std::vector<std::int32_t>, std::optional<double>, std::string>;

/// Shares the weights of a model. A TextGenerator takes one call at a time; Python threads take
/// turns here, without the GIL.
class PythonTextGenerator {
 public:
  PythonTextGenerator(const PythonModel& model, const std::string& folder)
      : generator_(TextGenerator::of(model.model(), find_model(folder), notes_.collector())) {
    Notes::warn(notes_.take());
  }

  const TextGeneratorInfo& info() const { return generator_.info(); }

  std::vector<std::vector<Written>> generate(const std::vector<Document>& documents,
                                             const std::string& options, std::uint64_t seed,
                                             std::vector<std::int32_t> prompt) {
    std::vector<DocumentInput> inputs;
    for (const Document& document : documents) inputs.push_back(input_of(document));
    std::vector<WrittenDocument> results;
    std::vector<std::string> notes;
    {
      nb::gil_scoped_release release;
      std::lock_guard lock(mutex_);
      GenerationRequest request;
      request.options = parse_generation_options(options);
      request.seed = seed;
      request.prompt = std::move(prompt);
      results = generator_.generate(inputs, request, [](const GenerationEvent&) {
        nb::gil_scoped_acquire acquire;
        // The exception of a signal, such as KeyboardInterrupt, is raised when the call is over.
        return PyErr_CheckSignals() == 0;
      });
      notes = notes_.take();
    }
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    Notes::warn(notes);
    std::vector<std::vector<Written>> texts;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!results[i].error.empty()) {
        throw Error("input_ids[" + std::to_string(i) + "]: " + results[i].error);
      }
      auto& rows = texts.emplace_back();
      for (WrittenText& text : results[i].texts) {
        rows.emplace_back(std::move(text.ids), text.score, std::move(text.end));
      }
    }
    return texts;
  }

  FloatArray logits(const Document& document, const Integers& text) {
    const DocumentInput input = input_of(document);
    std::vector<float> values;
    {
      nb::gil_scoped_release release;
      std::lock_guard lock(mutex_);
      values = generator_.logits(input, span_of(text));
    }
    return array_of(std::move(values),
                    {text.shape(0), static_cast<std::size_t>(info().vocabulary_size)});
  }

 private:
  Notes notes_;
  TextGenerator generator_;
  std::mutex mutex_;
};

}  // namespace

void bind_generation(nb::module_& module) {
  nb::class_<PythonTextGenerator>(module, "TextGenerator")
      .def(
          "__init__",
          [](PythonTextGenerator* self, const PythonModel& model, const std::string& folder) {
            new (self) PythonTextGenerator(model, folder);
          },
          "model"_a, "folder"_a)
      .def("generate", &PythonTextGenerator::generate, "documents"_a, "options"_a, "seed"_a,
           "prompt"_a)
      .def("logits", &PythonTextGenerator::logits, "document"_a, "text"_a)
      .def_prop_ro("pad_token_id",
                   [](const PythonTextGenerator& self) { return self.info().pad_token_id; })
      .def_prop_ro("max_text_tokens",
                   [](const PythonTextGenerator& self) { return self.info().max_text_tokens; });
}

}  // namespace longformer
