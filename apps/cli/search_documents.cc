#include "search_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <vector>

#include "advice.h"
#include "longformer/document_files.h"
#include "longformer/error.h"
#include "progress.h"
#include "read_ahead.h"

namespace longformer::cli {
namespace {

namespace fs = std::filesystem;

/// Documents that are written together at the most, and bytes of their texts.
constexpr UnitLimits kTogether = {.documents = 256, .bytes = std::size_t{1} << 18};

bool is_folder(const std::string& name) {
  std::error_code error;
  return fs::is_directory(name, error);
}

class DocumentAdder {
 public:
  DocumentAdder(const SearchDocuments& documents, const MakePassages& make, SearchIndex& index,
                IndexNames& names, Messages& messages)
      : documents_(documents), make_(make), index_(index), names_(names), messages_(messages) {}

  std::int64_t run() {
    find();
    read();
    for (const std::string& folder : found_.folders) look_for_gone(folder);
    return added_;
  }

 private:
  void find() {
    ProgressLine progress(messages_, 0, 0);
    found_ = find_files(documents_.inputs.files, documents_.patterns, [&](std::size_t files) {
      progress.tell(counted(static_cast<std::int64_t>(files), "file") + " found");
    });
    for (const std::string& error : found_.errors) messages_.error(error);
    name_of_ = names_.name(found_.files, index_);
    if (found_.files.empty() && found_.errors.empty()) {
      messages_.note(fmt::format("{}: no files to read; --include names others than {}",
                                 fmt::join(found_.folders, ", "),
                                 fmt::join(document_patterns(), ", ")));
    }
  }

  std::string name_of(const Document& document) const {
    const auto named = name_of_.find(document.file);
    if (named == name_of_.end()) return document.label();
    if (document.line == 0) return named->second;
    return fmt::format("{}:{}", named->second, line_and_record(document.line, document.record));
  }

  void read() {
    InputOptions options = documents_.inputs;
    options.files = found_.files;
    options.keeps_fields = true;
    options.from_folders = found_.from_folders;
    options.others = found_.others;
    if (found_.files.empty()) {
      UnreadFiles(messages_).tell(found_.others);
      return;
    }
    Inputs inputs(options, messages_);
    ProgressLine progress(messages_, inputs.total_documents(), inputs.total_bytes());
    ReadAhead reader([&inputs](Document& document) { return inputs.next(document); }, options,
                     kTogether);
    for (auto unit = reader.next(); !unit.empty(); unit = reader.next()) {
      std::int64_t bytes = 0;
      std::vector<const Document*> readable;
      std::map<std::string, std::string> known;
      for (const Document& document : unit) {
        bytes += document.bytes;
        progress.leave_out(document.left_out, document.left_out_bytes);
        if (document.error.empty()) {
          const bool is_known = index_.contains(name_of(document), document.text);
          if (!is_known) readable.push_back(&document);
          // The rest of a row may have changed, and older indexes have no metadata.
          if (is_known) known.emplace(name_of(document), metadata_of(document));
        } else {
          messages_.error(plain_name(document.label()) + ": " + document.error);
        }
      }
      index_.describe(known);
      add(readable, progress.unit(std::ssize(unit), bytes));
    }
  }

  static std::string metadata_of(const Document& document) {
    return file_metadata(document.file, document.metadata);
  }

  void add(const std::vector<const Document*>& documents, const ProgressCallback& report) {
    if (documents.empty()) return;
    std::vector<std::string_view> texts;
    for (const Document* document : documents) texts.emplace_back(document->text);
    std::vector<PassagesOutcome> found = make_(texts, report);
    std::vector<PreparedDocument> prepared;
    for (std::size_t i = 0; i < documents.size(); ++i) {
      const Document& document = *documents[i];
      if (found[i].error.empty()) {
        prepared.push_back({.name = name_of(document),
                            .text = document.text,
                            .passages = std::move(found[i].vectors),
                            .metadata = metadata_of(document),
                            .places = document.places});
      } else {
        messages_.error(plain_name(document.label()) + ": " +
                        advised(found[i].error, found[i].remedies));
      }
    }
    index_.put(prepared);
    added_ += std::ssize(prepared);
  }

  void look_for_gone(const std::string& name) {
    const std::vector<std::string> gone = names_.gone(name, index_);
    if (gone.empty()) return;
    std::string names = names_.path_from_here(gone.front());
    if (gone.size() > 1) names += fmt::format(" and {} more", gone.size() - 1);
    if (documents_.prune) {
      for (const std::string& document : gone) index_.remove(document);
      messages_.note(fmt::format("gone from {}, taken out of the index: {}", name, names));
    } else {
      messages_.note(
          fmt::format("gone from {}, kept in the index: {}; --prune takes them out", name, names));
    }
  }

