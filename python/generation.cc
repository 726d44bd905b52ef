// Models that write texts.
#include "longformer/generation.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "loaded.h"
#include "model.h"
#include "writing.h"

using nanobind::literals::operator""_a;

namespace longformer {
namespace {

using PythonGenerator = Loaded<TextGenerator>;

Record python_text(const WrittenText& text) {
  return nb::make_tuple(nb::cast(text.ids), nb::cast(text.score), text.end, text.text);
}

/// The texts of each document, with what was read of it.
Rows python_documents(const std::vector<WrittenDocument>& documents, const char* name,
                      std::uint64_t first = 0) {
  nb::list results;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const WrittenDocument& one = documents[i];
    if (!one.error.empty()) {
      throw Error(std::string(name) + "[" + std::to_string(first + i) + "]: " + one.error,
                  one.remedies);
    }
    nb::list texts;
    for (const WrittenText& text : one.texts) texts.append(python_text(text));
    results.append(
        nb::make_tuple(texts, one.source_tokens, one.truncated, one.segments, one.global_tokens));
  }
  return results;
}

Rows generate(PythonGenerator& generator, const std::vector<Document>& documents,
              const Options& options, std::pair<std::uint64_t, std::uint64_t> seed_and_first,
              std::vector<std::int32_t> prompt) {
  std::vector<DocumentInput> inputs;
  for (const Document& document : documents) inputs.push_back(input_of(document));
  GenerationRequest request;
  request.options = generation_options(Keywords("generate", options));
  std::tie(request.seed, request.first_document) = seed_and_first;
  request.prompt = std::move(prompt);
  return python_documents(
      generator.call([&](const TextGenerator& one) { return one.generate(inputs, request); }),
      "input_ids", request.first_document);
}

Rows write(PythonGenerator& generator, const Texts& list, bool summarizes, const Options& given,
           const nb::object& callback) {
  GenerationRequest request;
  Keywords keywords(summarizes ? "summarize" : "write", given);
  take_fields(keywords, fields(request));
  request.options = generation_options(keywords);
  if (summarizes) request = generator.object().for_summaries(std::move(request));
  const std::vector<std::string> texts = texts_of(list);
  return python_documents(generator.call([&](const TextGenerator& one) {
    return one.generate(texts, request, [&callback](const GenerationEvent& event) {
      if (!callback.is_none() && event.document >= 0) {
        call_python(callback, event.document, event.text);
      }
      return true;
    });
  }),
                          "texts");
}

FloatArray logits(PythonGenerator& generator, const Document& document, const Integers& text) {
  const DocumentInput input = input_of(document);
  std::vector<float> values =
      generator.call([&](const TextGenerator& one) { return one.logits(input, span_of(text)); });
  const auto width = static_cast<std::size_t>(generator.object().info().vocabulary_size);
  return array_of(std::move(values), {text.shape(0), width});
}

}  // namespace

GenerationOptions generation_options(const Keywords& keywords) {
  const nb::object text = nb::module_::import_("json").attr("dumps")(keywords.rest());
  return parse_generation_options(nb::cast<std::string>(text));
}

void bind_generation(nb::module_& module) {
  nb::class_<PythonGenerator>(module, "TextGenerator")
      .def(
          "__init__",
          [](PythonGenerator* self, const PythonModel& model) {
            new (self) PythonGenerator([&model](const PythonGenerator::Note& note) {
              return TextGenerator::of(model.model(), model.folder(), note);
            });
          },
          "model"_a, nb::keep_alive<1, 2>())
      .def("generate", &generate, "documents"_a, "options"_a, "seed_and_first"_a, "prompt"_a)
      .def("write", &write, "texts"_a, "summarizes"_a, "options"_a, "callback"_a.none())
      .def("logits", &logits, "document"_a, "text"_a)
      .def_prop_ro("pad_token_id",
                   [](const PythonGenerator& self) { return self.object().info().pad_token_id; })
      .def_prop_ro("max_text_tokens", [](const PythonGenerator& self) {
        return self.object().info().max_text_tokens;
      });
}

}  // namespace longformer
