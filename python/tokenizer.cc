// Texts to tokens and back.
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.h"
#include "fetched.h"
#include "interruptible.h"
#include "keywords.h"
#include "longformer/checkpoint.h"
#include "longformer/text.h"

using nanobind::literals::operator""_a;

namespace longformer {
namespace {

std::vector<Encoding> encode(const Tokenizer& tokenizer, const Texts& texts,
                             const std::optional<Texts>& pairs, const Options& given) {
  EncodeOptions options;
  Keywords keywords("encode", given);
  keywords.take("add_special_tokens", options.add_special_tokens);
  keywords.take("max_length", options.max_length).finish();
  const std::vector<std::string> first = texts_of(texts);
  const std::vector<std::string> second = pairs ? texts_of(*pairs) : std::vector<std::string>();
  return without_gil([&] {
    std::vector<Encoding> encodings;
    for (std::size_t i = 0; i < first.size(); ++i) {
      encodings.push_back(pairs ? tokenizer.encode_pair(first[i], second[i], options)
                                : tokenizer.encode(first[i], options));
    }
    return encodings;
  });
}

Options statistics_of(const Tokenizer& tokenizer, const Texts& texts, bool add_special_tokens) {
  EncodeOptions options;
  options.add_special_tokens = add_special_tokens;
  const std::vector<std::string> read = texts_of(texts);
  const TokenStatistics found = without_gil([&] {
    std::vector<std::int64_t> lengths;
    for (const std::string& text : read) {
      Interruption::poll();
      lengths.push_back(static_cast<std::int64_t>(tokenizer.encode(text, options).ids.size()));
    }
    return token_statistics(std::move(lengths));
  });
  nb::dict dict;
  dict["documents"] = found.documents;
  dict["tokens"] = found.tokens;
  dict["mean"] = found.mean;
  dict["median"] = found.median;
  dict["p95"] = found.p95;
  dict["max"] = found.max;
  dict["share_over_512"] = found.share_over_512;
  dict["share_over_4096"] = found.share_over_4096;
  return dict;
}

std::vector<std::tuple<std::int64_t, std::int64_t>> offsets_of(const Encoding& encoding) {
  std::vector<std::tuple<std::int64_t, std::int64_t>> offsets;
  for (const auto& [begin, end] : encoding.offsets) offsets.emplace_back(begin, end);
  return offsets;
}

std::vector<std::optional<int>> sequences_of(const Encoding& encoding) {
  std::vector<std::optional<int>> sequences;
  for (const std::int8_t id : encoding.sequence_ids) {
    sequences.push_back(id < 0 ? std::nullopt : std::optional<int>(id));
  }
  return sequences;
}

}  // namespace

void bind_tokenizer(nb::module_& module) {
  nb::class_<Encoding>(module, "Encoding")
      .def_ro("ids", &Encoding::ids)
      .def_prop_ro("offsets", &offsets_of)
      .def_ro("type_ids", &Encoding::type_ids)
      .def_prop_ro("special_tokens_mask",
                   [](const Encoding& self) {
                     return std::vector<int>(self.special_tokens_mask.begin(),
                                             self.special_tokens_mask.end());
                   })
      .def_prop_ro("sequence_ids", &sequences_of)
      .def_ro("truncated", &Encoding::truncated);
  nb::class_<Tokenizer>(module, "Tokenizer")
      .def_static(
          "load",
          [](const Path& path) {
            const std::string folder = path.string();
            // The folder of an adapter may have a tokenizer, and is no model.
            const bool is_there = std::filesystem::is_directory(folder);
            const std::string found = is_there ? folder : model_folder(folder);
            const nb::gil_scoped_release release;
            return Tokenizer::load(found);
          },
          "folder"_a)
      .def("encode", &encode, "texts"_a, "pairs"_a.none(), "options"_a)
      .def("statistics", &statistics_of, "texts"_a, "add_special_tokens"_a)
      .def(
          "decode",
          [](const Tokenizer& self, const Integers& ids, bool skip_special_tokens) {
            return self.decode(span_of(ids), skip_special_tokens);
          },
          "ids"_a, "skip_special_tokens"_a)
      .def("token", &Tokenizer::token, "id"_a)
      .def(
          "id", [](const Tokenizer& self, const nb::str& token) { return self.id(utf8(token)); },
          "token"_a)
      .def_prop_ro("vocabulary_size", &Tokenizer::vocabulary_size)
      .def_prop_ro("kind", &Tokenizer::kind);
}

}  // namespace longformer
