// Search in whole documents, and the text of files.
#include "longformer/search.h"

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings.h"
#include "embedder.h"
#include "longformer/document_files.h"
#include "longformer/files.h"
#include "longformer/retrieved.h"
#include "longformer/search_files.h"
#include "longformer/tables.h"
#include "longformer/text.h"
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

/// The unit of places, and where they start.
using Places = std::pair<std::string, std::vector<std::int64_t>>;

/// Documents that go in together; the metadata of each are a JSON object, or empty.
struct NewDocuments {
  NewDocuments(const std::vector<std::string>& with_names, const Texts& list, const Texts& objects)
      : names(with_names), texts(texts_of(list)), metadata(texts_of(objects)) {}

  const std::vector<std::string>& names;
  std::vector<std::string> texts, metadata;
};

/// One thread at a time uses it.
class PythonIndex {
 public:
  PythonIndex(const std::string& file, PythonEmbedder* embedder, bool writes, const Options& given)
      : file_(file), embedder_(embedder), index_(make(file, embedder, writes, given)) {}

  void add(const nb::str& name, const nb::str& text, const std::string& metadata) {
    const std::string key(utf8(name));
    const std::string_view bytes = utf8(text);
    const Embedder& embedder = this->embedder("add");
    in_turn(mutex_, [&] { index_.add(embedder, key, bytes, {}, metadata); });
  }
  /// Adds those that are not in the index with the same text, all or none; gives how many. The
  /// others get their metadata.
  std::int64_t add_all(const std::vector<std::string>& names, const Texts& texts,
                       const Texts& metadata, const std::vector<Places>& places) {
    const NewDocuments all(names, texts, metadata);
    const Embedder& embedder = this->embedder("add_documents");
    return in_turn(mutex_, [&] {
      std::vector<std::size_t> read;
      std::vector<std::string_view> bytes;
      std::map<std::string, std::string> known;
      for (std::size_t i = 0; i < all.texts.size(); ++i) {
        if (index_.contains(names.at(i), all.texts[i])) {
          known.emplace(names[i], all.metadata.at(i));
          continue;
        }
        read.push_back(i);
        bytes.emplace_back(all.texts[i]);
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
        prepared.push_back({.name = name,
                            .text = bytes[i],
                            .passages = std::move(found[i].vectors),
                            .metadata = all.metadata.at(read[i]),
                            .places = {places.at(read[i]).first, places.at(read[i]).second}});
      }
      index_.describe(known);
      index_.put(prepared);
      return std::ssize(prepared);
    });
  }
  std::int64_t remove(const std::string& name) {
    return in_turn(mutex_, [&] { return index_.remove(name); });
  }
  /// Names for files, and the files of which each is read once.
  Rows name_files(std::vector<std::string> files) {
    std::map<std::string, std::string> names;
    in_turn(mutex_, [&] { names = IndexNames(file_, index_).name(files, index_); });
    Rows rows;
    for (const std::string& file : files) {
      rows.append(nb::make_tuple(path_text(file), path_text(names.at(file))));
    }
    return rows;
  }
  /// Removes documents below a folder whose files are gone; gives their names.
  std::vector<std::string> prune(const Path& folder) {
    return in_turn(mutex_, [&] {
      if (!index_.names_are_from_its_folder()) {
        throw Error(
            "prune: expected an index whose names are paths from its folder, found an "
            "older one; make it anew");
      }
      std::vector<std::string> gone = IndexNames(file_, index_).gone(folder.string(), index_);
      for (const std::string& name : gone) index_.remove(name);
      return gone;
    });
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
  std::vector<RetrievedPart> retrieve(const SearchQuery& query, const RetrieveOptions& options) {
    const bool is_of_words = embedder_ == nullptr && query.mode == SearchMode::lexical;
    const Embedder* embedder = is_of_words ? nullptr : &this->embedder("retrieve");
    return in_turn(mutex_, [&] { return retrieved_parts(index_, embedder, query, options); });
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

  std::string file_;
  PythonEmbedder* embedder_;
  SearchIndex index_;
  std::timed_mutex mutex_;
};

/// `notes` and the reranker, if there is one, must live as long as the query.
SearchQuery query_of(const nb::str& question, const Options& given, const PythonReranker* reranker,
                     Notes& notes, const OptionFields& more = {}) {
  SearchQuery query;
  query.note = notes.collector();
  query.question = utf8(question);
  Keywords keywords("query", given);
  take_fields(keywords, fields(query));
  take_fields(keywords, more);
  keywords.take("prompt", query.prompt).take("phrases", query.phrases).finish();
  query.reranker = reranker == nullptr ? nullptr : &reranker->object();
  return query;
}

/// (unit, first, last), or None.
nb::object as_tuple(const std::optional<PlaceSpan>& place) {
  if (!place) return nb::none();
  return nb::make_tuple(place->unit, place->first, place->last);
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
                               nb::cast(one.sparse), nb::cast(one.multi), as_tuple(one.place),
                               one.metadata));
  }
  return list;
}

Rows documents_of(const std::vector<IndexedDocument>& documents) {
  Rows list;
  for (const IndexedDocument& one : documents) {
    list.append(
        nb::make_tuple(one.name, one.passages, one.characters, one.hash, one.time, one.metadata));
  }
  return list;
}

