// The readers of kinds of documents, each from its bytes to text and places.
#pragma once

#include <optional>
#include <string_view>

#include "documents/document_archive.h"
#include "longformer/document_files.h"

namespace longformer::documents {

/// A document, for the readers.
struct DocumentSource {
  std::string_view bytes;
  /// Absent for what is no zip archive.
  std::optional<DocumentArchive> archive = std::nullopt;
};

/// WordprocessingML: ISO/IEC 29500. The main part is the one that the archive says.
bool is_word_document(DocumentSource& source);
DocumentContents word_document(DocumentSource& source);
/// The text of the parts, whose XML stands in strings: the body, footnotes and endnotes.
DocumentContents word_text(const std::string& main, const std::string& footnotes,
                           const std::string& endnotes);

/// OpenDocument text: ISO/IEC 26300.
bool is_open_document(DocumentSource& source);
DocumentContents open_document(DocumentSource& source);
/// The text of content.xml.
DocumentContents open_document_text(const std::string& content);

/// EPUB 2 and 3.
bool is_epub_book(DocumentSource& source);
DocumentContents epub_book(DocumentSource& source);

/// PDF: pdftotext of poppler-utils reads it.
bool is_pdf(DocumentSource& source);
DocumentContents pdf_text(DocumentSource& source);
/// The output of pdftotext, which has a form feed behind each page.
DocumentContents pages_of(std::string_view written);

/// Compound files of OLE: documents with a password, and those of before 2007. Always throws.
bool is_compound_file(DocumentSource& source);
DocumentContents refuse_compound_file(DocumentSource& source);

}  // namespace longformer::documents
