// What there is to read in a file: plain text, Markdown or HTML.
#pragma once

#include <string>
#include <string_view>

#include "longformer/text_encoding.h"

namespace longformer {

enum class DocumentFormat { text, markdown, html };

/// Parses text, markdown or html. Throws Error for anything else.
DocumentFormat document_format(const std::string& name);

/// By the suffix of a file's name, in any case: .md and .markdown, .html, .htm and .xhtml; a name
/// without a suffix is HTML when the content begins with <!doctype html or <html. All else is text.
DocumentFormat document_format_of(const std::string& file, std::string_view content);

/// Whether what begins so cannot be text: it has a byte 0 and no byte-order mark of UTF-16
/// or UTF-32.
bool is_binary(std::string_view beginning);

/// The text of a document in UTF-8. Of Markdown (as GitHub reads it, with HTML inside) and HTML
/// that is what a reader sees: no markup, comments, scripts, styles or titles, nothing that has the
/// attribute hidden; references by the tables of the HTML standard; white space as a browser shows
/// it; an empty line between blocks (paragraphs, headings, tables, …), a new line for list items,
/// rows and <br>, a tab between cells. Broken pages are read as far as they make sense.
///
/// The charset is what a byte-order mark says (UTF-8, UTF-16 or UTF-32, which leaves it out), or a
/// page itself, else `encoding`, whose notes call the document `name`; what is not in the charset
/// becomes U+FFFD. Throws Error for a charset that nobody knows, and for what is no text: with
/// bytes 0, or most of it outside the charset.
std::string document_text(std::string_view content, DocumentFormat format,
                          const TextEncoding& encoding = {}, const std::string& name = {});

}  // namespace longformer