/// The files that are meant by names of files and folders: files with whether each is from a
/// folder, folders, and messages about folders that cannot be read.
Record files_of(const std::vector<std::string>& names, const std::vector<std::string>& include,
                const std::vector<std::string>& exclude) {
  const FilePatterns patterns = {.include = include, .exclude = exclude};
  const FoundFiles found =
      without_gil([&] { return find_files(names, patterns, [](std::size_t) {}); });
  Rows files, folders;
  for (const std::string& file : found.files) {
    files.append(nb::make_tuple(path_text(file), found.from_folders.contains(file)));
  }
  for (const std::string& folder : found.folders) folders.append(path_text(folder));
  return nb::make_tuple(files, folders, found.errors);
}

/// The text of a file as the program reads it, the unit of its places and where they start; or the
/// reason why there is no text.
Record text_of_file(const Path& path, const std::string& format) {
  const std::string file = path.string();
  DocumentContents contents;
  std::string reason;
  without_gil([&] {
    std::string kind;
    const std::string bytes = input_bytes(file, [&](std::string_view beginning) {
      const bool may_be_document = may_be_document_file(beginning);
      const FileKind found = file_kind(beginning);
      if (!may_be_document && !found.may_be_text()) {
        kind = std::string(found.name) + (found.advice.empty() ? "" : ": ");
        kind += found.advice;
      }
      return !kind.empty() ||
             (!may_be_document && is_binary(beginning) && beginning.find('\0') != beginning.npos);
    });
    if (!kind.empty()) {
      reason = "expected text, found " + kind;
      return;
    }
    try {
      std::optional<DocumentFormat> known;
      if (format != "auto") known = document_format(format);
      contents = read_document(bytes, file, known);
    } catch (const Error& error) {
      reason = error.reason();
    }
  });
  return nb::make_tuple(contents.text, contents.places.unit, contents.places.starts, reason);
}

/// The rows of a table: line, text, the other fields as JSON, and why there is no text.
Rows rows_of_table(const Path& path, const Options& given) {
  DataOptions options;
  Keywords keywords("add_files", given);
  keywords.take("text_field", options.text_field).take("id_field", options.id_field).finish();
  std::vector<TableDocument> documents;
  without_gil([&] {
    DocumentTable table(path.string(), options, {}, true);
    for (TableDocument one; table.next(one);) documents.push_back(std::move(one));
  });
  Rows rows;
  for (const TableDocument& one : documents) {
    rows.append(
        nb::make_tuple(line_and_record(one.line, one.record), one.text, one.others, one.error));
  }
  return rows;
}

void bind_files(nb::module_& module) {
  module.def(
      "place_of",
      [](const Places& places, std::int64_t begin, std::int64_t end) {
        return as_tuple(place_of({places.first, places.second}, {begin, end}));
      },
      "places"_a, "begin"_a, "end"_a);
  module.def(
      "joined_parts",
      [](const Rows& rows) {
        std::vector<RetrievedPart> parts;
        for (const nb::handle row : rows) {
          const auto [file, begin, end, text] =
              nb::cast<std::tuple<std::string, std::int64_t, std::int64_t, std::string>>(row);
          parts.push_back({.file = file, .span = {begin, end}, .text = text});
        }
        return joined_text(parts);
      },
      "parts"_a);
  module.def(
      "search_filter", [](const std::string& json) { return search_filter(json); }, "json"_a);
  module.def("find_files", &files_of, "names"_a, "include"_a, "exclude"_a);
  module.def("file_text", &text_of_file, "path"_a, "format"_a);
  module.def("table_rows", &rows_of_table, "path"_a, "options"_a);
  module.def(
      "is_table_file", [](const Path& path) { return !table_format_of(path.string()).empty(); },
      "path"_a);
  module.def(
      "file_metadata",
      [](const Path& path, const std::string& row) { return file_metadata(path.string(), row); },
      "path"_a, "row"_a);
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
      .def("add", &PythonIndex::add, "name"_a, "text"_a, "metadata"_a)
      .def("add_all", &PythonIndex::add_all, "names"_a, "texts"_a, "metadata"_a, "places"_a)
      .def("name_files", &PythonIndex::name_files, "files"_a)
      .def("prune", &PythonIndex::prune, "folder"_a)
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
      .def(
          "retrieve",
          [](PythonIndex& self, const nb::str& question, const Options& given,
             const PythonReranker* reranker) {
            Notes notes;
            RetrieveOptions options;
            const OptionFields own = only(fields(options), {"retrieve", "around"});
            const SearchQuery query = query_of(question, given, reranker, notes, own);
            Rows parts;
            for (const RetrievedPart& one : self.retrieve(query, options)) {
              const Places places = {one.places.unit, one.places.starts};
              parts.append(nb::make_tuple(one.file, one.span.begin, one.span.end, one.score,
                                          one.text, one.metadata,
                                          as_tuple(place_of(one.places, one.span)), places));
            }
            Notes::warn(notes.take());
            return parts;
          },
          "question"_a, "options"_a, "reranker"_a.none())
      .def(
          "listed",
          [](PythonIndex& self, const std::vector<std::string>& filter) {
            return documents_of(
                self.ask([&](const SearchIndex& index) { return index.list(filter); }));
          },
          "filter"_a)
      .def_prop_ro("fields",
                   [](PythonIndex& self) {
                     return self.ask([](const SearchIndex& index) { return index.fields(); });
                   })
      .def_prop_ro("documents",
                   [](PythonIndex& self) {
                     return self.ask([](const SearchIndex& index) { return index.documents(); });
                   })
      .def_prop_ro("passages", [](PythonIndex& self) {
        return self.ask([](const SearchIndex& index) { return index.passages(); });
      });
  bind_files(module);
}

}  // namespace longformer
