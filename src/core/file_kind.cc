#include "core/file_kind.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"

namespace longformer {
namespace {

using namespace std::string_view_literals;

struct Beginning {
  std::string_view bytes, name;
  std::size_t place = 0;
  /// A text may begin so too, and then has no control characters.
  bool is_sure = true;
};

constexpr std::array<Beginning, 31> kBeginnings = {{
    {"version https://git-lfs.github.com/spec/"sv,
     "a git-lfs pointer, not the file itself: git lfs pull"},
    {"version https://hawser.github.com/spec/"sv,
     "a git-lfs pointer, not the file itself: git lfs pull"},
    {"/annex/objects/"sv, "a git-annex pointer, not the file itself: git annex get"},
    {"\x1f\x8b"sv, "a gzip archive: unpack it with gunzip"},
    {"PK\x03\x04"sv, "a zip archive, as Word and other office files are: unpack or convert it"},
    {"PK\x05\x06"sv, "an empty zip archive"},
    {"BZh"sv, "a bzip2 archive: unpack it with bunzip2", 0, false},
    {"\xfd"
     "7zXZ\0"sv,
     "an xz archive: unpack it with unxz"},
    {"\x28\xb5\x2f\xfd"sv, "a zstd archive: unpack it with unzstd"},
    {"\x04\x22\x4d\x18"sv, "an lz4 archive: unpack it with unlz4"},
    {"7z\xbc\xaf\x27\x1c"sv, "a 7z archive: unpack it"},
    {"Rar!\x1a\x07"sv, "a rar archive: unpack it"},
    {"ustar"sv, "a tar archive: unpack it with tar -xf", 257, false},
    {"%PDF-"sv, "a PDF: make text of it, for example with pdftotext"},
    {"%!PS-Adobe"sv, "a PostScript file: make text of it, for example with ps2ascii"},
    {"{\\rtf"sv, "an RTF document: save it as text"},
    {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv, "an old office document: save it as text"},
    {"\x89PNG\r\n"sv, "a PNG image"},
    {"\xff\xd8\xff"sv, "a JPEG image"},
    {"GIF8"sv, "a GIF image", 0, false},
    {"II*\0"sv, "a TIFF image"},
    {"MM\0*"sv, "a TIFF image"},
    {"\x7f"
     "ELF"sv,
     "a program"},
    {"SQLite format 3\0"sv, "an SQLite database"},
    {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
    {"GGUF"sv, "a GGUF file", 0, false},
    {"PAR1"sv, "a Parquet file: write it as CSV or JSONL", 0, false},
    {"ARROW1\0\0"sv, "an Arrow file: write it as CSV or JSONL"},
    {"\x93NUMPY"sv, "a NumPy file"},
    {"ID3"sv, "an MP3 file", 0, false},
    {"OggS"sv, "an Ogg file", 0, false},
}};

/// Bytes that no text has.
bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char byte) { return byte >= 0 && byte < 8; });
}

bool starts_with_word(std::string_view text, std::string_view word) {
  return text.size() >= word.size() &&
         std::equal(word.begin(), word.end(), text.begin(), [](char expected, char found) {
           return expected == (found >= 'A' && found <= 'Z' ? found - 'A' + 'a' : found);
         });
}

/// HTML and XML; a byte-order mark and blanks may come before.
FileKind markup(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  constexpr std::string_view kPage = "an HTML page, as a server sends it with an error or a login";
  for (const std::string_view tag : {"<!doctype html"sv, "<html"sv, "<head"sv, "<body"sv}) {
    if (starts_with_word(text, tag)) return {.name = kPage, .is_markup = true};
  }
  if (text.starts_with("<?xml")) return {.name = "an XML document", .is_markup = true};
  return {};
}

}  // namespace

FileKind file_kind(std::string_view beginning) {
  beginning = beginning.substr(0, kKindBytes);
  for (const Beginning& known : kBeginnings) {
    if (beginning.size() < known.place) continue;
    const bool begins_so = beginning.substr(known.place).starts_with(known.bytes);
    if (begins_so && (known.is_sure || has_control(beginning))) return {.name = known.name};
  }
  return markup(beginning);
}

void require_no_other_kind(std::string_view path, std::string_view expected,
                           std::string_view beginning, std::string_view own) {
  require(!beginning.empty(), "{}: expected {}, found an empty file", path, expected);
  const FileKind kind = file_kind(beginning);
  const bool is_own = !own.empty() && kind.name.starts_with(own);
  require(!kind.is_known() || is_own, "{}: expected {}, found {}", path, expected, kind.name);
}

}  // namespace longformer
