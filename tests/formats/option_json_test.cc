// Options as JSON: every kind of value is written and read back, and wrong ones are named.
#include "formats/option_json.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/option_fields.h"
#include "error_testing.h"
#include "formats/json.h"

namespace longformer::formats::option_json_test {
namespace {

enum class Colour { red, blue };

struct Options {
  bool flag = false, contrary = true;
  std::int64_t whole = 3;
  std::uint64_t seed = 42;
  double real = 0.25;
  float small = 0.5f;
  std::string text = "a";
  std::vector<std::string> words = {"x", "y"};
  std::vector<std::int64_t> numbers = {1, 2};
  std::optional<bool> may = {};
  std::optional<std::int64_t> count = {};
  std::optional<double> share = 0.125;
  std::vector<double> weights = {1, 2};
  Colour colour = Colour::red;
  std::optional<std::string> name = {};
  bool is_cut = false;
  std::optional<std::int64_t> overlap = {};
};

OptionFields fields(Options& options) {
  return {
      {.name = "flag", .value = &options.flag, .help = ""},
      {.name = "contrary", .value = &options.contrary, .help = ""},
      {.name = "whole", .value = &options.whole, .help = ""},
      {.name = "seed", .value = &options.seed, .help = ""},
      {.name = "real", .value = &options.real, .help = ""},
      {.name = "small", .value = &options.small, .help = ""},
      {.name = "text", .value = &options.text, .help = ""},
      {.name = "words", .value = &options.words, .help = ""},
      {.name = "numbers", .value = &options.numbers, .help = ""},
      {.name = "may", .value = &options.may, .help = ""},
      {.name = "count", .value = &options.count, .help = ""},
      {.name = "share", .value = &options.share, .help = ""},
      {.name = "weights", .value = OptionField::Numbers(options.weights), .help = ""},
      with_names({.name = "colour", .help = ""}, options.colour,
                 {{"red", Colour::red}, {"blue", Colour::blue}}),
      {.name = "name", .value = &options.name, .help = ""},
      {.name = "cut",
       .value = OptionField::Flag{[&options] { options.is_cut = true; },
                                  [&options] { return options.is_cut; }},
       .help = ""},
      {.name = "overlap",
       .value = OptionField::Whole{[&options](std::int64_t given) { options.overlap = given; },
                                   [&options] { return options.overlap; }},
       .help = "",
       .excludes = {"cut"}},
  };
}

TEST(OptionJson, EveryKindIsWrittenAndReadBack) {
  Options options;
  EXPECT_EQ(json_of(fields(options)).dump(),
            R"({"flag":false,"contrary":true,"whole":3,"seed":42,"real":0.25,"small":0.5,)"
            R"("text":"a","words":["x","y"],"numbers":[1,2],"may":null,"count":null,)"
            R"("share":0.125,"weights":[1.0,2.0],"colour":"red","name":null,"cut":false,)"
            R"("overlap":null})");
  const std::string other =
      R"({"flag":true,"contrary":false,"whole":-7,"seed":1,"real":2.0,"small":1.5,"text":"b",)"
      R"("words":[],"numbers":[5],"may":true,"count":9,"share":1.0,"weights":[0.5,4.0],)"
      R"("colour":"blue","name":"n","cut":false,"overlap":4})";
  read_options(fields(options), parse_json(other, "o"), "o");
  EXPECT_EQ(json_of(fields(options)).dump(), other);
}

TEST(OptionJson, AbsentAndNullKeepTheValue) {
  Options options;
  const std::string before = json_of(fields(options)).dump();
  read_options(fields(options), parse_json(R"({"whole": null})", "o"), "o");
  EXPECT_EQ(json_of(fields(options)).dump(), before);
}

TEST(OptionJson, WrongValuesAreNamed) {
  const auto said = [](const std::string& text) {
    Options options;
    return error_of([&] { read_options(fields(options), parse_json(text, "o"), "o"); });
  };
  expect_error(said(R"({"flag": 1})"), {"o: flag: expected true or false, found 1"});
  expect_error(said(R"({"whole": 1.5})"), {"o: whole: expected a whole number, found 1.5"});
  expect_error(said(R"({"seed": -1})"), {"o: seed: expected a whole number, found -1"});
  expect_error(said(R"({"real": "x"})"), {"o: real: expected a number, found \"x\""});
  expect_error(said(R"({"text": 1})"), {"o: text: expected a string, found 1"});
  expect_error(said(R"({"words": [1]})"), {"o: words: expected a list of strings"});
  expect_error(said(R"({"numbers": [1.5]})"), {"o: numbers: expected a list of whole numbers"});
  expect_error(said(R"({"weights": [1]})"), {"o: weights: expected a list of numbers"});
  expect_error(said(R"({"colour": "green"})"),
               {"o: colour: expected one of red, blue, found 'green'"});
  expect_error(said(R"({"wole": 1})"), {"wole", "whole"});
  expect_error(said(R"({"cut": 1})"), {"o: cut: expected true or false, found 1"});
  expect_error(said(R"({"overlap": 1.5})"), {"o: overlap: expected a whole number, found 1.5"});
  expect_error(said(R"({"name": 1})"), {"o: name: expected a string, found 1"});
}

TEST(OptionJson, OptionsThatExcludeEachOther) {
  const auto read = [](const std::string& text) {
    Options options;
    read_options(fields(options), parse_json(text, "o"), "o");
    return options;
  };
  expect_error(error_of([&] { read(R"({"cut": true, "overlap": 0})"); }),
               {"o: cut and overlap: expected one of them, found both"});
  EXPECT_EQ(read(R"({"cut": false, "overlap": 2})").overlap, 2);
  EXPECT_TRUE(read(R"({"cut": true, "overlap": null})").is_cut);
}

TEST(OptionFields, HelpShowsTheValue) {
  Options options;
  options.overlap = 5;
  OptionFields all = fields(options);
  for (OptionField& field : all) field.help = "x ({})";
  const std::vector<std::string> shown = {
      "x (false)", "x (true)", "x (3)",   "x (42)",    "x (0.25)", "x (0.5)",
      "x (a)",     "x (x,y)",  "x (1,2)", "x ()",      "x ()",     "x (0.125)",
      "x (1,2)",   "x (red)",  "x ()",    "x (false)", "x (5)"};
  ASSERT_EQ(all.size(), shown.size());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(help_of(all[i]), shown[i]) << all[i].name;
}

}  // namespace
}  // namespace longformer::formats::option_json_test
