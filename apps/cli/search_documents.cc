#include "search_documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>
#include <vector>

#include "advice.h"
#include "flags.h"
#include "longformer/error.h"
#include "progress.h"

namespace longformer::cli {
namespace {

namespace fs = std::filesystem;

/// So many files that are no text are told by name.
constexpr std::int64_t kToldByName = 10;

bool is_folder(const std::string& name) {
  std::error_code error;
  return fs::is_directory(name, error);
}

/// Whether a document has no file any more. Those of --lines have the file's name and a number;
/// those of stdin never had one.
bool is_gone(const std::string& name) {
  const auto has_file = [](const std::string& file) {
    std::error_code error;
    const fs::file_type type = fs::status(file, error).type();
    return file == "-" || file == kStandardInput ||
           (type != fs::file_type::not_found && type != fs::file_type::directory);
  };
  const std::size_t file_end = name.find_last_not_of("0123456789");
  const bool has_line = file_end != std::string::npos && name[file_end] == ':';
  return !has_file(name) && !(has_line && has_file(name.substr(0, file_end)));
}

bool is_below(const std::string& name, const std::string& folder) {
  const fs::path rest = fs::path(name).lexically_relative(folder);
  return !rest.empty() && *rest.begin() != "..";
}

class DocumentAdder {
 public:
  DocumentAdder(const SearchDocuments& documents, const Embedder& embedder, SearchIndex& index,
                Messages& messages)
      : documents_(documents), embedder_(embedder), index_(index), messages_(messages) {}

  std::int64_t run() {
    find();
    if (!found_.files.empty()) read();
    if (left_out_ > kToldByName) {
      messages_.note(counted(left_out_ - kToldByName, "more file that is no text was left out",
                             "more files that are no text were left out"));
    }
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
    if (found_.files.empty() && found_.errors.empty()) {
      messages_.note(
          fmt::format("{}: no files to read; --include names others than text, Markdown "
                      "and HTML",
                      fmt::join(found_.folders, ", ")));
    }
  }

  void read() {
    InputOptions options = documents_.inputs;
    options.files = found_.files;
    Inputs inputs(options, messages_);
    ProgressLine progress(messages_, inputs.total_documents(), inputs.total_bytes());
    Document document;
    while (inputs.next(document)) {
      const ProgressCallback report = progress.unit(1, document.bytes);
      if (document.error.empty()) {
        add(document, report);
      } else if (document.is_no_text && found_.from_folders.contains(document.file)) {
        leave_out(document);
      } else {
        messages_.error(plain_name(document.label()) + ": " + document.error);
      }
    }
  }

  void add(const Document& document, const ProgressCallback& report) {
    const std::string name = plain_name(document.label());
    try {
      if (index_.contains(name, document.text)) return;
      index_.add(embedder_, name, document.text, report);
      ++added_;
    } catch (const Error& error) {
      if (is_about_passages(error)) throw;
      messages_.error(name + ": " + advised(error));
    }
  }

  void leave_out(const Document& document) {
    if (++left_out_ > kToldByName) return;
    messages_.note(fmt::format("{} is left out: {}", document.file, document.error));
  }

  void look_for_gone(const std::string& name) {
    const std::string folder = plain_name(name);
    std::vector<std::string> gone;
    for (const IndexedDocument& document : index_.list()) {
      if (is_below(document.name, folder) && is_gone(document.name)) gone.push_back(document.name);
    }
    if (gone.empty()) return;
    std::string names = gone.front();
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
  Messages& messages_;
  FoundFiles found_;
  std::int64_t added_ = 0, left_out_ = 0;
};

}  // namespace

void add_search_documents(CLI::App& verb, SearchDocuments& documents) {
  InputOptions& inputs = documents.inputs;
  verb.add_option(
          "FILES", inputs.files,
          "each file is a document, text, Markdown or HTML, and of each folder the files in "
          "it and below; - is stdin")
      ->type_name("");
  add_repeatable(verb, "--include", documents.patterns.include,
                 "of folders read only files that match this, as *.rst or notes/**/*.md; may be "
                 "repeated (*.txt, *.text, *.md, *.markdown, *.html, *.htm, *.xhtml)")
      ->type_name("GLOB");
  add_repeatable(verb, "--exclude", documents.patterns.exclude,
                 "of folders leave out files and folders that match this, as drafts/; may be "
                 "repeated (none; what is hidden is always left out)")
      ->type_name("GLOB");
  add_choice(verb, "--format", inputs.format, {"auto", "text", "markdown", "html"},
             "what the files hold: auto tells by the suffix (auto)");
  verb.add_flag("--prune", documents.prune,
                "take documents out of the index whose files are gone from the folders");
  verb.add_flag("--lines", inputs.lines, "each line of the files is a document");
  verb.add_option("--field", inputs.field,
                  "each line is a JSON object that holds the document in this field")
      ->type_name("NAME");
  add_encoding(verb, inputs.encoding);
}

void check(const SearchDocuments& documents) {
  const InputOptions& inputs = documents.inputs;
  const FilePatterns& patterns = documents.patterns;
  const bool chooses = !patterns.include.empty() || !patterns.exclude.empty() || documents.prune;
  if (chooses && std::none_of(inputs.files.begin(), inputs.files.end(), is_folder)) {
    throw UsageError("--include, --exclude and --prune are for folders, and none is among FILES");
  }
  if (inputs.format != "auto" && (inputs.lines || !inputs.field.empty())) {
    throw UsageError("--format is for files that are a document each, not for --lines or --field");
  }
}

std::string plain_name(const std::string& name) {
  std::string plain = fs::path(name).lexically_normal().string();
  if (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
  return plain;
}

std::int64_t add_documents(const SearchDocuments& documents, const Embedder& embedder,
                           SearchIndex& index, Messages& messages) {
  return DocumentAdder(documents, embedder, index, messages).run();
}

}  // namespace longformer::cli
