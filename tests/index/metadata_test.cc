#include "index/metadata.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "index/passage_store.h"
#include "longformer/error.h"
#include "temporary_folder.h"

namespace longformer::index {
namespace {

using Names = std::set<std::string>;

void put(const PassageStore& store, const std::string& name, const std::string& metadata) {
  const std::string text = "the text of " + name;
  const NewPassage passage = {.begin = 0, .end = std::ssize(text), .text = text};
  store.put({.name = name, .text = text, .metadata = metadata}, {&passage, 1}, {});
}

/// The names of documents for which all conditions hold.
Names found(const PassageStore& store, const std::vector<std::string>& filter) {
  const std::vector<Index> passages = store.metadata().passages(filter);
  const auto names = store.document_names(passages);
  return {names.begin(), names.end()};
}

double begin_of(const std::string& text) {
  const auto ranges = ranges_of(text);
  return ranges.empty() ? -1 : ranges.back().begin;
}

TEST(Ranges, ReadDatesOfIso8601) {
  EXPECT_EQ(begin_of("1970-01-01"), 0);
  EXPECT_EQ(begin_of("1970-01-02T00:00:01Z"), 86401);
  EXPECT_EQ(begin_of("1970-01-02 01:00+01:00"), 86400);
  EXPECT_EQ(begin_of("1970-01-01T22:30:00-01:30"), 86400);
  EXPECT_EQ(begin_of("2024-02-29T12"), 1709208000);
  EXPECT_DOUBLE_EQ(begin_of("1970-01-01T00:00:00.250Z"), 0.25);
  const auto month = ranges_of("1970-12");
  ASSERT_EQ(month.size(), 1u);
  EXPECT_EQ(month[0].end - month[0].begin, 31 * 86400.0);
  EXPECT_EQ(ranges_of("1971").size(), 2u);
  EXPECT_EQ(ranges_of("1971").back().end, 2 * 365 * 86400.0);
  for (const char* text : {"2023-02-29", "2024-13", "2024-00-01", "2024-1-1", "2024-01-01x",
                           "2024-01-01T", "2024-01-01T1", "2024-01-01T25:00", "24-01-01", "", "a",
                           "2024-01-00", "2024/01/01", "nan", "inf", "0x10", "1 ", "1,5"}) {
    EXPECT_TRUE(ranges_of(text).empty()) << text;
  }
}

TEST(Ranges, ReadNumbers) {
  for (const char* text : {"0", "-3", "1e5", "2.50", "12345678901234567890"}) {
    ASSERT_EQ(ranges_of(text).size(), 1u) << text;
    EXPECT_EQ(ranges_of(text)[0].kind, ValueKind::number);
    EXPECT_LT(ranges_of(text)[0].begin, ranges_of(text)[0].end);
  }
}

TEST(Values, AreThoseOfAllLevels) {
  std::multimap<std::string, std::string> values;
  for (
      const FieldValue& value : values_of(
          R"({"a": {"b": [1, 2.5], "c": null}, "t": "x", "yes": true, "l": [["p"], {"q": "r"}]})")) {
    values.emplace(value.field, value.text);
  }
  EXPECT_EQ(
      values,
      (std::multimap<std::string, std::string>{
          {"a.b", "1"}, {"a.b", "2.5"}, {"l", "p"}, {"l.q", "r"}, {"t", "x"}, {"yes", "true"}}));
  EXPECT_THROW(values_of("[1]"), Error);
  EXPECT_THROW(values_of("{"), Error);
  EXPECT_THROW(values_of(std::string(100000, '[')), Error);
  EXPECT_EQ(normal_metadata(R"({ "b" : 1, "a": null, "c": "é" })"), R"({"b":1,"c":"é"})");
}

TEST(Conditions, AreRefusedWhereTheyAreNone) {
  for (const char* text :
       {"", "a", "=1", " =1", "!a", "a!", "a>[1]", "a<=[1, 2]", "path>a", "a=[[1]]", "a=[null]"}) {
    EXPECT_THROW(Condition{text}, Error) << text;
  }
  EXPECT_EQ(Condition("a=").operands().at(0).text, "");
  EXPECT_EQ(Condition(" a b == x=y ").operands().at(0).text, "x=y");
  EXPECT_EQ(Condition(" a b = x").field(), "a b");
  EXPECT_EQ(Condition("a=[not json").operands().at(0).text, "[not json");
  EXPECT_EQ(Condition("a=\"7\"").operands().at(0).ranges.size(), 0u);
}

TEST(Conditions, OfJsonAreThoseOfTexts) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(expressions_of(R"(["a=1", "b~x"])"), (Texts{"a=1", "b~x"}));
  EXPECT_EQ(expressions_of(R"({"a": 1, "b": {">=": "2024", "<": 3}, "c": ["x", 2], "d": " y"})"),
            (Texts{"a=1", "b>=2024", "b<3", "c=[\"x\",2]", "d=\" y\""}));
  EXPECT_EQ(expressions_of("{}"), Texts());
  for (const char* text : {"1", "\"a=1\"", "[1]", R"({"a": null})", R"({"a": {"is": 1}})",
                           R"({"a": {"=": {}}})", R"({"a=b": 1})", "{"}) {
    EXPECT_THROW(expressions_of(text), Error) << text;
  }
}

class MetadataStoreTest : public testing::Test {
 protected:
  MetadataStoreTest() : store_("", Access::write) {
    put(store_, "notes/a.md", R"({"year":2019,"author":"Smith","date":"2024-01-31T10:00:00Z"})");
    put(store_, "notes/b.md", R"({"year":"2020","author":"Jones","tag":["x","y"]})");
    put(store_, "rows.csv:2", R"({"year":2021.5,"author":"SMITHERS","date":"2024-02-01"})");
    put(store_, "rows.csv:3", R"({"year":"none","date":"2023-12","path":"other/place.txt"})");
    put(store_, "plain", "");
  }

