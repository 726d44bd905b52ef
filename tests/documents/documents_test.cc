// Documents in files: what a reader sees of each kind, places, and files that are broken or
// hostile.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/unpacking.h"
#include "documents/document_archive.h"
#include "documents/program.h"
#include "documents/readers.h"
#include "error_testing.h"
#include "fixtures.h"
#include "longformer/document_files.h"

namespace longformer::documents_test {
namespace {

std::string fixture(const std::string& name) {
  std::ifstream file(source_folder() / "tests/fixtures/documents" / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool has_pdftotext() { return !documents::program_named("pdftotext").empty(); }

/// The fault and the message of a file that cannot be read.
std::pair<FileFault, std::string> fault_of(const std::string& bytes, const std::string& name) {
  const FileOutcome outcome = file_contents(bytes, name);
  return {outcome.fault, outcome.error};
}

/// The contents of a fixture.
std::optional<DocumentContents> contents_of(const std::string& file, const std::string& name) {
  return file_contents(fixture(file), name).contents;
}

DocumentContents word(const std::string& body, const std::string& footnotes = "",
                      const std::string& endnotes = "") {
  return documents::word_text("<w:document><w:body>" + body + "</w:body></w:document>", footnotes,
                              endnotes);
}

DocumentContents open_text(const std::string& text) {
  return documents::open_document_text("<office:document-content><office:body><office:text>" +
                                       text +
                                       "</office:text></office:body></office:document-content>");
}

std::string p(const std::string& text) { return "<w:p><w:r><w:t>" + text + "</w:t></w:r></w:p>"; }

/// Places of the characters of a part of the text.
std::string place_of_part(const DocumentContents& contents, const std::string& part) {
  const auto begin = static_cast<std::int64_t>(contents.text.find(part));
  const auto place =
      place_of(contents.places, {begin, begin + static_cast<std::int64_t>(part.size())});
  return place ? described(*place) : "none";
}

TEST(Word, HasTextTablesAndNotesOfAFile) {
  const auto found = contents_of("harbour.docx", "harbour");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->text,
            "The harbour opened in 1850.\n\nShips came daily.\n\nYear\tShips\n1851\t212\n\n"
            "The lighthouse keeper was called Ingrid.\n\nA note about the harbour.");
  EXPECT_EQ(found->places.unit, "paragraph");
  EXPECT_EQ(place_of_part(*found, "daily"), "paragraph 2");
  EXPECT_EQ(place_of_part(*found, "1851\t212"), "paragraphs 5-6");
  EXPECT_EQ(place_of_part(*found, "Ingrid"), "paragraph 7");
}

TEST(Word, HasTabsBreaksAndSymbols) {
  EXPECT_EQ(
      word("<w:p><w:pPr><w:tabs><w:tab/></w:tabs></w:pPr><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t>"
           "<w:br/><w:t>c</w:t><w:noBreakHyphen/><w:sym w:char=\"00E9\"/>"
           "<w:sym w:char=\"F0B7\"/><w:t>d</w:t></w:r></w:p>")
          .text,
      "a\tb\nc-\u00e9d");
  EXPECT_EQ(word("<w:p><w:r><w:t> a </w:t><w:t xml:space=\"preserve\"> b</w:t></w:r></w:p>").text,
            "a b");
}

TEST(Word, LeavesOutWhatIsDeletedMovedOrHidden) {
  EXPECT_EQ(word(p("a") + "<w:del><w:r><w:t>x</w:t></w:r></w:del>" +
                 "<w:p><w:moveFrom><w:r><w:t>x</w:t></w:r></w:moveFrom>"
                 "<w:moveTo><w:r><w:t>b</w:t></w:r></w:moveTo>"
                 "<w:r><w:rPr><w:vanish/></w:rPr><w:t>x</w:t></w:r>"
                 "<w:r><w:rPr><w:vanish w:val=\"0\"/></w:rPr><w:t>c</w:t></w:r>"
                 "<w:r><w:instrText>PAGE</w:instrText></w:r></w:p>")
                .text,
            "a\n\nbc");
  // A deleted mark joins two paragraphs, a deleted row is gone.
  EXPECT_EQ(word("<w:p><w:pPr><w:rPr><w:del/></w:rPr></w:pPr><w:r><w:t>a</w:t></w:r></w:p>" +
                 p("b") + "<w:tbl><w:tr><w:trPr><w:del/></w:trPr><w:tc>" + p("x") +
                 "</w:tc></w:tr><w:tr><w:tc>" + p("c") + "</w:tc></w:tr></w:tbl>")
                .text,
            "ab\n\nc");
}

TEST(Word, ReadsAlternativesOnceAndBoxesBehindTheirParagraph) {
  const std::string box = "<w:drawing><w:txbxContent>" + p("box") + "</w:txbxContent></w:drawing>";
  EXPECT_EQ(word("<w:p><w:r><w:t>a</w:t></w:r><w:r><mc:AlternateContent><mc:Choice>" + box +
                 "</mc:Choice><mc:Fallback>" + box +
                 "</mc:Fallback></mc:AlternateContent></w:r><w:r><w:t>b</w:t></w:r></w:p>" + p("c"))
                .text,
            "ab\n\nbox\n\nc");
  EXPECT_EQ(
      word("<mc:AlternateContent><mc:Fallback>" + p("d") + "</mc:Fallback></mc:AlternateContent>")
          .text,
      "d");
}

TEST(Word, KeepsListsAndCellsTogether) {
  const auto item = [](const std::string& text) {
    return "<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>" + text + "</w:t></w:r></w:p>";
  };
  EXPECT_EQ(word(p("a") + item("b") + item("c") + p("d")).text, "a\n\nb\nc\n\nd");
  const std::string nested =
      "<w:tbl><w:tr><w:tc>" + p("n") + "</w:tc><w:tc>" + p("m") + "</w:tc></w:tr></w:tbl>";
  EXPECT_EQ(word("<w:tbl><w:tr><w:tc>" + p("a") + p("b") + "</w:tc><w:tc><w:p/></w:tc><w:tc>" +
                 nested + "</w:tc></w:tr></w:tbl>" + p("e"))
                .text,
            "a\nb\t\tn\tm\n\ne");
}

TEST(Word, HasNotesInTheOrderOfTheirReferences) {
  const auto reference = [](const std::string& kind, const std::string& id) {
    return "<w:p><w:r><w:" + kind + "Reference w:id=\"" + id + "\"/><w:t>x</w:t></w:r></w:p>";
  };
  const auto notes = [](const std::string& kind) {
    const auto one = [&](const std::string& id) {
      return "<w:" + kind + " w:id=\"" + id + "\">" + p(kind + id) + "</w:" + kind + ">";
    };
    return "<w:notes>" + one("0") + one("1") + one("2") + "</w:notes>";
  };
  const auto found =
      word(reference("endnote", "1") + reference("footnote", "2") + reference("footnote", "1"),
           notes("footnote"), notes("endnote"));
  EXPECT_EQ(found.text, "x\n\nx\n\nx\n\nfootnote2\n\nfootnote1\n\nendnote1");
}

TEST(OpenDocument, HasTextListsTablesAndNotesOfAFile) {
  const auto found = contents_of("mill.odt", "mill");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->text,
            "The mill\n\nIt stands   by the river.\n\nwheel\nstone\n\na\tb\n\n"
            "The miller was called Otto.\n\nThe Elbe.");
  EXPECT_EQ(place_of_part(*found, "Otto"), "paragraph 7");
}

TEST(OpenDocument, HasBlanksOnceAndBoxesBehindTheirParagraph) {
  EXPECT_EQ(open_text("<text:p> a\n <text:span> b</text:span><text:span> </text:span>c"
                      "<text:tab/>d<text:line-break/>e<office:annotation><text:p>x</text:p>"
                      "</office:annotation><draw:frame><svg:title>x</svg:title><draw:text-box>"
                      "<text:p>box</text:p></draw:text-box></draw:frame> </text:p><text:p>f"
                      "<text:s text:c=\"999999999\"/></text:p>")
                .text,
            "a b c\td\ne\n\nbox\n\nf");
}

TEST(Epub, HasPagesInTheOrderOfReading) {
  const auto found = contents_of("animals.epub", "animals");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->text,
            "One\n\nThe dog slept.\n\nTwo\n\nThe cat was called Minka.\n\nAnswers to the riddles.");
  EXPECT_EQ(found->places.unit, "chapter");
  EXPECT_EQ(place_of_part(*found, "Minka"), "chapter 2");
  EXPECT_EQ(place_of_part(*found, "slept.\n\nTwo"), "chapters 1-2");
}

TEST(Pdf, HasPages) {
  if (!has_pdftotext()) GTEST_SKIP() << "no pdftotext";
  const auto found = contents_of("pages.pdf", "pages");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->text, "The first page is about apples.\n\nThe third page is about plums.");
  EXPECT_EQ(place_of_part(*found, "apples"), "page 1");
  EXPECT_EQ(place_of_part(*found, "plums"), "page 3");
}

