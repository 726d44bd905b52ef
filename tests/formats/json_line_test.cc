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

}  // namespace
}  // namespace longformer::json_line_test
