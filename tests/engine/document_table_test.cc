// Tables of documents: random rows come back from every way to write them, and what is wrong with a
// row stays with it.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "error_testing.h"
#include "longformer/tables.h"
#include "temporary_folder.h"
#include "text/delimited.h"

namespace longformer::engine::document_table_test {
namespace {

using Strings = std::vector<std::string>;

class DocumentTableTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;

  std::vector<TableDocument> read(const std::string& name, const std::string& contents,
                                  const DataOptions& options = {}) {
    DocumentTable table(folder_.add(name, contents), options);
    std::vector<TableDocument> all;
    for (TableDocument one; table.next(one);) all.push_back(one);
    return all;
  }
  std::string error(const std::string& name, const std::string& contents,
                    const DataOptions& options = {}) {
    return error_of([&] { read(name, contents, options); });
  }
};

std::string as_quoted(const std::string& field) {
  std::string text = "\"";
  for (const char letter : field) text.append(letter == '"' ? 2 : 1, letter);
  return text + '"';
}

TEST_F(DocumentTableTest, RandomFieldsComeBack) {
  std::mt19937 random(3);
  const Strings pieces = {"a", "\"", ",", ";", "\t", "|", "\n", "\r\n", "é", " ", "\r"};
  for (int trial = 0; trial < 200; ++trial) {
    const char separator = std::string(",;\t|")[random() % 4];
    const std::string line_break = std::array{"\n", "\r\n", "\r"}[random() % 3];
    std::vector<Strings> rows;
    std::string contents = std::string("id") + separator + "text" + separator + "more" + line_break;
    for (std::size_t row = 0; row < random() % 6; ++row) {
      Strings& fields = rows.emplace_back();
      for (int column = 0; column < 3; ++column) {
        std::string& field = fields.emplace_back();
        for (std::size_t i = random() % 6; i > 0; --i) field += pieces[random() % pieces.size()];
        const bool is_plain = field.find_first_of("\"\n\r") == std::string::npos &&
                              field.find(separator) == std::string::npos;
        contents += column > 0 ? std::string(1, separator) : "";
        contents += is_plain && random() % 2 == 0 && !field.empty() ? field : as_quoted(field);
      }
      contents += row % 2 == 0 ? line_break : line_break + line_break;
    }
    SCOPED_TRACE(contents);
    const auto found = read("a.csv", contents);
    ASSERT_EQ(found.size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(found[i].error, "");
      EXPECT_EQ(found[i].text, rows[i][1]);
    }
  }
}

TEST_F(DocumentTableTest, SeparatorsByTheFirstLine) {
  using text::separator_of;
  EXPECT_EQ(separator_of("id,text", {}, "text"), ',');
  EXPECT_EQ(separator_of("id;comments, more;text", {}, "text"), ';');
  EXPECT_EQ(separator_of("id\ttext", {}, "text"), '\t');
  EXPECT_EQ(separator_of("\"id\"|\"text\"", {}, "text"), '|');
  EXPECT_EQ(separator_of("text", {}, "text"), ',');
  // Without the name the usual one counts where it is, else the most frequent one.
  EXPECT_EQ(separator_of("a,b;c;d", {}, "text"), ',');
  EXPECT_EQ(separator_of("a;b;c|d", {}, "text"), ';');
  EXPECT_EQ(separator_of("a,b\tc", {.separator = '\t'}, "text"), '\t');
  EXPECT_EQ(separator_of("1;a, b, c", {}, "", 2), ';');
  EXPECT_EQ(text::fields_of("a,\"b,\"\"\",", {}), (Strings{"a", "b,\"", ""}));
}

TEST_F(DocumentTableTest, FieldsOfRows) {
  const std::string table = "key,title,body,id\n1,T,a,x\n2,,b,y\n";
  const auto found = read("a.csv", table, {.text_field = "body", .id_field = "key"});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].id, "\"1\"");
  EXPECT_EQ(found[0].title, "T");
  EXPECT_EQ(found[0].line, 2);
  EXPECT_EQ(found[0].bytes, 8);
  EXPECT_EQ(read("a.csv", table, {.text_field = "body"})[1].id, "\"y\"");
  EXPECT_EQ(read("a.csv", "_id,text\n3,a\n")[0].id, "\"3\"");
  EXPECT_EQ(read("a", "3,a\n", {.columns = {"id", "text"}})[0].text, "a");
  EXPECT_EQ(read("a.jsonl", "{\"text\": \"a\", \"id\": [1, NaN]}\n")[0].id, "[1,null]");
}

