#include <md4c-html.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "core/error.h"
#include "longformer/text.h"
#include "text/charset.h"
#include "text/html_text.h"
#include "text/unicode.h"

namespace longformer {
namespace {

/// A text may have so many characters outside its charset, a longer one a tenth of them.
constexpr std::size_t kFewReplacements = 10;

constexpr std::array<std::pair<std::string_view, DocumentFormat>, 5> kSuffixes = {{
    {".md", DocumentFormat::markdown},
    {".markdown", DocumentFormat::markdown},
    {".html", DocumentFormat::html},
    {".htm", DocumentFormat::html},
    {".xhtml", DocumentFormat::html},
}};

void check_is_text(std::string_view text) {
  require(text.find('\0') == std::string_view::npos, "expected text, found bytes 0");
  const auto is_lead = [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; };
  const auto characters =
      static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_lead));
  std::size_t replaced = 0;
  for (auto at = text.find(text::kReplacement); at != std::string_view::npos;
       at = text.find(text::kReplacement, at + text::kReplacement.size())) {
    ++replaced;
  }
  require(replaced <= kFewReplacements || replaced <= characters / 10,
          "expected text in UTF-8 or the charset that it declares, found {} of {} characters that "
          "are none",
          replaced, characters);
}

/// HTML may stand in Markdown, so both have one reader.
std::string html_of_markdown(std::string_view markdown) {
  require(markdown.size() <= std::numeric_limits<MD_SIZE>::max(),
          "Markdown: expected at most 4 GB, found {} bytes", markdown.size());
  std::string html;
  const auto append = [](const MD_CHAR* text, MD_SIZE size, void* to) {
    static_cast<std::string*>(to)->append(text, size);
  };
  const int failed = md_html(markdown.data(), static_cast<MD_SIZE>(markdown.size()), append, &html,
                             MD_DIALECT_GITHUB, 0);
  if (failed != 0) throw std::bad_alloc();
  return html;
}

}  // namespace

DocumentFormat document_format(const std::string& name) {
  if (name == "text") return DocumentFormat::text;
  if (name == "markdown") return DocumentFormat::markdown;
  if (name == "html") return DocumentFormat::html;
  fail("format of a document: expected text, markdown or html, found \"{}\"", name);
}

DocumentFormat document_format_of(const std::string& file, std::string_view content) {
  const std::filesystem::path path = unpacked_name(file);
  const std::string suffix = text::ascii_lower(path.extension().string());
  if (suffix.empty()) {
    content.remove_prefix(text::byte_order_mark(content).size);
    content.remove_prefix(std::min(content.find_first_not_of(" \t\r\n"), content.size()));
    const std::string begin = text::ascii_lower(content.substr(0, 14));
    const bool is_page = begin == "<!doctype html" || begin.starts_with("<html");
    return is_page ? DocumentFormat::html : DocumentFormat::text;
  }
  const auto* known = std::find_if(kSuffixes.begin(), kSuffixes.end(),
                                   [&](const auto& row) { return row.first == suffix; });
  return known == kSuffixes.end() ? DocumentFormat::text : known->second;
}

bool is_binary(std::string_view beginning) {
  const std::string_view charset = text::byte_order_mark(beginning).charset;
  return !charset.starts_with("utf-16") && !charset.starts_with("utf-32") &&
         text::utf16_without_mark(beginning).empty() &&
         beginning.find('\0') != std::string_view::npos;
}

std::string document_text(std::string_view content, DocumentFormat format,
                          const TextEncoding& encoding, const std::string& name) {
  TextEncoding own = encoding;
  std::string charset(text::byte_order_mark(content).charset);
  if (charset.empty() && format == DocumentFormat::html) charset = text::html_charset(content);
  if (!charset.empty()) own.name = charset;
  // A refused document needs no other note.
  std::vector<std::string> notes;
  own.note = [&notes](const std::string& note) { notes.push_back(note); };
  const std::string decoded = decoded_text(std::string(content), own, name);
  check_is_text(decoded);
  for (const std::string& note : notes) {
    if (encoding.note) encoding.note(note);
  }
  if (format == DocumentFormat::text) return decoded;
  return text::html_text(format == DocumentFormat::html ? decoded : html_of_markdown(decoded));
}

}  // namespace longformer
