// Streams of JSON values: random values come back from every way to write them behind each other,
// and a broken one takes nothing else with it.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "longformer/text.h"

namespace longformer::text::json_values_test {
namespace {

using Json = nlohmann::ordered_json;
using Strings = std::vector<std::string>;

bool is_json(const std::string& text) { return Json::accept(text); }

struct Found {
  std::string text;
  std::int64_t line = 0, record = 0, bytes = 0;
};

std::vector<Found> read(const std::string& stream) {
  JsonValues values(TextLines("a.jsonl", std::make_shared<const std::string>(stream)));
  std::vector<Found> all;
  for (std::string text; values.next(text, is_json);) {
    all.push_back({text, values.number(), values.record(), values.bytes()});
  }
  return all;
}

/// Values as JSON without blanks; those that are none as they are.
Strings shown(const std::string& stream) {
  Strings all;
  for (const Found& one : read(stream)) {
    all.push_back(is_json(one.text) ? Json::parse(one.text).dump() : one.text);
  }
  return all;
}

Json random_value(std::mt19937& random, int depth) {
  const Strings texts = {"", "a", "}", "{", "]\"", "\\", "\n", ",", ":", "é", "{\"a\": 1}"};
  switch (random() % (depth > 0 ? 7 : 5)) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return -1.5e-7;
    case 3:
      return texts[random() % texts.size()];
    case 4:
      return static_cast<int>(random() % 1000);
    case 5: {
      Json list = Json::array();
      for (std::size_t i = random() % 4; i > 0; --i)
        list.push_back(random_value(random, depth - 1));
      return list;
    }
    default: {
      Json object = Json::object();
      for (std::size_t i = random() % 4; i > 0; --i) {
        object[texts[random() % texts.size()]] = random_value(random, depth - 1);
      }
      return object;
    }
  }
}

Json random_record(std::mt19937& random) {
  Json record = {{"text", random_value(random, 3)}, {"more", random_value(random, 3)}};
  if (random() % 8 == 0) record = Json::array({record, 1});
  return random() % 8 == 0 ? Json::object() : record;
}

TEST(JsonValuesTest, RandomValuesComeBackFromEveryForm) {
  std::mt19937 random(7);
  const Strings between = {"\n", "\r\n", "\r", "", " ", "\n\n", "\n \t\n", " \n"};
  for (int trial = 0; trial < 2000; ++trial) {
    const bool is_mixed = random() % 2 == 0;
    std::string separator = between[random() % between.size()];
    int indent = static_cast<int>(random() % 6) - 2;
    std::string stream;
    Strings wanted;
    for (std::size_t i = random() % 6; i > 0; --i) {
      if (is_mixed) separator = between[random() % between.size()];
      if (is_mixed) indent = static_cast<int>(random() % 6) - 2;
      const Json record = random_record(random);
      wanted.push_back(record.dump());
      stream += record.dump(std::max(indent, -1)) + separator;
    }
    EXPECT_EQ(shown(stream), wanted) << stream;
  }
}

TEST(JsonValuesTest, PlacesOfValues) {
  const auto found = read("\n{\"a\": 1}\n{\n \"a\": 2\n}{\"a\": 3} {\n}\n\n{\"a\": 4}{}[]\n");
  const std::vector<std::pair<int, int>> wanted = {{2, 0}, {3, 0}, {5, 0}, {5, 2},
                                                   {8, 0}, {8, 2}, {8, 3}};
  ASSERT_EQ(found.size(), wanted.size());
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].line, wanted[i].first) << i;
    EXPECT_EQ(found[i].record, wanted[i].second) << i;
    bytes += found[i].bytes;
  }
  EXPECT_EQ(bytes, 9 + 22 + 2 + 13);
  EXPECT_EQ(line_and_record(5, 0), "5");
  EXPECT_EQ(line_and_record(5, 2), "5:2");
}

