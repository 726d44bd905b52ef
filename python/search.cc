// Search in whole documents, and the text of files.
#include "longformer/search.h"

#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings.h"
#include "embedder.h"
#include "longformer/document_files.h"
#include "reranking.h"

using nanobind::literals::operator""_a;

namespace longformer {
namespace {

SearchIndex make_index(const std::string& file, const Embedder* embedder, bool writes,
                       const SearchOptions& options) {
  if (file.empty()) {
    if (embedder == nullptr) throw Error("SearchIndex: expected a model or a file, found neither");
    return SearchIndex(*embedder, options);
  }
  if (embedder == nullptr) {
    return writes ? SearchIndex::edit(file, options.language)
                  : SearchIndex::open(file, options.language);
  }
  return writes ? SearchIndex::edit(file, *embedder, options)
                : SearchIndex::open(file, *embedder, options.language);
}

/// One thread at a time uses it.
class PythonIndex {
 public:
  PythonIndex(const std::string& file, PythonEmbedder* embedder, bool writes, const Options& given)
      : embedder_(embedder), index_(make(file, embedder, writes, given)) {}

  void add(const nb::str& name, const nb::str& text) {
    const std::string key(utf8(name));
    const std::string_view bytes = utf8(text);
    const Embedder& embedder = this->embedder("add");
    in_turn(mutex_, [&] { index_.add(embedder, key, bytes); });
  }
  /// Adds those that are not in the index with the same text, all or none; gives how many.
  std::int64_t add_all(const std::vector<std::string>& names, const Texts& list) {
    const std::vector<std::string> texts = texts_of(list);
    const Embedder& embedder = this->embedder("add_documents");
    return in_turn(mutex_, [&] {
      std::vector<std::size_t> read;
      std::vector<std::string_view> bytes;
      for (std::size_t i = 0; i < texts.size(); ++i) {
        if (index_.contains(names.at(i), texts[i])) continue;
        read.push_back(i);
        bytes.emplace_back(texts[i]);
      }
      std::vector<PassagesOutcome> found = index_.prepare_each(embedder, bytes);
      std::vector<PreparedDocument> prepared;
      for (std::size_t i = 0; i < read.size(); ++i) {
        const std::string& name = names[read[i]];
        if (!found[i].error.empty()) {
          throw Error(ErrorParts{.subject = name,
                                 .reason = found[i].error,
                                 .document = static_cast<std::int64_t>(read[i]),
                                 .remedies = found[i].remedies});
        }
        prepared.push_back(
            {.name = name, .text = bytes[i], .passages = std::move(found[i].vectors)});
      }
      index_.put(prepared);
      return std::ssize(prepared);
    });
  }
  std::int64_t remove(const std::string& name) {
    return in_turn(mutex_, [&] { return index_.remove(name); });
  }
  bool contains(const std::string& name, const nb::str& text) {
    const std::string_view bytes = utf8(text);
    return in_turn(mutex_, [&] { return index_.contains(name, bytes); });
  }
  std::vector<SearchHit> query(const SearchQuery& query) {
    if (embedder_ == nullptr && query.mode == SearchMode::lexical) {
      return in_turn(mutex_, [&] { return index_.query(query); });
    }
    const Embedder& embedder = this->embedder("query");
    return in_turn(mutex_, [&] { return index_.query(embedder, query); });
  }
  std::vector<RankedDocument> rank(const SearchQuery& query) {
    const Embedder& embedder = this->embedder("rank");
    return in_turn(mutex_, [&] { return index_.rank(embedder, query); });
  }
  template <typename Ask>
  auto ask(Ask&& ask) {
    return in_turn(mutex_, [&] { return ask(index_); });
  }

 private:
  static SearchIndex make(const std::string& file, PythonEmbedder* embedder, bool writes,
                          const Options& given) {
    SearchOptions options;
    Keywords keywords("SearchIndex", given);
    take_fields(keywords, fields(options));
    keywords.finish();
    return without_gil([&] {
      return make_index(file, embedder == nullptr ? nullptr : &embedder->object(), writes, options);
    });
  }
  const Embedder& embedder(const char* what) const {
    if (embedder_ == nullptr) {
      throw Error(std::string(what) +
                  ": expected an index that was opened with a model, found one without");
    }
    return embedder_->object();
  }

