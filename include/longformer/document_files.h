// Documents as they come in files: PDF, Word, OpenDocument and EPUB, Markdown, HTML and text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/text.h"

namespace longformer {

struct DocumentContents {
  std::string text;
  DocumentPlaces places = {};
};

/// Whether a file that begins so is to be read whole, and given to file_contents(): some thousand
/// bytes, or the whole file.
bool may_be_document_file(std::string_view beginning);

/// The text of a PDF, a Word document (.docx), an OpenDocument text (.odt) or an EPUB book, with
/// its pages, paragraphs or chapters; absent for what is of none of these kinds. The bytes decide
/// the kind, not the name. Of a document that is what a reader of its pages sees, without headers,
/// footers, comments and deleted text, with its notes at the end; see docs/documents.md. A PDF is
/// read by the program pdftotext in a process of its own, whose time and memory are limited.
///
/// Throws Error with a FileFault and without a subject for a document that is damaged, locked or
/// too large, for an old or protected office document, for a text whose name says that it is one of
/// these kinds, and for a PDF where there is no pdftotext.
std::optional<DocumentContents> file_contents(std::string_view bytes, const std::string& name);

/// file_contents(), or the text of a document as document_text() gives it. Without a format the
/// name tells it. The subject of an Error is the name.
DocumentContents read_document(std::string_view bytes, const std::string& name,
                               std::optional<DocumentFormat> format = std::nullopt,
                               const TextEncoding& encoding = {});

/// Names of files that a folder of documents is searched for, as patterns: "*.txt", "*.pdf", …
const std::vector<std::string>& document_patterns();

/// The media types of the kinds that file_contents() reads: "application/pdf", …
std::vector<std::string> document_media_types();

}  // namespace longformer
