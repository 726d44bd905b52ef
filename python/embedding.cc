// Vectors of texts, passages and tokens.
#include "longformer/embedding.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "embedder.h"
#include "model.h"

using nanobind::literals::operator""_a;

namespace longformer {
namespace {

ProgressCallback progress_of(const nb::object& callback) {
  if (callback.is_none()) return {};
  return [&callback](const Progress& progress) {
    call_python(callback, progress.documents_done, progress.documents_total);
  };
}

/// The vectors [rows, width], their characters, tokens and those that were cut.
Record python_embedding(Embedding embedding, std::size_t width) {
  nb::list spans;
  for (const CharacterSpan& one : embedding.spans) spans.append(nb::make_tuple(one.begin, one.end));
  const auto rows = static_cast<std::size_t>(embedding.rows);
  return nb::make_tuple(array_of(std::move(embedding.values), {rows, width}), spans,
                        embedding.tokens, embedding.truncated);
}

Rows embed(PythonEmbedder& embedder, const Texts& list, const Options& given,
           const nb::object& progress) {
  EmbedOptions options;
  Keywords keywords("encode", given);
  take_fields(keywords, fields(options));
  keywords.finish();
  const std::vector<std::string> texts = texts_of(list);
  const auto width = static_cast<std::size_t>(embedder.object().embedding_size(options));
  std::vector<Embedding> found = embedder.call(
      [&](const Embedder& one) { return one.embed(texts, options, progress_of(progress)); });
  nb::list results;
  for (Embedding& one : found) results.append(python_embedding(std::move(one), width));
  return results;
}

Record embed_passages(PythonEmbedder& embedder, const nb::str& text, const Options& given) {
  EmbedOptions options;
  Embedder::PassageOptions passages;
  Keywords keywords("encode_passages", given);
  take_fields(keywords, fields(options));
  take_fields(keywords, fields(passages));
  keywords.finish();
  const std::string_view bytes = utf8(text);
  const auto width = static_cast<std::size_t>(embedder.object().embedding_size(options));
  return python_embedding(embedder.call([&](const Embedder& one) {
    return one.embed_passages(bytes, passages, options);
  }),
                          width);
}

Record embed_spans(PythonEmbedder& embedder, const nb::str& text,
                   const std::vector<std::pair<std::int64_t, std::int64_t>>& pairs,
                   const Options& given) {
  EmbedOptions options;
  Keywords keywords("encode_spans", given);
  take_fields(keywords, fields(options));
  keywords.finish();
  std::vector<CharacterSpan> spans;
  for (const auto& [begin, end] : pairs) spans.push_back({begin, end});
  const std::string_view bytes = utf8(text);
  const auto width = static_cast<std::size_t>(embedder.object().embedding_size(options));
  return python_embedding(
      embedder.call([&](const Embedder& one) { return one.embed_spans(bytes, spans, options); }),
      width);
}

/// The options of a call for other kinds of vectors.
KindOptions kind_options(const char* call, const Options& given, VectorKinds kinds) {
  KindOptions options = {.kinds = kinds};
  Keywords keywords(call, given);
  take_fields(keywords, fields(options));
  take_fields(keywords, without(fields(options.text), {"pooling", "normalize", "truncate_dim"}));
  keywords.finish();
  return options;
}

std::vector<TextVectors> vectors_of(PythonEmbedder& embedder, const std::vector<std::string>& texts,
                                    const KindOptions& options) {
  std::vector<EmbedInput> inputs;
  for (const std::string& text : texts) inputs.push_back({.text = text});
  return embedder.call([&](const Embedder& one) { return one.vectors(inputs, options); });
}

/// [(tokens, weights), …]
Rows embed_sparse(PythonEmbedder& embedder, const Texts& list, const Options& given) {
  const KindOptions options = kind_options("encode_sparse", given, {.sparse = true});
  nb::list results;
  for (const TextVectors& one : vectors_of(embedder, texts_of(list), options)) {
    std::vector<std::int64_t> tokens;
    std::vector<float> weights;
    for (const TokenWeight& weight : one.sparse.weights) {
      tokens.push_back(weight.token);
      weights.push_back(weight.weight);
    }
    const std::size_t count = weights.size();
    results.append(nb::make_tuple(nb::cast(tokens), array_of(std::move(weights), {count})));
  }
  return results;
}

Rows embed_multi(PythonEmbedder& embedder, const Texts& list, const Options& given) {
  const KindOptions options = kind_options("encode_multi", given, {.multi = true});
  const auto width = static_cast<std::size_t>(embedder.object().multi_size());
  nb::list results;
  for (TextVectors& one : vectors_of(embedder, texts_of(list), options)) {
    results.append(python_embedding(std::move(one.multi), width));
  }
  return results;
}

}  // namespace

void bind_embedding(nb::module_& module) {
  nb::class_<PythonEmbedder>(module, "Embedder")
      .def(
          "__init__",
          [](PythonEmbedder* self, const PythonModel& model) {
            new (self) PythonEmbedder([&model](const PythonEmbedder::Note&) {
              return Embedder::of(model.model(), model.folder(), model.adapter());
            });
          },
          "model"_a, nb::keep_alive<1, 2>())
      .def("embed", &embed, "texts"_a, "options"_a, "progress"_a.none())
      .def("embed_passages", &embed_passages, "text"_a, "options"_a)
      .def("embed_spans", &embed_spans, "text"_a, "spans"_a, "options"_a)
      .def("embed_sparse", &embed_sparse, "texts"_a, "options"_a)
      .def("embed_multi", &embed_multi, "texts"_a, "options"_a)
      .def_prop_ro("kinds",
                   [](const PythonEmbedder& self) { return name_of(self.object().kinds()); })
      .def_prop_ro("scores_mean",
                   [](const PythonEmbedder& self) { return self.object().scores_mean(); })
      .def(
          "size",
          [](const PythonEmbedder& self, std::optional<std::int64_t> truncate_dim) {
            EmbedOptions options;
            options.truncate_dim = truncate_dim;
            return self.object().embedding_size(options);
          },
          "truncate_dim"_a.none())
      .def_prop_ro("similarity",
                   [](const PythonEmbedder& self) {
                     return std::string(name_of(self.object().similarity()));
                   })
      .def_prop_ro("max_length",
                   [](const PythonEmbedder& self) { return self.object().max_length(); })
      .def(
          "prompt",
          [](const PythonEmbedder& self, const std::string& name) {
            EmbedOptions options;
            options.prompt_name = name;
            return self.object().prompt(options);
          },
          "name"_a);
}

}  // namespace longformer
