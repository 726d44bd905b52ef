// Reading of checkpoint files: what a good file gives, and the one-line error of each bad one.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "core/error.h"
#include "error_testing.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "longformer/report.h"

namespace longformer::formats::formats_test {
namespace {

namespace fs = std::filesystem;

/// A folder that goes away with the test.
class FormatsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "longformer-formats-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::string write(const std::string& name, const std::string& contents) const {
    std::ofstream(path(name), std::ios::binary) << contents;
    return path(name);
  }

  /// A safetensors file of this header and this many bytes of data 0, 1, 2, ….
  std::string safetensors(const std::string& header, std::size_t data_bytes) const {
    std::string contents(8, '\0');
    const std::uint64_t length = header.size();
    std::memcpy(contents.data(), &length, 8);
    contents += header;
    for (std::size_t i = 0; i < data_bytes; ++i) contents.push_back(static_cast<char>(i));
    return write("model.safetensors", contents);
  }

  fs::path folder_;
};

struct BadHeader {
  std::string name;
  std::string header;
  std::size_t data_bytes;
  std::vector<std::string> message;
};

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"w":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

std::vector<BadHeader> bad_headers() {
  const std::string deep(1000, '[');
  return {
      {"not JSON", "{\"w\": oops}", 0, {"model.safetensors", "syntax error", "column 7"}},
      {"empty header", "", 0, {"syntax error"}},
      {"not an object", "[1]", 0, {"expected a JSON object", "[1]"}},
      {"too deep", "{\"w\":" + deep, 0, {"at most 128 levels"}},
      {"key twice",
       R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":1})",
       1,
       {"\"w\" twice"}},
      {"dtype twice", R"({"w":{"dtype":"U8","dtype":"I8"}})", 0, {"\"dtype\" twice"}},
      {"tensor is a number", R"({"w":3})", 0, {"tensor \"w\"", "expected an object", "found 3"}},
      {"no dtype", R"({"w":{"shape":[1],"data_offsets":[0,1]}})", 1, {"\"w\"", "no dtype"}},
      {"no shape", R"({"w":{"dtype":"U8","data_offsets":[0,1]}})", 1, {"\"w\"", "no shape"}},
      {"no offsets", R"({"w":{"dtype":"U8","shape":[1]}})", 1, {"\"w\"", "no data_offsets"}},
      {"unknown dtype", one("\"F12\"", "[1]", "[0,4]"), 4, {"\"w\"", "expected dtype", "\"F12\""}},
      {"dtype is a list", one("[]", "[1]", "[0,4]"), 4, {"expected dtype", "found []"}},
      {"negative dimension", one("\"F32\"", "[-1]", "[0,4]"), 4, {"non-negative", "[-1]"}},
      {"fractional dimension", one("\"F32\"", "[1.5]", "[0,4]"), 4, {"non-negative", "[1.5]"}},
      {"shape is a number", one("\"F32\"", "1", "[0,4]"), 4, {"expected a shape", "found 1"}},
      {"huge dimension",
       one("\"F32\"", "[18446744073709551615]", "[0,4]"),
       4,
       {"fewer than 2^63", "18446744073709551615"}},
      {"overflowing shape",
       one("\"F32\"", "[4294967296,4294967296]", "[0,4]"),
       4,
       {"fewer than 2^63"}},
      {"overflowing bytes",
       one("\"F64\"", "[4611686018427387904]", "[0,0]"),
       4,
       {"2^64 or more", "found 0"}},
      {"17 dimensions",
       one("\"U8\"", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]"),
       1,
       {"at most 16 dimensions"}},
      {"beyond the file", one("\"F32\"", "[2]", "[0,8]"), 4, {"inside the 4 data bytes", "[0,8]"}},
      {"far beyond the file",
       one("\"F32\"", "[2]", "[18446744073709551608,18446744073709551615]"),
       4,
       {"inside the 4 data bytes"}},
      {"end before begin", one("\"F32\"", "[1]", "[4,0]"), 8, {"inside", "[4,0]"}},
      {"negative offset", one("\"F32\"", "[1]", "[-4,0]"), 8, {"non-negative", "[-4,0]"}},
      {"one offset", one("\"F32\"", "[1]", "[4]"), 8, {"two data_offsets", "[4]"}},
      {"size against shape",
       one("\"F32\"", "[3]", "[0,8]"),
       8,
       {"expected 12 data bytes for fp32 of shape [3]", "found 8"}},
      {"overlap",
       R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
       R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
       12,
       {"tensor \"b\"", "bytes 4 to 8 belong to \"a\" too"}},
      {"same data twice",
       R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
       2,
       {"bytes 0 to 2 belong to"}},
      {"metadata is a list", R"({"__metadata__":[]})", 0, {"__metadata__", "object of strings"}},
      {"metadata of numbers", R"({"__metadata__":{"a":1}})", 0, {"__metadata__", "\"a\""}},
      {"line break in a name",
       "{\"a\\nb\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,1]}}",
       1,
       {"tensor \"a\\nb\"", "expected 9"}},
  };
}

