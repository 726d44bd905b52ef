// Documents as they come in files: PDF, Word, OpenDocument and EPUB, Markdown, HTML and text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/places.h"
#include "longformer/text.h"

namespace longformer {

struct DocumentContents {
  std::string text;
  DocumentPlaces places = {};
};

/// Whether a file that begins so is to be read whole, and given to file_contents(): some thousand
/// bytes, or the whole file.
bool may_be_document_file(std::string_view beginning);

/// Why the text of a file cannot be read. Programs count files by it.
enum class FileFault {
  none,
  /// Another kind of file than one that has a text, or than its name says.
  other_kind,
  damaged,
  /// A password, or the rights of a shop, keep the text.
  locked,
  /// Beyond the limits that keep a hostile file from taking all memory or time.
  too_large,
  /// Pictures of pages alone.
  no_text,
  /// The program that reads this kind is not installed.
  no_program,
};

/// A file that was read.
struct FileOutcome {
  /// Absent where the file is of no kind that is read here, which is no error: it may be text.
  std::optional<DocumentContents> contents = std::nullopt;
  FileFault fault = FileFault::none;
  /// Why there is no text, in one line without the name of the file; empty without a fault.
  std::string error = {};
};

/// The text of a PDF, a Word document (.docx), an OpenDocument text (.odt) or an EPUB book, with
/// its pages, paragraphs or chapters. The bytes decide the kind, not the name. Of a document that
/// is what a reader of its pages sees, without headers, footers, comments and deleted text, with
/// its notes at the end; see docs/documents.md. A PDF is read by the program pdftotext in a process
/// of its own, whose time and memory are limited.
///
/// Faults are documents that are damaged, locked or too large, old or protected office documents,
/// texts whose names say that they are one of these kinds, and a PDF where there is no pdftotext.
FileOutcome file_contents(std::string_view bytes, const std::string& name);

/// file_contents(), or the text of a document as document_text() gives it. Without a format the
/// name tells it. Throws Error for a fault; its subject is the name.
DocumentContents read_document(std::string_view bytes, const std::string& name,
                               std::optional<DocumentFormat> format = std::nullopt,
                               const TextEncoding& encoding = {});

/// Names of files that a folder of documents is searched for, as patterns: "*.txt", "*.pdf", …
const std::vector<std::string>& document_patterns();

/// The media types of the kinds that file_contents() reads: "application/pdf", …
std::vector<std::string> document_media_types();

}  // namespace longformer
