#include "longformer/document_files.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "core/file_kind.h"
#include "documents/document_fault.h"
#include "documents/readers.h"
#include "text/unicode.h"

namespace longformer {
namespace {

using documents::DocumentSource;

/// A kind of documents: another kind is another row.
struct DocumentKind {
  /// Its name in messages, as file_kind() has it.
  std::string_view name;
  /// Suffix of its files, and its media type; empty for what is only refused.
  std::string_view suffix, media_type;

  bool (*is_one)(DocumentSource&);
  DocumentContents (*read)(DocumentSource&);
};

/// In the order in which they are tried.
constexpr std::array<DocumentKind, 5> kKinds = {{
    {"a PDF", ".pdf", "application/pdf", documents::is_pdf, documents::pdf_text},
    {"an EPUB book", ".epub", "application/epub+zip", documents::is_epub_book,
     documents::epub_book},
    {"an OpenDocument text", ".odt", "application/vnd.oasis.opendocument.text",
     documents::is_open_document, documents::open_document},
    {"a Word document", ".docx",
     "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
     documents::is_word_document, documents::word_document},
    {"an old office document",
     {},
     {},
     documents::is_compound_file,
     documents::refuse_compound_file},
}};

constexpr std::array kTextPatterns = {"*.txt",  "*.text", "*.md",   "*.markdown",
                                      "*.html", "*.htm",  "*.xhtml"};

/// The kind that the name of a file says; null for others.
const DocumentKind* named_kind(const std::string& file) {
  const std::filesystem::path path = unpacked_name(file);
  const std::string suffix = text::ascii_lower(path.extension().string());
  const auto* found = std::find_if(kKinds.begin(), kKinds.end(), [&](const DocumentKind& kind) {
    return !suffix.empty() && kind.suffix == suffix;
  });
  return found == kKinds.end() ? nullptr : found;
}

const DocumentKind* kind_of(DocumentSource& source) {
  const auto* found = std::find_if(kKinds.begin(), kKinds.end(),
                                   [&](const DocumentKind& kind) { return kind.is_one(source); });
  return found == kKinds.end() ? nullptr : found;
}

/// Opens the archive of a document that is one. What is no whole archive may be damaged, or a text.
void open_archive(DocumentSource& source) {
  if (documents::DocumentArchive::is_one(source.bytes)) source.archive.emplace(source.bytes);
}

std::string found_in(std::string_view bytes) {
  if (bytes.empty()) return "an empty file";
  const FileKind kind = file_kind(bytes);
  return kind.is_known() ? described(kind) : "text";
}

}  // namespace

bool may_be_document_file(std::string_view beginning) {
  DocumentSource source = {.bytes = beginning};
  if (documents::is_pdf(source) || documents::is_compound_file(source)) return true;
  if (!documents::DocumentArchive::is_one(beginning)) return false;
  // Archives of other kinds may be large, and one whose beginning tells nothing may be any.
  const std::string_view name = file_kind(beginning).name;
  return name == "a zip archive" ||
         std::any_of(kKinds.begin(), kKinds.end(),
                     [&](const DocumentKind& kind) { return kind.name == name; });
}

namespace {

/// The contents; absent for what may be text. Throws FaultyFile.
std::optional<DocumentContents> contents_of(std::string_view bytes, const std::string& name) {
  DocumentSource source = {.bytes = bytes};
  open_archive(source);
  const DocumentKind* kind = kind_of(source);
  if (kind != nullptr) return kind->read(source);
  const DocumentKind* named = named_kind(name);
  documents::require_or(FileFault::other_kind, named == nullptr,
                        "expected {}, as its name says, found {}",
                        named == nullptr ? "" : named->name, found_in(bytes));
  documents::require_or(FileFault::other_kind, !source.archive, "expected text, found {}",
                        found_in(bytes));
  return std::nullopt;
}

}  // namespace

FileOutcome file_contents(std::string_view bytes, const std::string& name) {
  try {
    return {.contents = contents_of(bytes, name)};
  } catch (const documents::FaultyFile& error) {
    return {.fault = error.fault(), .error = error.reason()};
  } catch (const Error& error) {
    // The system has no process or no memory for it.
    return {.fault = FileFault::too_large, .error = error.what()};
  }
}

DocumentContents read_document(std::string_view bytes, const std::string& name,
                               std::optional<DocumentFormat> format, const TextEncoding& encoding) {
  FileOutcome outcome = file_contents(bytes, name);
  require(outcome.fault == FileFault::none, FileName{name}, "{}", outcome.error);
  if (outcome.contents) return std::move(*outcome.contents);
  return {.text = document_text(bytes, format.value_or(document_format_of(name, bytes)), encoding,
                                name)};
}

const std::vector<std::string>& document_patterns() {
  static const std::vector<std::string> patterns = [] {
    std::vector<std::string> all(kTextPatterns.begin(), kTextPatterns.end());
    for (const DocumentKind& kind : kKinds) {
      if (!kind.suffix.empty()) all.push_back("*" + std::string(kind.suffix));
    }
    return all;
  }();
  return patterns;
}

std::vector<std::string> document_media_types() {
  std::vector<std::string> types;
  for (const DocumentKind& kind : kKinds) {
    if (!kind.media_type.empty()) types.emplace_back(kind.media_type);
  }
  return types;
}

}  // namespace longformer