TEST_F(FormatsTest, ReportsEachBadHeader) {
  for (const BadHeader& bad : bad_headers()) {
    SCOPED_TRACE(bad.name);
    const std::string file = safetensors(bad.header, bad.data_bytes);
    expect_error(error_of([&] { SafetensorsFile::open(file); }), bad.message);
  }
}

TEST_F(FormatsTest, ReportsEachBadFile) {
  expect_error(error_of([&] { SafetensorsFile::open(path("none")); }),
               {path("none"), "No such file"});
  expect_error(error_of([&] { SafetensorsFile::open(folder_.string()); }),
               {folder_.string(), "regular file"});
  expect_error(error_of([&] { SafetensorsFile::open(write("a", "")); }), {"an empty file"});
  expect_error(error_of([&] { SafetensorsFile::open(write("a", "1234567")); }), {"found 7"});
  const std::string length_10 = std::string("\x0a\0\0\0\0\0\0\0", 8);
  expect_error(error_of([&] { SafetensorsFile::open(write("a", length_10 + "{}")); }),
               {"at most 2 bytes", "length of 10"});
  const std::string huge(8, '\xff');
  expect_error(error_of([&] { SafetensorsFile::open(write("a", huge + "{}")); }),
               {"at most 2 bytes", "18446744073709551615"});
}

TEST_F(FormatsTest, BoundsTheHeaderOfALargeFile) {
  const std::string file = safetensors("{}", 0);
  fs::resize_file(file, 300'000'000);  // sparse: takes no space
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  const std::uint64_t length = 200'000'000;
  stream.write(reinterpret_cast<const char*>(&length), 8);
  stream.close();
  expect_error(error_of([&] { SafetensorsFile::open(file); }),
               {"at most 100000000 bytes", "length of 200000000"});
}

TEST_F(FormatsTest, DoesNotWaitForAPipe) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  expect_error(error_of([&] { SafetensorsFile::open(path("pipe")); }), {"regular file"});
  expect_error(error_of([&] { read_json(path("pipe")); }), {"regular file"});
}

TEST_F(FormatsTest, ReadsEveryDtypeWithoutPadding) {
  // A header of odd length: nothing is aligned, so tensors are copies.
  const std::string file =
      safetensors(R"({"d":{"dtype":"F64","shape":[1],"data_offsets":[1,9]},)"
                  R"("f":{"dtype":"F32","shape":[1,2],"data_offsets":[9,17]},)"
                  R"("s":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)"
                  R"("h":{"dtype":"F16","shape":[2],"data_offsets":[17,21]},)"
                  R"("b":{"dtype":"BF16","shape":[1],"data_offsets":[21,23]},)"
                  R"("i":{"dtype":"I64","shape":[1],"data_offsets":[23,31]},)"
                  R"("t":{"dtype":"BOOL","shape":[1],"data_offsets":[31,32]},)"
                  R"("e":{"dtype":"F32","shape":[0,7],"data_offsets":[32,32]}})",
                  32);
  const SafetensorsFile opened = SafetensorsFile::open(file);
  ASSERT_EQ(opened.tensors().size(), 8u);
  const auto check = [&](const char* name, DType dtype, const Shape& shape, int first) {
    SCOPED_TRACE(name);
    const Tensor& tensor = opened.tensors().at(name);
    EXPECT_EQ(tensor.dtype(), dtype);
    EXPECT_EQ(tensor.shape(), shape);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.raw()) % element_size(dtype), 0u);
    const auto* bytes = static_cast<const unsigned char*>(tensor.raw());
    for (std::size_t i = 0; i < tensor.bytes(); ++i) EXPECT_EQ(bytes[i], first + int(i));
  };
  check("s", DType::u8, {}, 0);
  check("d", DType::f64, {1}, 1);
  check("f", DType::f32, {1, 2}, 9);
  check("h", DType::f16, {2}, 17);
  check("b", DType::bf16, {1}, 21);
  check("i", DType::i64, {1}, 23);
  check("t", DType::boolean, {1}, 31);
  check("e", DType::f32, {0, 7}, 0);
}

TEST_F(FormatsTest, TensorsOutliveTheFile) {
  const std::string file = safetensors(one("\"U8\"", "[3]", "[0,3]"), 3);
  Tensor tensor;
  {
    const SafetensorsFile opened = SafetensorsFile::open(file);
    tensor = opened.tensors().at("w");
  }
  fs::remove(file);
  EXPECT_EQ(std::memcmp(tensor.raw(), "\0\1\2", 3), 0);
}

