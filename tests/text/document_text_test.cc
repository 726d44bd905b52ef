// Text, Markdown and HTML as readers see them, well formed and not.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "longformer/error.h"
#include "longformer/text.h"
#include "text/unicode.h"

namespace longformer::document_text_test {
namespace {

using namespace std::string_literals;

std::string html(const std::string& page) { return document_text(page, DocumentFormat::html); }
std::string markdown(const std::string& text) {
  return document_text(text, DocumentFormat::markdown);
}
std::string plain(const std::string& text) { return document_text(text, DocumentFormat::text); }

std::string repeated(std::string_view part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

template <typename Read>
std::string error_of(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(DocumentFormats, FollowTheSuffix) {
  EXPECT_EQ(document_format_of("a/b.md", ""), DocumentFormat::markdown);
  EXPECT_EQ(document_format_of("B.MARKDOWN", ""), DocumentFormat::markdown);
  EXPECT_EQ(document_format_of("x.HTM", ""), DocumentFormat::html);
  EXPECT_EQ(document_format_of("x.html", ""), DocumentFormat::html);
  EXPECT_EQ(document_format_of("x.xhtml", ""), DocumentFormat::html);
  EXPECT_EQ(document_format_of("x.txt", "<!doctype html>"), DocumentFormat::text);
  EXPECT_EQ(document_format_of("a.html/x.log", ""), DocumentFormat::text);
  EXPECT_EQ(document_format_of("a.html/x", ""), DocumentFormat::text);
}

TEST(DocumentFormats, WithoutASuffixFollowTheContent) {
  EXPECT_EQ(document_format_of("-", "\xef\xbb\xbf\n <!DOCTYPE HTML>"), DocumentFormat::html);
  EXPECT_EQ(document_format_of("page", "<html lang=en>"), DocumentFormat::html);
  EXPECT_EQ(document_format_of("page", "# <html>"), DocumentFormat::text);
  EXPECT_EQ(document_format_of("page", ""), DocumentFormat::text);
}

TEST(DocumentFormats, HaveNames) {
  EXPECT_EQ(document_format("markdown"), DocumentFormat::markdown);
  EXPECT_THROW(document_format("pdf"), Error);
}

TEST(PlainTexts, StayAsTheyAre) {
  EXPECT_EQ(plain(""), "");
  EXPECT_EQ(plain(" <b>a</b>  &amp;\r\n\tb\n"), " <b>a</b>  &amp;\r\n\tb\n");
}

TEST(PlainTexts, HonourAByteOrderMark) {
  EXPECT_EQ(plain("\xef\xbb\xbf"
                  "a\xc3\xa9"),
            "a\xc3\xa9");
  EXPECT_EQ(plain("\xff\xfe\xe9\0=\xd8\0\xde"s), "\xc3\xa9\xf0\x9f\x98\x80");
  EXPECT_EQ(plain("\xfe\xff\0\xe9"s), "\xc3\xa9");
  // Half of a character at the end.
  EXPECT_EQ(plain("\xff\xfe"
                  "a\0b"s),
            "a\xef\xbf\xbd");
}

TEST(PlainTexts, MayHaveSomeBytesOutsideTheirCharset) {
  EXPECT_EQ(plain("caf\xe9"), "caf\xef\xbf\xbd");
  EXPECT_EQ(plain(repeated("many words \xff ", 1000)), repeated("many words \xef\xbf\xbd ", 1000));
}

TEST(PlainTexts, AreNotBinaryFiles) {
  EXPECT_EQ(error_of([] { plain("a\0b"s); }), "expected text, found bytes 0");
  EXPECT_EQ(error_of([] { html("<p>a\0b"s); }), "expected text, found bytes 0");
  EXPECT_EQ(error_of([] {
              plain(
                  "\xff\xfe"
                  "a\0\0\0"s);
            }),
            "expected text, found bytes 0");
  EXPECT_EQ(error_of([] { plain(repeated("\xe4\xf6 ", 50)); }),
            "expected text in UTF-8 or the charset that it declares, found 100 of 150 characters "
            "that are none");
  EXPECT_TRUE(is_binary("a\0"s));
  EXPECT_FALSE(
      is_binary("\xff\xfe"
                "a\0"s));
  EXPECT_FALSE(is_binary("\xff\xfe\0\0a\0\0\0"s));
  EXPECT_FALSE(is_binary(""));
}

TEST(Pages, AreBlocksOfText) {
  EXPECT_EQ(html("<!doctype html><html><head><title>T</title><style>p{}</style></head><body>"
                 "<h1>Head\n  line</h1><p>One <b>b</b><i>old</i>,\n two.</p><div>Three"
                 "<script>if (a<b) c('</p>')</script></div><!-- no --> four</body></html>"),
            "Head line\n\nOne bold, two.\n\nThree\n\nfour");
}

TEST(Pages, HaveListsTablesAndLineBreaks) {
  EXPECT_EQ(html("<ul><li>a<li>b</ul><ol><li><p>c</p></li></ol>"), "a\nb\n\nc");
  EXPECT_EQ(html("<table><tr><th>a<th>b<tr><td>1<td>2</table>x"), "a\tb\n1\t2\n\nx");
  EXPECT_EQ(html("a<br>b<br><br>c<br/> d"), "a\nb\n\nc\nd");
  EXPECT_EQ(html("<dl><dt>a<dd>b<dt>c<dd>d</dl>"), "a\nb\nc\nd");
}

TEST(Pages, KeepPreformattedText) {
  EXPECT_EQ(html("<p>a</p><pre>\n  b\n\n    c &lt;\n</pre><p> d"), "a\n\n  b\n\n    c <\n\nd");
}

TEST(Pages, DecodeEntities) {
  EXPECT_EQ(html("&lt;b&gt; &amp;amp; &eacute;&#233;&#xe9; &unknown; AT&T"),
            "<b> &amp; \xc3\xa9\xc3\xa9\xc3\xa9 &unknown; AT&T");
  EXPECT_EQ(html("a&nbsp;b"),
            "a\xc2\xa0"
            "b");
}

TEST(Pages, LeaveOutWhatIsNotShown) {
  EXPECT_EQ(html("a<template>b</template><noscript>c</noscript><iframe>d</iframe>"
                 "<style>e</style><svg><title>f</title><text>g</text></svg>"),
            "ag");
}

TEST(Pages, DecodeEntitiesOfOldPages) {
  EXPECT_EQ(html("don&#146;t &#x80; &copy 2003 &eacute &AMP; &notit; &notin; &lpar;"),
            "don\u2019t \u20ac \u00a9 2003 \u00e9 & \u00acit; \u2209 (");
  EXPECT_EQ(html("a&#0;&#xD800;&#x110000;&#4294967361;b"), "a\ufffd\ufffd\ufffd\ufffdb");
  EXPECT_EQ(html("a&#1;&#xfffe;b &#; &#x; & &&amp;"), "ab &#; &#x; & &&");
  EXPECT_EQ(html("<textarea>&lt;b> <b>x</textarea>"), "<b> <b>x");
  EXPECT_EQ(html("<xmp>&lt;b> </i></xmp>"), "&lt;b> </i>");
}

TEST(Pages, HaveBogusComments) {
  EXPECT_EQ(html("<p><![if !supportLists]><span>1.</span><![endif]>First"), "1.First");
  EXPECT_EQ(html("a<!ELEMENT br EMPTY>b<?php echo 1 ?>c</ d>e</>f<!doctype x>g"), "abcefg");
  EXPECT_EQ(html("a<![CDATA[ b ]]>c<svg><![CDATA[ <d> ]]></svg>e"), "ac <d> e");
  EXPECT_EQ(html("a<!-->b<!--->c<!-- - -- > --!>d<!--[if IE]><p>e</p><![endif]-->f<!-- g"),
            "abcdf");
  EXPECT_EQ(html("1 <2 </ <"), "1 <2");
}

TEST(Pages, LeaveOutWhatIsHidden) {
  EXPECT_EQ(html("<p>a<p hidden>b<p>c"), "a\n\nc");
  EXPECT_EQ(html("<ul><li>a<li HIDDEN=''>b<ul><li>c</ul><li>d</ul>"), "a\nd");
  EXPECT_EQ(html("<table><tr><td>a<td hidden>b<td>c<tr hidden><td>d<tr><td>e</table>f"),
            "a\tc\ne\n\nf");
  EXPECT_EQ(html("<dl><dt hidden>a<dd>b<dt>c</dl><select><option hidden>d<option>e</select>"),
            "b\nc\n\ne");
  EXPECT_EQ(html("a<b hidden>b<p>c</b>d<p>e"), "a\n\nd\n\ne");
  EXPECT_EQ(html("<div hidden=until-found>a</div><div hidden=hidden>b<div>c</div></div>d"),
            "a\n\nd");
  EXPECT_EQ(html("<html hidden><body hidden>a<br hidden>b<input hidden>c"), "abc");
  EXPECT_EQ(html("<ruby>\u6f22<rp>(</rp><rt>kan</rt><rp>)</rp></ruby><ruby>a<rp>(<rt>b</ruby>"),
            "\u6f22kanab");
  EXPECT_EQ(html("a<video>no video</video><canvas>b</canvas><datalist><option>c</datalist>d"),
            "ad");
  EXPECT_EQ(html("<math><mi>x</mi><annotation>tex</annotation></math>"), "x");
  EXPECT_EQ(html("<td hidden>no table"), "no table");
}

TEST(Pages, ReadScriptsAndTheLikeToTheirEnds) {
  EXPECT_EQ(html("<script><!-- <script> </script> a --></script>b<script>x</scripts></script >c"),
            "bc");
  EXPECT_EQ(html("<style></p><b></STYLE>a<title>b</p></title>c<noscript><b>d</noscript>e"), "ace");
  EXPECT_EQ(html("<script/>a</script>b<div/>c<svg><path/><title>d</title></svg>e"), "b\n\nce");
  EXPECT_EQ(html("a<plaintext></plaintext><b>"), "a\n\n</plaintext><b>");
  EXPECT_EQ(html("a<script>b"), "a");
  // In XML any element may end in its tag.
  EXPECT_EQ(html("<?xml version='1.0'?><html><head><script src='s'/><title/></head>"
                 "<body><a id='x'/>a<br></br>b<![CDATA[<c>]]></body></html>"),
            "a\nb<c>");
}

TEST(Pages, MayBeBroken) {
  EXPECT_EQ(html("<head><title>T</title><article>a</article><p>b"), "a\n\nb");
  EXPECT_EQ(html("3 < 4 and <b>c<i>d</b>e</i> <p <b>f</p> </div></ul> g"),
            "3 < 4 and cde\n\nf\n\ng");
  EXPECT_EQ(html("</body></html>a<p title=\"never closed>b"), "a");
  EXPECT_EQ(html("<x-y>a</x-y> <section>b</section><unknown>c"), "a\n\nb\n\nc");
  EXPECT_EQ(html("\x01"
                 "a\x02"),
            "a");
}

TEST(Pages, SayTheirCharset) {
  const std::string word = "<p>\xe9\x80</p>", expected = "\xc3\xa9\xe2\x82\xac";
  for (const char* head :
       {"<meta charset=latin1>", "<META CHARSET='ISO-8859-1'>",
        "<html><head><meta http-equiv=\"Content-Type\" content=\"text/html; "
        "charset=windows-1252\">",
        "<?xml version=\"1.0\" encoding=\"iso-8859-1\"?><html>",
        "<!-- <meta charset=koi8-r> --><script>'<meta charset=koi8-r>'</script>"
        "<meta charset=cp1252>",
        "<meta charset=' L1\n'>", "<meta charset=x-cp1252>",
        "<meta name=description content=\"charset=koi8-r\"><meta charset=cp819>",
        "<meta content=\"text/html; charset=iso-ir-100\" http-equiv=content-type>"}) {
    EXPECT_EQ(html(head + word), expected) << head;
  }
  EXPECT_EQ(html("<meta charset=Shift_JIS>\x93\xfa\x96{"), "\xe6\x97\xa5\xe6\x9c\xac");
  EXPECT_EQ(html("<meta charset=x-euc-jp>\xc6\xfc"), "\xe6\x97\xa5");
  EXPECT_EQ(html("<meta charset=windows-949>\xb0\xa1"), "\xea\xb0\x80");
  EXPECT_EQ(html("<meta charset=iso-8859-8-i>\xe0"), "\xd7\x90");
  EXPECT_EQ(html("<meta charset=x-mac-roman>\x8e"), "\xc3\xa9");
  EXPECT_EQ(html("<meta charset=utf-16>\xc3\xa9"), "\xc3\xa9");
  // A byte-order mark knows better.
  EXPECT_EQ(html("\xef\xbb\xbf<meta charset=latin1>\xc3\xa9"), "\xc3\xa9");
  EXPECT_EQ(html("\xff\xfe<\0p\0>\0\xe9\0"s), "\xc3\xa9");
}

TEST(Pages, LoseNoLastCharacterThatAMarkMightFollow) {
  EXPECT_EQ(html("<meta charset=windows-1258>abc"), "abc");
  EXPECT_EQ(html("<meta charset=windows-1255>\xf9\xec\xe5\xed"),
            "\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d");
}

TEST(Pages, RefuseCharsetsThatNobodyKnows) {
  EXPECT_EQ(error_of([] { html("<meta charset=klingon>a"); }),
            "charset: expected one that can become UTF-8, found klingon");
  EXPECT_EQ(error_of([] { html("<meta charset='latin1//TRANSLIT\n'>a"); }),
            "charset: expected one that can become UTF-8, found what is no name");
}

TEST(MarkdownFiles, AreTextOnly) {
  EXPECT_EQ(markdown("# Head *one*\n\nA [link](http://a.b \"t\") &amp; `<code>`\nand **b**old "
                     "~~c~~ ![alt](i.png).\n\n- a\n- b\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\n"
                     "```c\nint a<b;\n\n  c;\n```\n> quoted\n"),
            "Head one\n\nA link & <code> and bold c .\n\na\nb\n\nx\ty\n1\t2\n\nint a<b;\n\n  c;\n\n"
            "quoted");
}

TEST(MarkdownFiles, MayHoldHtml) {
  EXPECT_EQ(markdown("<details>\n<summary>S</summary>\n\nin *it*<br>x\n\n</details>\n"
                     "<!-- no -->\n<script>no</script>\n"),
            "S\n\nin it\nx");
}

/// Lines and what each ends with, of bytes that were read before.
std::vector<std::pair<std::string, std::string>> lines_in(const std::string& bytes,
                                                          const TextEncoding& encoding = {}) {
  TextLines lines("f", std::make_shared<const std::string>(bytes), encoding);
  std::vector<std::pair<std::string, std::string>> found;
  std::string line;
  while (lines.next(line)) found.emplace_back(line, lines.line_break());
  EXPECT_EQ(lines.number(), std::ssize(found));
  return found;
}

TEST(TextLines, EndInEveryWay) {
  using Lines = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(lines_in(""), Lines());
  EXPECT_EQ(lines_in("\n"), (Lines{{"", "\n"}}));
  EXPECT_EQ(lines_in("a\nb\r\nc\rd\n\r\r\r\ne"), (Lines{{"a", "\n"},
                                                        {"b", "\r\n"},
                                                        {"c", "\r"},
                                                        {"d", "\n"},
                                                        {"", "\r"},
                                                        {"", "\r"},
                                                        {"", "\r\n"},
                                                        {"e", ""}}));
  // A break may lie on the border of what is read at a time.
  const std::string piece((std::size_t{1} << 16) - 1, 'x');
  EXPECT_EQ(lines_in(piece + "\r\ny"), (Lines{{piece, "\r\n"}, {"y", ""}}));
  EXPECT_EQ(lines_in(piece + "\ry"), (Lines{{piece, "\r"}, {"y", ""}}));
  EXPECT_EQ(lines_in(piece + piece + "\r"), (Lines{{piece + piece, "\r"}}));
}

TEST(TextLines, FollowTheByteOrderMarkWhateverTheEncodingIsCalled) {
  const std::vector<std::pair<std::string, std::string>> expected = {{"\xc3\xa9", "\n"}, {"b", ""}};
  for (const std::string& bytes :
       {"\xef\xbb\xbf\xc3\xa9\nb"s, "\xff\xfe\xe9\0\n\0b\0"s, "\xfe\xff\0\xe9\0\n\0b"s,
        "\xff\xfe\0\0\xe9\0\0\0\n\0\0\0b\0\0\0"s, "\0\0\xfe\xff\0\0\0\xe9\0\0\0\n\0\0\0b"s}) {
    for (const char* name : {"utf-8", "auto", "latin-1", "utf-16be", "utf-32", "shift_jis"}) {
      SCOPED_TRACE(name);
      EXPECT_EQ(lines_in(bytes, {.name = name}), expected);
      EXPECT_EQ(decoded_text(bytes, {.name = name}, "f"), "\xc3\xa9\nb");
    }
  }
}

TEST(Decoding, TellsOfBytes0Once) {
  std::vector<std::string> notes;
  const TextEncoding encoding = {.note = [&](const std::string& note) { notes.push_back(note); }};
  lines_in("one line\0\nand\0 another\0"s, encoding);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0], "f: has bytes 0, as UTF-16 without a byte-order mark does");
  notes.clear();
  EXPECT_EQ(lines_in("a\0\n\0b\0"s, encoding).size(), 2u);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0], "f: read as utf-16le, though it has no byte-order mark");
}

