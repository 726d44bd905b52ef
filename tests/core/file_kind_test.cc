// Kinds of files by their first bytes, and the message in place of the first fault that a reader of
// another format meets.
#include "core/file_kind.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "error_testing.h"

namespace longformer::file_kind_test {
namespace {

using namespace std::string_literals;

TEST(FileKind, KnowsPointersPagesAndArchives) {
  const std::pair<std::string, std::string> kKinds[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4\n", "git lfs pull"},
      {"/annex/objects/SHA256E-s1--00.bin\n", "git annex get"},
      {"<!DOCTYPE html>\n<html>", "an HTML page"},
      {"\xef\xbb\xbf \n<HTML lang=\"en\">", "an HTML page"},
      {"<head><title>404", "an HTML page"},
      {"<?xml version=\"1.0\"?><Error/>", "an XML document"},
      {"\x1f\x8b\x08\0\0"s, "gzip"},
      {"PK\x03\x04\x14\0"s, "zip"},
      {"BZh91AY&SY\x01"s, "bzip2"},
      {"\xfd"
       "7zXZ\0\0"s,
       "xz"},
      {"\x28\xb5\x2f\xfd\x04"s, "zstd"},
      {"7z\xbc\xaf\x27\x1c\0"s, "7z"},
      {"%PDF-1.7\n", "pdftotext"},
      {"{\\rtf1\\ansi", "RTF"},
      {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"s, "office"},
      {"\x89PNG\r\n\x1a\n"s, "PNG"},
      {"\xff\xd8\xff\xe0"s, "JPEG"},
      {"SQLite format 3\0"s, "SQLite"},
      {"\x89HDF\r\n\x1a\n"s, "HDF5"},
      {"GGUF\x03\0\0\0"s, "GGUF"},
      {"PAR1\x15\x04"s, "Parquet"},
      {std::string(257, '\0') + "ustar", "tar"}};
  for (const auto& [bytes, name] : kKinds) {
    EXPECT_NE(described(file_kind(bytes)).find(name), std::string::npos) << name;
  }
}

TEST(FileKind, KnowsWhatIsInAZipArchive) {
  const std::string begin = "PK\x03\x04\x14\0\0\0"s;
  EXPECT_EQ(
      file_kind(begin + "[Content_Types].xml" + std::string(900, 'x') + "word/document.xml").name,
      "a Word document");
  EXPECT_EQ(file_kind(begin + "xl/workbook.xml").name, "an Excel table");
  EXPECT_EQ(file_kind(begin + "ppt/presentation.xml").name, "a PowerPoint document");
  EXPECT_EQ(file_kind(begin + "mimetypeapplication/epub+zipPK").name, "an EPUB book");
  EXPECT_EQ(file_kind(begin + "mimetypeapplication/vnd.oasis.opendocument.textPK").name,
            "an OpenDocument text");
  EXPECT_EQ(file_kind(begin + "mimetypeapplication/vnd.oasis.opendocument.presentationPK").name,
            "an OpenDocument file");
  EXPECT_EQ(file_kind(begin + "a.txt").name, "a zip archive");
}

TEST(FileKind, SaysWhatToDo) {
  EXPECT_EQ(described(file_kind("%PDF-1.7")), "a PDF: pdftotext makes text of it");
  EXPECT_EQ(described(file_kind("\x7f"
                                "ELF"s)),
            "a program");
  EXPECT_EQ(file_kind("\xef\xbb\xbf\n%PDF-2.0\n").name, "a PDF");
  EXPECT_FALSE(file_kind("%PDF-1.7").may_be_text());
  EXPECT_TRUE(file_kind("<html>").may_be_text());
  EXPECT_TRUE(file_kind("").may_be_text());
}

TEST(FileKind, TextIsOfNoKind) {
  for (const std::string text : {"",
                                 "A text.",
                                 "{\"a\": 1}",
                                 "GGUF is a format of files.",
                                 "BZh",
                                 "ID3 tags name songs.",
                                 "PAR1 and PAR2",
                                 "PK is short for primary key",
                                 "version 1",
                                 "<p>a</p>",
                                 "<s> </s>",
                                 "GIF89a was a format",
                                 "%PDF- is its mark",
                                 "MZ",
                                 "BMW",
                                 "ORC",
                                 "ftyp",
                                 "7zip",
                                 "Rar!",
                                 "%!",
                                 "ustar",
                                 "\xef\xbb\xbftext"}) {
    EXPECT_FALSE(file_kind(text).is_known()) << text;
  }
}

TEST(FileKind, MarkupIsTextToo) {
  EXPECT_TRUE(file_kind("<html>").is_markup);
  EXPECT_TRUE(file_kind("<?xml version='1.0'?>").is_markup);
  EXPECT_FALSE(file_kind("%PDF-1.4").is_markup);
}

TEST(FileKind, IsTheMessage) {
  const auto message_of = [](std::string_view bytes, std::string_view own = {}) {
    return error_of([&] { require_no_other_kind("folder/config.json", "JSON", bytes, own); });
  };
  EXPECT_EQ(message_of("version https://git-lfs.github.com/spec/v1\n"),
            "folder/config.json: expected JSON, found a git-lfs pointer, not the file itself: git "
            "lfs pull");
  EXPECT_EQ(message_of(""), "folder/config.json: expected JSON, found an empty file");
  EXPECT_EQ(message_of("PK\x03\x04", "a zip"), "");
  EXPECT_EQ(message_of("{}"), "");
}

}  // namespace
}  // namespace longformer::file_kind_test