  PythonEmbedder* embedder_;
  SearchIndex index_;
  std::timed_mutex mutex_;
};

/// `notes` and the reranker, if there is one, must live as long as the query.
SearchQuery query_of(const nb::str& question, const Options& given, const PythonReranker* reranker,
                     Notes& notes) {
  SearchQuery query;
  query.note = notes.collector();
  query.question = utf8(question);
  Keywords keywords("query", given);
  take_fields(keywords, fields(query));
  keywords.take("prompt", query.prompt).take("phrases", query.phrases).finish();
  query.reranker = reranker == nullptr ? nullptr : &reranker->object();
  return query;
}

/// (unit, first, last), or None.
nb::object place_of(const SearchHit& hit) {
  if (!hit.place) return nb::none();
  return nb::make_tuple(hit.place->unit, hit.place->first, hit.place->last);
}

Rows hits_of(const std::vector<SearchHit>& hits) {
  nb::list list;
  for (const SearchHit& one : hits) {
    nb::list matched;
    for (const CharacterSpan& span : one.matched) {
      matched.append(nb::make_tuple(span.begin, span.end));
    }
    list.append(nb::make_tuple(one.file, one.span.begin, one.span.end, one.score,
                               nb::cast(one.similarity), nb::cast(one.words), one.text, matched,
                               nb::cast(one.sparse), nb::cast(one.multi), place_of(one)));
  }
  return list;
}

}  // namespace

void bind_search(nb::module_& module) {
  nb::class_<PythonIndex>(module, "SearchIndex")
      .def(
          "__init__",
          [](PythonIndex* self, const Path& file, PythonEmbedder* embedder, bool writes,
             const Options& options) {
            new (self) PythonIndex(file.string(), embedder, writes, options);
          },
          "file"_a, "embedder"_a.none(), "writes"_a, "options"_a, nb::keep_alive<1, 3>())
      .def("add", &PythonIndex::add, "name"_a, "text"_a)
      .def("add_all", &PythonIndex::add_all, "names"_a, "texts"_a)
      .def("remove", &PythonIndex::remove, "name"_a)
      .def("contains", &PythonIndex::contains, "name"_a, "text"_a)
      .def(
          "query",
          [](PythonIndex& self, const nb::str& question, const Options& options,
             const PythonReranker* reranker) {
            Notes notes;
            const Rows hits = hits_of(self.query(query_of(question, options, reranker, notes)));
            Notes::warn(notes.take());
            return hits;
          },
          "question"_a, "options"_a, "reranker"_a.none())
      .def(
          "rank",
          [](PythonIndex& self, const nb::str& question, const Options& options,
             const PythonReranker* reranker) {
            Notes notes;
            Rows list;
            for (const RankedDocument& one :
                 self.rank(query_of(question, options, reranker, notes))) {
              list.append(nb::make_tuple(one.name, one.score));
            }
            Notes::warn(notes.take());
            return list;
          },
          "question"_a, "options"_a, "reranker"_a.none())
      .def("list",
           [](PythonIndex& self) {
             Rows list;
             for (const IndexedDocument& one :
                  self.ask([](const SearchIndex& index) { return index.list(); })) {
               list.append(
                   nb::make_tuple(one.name, one.passages, one.characters, one.hash, one.time));
             }
             return list;
           })
      .def_prop_ro("documents",
                   [](PythonIndex& self) {
                     return self.ask([](const SearchIndex& index) { return index.documents(); });
                   })
      .def_prop_ro("passages", [](PythonIndex& self) {
        return self.ask([](const SearchIndex& index) { return index.passages(); });
      });
  module.def(
      "document_text",
      [](const nb::bytes& content, const Path& file, const std::string& format) {
        const std::string name = file.string();
        const std::string_view bytes(content.c_str(), content.size());
        std::optional<DocumentFormat> known;
        if (format != "auto") known = document_format(format);
        return without_gil([&] { return read_document(bytes, name, known).text; });
      },
      "content"_a, "name"_a, "format"_a);
}

}  // namespace longformer
