// Why a classifier decided so, for Python.
#include "longformer/explanation.h"

#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "keywords.h"
#include "loaded.h"
#include "longformer/error.h"

using nanobind::literals::operator""_a;

namespace longformer {
namespace {

/// Begin, end and value of each part.
nb::list parts_of(const std::vector<AttributedSpan>& parts) {
  nb::list all;
  for (const AttributedSpan& one : parts) {
    all.append(nb::make_tuple(one.span.begin, one.span.end, one.value));
  }
  return all;
}

Record record_of(const Explanation& found) {
  nb::list scores, offsets;
  for (const ClassScore& one : found.classification.scores) {
    scores.append(nb::make_tuple(one.label, one.score));
  }
  for (const CharacterSpan& one : found.offsets) offsets.append(nb::make_tuple(one.begin, one.end));
  const Classification& classes = found.classification;
  const nb::object read = nb::make_tuple(scores, nb::cast(classes.logits), classes.tokens,
                                         classes.truncated, classes.segments);
  const nb::object sums = nb::make_tuple(found.baseline, found.steps, found.baseline_logit,
                                         found.sum, found.error, found.is_complete);
  return nb::make_tuple(read, std::string(name_of(found.method)), found.label, found.logit,
                        found.score, nb::cast(found.ids), offsets,
                        array_of(found.values, {found.values.size()}), parts_of(found.words),
                        parts_of(found.sentences), sums);
}

Rows explain(Loaded<Explainer>& explainer, const Texts& list, const std::string& method,
             const Options& given) {
  ExplainOptions options;
  options.method = explain_method(method);
  Keywords keywords("explain", given);
  take_fields(keywords, fields(options));
  keywords.finish();
  const std::vector<std::string> texts = texts_of(list);
  const std::vector<Explanation> found = explainer.call([&](const Explainer& one) {
    std::vector<Explanation> all;
    for (const std::string& text : texts) {
      try {
        all.push_back(one.explain(text, options));
      } catch (const Error& error) {
        if (!error.option().empty()) throw;
        throw error_of_text(error, all.size());
      }
    }
    return all;
  });
  nb::list results;
  for (const Explanation& one : found) results.append(record_of(one));
  return results;
}

}  // namespace

void bind_explanation(nb::module_& module) {
  nb::class_<Loaded<Explainer>>(module, "Explainer")
      .def(
          "__init__",
          [](Loaded<Explainer>* self, const Path& folder, const Options& options) {
            new (self) Loaded<Explainer>(folder.string(), load_options(options));
          },
          "folder"_a, "options"_a)
      .def("explain", &explain, "texts"_a, "method"_a, "options"_a);
}

}  // namespace longformer
