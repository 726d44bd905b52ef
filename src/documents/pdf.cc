#include <algorithm>
#include <string>
#include <utility>

#include "core/file_kind.h"
#include "documents/document_fault.h"
#include "documents/program.h"
#include "documents/readers.h"
#include "text/charset.h"
#include "text/unicode.h"

namespace longformer::documents {
namespace {

constexpr const char* kProgram = "pdftotext";
constexpr const char* kPackage = "poppler-utils";

std::string first_line(std::string text) {
  text.resize(std::min(text.find_first_of("\r\n"), text.size()));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return text::is_valid_utf8(text) ? text : text::utf8_text(text, "utf-8").text;
}

/// Throws Error where the program could not read the document.
void check(const ProgramResult& result, std::string_view bytes) {
  constexpr int kCannotOpen = 1, kNotAllowed = 3, kKilled = 128;
  require_or(FileFault::too_large, result.limit.empty(),
             "expected a PDF that {} reads within its limits, found one that needs {}", kProgram,
             result.limit);
  const bool is_locked = bytes.find("/Encrypt") != std::string_view::npos;
  require_or(FileFault::locked,
             result.status != kNotAllowed && (result.status != kCannotOpen || !is_locked),
             "expected a PDF, found one with a password");
  require_or(FileFault::too_large, result.status < kKilled,
             "expected a PDF that {} reads within its limits, found one that ended it (signal {})",
             kProgram, result.status - kKilled);
  require_or(FileFault::damaged, result.status == 0, "expected a whole PDF, found damage: {}",
             result.errors.empty() ? fmt::format("{} ended with {}", kProgram, result.status)
                                   : first_line(result.errors));
}

}  // namespace

bool is_pdf(DocumentSource& source) { return file_kind(source.bytes).name == "a PDF"; }

DocumentContents pdf_text(DocumentSource& source) {
  const std::string program = program_named(kProgram);
  require_or(FileFault::no_program, !program.empty(),
             "expected the program {}, which reads PDF, found none: install the package {}",
             kProgram, kPackage);
  const ProgramResult result = run_program(
      program, {"-q", "-enc", "UTF-8", "-eol", "unix", "-", "-"}, source.bytes, ProgramLimits());
  check(result, source.bytes);
  DocumentContents contents = pages_of(result.output);
  require_or(FileFault::no_text, !contents.text.empty(),
             "expected text in the PDF, found {} without any: ocrmypdf adds that of scanned pages",
             contents.places.starts.size() == 1 ? "a page" : "pages");
  return contents;
}

DocumentContents pages_of(std::string_view written) {
  DocumentContents contents = {.text = {}, .places = {.unit = "page"}};
  std::int64_t characters = 0;
  bool is_behind_text = false;
  while (!written.empty()) {
    const std::size_t end = std::min(written.find('\f'), written.size());
    std::string page(written.substr(0, end));
    written.remove_prefix(std::min(end + 1, written.size()));
    std::erase(page, '\0');
    if (!text::is_valid_utf8(page)) page = text::utf8_text(page, "utf-8").text;
    page.erase(page.find_last_not_of(" \n\r\t") + 1);
    page.erase(0, std::min(page.find_first_not_of("\n\r"), page.size()));
    if (is_behind_text && !page.empty()) {
      contents.text += "\n\n";
      characters += 2;
    }
    contents.places.starts.push_back(characters);
    contents.text += page;
    characters += std::count_if(page.begin(), page.end(), [](char byte) {
      return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
    });
    is_behind_text = is_behind_text || !page.empty();
  }
  return contents;
}

}  // namespace longformer::documents