TEST_F(DocumentTableTest, FormsWithoutAName) {
  EXPECT_EQ(read("a", "\n{\"text\": \"a\"}\n").at(0).text, "a");
  EXPECT_EQ(read("a", "[{\"text\": \"a\"},\n{\"text\": \"b\"}]").at(1).line, 2);
  EXPECT_EQ(read("a", "x;text\n1;a\n").at(0).text, "a");
  EXPECT_NE(read("a", "prose\n").at(0).error, "");
  EXPECT_EQ(table_format_of("a.b/C.CSV.GZ"), "csv");
  EXPECT_EQ(table_format_of("a.ndjson.zst"), "jsonl");
  EXPECT_EQ(table_format_of("a.gz"), "");
  EXPECT_EQ(table_format_of(".gz"), "");
}

TEST_F(DocumentTableTest, FaultsStayWithTheirRows) {
  const auto found = read("a.csv", "id,text\n1\n2,\"a\"b\n3,c\n4,\"d\n");
  ASSERT_EQ(found.size(), 4u);
  EXPECT_NE(found[0].error.find("expected 2 fields"), std::string::npos);
  EXPECT_NE(found[1].error.find("separator behind"), std::string::npos);
  EXPECT_EQ(found[2].text, "c");
  EXPECT_EQ(found[3].line, 5);
  EXPECT_NE(found[3].error.find("closing quote"), std::string::npos);
}

TEST_F(DocumentTableTest, FaultsOfTables) {
  expect_error(error("a.csv", ""), {"a.csv: ", "header", "empty"});
  expect_error(error("a.csv", "a,b\n1,2\n"),
               {"a.csv: ", "\"text\"", "\"a\", \"b\"", "{text_field}"});
  expect_error(error("a.csv", "a\n1\n"), {"{delimiter}"});
  expect_error(error("a.csv", "text,text\n"), {"a.csv: ", "one column \"text\""});
  expect_error(error("a.csv", "a,id\n1,2\n", {.id_field = "a"}), {"columns \"a\", \"id\""});
  expect_error(error("a.csv", "text\n", {.id_field = "k"}), {"a.csv: ", "\"k\"", "{id_field}"});
  expect_error(error("a.json", "3", {.format = "json"}), {"a.json: ", "list of objects"});
  std::string objects;
  for (int i = 0; i < 30; ++i) objects += "{\"a\": 1}\n";
  expect_error(error("a.jsonl", objects), {"a.jsonl: ", "20 objects", "\"a\"", "{text_field}"});
  EXPECT_EQ(read("a.jsonl", objects.substr(0, 9 * 19) + "{\"text\": \"a\"}\n" + objects).size(),
            50u);
}

TEST_F(DocumentTableTest, OneFaultOfAllRowsIsOneOfTheFile) {
  const auto repeated = [](const std::string& line, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += line;
    return all;
  };
  const std::string good = "{\"text\": \"a\", \"id\": 1}\n";
  for (const int count : {3, 20, 1000}) {
    expect_error(error("a.jsonl", repeated(good, count), {.id_field = "k"}),
                 {"a.jsonl: ", "\"k\" of the id", "\"id\", \"text\"", "{id_field}"});
    expect_error(error("a.jsonl", repeated("<p>\n", count)), {"a.jsonl: ", "no JSON", "\"<p>\""});
    expect_error(error("a.html", repeated("<p>\n", count)), {"a table", "column \"text\""});
    expect_error(error("a.csv", "id,text\n" + repeated("1,2,3\n", count)),
                 {"a.csv: ", "2 fields", "3 in the first", "\"id\", \"text\"", "{delimiter}"});
    expect_error(error("a.csv", "id,text\n" + repeated("1,\"a\"b\n", count)),
                 {"a.csv:2: ", "closing quote", "{quotes}"});
    expect_error(error("a.csv", repeated("a,b\n", count), {.columns = {"text"}}),
                 {"a.csv: ", "1 field", "2 in the first"});
    expect_error(
        error("a.json", "[" + repeated(good.substr(0, good.size() - 1) + ",", count) + good + "]",
              {.format = "json", .id_field = "k"}),
        {"a.json: ", "\"k\" of the id"});
  }
  // Two rows, and rows with several faults, are told one by one.
  EXPECT_EQ(read("a.jsonl", good + good, {.id_field = "k"}).size(), 2u);
  EXPECT_EQ(read("a.jsonl", repeated("{}\n", 2) + "3\n" + repeated("{}\n", 5)).size(), 8u);
  EXPECT_EQ(read("a.jsonl", repeated("{}\n", 19) + good + repeated("{}\n", 30)).size(), 50u);
}

