#include "core/file_kind.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"

namespace longformer {
namespace {

using namespace std::string_view_literals;

struct Beginning {
  std::string_view bytes, name, advice;
  std::size_t place = 0;
  /// A text may begin so too, and then has no control characters.
  bool is_sure = true;
};

constexpr std::string_view kImage = "tesseract reads text in it";
constexpr std::string_view kTable = "write it as CSV or JSONL";
constexpr std::string_view kParquet =
    "longformer_cpp takes the table that pyarrow.parquet.read_table gives; or write it as CSV or "
    "JSONL";
constexpr std::string_view kOffice = "soffice --headless --convert-to txt or csv makes text of it";
constexpr std::string_view kPandoc = "pandoc -t plain makes text of it";

constexpr std::array<Beginning, 44> kBeginnings = {{
    {"version https://git-lfs.github.com/spec/"sv, "a git-lfs pointer, not the file itself",
     "git lfs pull"},
    {"version https://hawser.github.com/spec/"sv, "a git-lfs pointer, not the file itself",
     "git lfs pull"},
    {"/annex/objects/"sv, "a git-annex pointer, not the file itself", "git annex get"},
    {"\x1f\x8b"sv, "a gzip archive", "gunzip unpacks it, zcat writes what is in it"},
    {"PK\x05\x06"sv, "an empty zip archive", {}},
    {"BZh"sv, "a bzip2 archive", "bunzip2 unpacks it, bzcat writes what is in it", 0, false},
    {"\xfd"
     "7zXZ\0"sv,
     "an xz archive", "unxz unpacks it, xzcat writes what is in it"},
    {"\x28\xb5\x2f\xfd"sv, "a zstd archive", "unzstd unpacks it, zstdcat writes what is in it"},
    {"\x04\x22\x4d\x18"sv, "an lz4 archive", "unlz4 unpacks it, lz4cat writes what is in it"},
    {"7z\xbc\xaf\x27\x1c"sv, "a 7z archive", "7z x unpacks it"},
    {"Rar!\x1a\x07"sv, "a rar archive", "unrar x unpacks it"},
    {"ustar"sv, "a tar archive", "tar -xf unpacks it", 257, false},
    {"%!PS-Adobe"sv, "a PostScript file", "ps2ascii makes text of it"},
    {"AT&TFORM\0"sv, "a DjVu document", "djvutxt makes text of it"},
    {"{\\rtf"sv, "an RTF document", "pandoc -t plain makes text of it"},
    {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv, "an old office document (.doc, .xls, .ppt)",
     "soffice --headless --convert-to txt or csv makes text of it"},
    {"\x89PNG"sv, "a PNG image", kImage},
    {"\xff\xd8\xff"sv, "a JPEG image", kImage},
    {"GIF8"sv, "a GIF image", kImage, 0, false},
    {"II*\0"sv, "a TIFF image", kImage},
    {"MM\0*"sv, "a TIFF image", kImage},
    {"WEBPVP8"sv, "a WebP image", kImage, 8},
    {"BM"sv, "a BMP image", kImage, 0, false},
    {"\x7f"
     "ELF"sv,
     "a program",
     {}},
    {"MZ"sv, "a program", {}, 0, false},
    {"\xca\xfe\xba\xbe"sv, "a program", {}},
    {"\xcf\xfa\xed\xfe"sv, "a program", {}},
    {"\0asm"sv, "a program", {}},
    {"SQLite format 3\0"sv, "an SQLite database", "sqlite3 reads it"},
    {"\x89HDF\r\n"sv, "an HDF5 file", {}},
    {"GGUF"sv, "a GGUF file", {}, 0, false},
    {"PAR1"sv, "a Parquet file", kParquet, 0, false},
    {"ARROW1\0"sv, "an Arrow file", kTable},
    {"FEA1\0"sv, "a Feather file", kTable},
    {"Obj\1"sv, "an Avro file", kTable},
    {"ORC"sv, "an ORC file", kTable, 0, false},
    {"\x93NUMPY\1"sv, "a NumPy file", {}},
    {"\x93NUMPY\2"sv, "a NumPy file", {}},
    {"ID3"sv, "an MP3 file", {}, 0, false},
    {"OggS"sv, "an Ogg file", {}, 0, false},
    {"fLaC"sv, "a FLAC file", {}, 0, false},
    {"WAVEfmt "sv, "a WAV file", {}, 8},
    {"ftyp"sv, "an MP4 file", {}, 4, false},
    {"\x1a\x45\xdf\xa3"sv, "a Matroska file", {}},
}};

/// Names and types near the beginning of zip archives, of which the first one found counts.
constexpr std::array<Beginning, 8> kInZip = {{
    {"data.pkl"sv, "a zip archive of PyTorch", {}},
    {"mimetypeapplication/epub+zip"sv, "an EPUB book", kPandoc},
    {"mimetypeapplication/vnd.oasis.opendocument.text"sv, "an OpenDocument text", kPandoc},
    {"mimetypeapplication/vnd.oasis.opendocument"sv, "an OpenDocument file", kOffice},
    {"word/"sv, "a Word document", kPandoc},
    {"xl/"sv, "an Excel table", kOffice},
    {"ppt/"sv, "a PowerPoint document", kOffice},
    {"PK"sv, "a zip archive", "unzip unpacks it"},
}};

/// Bytes that no text has.
bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char byte) { return static_cast<unsigned char>(byte) < 8; });
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

FileKind kind_of_zip(std::string_view beginning) {
  const auto* found = std::find_if(kInZip.begin(), kInZip.end(), [&](const Beginning& known) {
    return beginning.find(known.bytes) != std::string_view::npos;
  });
  return {.name = found->name, .advice = found->advice};
}

/// Blanks and a byte-order mark may come before; a text that begins with %PDF- has no version.
bool is_pdf(std::string_view beginning) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const std::size_t mark = beginning.find_first_not_of("\xef\xbb\xbf \t\r\n");
  if (mark == std::string_view::npos) return false;
  const std::string_view begin = beginning.substr(mark);
  return begin.starts_with("%PDF-") && begin.size() > 7 && is_digit(begin[5]) && begin[6] == '.' &&
         is_digit(begin[7]);
}

}  // namespace

FileKind file_kind(std::string_view beginning) {
  if (beginning.starts_with("PK\x03\x04")) return kind_of_zip(beginning);
  beginning = beginning.substr(0, kKindBytes);
  if (is_pdf(beginning)) return {.name = "a PDF", .advice = "pdftotext makes text of it"};
  for (const Beginning& known : kBeginnings) {
    if (beginning.size() < known.place) continue;
    const bool begins_so = beginning.substr(known.place).starts_with(known.bytes);
    if (begins_so && (known.is_sure || has_control(beginning))) {
      return {.name = known.name, .advice = known.advice};
    }
  }
  return markup(beginning);
}

std::string described(const FileKind& kind) {
  return fmt::format("{}{}{}", kind.name, kind.advice.empty() ? "" : ": ", kind.advice);
}

void require_no_other_kind(std::string_view path, std::string_view expected,
                           std::string_view beginning, std::string_view own) {
  require(!beginning.empty(), "{}: expected {}, found an empty file", path, expected);
  const FileKind kind = file_kind(beginning);
  const bool is_own = !own.empty() && kind.name.starts_with(own);
  require(!kind.is_known() || is_own, "{}: expected {}, found {}", path, expected, described(kind));
}

}  // namespace longformer