  const SearchDocuments& documents_;
  const MakePassages& make_;
  SearchIndex& index_;
  IndexNames& names_;
  Messages& messages_;
  FoundFiles found_;
  std::map<std::string, std::string> name_of_;
  std::int64_t added_ = 0;
};

}  // namespace

void add_search_documents(CLI::App& verb, SearchDocuments& documents) {
  InputOptions& inputs = documents.inputs;
  verb.add_option(
          "FILES", inputs.files,
          "each file is a document: text, Markdown, HTML, PDF, .docx, .odt or .epub, and each row "
          "of .csv, .tsv and .jsonl; of each folder the files in it and below; gzip, xz and zstd "
          "are unpacked; - is stdin")
      ->type_name("");
  add_repeatable(verb, "--include", documents.patterns.include,
                 fmt::format("of folders read only files that match this, as *.rst or "
                             "notes/**/*.md; may be repeated ({})",
                             fmt::join(document_patterns(), ", ")))
      ->type_name("GLOB");
  add_repeatable(verb, "--exclude", documents.patterns.exclude,
                 "of folders leave out files and folders that match this, as drafts/; may be "
                 "repeated (none; hidden files are always left out)")
      ->type_name("GLOB");
  add_choice(verb, "--format", inputs.format, {"auto", "text", "markdown", "html"},
             "format of files that are text; auto: by the suffix (auto)");
  verb.add_flag("--prune", documents.prune,
                "remove documents from the index whose files are gone from the folders");
  add_tables(verb, inputs);
}

void check(const SearchDocuments& documents) {
  const InputOptions& inputs = documents.inputs;
  const FilePatterns& patterns = documents.patterns;
  const bool chooses = !patterns.include.empty() || !patterns.exclude.empty() || documents.prune;
  if (chooses && std::none_of(inputs.files.begin(), inputs.files.end(), is_folder)) {
    throw UsageError("--include, --exclude and --prune are for folders, and none is among FILES");
  }
  if (inputs.format != "auto" && (inputs.lines || inputs.are_tables)) {
    throw UsageError(
        "--format is for files that are a document each, not for --lines or --text-field");
  }
}

ModelFlags other_model(const ModelFlags& flags, const std::string& folder) {
  ModelFlags model = flags;
  model.model = folder;
  model.adapter.clear();
  return model;
}

std::optional<Reranker> loaded_reranker(const ModelFlags& flags, const std::string& folder,
                                        Messages& messages) {
  if (folder.empty()) return std::nullopt;
  const ModelFlags model = other_model(flags, folder);
  return Reranker::load(model.encoder_folder(), model.load_options(messages));
}

void IndexFile::check() const {
  if (reads_documents || fs::exists(name)) return;
  throw Error(fmt::format("no index {}, and no files to make it of", in_quotes(name)));
}

SearchIndex IndexFile::open(const Embedder& embedder, const SearchOptions& options) const {
  if (!reads_documents) return SearchIndex::open(name, embedder, options.language);
  if (name.empty()) return SearchIndex(embedder, options);
  // A new file that no document can come into would refuse better options.
  if (!fs::exists(name)) static_cast<void>(SearchIndex(embedder, options).prepare(embedder, ""));
  return SearchIndex::edit(name, embedder, options);
}

MakePassages passages_with_vectors(const Embedder& embedder, const SearchIndex& index) {
  return [&](std::span<const std::string_view> texts, const ProgressCallback& report) {
    return index.prepare_each(embedder, texts, report);
  };
}

MakePassages passages_of_words(const Tokenizer& tokenizer, const SearchIndex& index) {
  return [&](std::span<const std::string_view> texts, const ProgressCallback& /*report*/) {
    return index.prepare_each(tokenizer, texts);
  };
}

std::int64_t add_documents(const SearchDocuments& documents, const MakePassages& make,
                           SearchIndex& index, IndexNames& names, Messages& messages) {
  if (documents.prune && !index.names_are_from_its_folder()) {
    throw UsageError(
        "--prune",
        "expected an index whose names are paths from its folder, found an older one, whose names "
        "are paths from where it was made; make it anew, or --remove documents");
  }
  return DocumentAdder(documents, make, index, names, messages).run();
}

}  // namespace longformer::cli