TEST_F(DocumentTableTest, JsonOfAnotherForm) {
  for (const char* list : {"[{\"text\": \"a\"}]\n", "[\n {\"text\": \"a\"}\n]\n", "\n [1]\n"}) {
    expect_error(error("a.jsonl", list), {"a.jsonl: ", "found a list", ".json", "--text-field"});
  }
  for (const char* name : {"a.jsonl", "a"}) {
    const auto found = read(name, "{\n \"text\": \"a\"\n}\n\n{\"text\": \"b\"}{\"text\": \"c\"}");
    ASSERT_EQ(found.size(), 3u);
    EXPECT_EQ(found[0].text + found[1].text + found[2].text, "abc");
    EXPECT_EQ(found[0].line, 1);
    EXPECT_EQ(found[2].line, 5);
    EXPECT_EQ(found[2].record, 2);
  }
  // The first object may be all of a table that is no file of lines.
  EXPECT_EQ(read("a", "{\"data\":\n [{\"text\": \"a\"}, {\"text\": \"b\"}]}").at(1).line, 2);
}

TEST_F(DocumentTableTest, OpenQuotesLoseNoRow) {
  const auto found = read("a.csv", "id,text\n1,a\n2,\"b\n3,c\n4,d\n");
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[1].line, 3);
  EXPECT_NE(found[1].error.find("closing quote"), std::string::npos);
  EXPECT_EQ(found[2].text, "c");
  EXPECT_EQ(found[3].line, 5);
  const auto closed = read("a.csv", "id,text\n1,\"a\n2,b\n3,\"c\"\n4,\"d\ne\"\n");
  ASSERT_EQ(closed.size(), 4u);
  EXPECT_EQ(closed[0].line, 2);
  EXPECT_NE(closed[0].error.find("in line 4"), std::string::npos) << closed[0].error;
  EXPECT_EQ(closed[1].text, "b");
  EXPECT_EQ(closed[2].text, "c");
  EXPECT_EQ(closed[3].text, "d\ne");
  // The field before it spans lines.
  const auto second = read("a.csv", "id,text\n\"1\n1\",\"a\n2,b\n");
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[0].line, 3);
  EXPECT_EQ(second[1].text, "b");
}

TEST_F(DocumentTableTest, TheSeparatorThatExcelNames) {
  for (const char* first : {"sep=;\n", "SEP=;\r\n", "\nsep=;\n"}) {
    const auto found = read("a.csv", std::string(first) + "text;id\n\"a;b\";1\nc, d;2\n");
    ASSERT_EQ(found.size(), 2u) << first;
    EXPECT_EQ(found[0].text, "a;b");
    EXPECT_EQ(found[1].text, "c, d");
    EXPECT_EQ(found[1].id, "\"2\"");
  }
  EXPECT_EQ(read("a", "sep=|\ntext|id\na|1\n").at(0).text, "a");
  EXPECT_EQ(read("a.csv", "sep=;\na;1\n", {.columns = {"text", "id"}}).at(0).text, "a");
  EXPECT_EQ(read("a.csv", "sep=;\ntext~id\na~1\n", {.delimiter = "~"}).at(0).text, "a");
  EXPECT_EQ(table_seen_in("sep=;\nid;a b\n1;2\n3;4\n"), "CSV with the columns \"id\", \"a b\"");
}

TEST_F(DocumentTableTest, IdsOfManyDigits) {
  const std::string digits = "12345678901234567890123";
  const std::string row = "{\"text\": \"a\", \"id\": " + digits + "}";
  EXPECT_EQ(read("a.jsonl", row + "\n").at(0).id, digits);
  EXPECT_EQ(read("a.json", "[" + row + "]", {.format = "json"}).at(0).id, digits);
  EXPECT_EQ(read("a.json", "{\"data\": [" + row + "]}", {.format = "json"}).at(0).id, digits);
  EXPECT_EQ(read("a.csv", "id,text\n1,a\n", {.text_field = "text", .id_field = "text"}).at(0).id,
            "\"a\"");
}

TEST_F(DocumentTableTest, TablesInDisguise) {
  EXPECT_EQ(table_seen_in("id;a b\n1;2\n3;4\n"), "CSV with the columns \"id\", \"a b\"");
  EXPECT_EQ(table_seen_in("{\"a\": 1}\n{\"a\": 2}\n"), "JSON lines with the fields \"a\"");
  for (const char* text :
       {"", "a, b\n", "a, b\nc\nd, e\n", "It was, so.\nThen, he went.\nAnd, so.\n", "{\"a\": 1}\n",
        "a,a\n1,2\n3,4\n", "{a}\n{b}\n"}) {
    EXPECT_EQ(table_seen_in(text), "") << text;
  }
}

}  // namespace
}  // namespace longformer::engine::document_table_test