TEST_F(FormatsTest, ToleratesHolesAndTrailingBytes) {
  const std::string file = safetensors(one("\"U8\"", "[2]", "[64,66]"), 128);
  EXPECT_EQ(SafetensorsFile::open(file).tensors().at("w").rows(), 2);
}

TEST_F(FormatsTest, WritesWhatItReads) {
  const std::vector<float> values = {1.0f, -2.5f, 3e-30f, 4.0f, 5.0f, 6.0f};
  Tensor bytes({3}, DType::u8);
  std::memcpy(bytes.raw(), "abc", 3);
  const Tensor matrix = Tensor::from(values, {2, 3});
  const Tensor narrow = matrix.to(DType::bf16);
  const Tensor empty({0, 4}, DType::f32);
  write_safetensors(path("out"), {{"bytes", bytes}, {"z", matrix}, {"a", narrow}, {"e", empty}});
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);

  const SafetensorsFile opened = SafetensorsFile::open(path("out"));
  EXPECT_EQ(opened.metadata().at("format"), "pt");
  ASSERT_EQ(opened.tensors().size(), 4u);
  EXPECT_EQ(opened.tensors().at("z").to_floats(), values);
  EXPECT_EQ(opened.tensors().at("z").shape(), (Shape{2, 3}));
  EXPECT_EQ(opened.tensors().at("a").to_floats(), narrow.to_floats());
  EXPECT_EQ(std::memcmp(opened.tensors().at("bytes").raw(), "abc", 3), 0);
  EXPECT_EQ(opened.tensors().at("e").shape(), (Shape{0, 4}));
  // The data begins aligned, and the next writer replaces the file.
  std::uint64_t length = 0;
  std::memcpy(&length, read_file(path("out")).data(), 8);
  EXPECT_EQ((8 + length) % 64, 0u);
  write_safetensors(path("out"), {{"z", matrix}});
  EXPECT_EQ(SafetensorsFile::open(path("out")).tensors().size(), 1u);
  EXPECT_EQ(opened.tensors().at("z").to_floats(), values);
}

TEST_F(FormatsTest, ReportsWhereItCannotWrite) {
  expect_error(error_of([&] { write_safetensors(path("no/folder"), {}); }),
               {path("no/folder"), "No such file"});
  expect_error(error_of([&] { write_file(path("no/folder"), "x"); }),
               {path("no/folder"), "No such file"});
}

TEST_F(FormatsTest, ReleasedPagesReadAgain) {
  const std::string file = safetensors(one("\"U8\"", "[100000]", "[0,100000]"), 100000);
  const auto mapping = MappedFile::open(file);
  const std::string before(reinterpret_cast<const char*>(mapping->data()), mapping->size());
  mapping->release(mapping->data() + 10, 90000);
  EXPECT_EQ(std::memcmp(before.data(), mapping->data(), before.size()), 0);
}

TEST(Json, KeepsOrderAndValues) {
  const auto value = parse_json(R"({"z": 1, "a": [true, null, -2, 1.5, "é\n"], "m": {}})", "x");
  EXPECT_EQ(value.dump(), "{\"z\":1,\"a\":[true,null,-2,1.5,\"é\\n\"],\"m\":{}}");
}

TEST(Json, IsLinearInTheNumberOfKeys) {
  std::string text = "{";
  for (int i = 0; i < 300000; ++i) text += fmt::format("\"key {}\": {},", i, i);
  text.back() = '}';
  EXPECT_EQ(parse_json(text, "x").size(), 300000u);  // quadratic time would be minutes
}

TEST(Json, ReportsSyntaxWithItsPlace) {
  const auto message = [](const std::string& text) {
    return error_of([&] { parse_json(text, "config.json"); });
  };
  expect_error(message(""), {"config.json", "syntax error", "line 1"});
  expect_error(message("{\n \"a\": 1,\n}"), {"line 3, column 1"});
  expect_error(message("{\"a\": 1} x"), {"line 1, column 10"});
  expect_error(message("{\"a\": NaNa}"), {"line 1, column 7"});
  expect_error(message("{\"a\": -NaN}"), {"line 1, column 8"});
  expect_error(message("\"\xff\""), {"syntax error"});
  expect_error(message(std::string(1, '"').append(5000, 'x')), {"syntax error"});
  expect_error(message(std::string(200, '[') + std::string(200, ']')), {"at most 128 levels"});
  expect_error(message("{\"a\":1,\"a\":1}"), {"\"a\" twice"});
}

