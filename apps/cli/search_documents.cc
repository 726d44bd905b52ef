#include "search_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <system_error>
#include <vector>

#include "advice.h"
#include "flags.h"
#include "longformer/error.h"
#include "progress.h"
#include "read_ahead.h"

namespace longformer::cli {
namespace {

namespace fs = std::filesystem;

/// So many files that are no text are told by name.
constexpr std::int64_t kToldByName = 10;
/// And so many of each kind that is known.
constexpr std::ptrdiff_t kShownOfAKind = 3;

/// Documents that are written together at the most, and bytes of their texts.
constexpr UnitLimits kTogether = {.documents = 256, .bytes = std::size_t{1} << 18};

bool is_folder(const std::string& name) {
  std::error_code error;
  return fs::is_directory(name, error);
}

FileKind kind_of(const std::string& file) {
  std::array<char, 4096> beginning;
  std::ifstream stream(file, std::ios::binary);
  stream.read(beginning.data(), std::ssize(beginning));
  const std::string_view read(beginning.data(), static_cast<std::size_t>(stream.gcount()));
  // An index in the folder of its documents is nothing that was left out.
  constexpr std::size_t kApplication = 68;
  const bool is_index = read.size() > kApplication && read.substr(kApplication).starts_with("lfix");
  return is_index ? FileKind() : file_kind(read);
}

std::string first_of(const std::vector<std::string>& names) {
  const auto shown = std::min(kShownOfAKind, std::ssize(names));
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  if (shown < std::ssize(names)) text += ", …";
  return text;
}

class DocumentAdder {
 public:
  DocumentAdder(const SearchDocuments& documents, const Embedder& embedder, SearchIndex& index,
                IndexNames& names, Messages& messages)
      : documents_(documents),
        embedder_(embedder),
        index_(index),
        names_(names),
        messages_(messages) {}

  std::int64_t run() {
    find();
    if (!found_.files.empty()) read();
    tell_left_out();
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
      messages_.note(
          fmt::format("{}: no files to read; --include names others than text, Markdown "
                      "and HTML",
                      fmt::join(found_.folders, ", ")));
    }
  }

  std::string name_of(const Document& document) const {
    const auto named = name_of_.find(document.file);
    if (named == name_of_.end()) return document.label();
    return document.line == 0 ? named->second : fmt::format("{}:{}", named->second, document.line);
  }

  void read() {
    InputOptions options = documents_.inputs;
    options.files = found_.files;
    options.keeps_fields = true;
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
        if (document.error.empty()) {
          const bool is_known = index_.contains(name_of(document), document.text);
          if (!is_known) readable.push_back(&document);
          // The rest of a row may have changed, and older indexes have no metadata.
          if (is_known) known.emplace(name_of(document), metadata_of(document));
        } else if (document.is_no_text && found_.from_folders.contains(document.file)) {
          leave_out(document);
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
    std::vector<PassagesOutcome> found = index_.prepare_each(embedder_, texts, report);
    std::vector<PreparedDocument> prepared;
    for (std::size_t i = 0; i < documents.size(); ++i) {
      const Document& document = *documents[i];
      if (found[i].error.empty()) {
        prepared.push_back({.name = name_of(document),
                            .text = document.text,
                            .passages = std::move(found[i].vectors),
                            .metadata = metadata_of(document)});
      } else {
        messages_.error(plain_name(document.label()) + ": " +
                        advised(found[i].error, found[i].remedies));
      }
    }
    index_.put(prepared);
    added_ += std::ssize(prepared);
  }

  void leave_out(const Document& document) {
    if (!document.kind.may_be_text()) {
      of_kinds_[document.kind.name].push_back(document.file);
    } else if (++left_out_ <= kToldByName) {
      messages_.note(fmt::format("{} is left out: {}", document.file, document.error));
    }
  }

  /// Files that are no text may hold one all the same, so that nobody should think it was read.
  void tell_left_out() {
    if (left_out_ > kToldByName) {
      messages_.note(counted(left_out_ - kToldByName, "more file that is no text was left out",
                             "more files that are no text were left out"));
    }
    for (const std::string& file : found_.others) {
      const FileKind kind = kind_of(file);
      if (!kind.may_be_text()) of_kinds_[kind.name].push_back(file);
    }
    std::vector<std::string> parts;
    std::int64_t files = 0;
    for (const auto& [kind, names] : of_kinds_) {
      files += std::ssize(names);
      parts.push_back(names.size() == 1
                          ? fmt::format("{} ({})", kind, names.front())
                          : fmt::format("{} times {} ({})", names.size(), kind, first_of(names)));
    }
    if (files == 0) return;
    messages_.note(fmt::format("left out {}: {}",
                               counted(files, "file that is no text", "files that are no text"),
                               fmt::join(parts, ", ")));
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
  const Embedder& embedder_;
  SearchIndex& index_;
  IndexNames& names_;
  Messages& messages_;
  FoundFiles found_;
  std::map<std::string, std::string> name_of_;
  std::int64_t added_ = 0, left_out_ = 0;
  /// Files that are no text, by what they are.
  std::map<std::string_view, std::vector<std::string>> of_kinds_;
};

}  // namespace

void add_search_documents(CLI::App& verb, SearchDocuments& documents) {
  InputOptions& inputs = documents.inputs;
  verb.add_option(
          "FILES", inputs.files,
          "each file is a document, text, Markdown or HTML, and each row of .csv, .tsv and .jsonl; "
          "of "
          "each folder the files in it and below; gzip, xz and zstd are unpacked; - is stdin")
      ->type_name("");
  add_repeatable(verb, "--include", documents.patterns.include,
                 "of folders read only files that match this, as *.rst or notes/**/*.md; may be "
                 "repeated (*.txt, *.text, *.md, *.markdown, *.html, *.htm, *.xhtml)")
      ->type_name("GLOB");
  add_repeatable(verb, "--exclude", documents.patterns.exclude,
                 "of folders leave out files and folders that match this, as drafts/; may be "
                 "repeated (none; hidden files are always left out)")
      ->type_name("GLOB");
  add_choice(verb, "--format", inputs.format, {"auto", "text", "markdown", "html"},
             "format of the files; auto: by the suffix (auto)");
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

std::int64_t add_documents(const SearchDocuments& documents, const Embedder& embedder,
                           SearchIndex& index, IndexNames& names, Messages& messages) {
  if (documents.prune && !index.names_are_from_its_folder()) {
    throw UsageError(
        "--prune",
        "expected an index whose names are paths from its folder, found an older one, whose names "
        "are paths from where it was made; make it anew, or --remove documents");
  }
  return DocumentAdder(documents, embedder, index, names, messages).run();
}

}  // namespace longformer::cli
