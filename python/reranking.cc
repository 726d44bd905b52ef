// Texts in the order of their relevance to a query.
#include "reranking.h"

#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "longformer/tasks.h"
#include "model.h"
#include "options.h"

using nanobind::literals::operator""_a;

namespace longformer {
namespace {

RerankOptions options_of(const char* call, const Options& given) {
  RerankOptions options;
  Keywords keywords(call, given);
  take_fields(keywords, fields(options));
  keywords.finish();
  return options;
}

/// Errors of one text, under the name of the list of the call.
template <typename Work>
auto named(const char* list, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    ErrorParts parts = error.parts();
    if (parts.document)
      parts.subject = std::string(list) + "[" + std::to_string(*parts.document) + "]";
    throw Error(std::move(parts));
  }
}

Rows rank(PythonReranker& reranker, const nb::str& query, const Texts& list, const Options& given) {
  const RerankOptions options = options_of("rerank", given);
  const std::string asked(utf8(query));
  const std::vector<std::string> texts = texts_of(list);
  const auto ranked = reranker.call([&](const Reranker& one) {
    return named("texts", [&] { return one.rank(asked, texts, options); });
  });
  nb::list results;
  for (const RankedText& one : ranked) {
    nb::list spans;
    for (const RelevantSpan& span : one.spans) {
      spans.append(nb::make_tuple(span.span.begin, span.span.end, span.score));
    }
    results.append(nb::make_tuple(one.index, one.outcome.score, spans, one.outcome.tokens,
                                  one.outcome.truncated, one.outcome.segments));
  }
  return results;
}

FloatArray predict(PythonReranker& reranker, const Texts& queries, const Texts& texts,
                   const Options& given) {
  const RerankOptions options = options_of("predict", given);
  std::vector<QueryText> pairs;
  std::vector<std::string> all = texts_of(texts);
  for (std::string& query : texts_of(queries)) {
    pairs.push_back({.query = std::move(query), .text = std::move(all[pairs.size()])});
  }
  std::vector<float> scores = reranker.call([&](const Reranker& one) {
    return named("pairs", [&] { return one.predict(pairs, options); });
  });
  const std::size_t count = scores.size();
  return array_of(std::move(scores), {count});
}

}  // namespace

void bind_reranking(nb::module_& module) {
  nb::class_<PythonReranker>(module, "Reranker")
      .def(
          "__init__",
          [](PythonReranker* self, const PythonModel& model) {
            new (self) PythonReranker([&model](const PythonReranker::Note&) {
              return Reranker::of(Classifier(model.model(), model.tokenizer()), model.folder(),
                                  model.adapter());
            });
          },
          "model"_a, nb::keep_alive<1, 2>())
      .def("rank", &rank, "query"_a, "texts"_a, "options"_a)
      .def("predict", &predict, "queries"_a, "texts"_a, "options"_a);
}

}  // namespace longformer