TEST(Json, ReadsWhatPythonWrites) {
  const auto value = parse_json(R"({"a": NaN, "b": -Infinity, "c": [Infinity, 1e999, -1E400, 0E0],)"
                                R"( "NaN": "NaN", "x\"": "\ud83d \uD83D\uDE00 \ude00"})",
                                "x");
  EXPECT_TRUE(std::isnan(value["a"].get<double>()));
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(value["b"].get<double>(), -infinity);
  EXPECT_EQ(value["c"][0].get<double>(), infinity);
  EXPECT_EQ(value["c"][1].get<double>(), infinity);
  EXPECT_EQ(value["c"][2].get<double>(), -infinity);
  EXPECT_EQ(value["c"][3].get<double>(), 0);
  EXPECT_EQ(value["NaN"], "NaN");
  EXPECT_EQ(value["x\""], "\xef\xbf\xbd \xf0\x9f\x98\x80 \xef\xbf\xbd");
  EXPECT_EQ(shown(value["a"]), "NaN");
  EXPECT_EQ(parse_json("0E0", "x").get<double>(), 0);
  EXPECT_EQ(standard_json(R"({"a": [NaN,-Infinity], "b": "NaN \ud83d"} x)"),
            R"({"a": [null,null], "b": "NaN \ufffd"} x)");
}

TEST(Json, DataKeepTheLastKeyAndAllDigits) {
  const auto value = parse_json_data(
      R"({"a": 1, "b": 123456789012345678901234567890, "a": {"c": 2}, "d": 18446744073709551615})",
      "x");
  EXPECT_EQ(value.dump(),
            R"({"a":{"c":2},"b":"123456789012345678901234567890","d":18446744073709551615})");
}

TEST(Json, ReplacesTopLevelMembersOnly) {
  const auto replaced = [](const std::string& text) {
    return with_null_members(text, {"truncation", "padding"}, "tokenizer.json");
  };
  EXPECT_EQ(
      replaced(R"({"version":"1.0","truncation":{"max_length":128,"d":"}\"]"},"padding":[{}],)"
               R"("model":{"truncation":{"a":1},"x":"padding"}})"),
      R"({"version":"1.0","truncation":null,"padding":null,)"
      R"("model":{"truncation":{"a":1},"x":"padding"}})");
  EXPECT_EQ(replaced("{ \"a\" : -1.50e3 ,\n \"padding\" : 12 }"),
            "{ \"a\" : -1.50e3 ,\n \"padding\" : null }");
  EXPECT_EQ(replaced(R"({"trunc\u0061tion": "x\\", "b": true})"),
            R"({"trunc\u0061tion": null, "b": true})");
  EXPECT_EQ(replaced(R"({"padding":null})"), R"({"padding":null})");
  EXPECT_EQ(replaced(" {} "), " {} ");
  expect_error(error_of([&] { replaced("[]"); }), {"tokenizer.json", "expected a JSON object"});
  expect_error(error_of([&] { replaced("{\"padding\":}"); }), {"syntax error"});
}

TEST(ConfigReader, ChecksTypesAndLimits) {
  const auto value = parse_json(
      R"({"i": 5, "neg": -3, "huge": 18446744073709551615, "vast": 1e40, "f": 0.5, "s": "x",
          "b": false, "n": null})",
      "c");
  const ConfigReader config(value, "config.json");
  EXPECT_EQ(config.integer("i", 1, 0, 9), 5);
  EXPECT_EQ(config.integer("none", 7, 0, 1), 7);
  EXPECT_EQ(config.integer("n", 7, 0, 1), 7);
  EXPECT_EQ(config.number("f", 0), 0.5);
  EXPECT_EQ(config.number("i", 0), 5.0);
  EXPECT_EQ(config.string("s", "y"), "x");
  EXPECT_EQ(config.boolean("b", true), false);
  EXPECT_TRUE(config.has("s"));
  EXPECT_FALSE(config.has("n"));
  EXPECT_FALSE(config.has("none"));
  const auto integer = [&](const char* key) {
    return error_of([&] { config.integer(key, 1, 1, 4); });
  };
  expect_error(integer("i"), {"config.json: i: expected an integer from 1 to 4, found 5"});
  expect_error(integer("neg"), {"found -3"});
  expect_error(integer("huge"), {"found 18446744073709551615"});
  expect_error(integer("vast"), {"found 1e+40"});
  expect_error(integer("f"), {"found 0.5"});
  expect_error(integer("s"), {"found \"x\""});
  expect_error(error_of([&] { config.number("s", 0); }), {"s: expected a number, found \"x\""});
  expect_error(error_of([&] { config.boolean("i", true); }), {"true or false, found 5"});
  expect_error(error_of([&] { config.string("i", ""); }), {"i: expected a string, found 5"});
  expect_error(error_of([&] { config.at("none"); }), {"expected the key \"none\""});
  const auto list = parse_json("[1]", "c");
  expect_error(error_of([&] { ConfigReader(list, "c.json"); }), {"c.json", "object", "[1]"});
}

}  // namespace
}  // namespace longformer::formats::formats_test