/// Lines of JSON stay lines, however one of them is cut or spoilt.
TEST(JsonValuesTest, OneBrokenLineIsAllThatIsLost) {
  const std::string whole = R"({"id": 1, "tokens": ["a", {"b": [1, -2.5, true]}], "c": {}})";
  const std::string good = R"({"text": "a", "b": [{"c": 1}]})";
  const auto check = [&](const std::string& broken) {
    if (is_json(broken) || broken.empty()) return;
    const std::string lines = good + "\n" + broken + "\n";
    const std::string value = Json::parse(good).dump();
    for (const int behind : {0, 1, 2, 5}) {
      std::string stream = lines;
      Strings wanted = {value, broken};
      for (int i = 0; i < behind; ++i) {
        stream += good + "\n";
        wanted.push_back(value);
      }
      EXPECT_EQ(shown(stream), wanted) << stream;
    }
  };
  for (std::size_t size = 1; size < whole.size(); ++size) {
    check(whole.substr(0, size));
    check(whole.substr(size));
    check(whole.substr(0, size) + whole.substr(size + 1));
    for (const char* more : {"}", "]", "{", "[", "\"", ",", ":", "x", "\\"}) {
      check(whole.substr(0, size) + more + whole.substr(size));
    }
  }
  for (const char* broken :
       {"garbage", "{}}", "{} x", "{},", "[", "[1,", "{\"a\": {", "nul", "\"", "{'a': 1}"}) {
    check(broken);
  }
  // A value before one that is cut can be read.
  EXPECT_EQ(shown("{\"a\": 1} {\"b\": 2\n{}\n"), (Strings{"{\"a\":1}", "{\"b\": 2", "{}"}));
}

TEST(JsonValuesTest, ABrokenValueOverLinesIsOneFault) {
  const std::string good = "{\n  \"a\": 1\n}\n";
  const std::string broken = "{\n  \"a\": [\n    {\n      \"b\": 1\n    }\n  ]\n  \"c\": 2\n}\n";
  const auto found = shown(good + broken + good);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0], "{\"a\":1}");
  EXPECT_TRUE(broken.starts_with(found[1])) << found[1];
  EXPECT_EQ(found[2], "{\"a\":1}");
  EXPECT_EQ(shown(good + broken).size(), 2u);
  EXPECT_EQ(shown(good + good.substr(0, 5) + "\n" + good).size(), 3u);
}

TEST(JsonValuesTest, ABrokenValueTakesNoOtherOfItsWriter) {
  // How writers begin an object, go on and part objects from each other.
  struct Form {
    std::string begin, between, end;
  };
  for (const Form& form :
       {Form{"{\"text\": \"a\",\n \"label\": \"b\"\n}", "\n", ""},
        Form{"{\n  \"text\": \"a\",\n  \"label\": [\n    \"b\"\n  ]\n}", "\n", "\n"},
        Form{"{\n \"text\": \"a\",\n \"label\": \"b\"\n}", "", ""},
        Form{"{\n \"text\": \"a\",\n \"label\": \"b\"\n}", " ", ""},
        Form{"  {\"text\": \"a\",\n  \"label\": \"b\"}", "\n\n", ""}}) {
    const std::size_t value = form.begin.find('a') - 1;
    for (const std::size_t cut : {value, value + 2, form.begin.rfind("\"b\"")}) {
      std::string stream;
      for (int i = 0; i < 10; ++i) {
        stream += i == 4 ? form.begin.substr(0, cut) + form.begin.substr(cut + 1) : form.begin;
        stream += i < 9 ? form.between : form.end;
      }
      SCOPED_TRACE(stream);
      const Strings found = shown(stream);
      // A line that is broken by itself is a fault of its own, and so are those behind it.
      EXPECT_EQ(std::ranges::count_if(found, is_json), 9);
      EXPECT_LE(found.size(), 13u);
    }
  }
}

TEST(JsonValuesTest, CutLinesTakeLinearTime) {
  std::string lines;
  for (int i = 0; i < 20000; ++i) lines += "{\"a\": [\n";
  EXPECT_EQ(read(lines).size(), 20000u);
  std::string values;
  for (int i = 0; i < 50000; ++i) values += "{\"a\": [1]}";
  EXPECT_EQ(read(values).size(), 50000u);
}

}  // namespace
}  // namespace longformer::text::json_values_test
