#include <string>
#include <string_view>

#include "core/file_kind.h"
#include "documents/document_fault.h"
#include "documents/readers.h"

namespace longformer::documents {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kCompound = "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv;

/// Whether the directory of the file has a stream of this name, in UTF-16.
bool has_stream(std::string_view bytes, std::string_view name) {
  std::string wide;
  for (const char c : name) wide.append({c, '\0'});
  return bytes.find(wide) != std::string_view::npos;
}

}  // namespace

bool is_compound_file(DocumentSource& source) { return source.bytes.starts_with(kCompound); }

DocumentContents refuse_compound_file(DocumentSource& source) {
  require_or(FileFault::locked, !has_stream(source.bytes, "EncryptedPackage"),
             "expected a document, found one with a password: save it without");
  fail_with(FileFault::other_kind, "expected text, found {}",
            longformer::described(file_kind(source.bytes)));
}

}  // namespace longformer::documents