TEST(TextLines, OfWhichTheFirstLooksLikeUtf16AreStillBytes) {
  const std::string bytes = "\x7f\0,\0\n"s + std::string(90, 'P');
  const auto lines = lines_in(bytes, {});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1].first, std::string(90, 'P'));
}

/// Inputs that have broken readers of HTML and Markdown; a result in some seconds is enough.
TEST(HostileDocuments, HaveSomeText) {
  constexpr int kDeep = 100000;
  EXPECT_EQ(html(repeated("<div>", kDeep) + "deep"), "deep");
  EXPECT_EQ(html(repeated("<b>", kDeep) + "deep" + repeated("</b>", kDeep)), "deep");
  EXPECT_EQ(html(repeated("<table><tr><td>", kDeep) + "deep"), "deep");
  EXPECT_EQ(html(repeated("<template>", kDeep) + "deep"), "");
  EXPECT_EQ(html(repeated("</p></div></template></pre>", kDeep) + "out"), "out");
  EXPECT_EQ(html(repeated("<!--", kDeep)), "");
  EXPECT_EQ(html(repeated("<p><b hidden>", kDeep) + "out"), "");
  EXPECT_EQ(html(repeated("<b><font size=1>x<p>", kDeep)).size(), 3 * kDeep - 2);
  EXPECT_EQ(html(repeated("<p>", 1) + repeated("<table><div>", kDeep) + repeated("</p>", kDeep)),
            "");
  EXPECT_EQ(html(repeated("<script><!--<script>", kDeep)), "");
  EXPECT_EQ(html(repeated("<svg><title>", kDeep) + "a"), "");
  EXPECT_EQ(html(repeated("&#", kDeep)), repeated("&#", kDeep));
  EXPECT_EQ(html("<p " + repeated("a='1' ", kDeep) + ">b"), "b");
  EXPECT_EQ(html(repeated("&", kDeep)), repeated("&", kDeep));
  EXPECT_EQ(markdown(repeated(">", kDeep) + " deep"), "deep");
  EXPECT_EQ(markdown(repeated("[", kDeep)), repeated("[", kDeep));
  EXPECT_EQ(markdown(repeated("*a **a ", kDeep)).substr(0, 8), "*a **a *");
  const std::string line = repeated("word ", 2'000'000);
  EXPECT_EQ(html(line).size(), line.size() - 1);
  EXPECT_EQ(markdown(line).size(), line.size() - 1);
  const std::string part = repeated("word ", 200'000);
  EXPECT_EQ(html("<p title='" + part + "'>a" + part + "<!--" + part + "-->").size(), part.size());
}

TEST(Encodings, AreReadInPiecesAsAtOnce) {
  std::string told;
  const auto note = [&told](const std::string& text) { told += text + "|"; };
  TextDecoder lines({.name = "utf-8", .note = note}, "f");
  ASSERT_TRUE(lines.takes_lines());
  EXPECT_EQ(lines.next("\xef\xbb\xbf"
                       "a\n"),
            "a\n");
  EXPECT_EQ(lines.next("b\xff\n"), "b\xef\xbf\xbd\n");
  EXPECT_EQ(lines.next("\xff"
                       "c"),
            "\xef\xbf\xbd"
            "c");
  EXPECT_EQ(told, "f: not UTF-8 at byte 6; what is not has become U+FFFD|");
  EXPECT_FALSE(TextDecoder({.name = "utf-16", .note = {}}, "f").takes_lines());
  EXPECT_FALSE(TextDecoder({.name = "auto", .note = {}}, "f").takes_lines());
}

TEST(Encodings, AreFoundOut) {
  std::string told;
  const TextEncoding found = {.name = "auto",
                              .note = [&told](const std::string& text) { told = text; }};
  EXPECT_EQ(decoded_text("caf\xc3\xa9", found, "f"), "caf\xc3\xa9");
  EXPECT_EQ(decoded_text("\xff\xfe\xe9\0"s, found, "f"), "\xc3\xa9");
  EXPECT_EQ(told, "");
  EXPECT_EQ(decoded_text("caf\xe9 \x80", found, "f"), "caf\xc3\xa9 \xe2\x82\xac");
  EXPECT_EQ(told, "f: not UTF-8 at byte 3, read as windows-1252");
  // 0x81 is no character of windows-1252.
  decoded_text("a\x81", {.name = "latin-1", .note = found.note}, "g");
  EXPECT_EQ(told, "g: not windows-1252 at byte 1; what is not has become U+FFFD");
  EXPECT_THROW(check(TextEncoding{.name = "klingon", .note = {}}), Error);
  EXPECT_NO_THROW(check(TextEncoding{.name = "Shift_JIS", .note = {}}));
}

TEST(HostileDocuments, AreAlwaysValidText) {
  for (int byte = 1; byte < 256; ++byte) {
    const std::string some(3, static_cast<char>(byte));
    for (const std::string& text :
         {plain(some), html(some), markdown(some), html("<p a=" + some + ">&" + some + ";"),
          html("<" + some + "><meta charset=big5>" + some)}) {
      EXPECT_TRUE(text::is_valid_utf8(text)) << byte;
    }
  }
}

}  // namespace
}  // namespace longformer::document_text_test