TEST(Pdf, SaysWhyThereIsNoText) {
  if (!has_pdftotext()) GTEST_SKIP() << "no pdftotext";
  const auto [fault, message] = fault_of("%PDF-1.4\nnothing\n", "a.pdf");
  EXPECT_EQ(fault, FileFault::damaged);
  expect_error(message, {"expected a whole PDF, found damage"});
  EXPECT_EQ(fault_of("%PDF-1.4\n/Encrypt\n", "a.pdf").first, FileFault::locked);
}

TEST(Pdf, CountsPagesByFormFeeds) {
  const DocumentContents found = documents::pages_of("\fa\n\n\n\f\f \f\u00e9\n\fb");
  EXPECT_EQ(found.text, "a\n\n\u00e9\n\nb");
  EXPECT_EQ(found.places.starts, (std::vector<std::int64_t>{0, 0, 1, 1, 3, 6}));
  EXPECT_EQ(described(*place_of(found.places, {0, 1})), "page 2");
  EXPECT_EQ(described(*place_of(found.places, {3, 7})), "pages 5-6");
}

TEST(Places, AreThoseOfTheFirstAndTheLastCharacter) {
  const DocumentPlaces places = {.unit = "page", .starts = {0, 10, 10, 20}};
  EXPECT_EQ(*place_of(places, {0, 10}), (PlaceSpan{"page", 1, 1}));
  EXPECT_EQ(*place_of(places, {9, 11}), (PlaceSpan{"page", 1, 3}));
  EXPECT_EQ(*place_of(places, {25, 25}), (PlaceSpan{"page", 4, 4}));
  EXPECT_EQ(to_json(PlaceSpan{"page", 1, 3}), R"({"unit":"page","first":1,"last":3})");
  EXPECT_FALSE(place_of(DocumentPlaces(), {0, 1}).has_value());
}