  PassageStore store_;
};

TEST_F(MetadataStoreTest, ComparesByValue) {
  EXPECT_EQ(found(store_, {"year>=2020"}), (Names{"notes/b.md", "rows.csv:2"}));
  EXPECT_EQ(found(store_, {"year=2020.0"}), (Names{"notes/b.md"}));
  EXPECT_EQ(found(store_, {"year<2020"}), (Names{"notes/a.md"}));
  EXPECT_EQ(found(store_, {"year<=2021.5"}), (Names{"notes/a.md", "notes/b.md", "rows.csv:2"}));
  EXPECT_EQ(found(store_, {"year>2019", "year<2021"}), (Names{"notes/b.md"}));
  EXPECT_EQ(found(store_, {"year=\"2020\""}), (Names{"notes/b.md"}));
  EXPECT_EQ(found(store_, {"year=none"}), (Names{"rows.csv:3"}));
  EXPECT_EQ(found(store_, {"author>=Jz"}), (Names{"notes/a.md", "rows.csv:2"}));
  EXPECT_EQ(found(store_, {"tag=y"}), (Names{"notes/b.md"}));
  EXPECT_EQ(found(store_, {"author=[\"Smith\", \"Jones\"]"}), (Names{"notes/a.md", "notes/b.md"}));
}

TEST_F(MetadataStoreTest, ComparesDatesAsTheirTimes) {
  EXPECT_EQ(found(store_, {"date>=2024-01-01"}), (Names{"notes/a.md", "rows.csv:2"}));
  EXPECT_EQ(found(store_, {"date=2024-01"}), (Names{"notes/a.md"}));
  EXPECT_EQ(found(store_, {"date=2024-01-31"}), (Names{"notes/a.md"}));
  EXPECT_EQ(found(store_, {"date<=2024-01-31"}), (Names{"notes/a.md", "rows.csv:3"}));
  EXPECT_EQ(found(store_, {"date>2024-01-31"}), (Names{"rows.csv:2"}));
  EXPECT_EQ(found(store_, {"date>2024-01-31T09:59:59Z"}), (Names{"notes/a.md", "rows.csv:2"}));
  EXPECT_EQ(found(store_, {"date<2024"}), (Names{"rows.csv:3"}));
  EXPECT_EQ(found(store_, {"date=2024"}), (Names{"notes/a.md", "rows.csv:2"}));
}

TEST_F(MetadataStoreTest, UnequalIsAllTheOthers) {
  EXPECT_EQ(found(store_, {"author!=Smith"}),
            (Names{"notes/b.md", "rows.csv:2", "rows.csv:3", "plain"}));
  EXPECT_EQ(found(store_, {"tag!=x"}), (Names{"notes/a.md", "rows.csv:2", "rows.csv:3", "plain"}));
  EXPECT_EQ(found(store_, {"path!=*.md", "author~smith"}), (Names{"rows.csv:2"}));
}

TEST_F(MetadataStoreTest, PartsHaveNoCase) {
  EXPECT_EQ(found(store_, {"author~SMITH"}), (Names{"notes/a.md", "rows.csv:2"}));
  EXPECT_EQ(found(store_, {"author~[\"ith\", \"on\"]"}),
            (Names{"notes/a.md", "notes/b.md", "rows.csv:2"}));
  EXPECT_EQ(found(store_, {"path~NOTES"}), (Names{"notes/a.md", "notes/b.md"}));
}

TEST_F(MetadataStoreTest, PathsMatchPatterns) {
  EXPECT_EQ(found(store_, {"path=*.md"}), (Names{"notes/a.md", "notes/b.md"}));
  EXPECT_EQ(found(store_, {"path=notes/*"}), (Names{"notes/a.md", "notes/b.md"}));
  EXPECT_EQ(found(store_, {"path=rows.csv"}), (Names{"rows.csv:2"}));
  EXPECT_EQ(found(store_, {"path=rows.csv:2"}), (Names{"rows.csv:2"}));
  EXPECT_EQ(found(store_, {"path=other/**"}), (Names{"rows.csv:3"}));
  EXPECT_EQ(found(store_, {"path=[\"plain\", \"a.*\"]"}), (Names{"notes/a.md", "plain"}));
}

TEST_F(MetadataStoreTest, AnUnknownFieldIsToldWithThoseThatThereAre) {
  try {
    found(store_, {"autor=Smith"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.option(), "filter");
    EXPECT_STREQ(error.what(),
                 "filter: expected one of the fields of the index, path, author, date, tag, year, "
                 "found 'autor'");
  }
  store_.remove("notes/b.md");
  EXPECT_THROW(found(store_, {"tag=x"}), Error);
}

TEST_F(MetadataStoreTest, FollowsChanges) {
  EXPECT_EQ(found(store_, {"author=Smith"}), (Names{"notes/a.md"}));
  EXPECT_TRUE(store_.describe("plain", R"({"author":"Smith"})"));
  EXPECT_FALSE(store_.describe("plain", R"({"author":"Smith"})"));
  EXPECT_FALSE(store_.describe("nobody", R"({"author":"Smith"})"));
  EXPECT_EQ(found(store_, {"author=Smith"}), (Names{"notes/a.md", "plain"}));
  put(store_, "notes/a.md", R"({"author":"Miller"})");
  EXPECT_EQ(found(store_, {"author=Smith"}), (Names{"plain"}));
  store_.remove("plain");
  EXPECT_EQ(found(store_, {"author=Smith"}), Names());
  EXPECT_EQ(store_.document("notes/a.md")->metadata, R"({"author":"Miller"})");
}

TEST(MetadataStore, IsAddedToFilesOfBefore) {
  const TemporaryFolder folder;
  const std::string file = folder.path() / "index";
  {
    const PassageStore store(file, Access::write);
    put(store, "a", R"({"x":1})");
  }
  {
    const Database database(file, Access::change);
    database.run(
        "DROP TABLE fields; DROP TABLE field_values; ALTER TABLE documents DROP COLUMN metadata");
  }
  {
    const PassageStore store(file, Access::read);
    EXPECT_EQ(store.list().at(0).metadata, "");
    EXPECT_EQ(found(store, {"path=a"}), (Names{"a"}));
    EXPECT_THROW(found(store, {"x=1"}), Error);
  }
  const PassageStore store(file, Access::change);
  EXPECT_TRUE(store.describe("a", R"({"x":1})"));
  EXPECT_EQ(found(store, {"x=1"}), (Names{"a"}));
  EXPECT_EQ(found(PassageStore(file, Access::read), {"x=1"}), (Names{"a"}));
}

/// Random numbers, compared with a loop over all documents.
TEST(MetadataStore, FindsWhatALoopFinds) {
  std::mt19937 random(7);
  const PassageStore store("", Access::write);
  std::map<std::string, double> values;
  for (int i = 0; i < 500; ++i) {
    const double value = static_cast<double>(random() % 41) / 4 - 5;
    const std::string name = fmt::format("{}.txt", i);
    values[name] = value;
    put(store, name, fmt::format(R"({{"v":{}}})", value));
    if (i % 7 == 0) {
      store.remove(name);
      values.erase(name);
    }
  }
  const std::map<std::string, std::function<bool(double, double)>> signs = {
      {"=", std::equal_to<>()},    {"!=", std::not_equal_to<>()}, {"<", std::less<>()},
      {"<=", std::less_equal<>()}, {">", std::greater<>()},       {">=", std::greater_equal<>()}};
  for (const auto& [sign, holds] : signs) {
    for (const double bound : {-5.0, -0.25, 0.0, 0.1, 3.5, 5.0, 9.0}) {
      Names expected;
      for (const auto& [name, value] : values) {
        if (holds(value, bound)) expected.insert(name);
      }
      EXPECT_EQ(found(store, {fmt::format("v{}{}", sign, bound)}), expected) << sign << bound;
    }
  }
}

}  // namespace
}  // namespace longformer::index
