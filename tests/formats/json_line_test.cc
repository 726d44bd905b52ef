#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "longformer/report.h"

namespace longformer::json_line_test {
namespace {

struct Span {
  std::int64_t begin = 0, end = 0;
};

TEST(JsonLine, WritesMembersInTheirOrder) {
  JsonLine json;
  json.add("text", "a \"b\"\n").add("number", std::int64_t{3}).add("share", 0.1f).add("is", true);
  json.add_null("line").add("numbers", std::span<const float>(std::array{0.5f, std::nanf("")}));
  EXPECT_EQ(json.line(),
            "{\"text\":\"a \\\"b\\\"\\n\",\"number\":3,\"share\":0.1,\"is\":true,\"line\":null,"
            "\"numbers\":[0.5,null]}\n");
}

TEST(JsonLine, TakesTheMembersOfAnObject) {
  EXPECT_EQ(JsonLine().add("file", "a").add_members("{\"b\":[1]}").object(),
            "{\"file\":\"a\",\"b\":[1]}");
  EXPECT_EQ(JsonLine().add("file", "a").add_members("{}").object(), "{\"file\":\"a\"}");
  EXPECT_EQ(JsonLine().add_members("{\"b\":1}").add("c", std::int64_t{2}).object(),
            "{\"b\":1,\"c\":2}");
}

TEST(JsonLine, WritesSpansAndRowsAsArraysOfArrays) {
  const std::vector<Span> spans = {{0, 3}, {4, 9}};
  const std::vector<float> values = {1, 2, 3, 4};
  JsonLine json;
  json.add("spans", std::span<const Span>(spans)).add_rows("rows", values, 2);
  json.add("none", std::span<const Span>());
  EXPECT_EQ(json.object(), "{\"spans\":[[0,3],[4,9]],\"rows\":[[1,2],[3,4]],\"none\":[]}");
}

TEST(JsonLine, EscapesWhatATerminalWouldObey) {
  const std::string text = "\x1b\x7f\xc2\x9b\xe2\x80\xae\xe2\x81\xa9é\xe2\x80\xaf";
  EXPECT_EQ(JsonLine().add("t", text).object(),
            "{\"t\":\"\\u001b\\u007f\\u009b\\u202e\\u2069é\xe2\x80\xaf\"}");
}

TEST(JsonText, MembersAreAsTheyAreWritten) {
  const std::string object =
      " { \"a\" : 12345678901234567890123 , \"b\": [ 1.50, \"c, ]\" ],\n"
      "\"q\\\"\": {\"x\": -0.0},\"a\":1e3 } ";
  const auto members = json_members(object);
  ASSERT_EQ(members.size(), 4u);
  EXPECT_EQ(members[0].value, "12345678901234567890123");
  EXPECT_EQ(members[1].value, "[1.50,\"c, ]\"]");
  EXPECT_EQ(members[2].name, "q\"");
  EXPECT_EQ(members[2].value, "{\"x\":-0.0}");
  EXPECT_EQ(json_member(object, "a"), "1e3");
  EXPECT_EQ(json_member(object, "q\""), "{\"x\":-0.0}");
  EXPECT_EQ(json_member(object, "x"), "");
  EXPECT_TRUE(json_members("{}").empty());
}

TEST(JsonText, ElementsAreParts) {
  const std::vector<std::string_view> found = json_elements("[ {\"a\": [1, 2]} ,\n3.0,\"x,y\" ]");
  EXPECT_EQ(found, (std::vector<std::string_view>{"{\"a\": [1, 2]}", "3.0", "\"x,y\""}));
  EXPECT_TRUE(json_elements("[ ]").empty());
}

}  // namespace
}  // namespace longformer::json_line_test