TEST(DocumentFiles, AreKnownByTheirBytes) {
  EXPECT_TRUE(contents_of("harbour.docx", "harbour.txt").has_value());
  EXPECT_FALSE(file_contents("plain text", "a.txt").contents.has_value());
  const auto [fault, message] = fault_of("plain text", "a.DOCX");
  EXPECT_EQ(fault, FileFault::other_kind);
  EXPECT_EQ(message, "expected a Word document, as its name says, found text");
  EXPECT_EQ(fault_of("", "a.odt").second,
            "expected an OpenDocument text, as its name says, found an empty file");
  expect_error(fault_of("<!doctype html><p>Log in", "a.pdf").second,
               {"expected a PDF, as its name says, found an HTML page"});
  EXPECT_EQ(read_document("# a", "a.md").text, "a");
  EXPECT_EQ(read_document(fixture("mill.odt"), "a", DocumentFormat::markdown).places.unit,
            "paragraph");
  expect_error(error_of([] { read_document("x", "a.epub"); }), {"a.epub: expected an EPUB book"});
}

TEST(DocumentFiles, WithAPasswordAreToldApart) {
  std::string wide;
  for (const char c : std::string("EncryptedPackage")) wide.append({c, '\0'});
  const std::string compound = "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + std::string(600, 'x');
  EXPECT_EQ(fault_of(compound + wide, "a.docx").first, FileFault::locked);
  const auto [fault, message] = fault_of(compound, "a.doc");
  EXPECT_EQ(fault, FileFault::other_kind);
  expect_error(message, {"an old office document", "soffice"});
}

TEST(DocumentFiles, MayBeCutAnywhere) {
  for (const char* name : {"harbour.docx", "mill.odt", "animals.epub"}) {
    const std::string whole = fixture(name);
    for (std::size_t size = 4; size < whole.size(); size += 7) {
      const auto [fault, message] = fault_of(whole.substr(0, size), "a");
      EXPECT_EQ(fault, FileFault::damaged) << name << " " << size << ": " << message;
    }
  }
}

TEST(DocumentFiles, MayHaveAnyByteChanged) {
  for (const char* name : {"harbour.docx", "mill.odt", "animals.epub"}) {
    const std::string whole = fixture(name);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      std::string changed = whole;
      changed[i] = static_cast<char>(changed[i] ^ 0x15);
      // An Error or a text: nothing else.
      const std::string message = fault_of(changed, "a").second;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }
  }
}

TEST(DocumentFiles, AreNotNestedWithoutEnd) {
  const auto many = [](const std::string& text, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += text;
    return all;
  };
  const std::string deep = many("<w:sdt>", 100000) + p("a") + many("</w:sdt>", 100000);
  expect_error(error_of([&] { word(deep); }), {"at most 400 elements within each other"});
  const std::string spans =
      "<text:p>" + many("<text:span>", 100000) + "a" + many("</text:span>", 100000) + "</text:p>";
  expect_error(error_of([&] { open_text(spans); }), {"at most 400"});
  EXPECT_EQ(word(many("<w:sdt>", 300) + p("a") + many("</w:sdt>", 300)).text, "a");
}

TEST(DocumentFiles, ExpandNoEntities) {
  const std::string bomb =
      "<!DOCTYPE w [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;\">]>"
      "<w:document><w:body>" +
      p("&b;") + "</w:body></w:document>";
  EXPECT_EQ(documents::word_text(bomb, "", "").text, "&b;");
}

TEST(DocumentFiles, MayHaveHugeParagraphs) {
  const std::string text(8 << 20, 'a');
  EXPECT_EQ(word(p(text)).text.size(), text.size());
}

TEST(Inflated, IsExactlyOfItsSize) {
  const std::string bytes = fixture("harbour.docx");
  for (const auto& named : formats::zip_entries(std::as_bytes(std::span(bytes)), "zip")) {
    const formats::ZipEntry& entry = named.second;
    const std::string_view packed(reinterpret_cast<const char*>(entry.packed.data()),
                                  entry.packed.size());
    EXPECT_EQ(inflated(packed, entry.size).size(), entry.size);
    expect_error(error_of([&] { inflated(packed, entry.size - 1); }), {"more than the"});
    expect_error(error_of([&] { inflated(packed, entry.size + 9); }), {"of the"});
    expect_error(error_of([&] { inflated(packed.substr(0, packed.size() / 2), entry.size); }),
                 {"cut off"});
  }
}

TEST(References, AreResolvedFromTheirFolder) {
  EXPECT_EQ(documents::referred_part("OEBPS/a.opf", "text/a%20b.html#c"), "OEBPS/text/a b.html");
  EXPECT_EQ(documents::referred_part("OEBPS/t/a.opf", "../../x.html"), "x.html");
  EXPECT_EQ(documents::referred_part("word/document.xml", "/word/notes.xml"), "word/notes.xml");
  EXPECT_EQ(documents::referred_part("a", "../../../etc/%zz"), "etc/%zz");
}

TEST(Program, HasLimits) {
  const std::string shell = documents::program_named("sh");
  ASSERT_FALSE(shell.empty());
  const auto run = [&](const std::string& script, documents::ProgramLimits limits = {}) {
    return documents::run_program(shell, {"-c", script}, "input", limits);
  };
  const documents::ProgramResult fine = run("cat; echo error >&2; exit 7");
  EXPECT_EQ(fine.output, "input");
  EXPECT_EQ(fine.errors, "error\n");
  EXPECT_EQ(fine.status, 7);
  documents::ProgramLimits limits;
  limits.waiting = std::chrono::seconds(0);
  expect_error(run("sleep 100", limits).limit, {"more than 0 s"});
  limits = {};
  limits.output = 1000;
  expect_error(run("while true; do echo a; done", limits).limit, {"of text"});
  limits = {};
  limits.computing = std::chrono::seconds(1);
  EXPECT_GT(run("while true; do :; done", limits).status, 128);
  EXPECT_NE(run("echo a > /tmp/longformer_documents_test").status, 0);
  EXPECT_EQ(run("ls /proc/self/fd | wc -l").output, "4\n");
  EXPECT_EQ(documents::run_program("/nothing", {}, "", {}).status, 127);
}

}  // namespace
}  // namespace longformer::documents_test
