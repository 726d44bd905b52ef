// Tokenizers of tests/fixtures/tokenizers beside what the `tokenizers` package encodes with them
// (tests/fixtures/make_tokenizer_fixtures.py), and files of them that are not in order.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "longformer/error.h"
#include "longformer/text.h"
#include "temporary_folder.h"

namespace longformer {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Ids = std::vector<std::int32_t>;

inline const fs::path kFixtures = fixtures_folder() / "tokenizers";

inline std::string fixture(const std::string& name) { return (kFixtures / name).string(); }

/// The message of the error that loading the files gives; fails the test when it gives none.
inline std::string load_error(const std::map<std::string, std::string>& files) {
  const TemporaryFolder folder(files);
  try {
    Tokenizer::load(folder.name());
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
  ADD_FAILURE() << "loading works";
  return "";
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
}

inline Json read_json(const fs::path& path) { return Json::parse(std::ifstream(path)); }

inline TruncationStrategy strategy_of(const std::string& name) {
  if (name == "only_first") return TruncationStrategy::only_first;
  return name == "only_second" ? TruncationStrategy::only_second
                               : TruncationStrategy::longest_first;
}

inline EncodeOptions options_of(const Json& expected) {
  EncodeOptions options;
  options.add_special_tokens = expected["add_special_tokens"];
  if (!expected["max_length"].is_null()) options.max_length = expected["max_length"];
  options.strategy = strategy_of(expected["strategy"]);
  return options;
}

inline void expect_case(const Tokenizer& tokenizer, const Json& expected) {
  SCOPED_TRACE(expected.dump());
  const std::string text = expected["text"];
  const auto encode = [&] {
    return expected["pair"].is_null()
               ? tokenizer.encode(text, options_of(expected))
               : tokenizer.encode_pair(text, expected["pair"].get<std::string>(),
                                       options_of(expected));
  };
  if (expected.contains("fails")) {
    EXPECT_THROW(encode(), Error);
    return;
  }
  const auto encoding = encode();
  EXPECT_EQ(encoding.ids, expected["ids"].get<Ids>());
  std::vector<CharacterSpan> offsets;
  for (const auto& span : expected["offsets"]) offsets.push_back({span[0], span[1]});
  EXPECT_TRUE(encoding.offsets == offsets);
  EXPECT_EQ(encoding.type_ids, expected["type_ids"].get<Ids>());
  EXPECT_EQ(encoding.special_tokens_mask,
            expected["special_tokens_mask"].get<std::vector<std::uint8_t>>());
  EXPECT_EQ(encoding.sequence_ids, expected["sequence_ids"].get<std::vector<std::int8_t>>());
  EXPECT_EQ(encoding.truncated, expected["truncated"].get<std::int64_t>());
  EXPECT_EQ(tokenizer.decode(encoding.ids), expected["decoded"].get<std::string>());
  EXPECT_EQ(tokenizer.decode(encoding.ids, false), expected["decoded_all"].get<std::string>());
}

inline void expect_cases(const std::string& folder, const std::string& cases) {
  const auto tokenizer = Tokenizer::load(fixture(folder));
  const auto expected = read_json(kFixtures / cases / "cases.json");
  ASSERT_GT(expected.size(), 100u);
  for (const auto& one : expected) expect_case(tokenizer, one);
}

/// A tokenizer.json with one part replaced.
inline std::string tokenizer_json(const std::string& fixture_name, const std::string& pointer,
                                  const Json& value) {
  auto json = read_json(kFixtures / fixture_name / "tokenizer.json");
  json[Json::json_pointer(pointer)] = value;
  return json.dump();
}

inline std::string replaced_error(const std::string& name, const std::string& pointer,
                                  const Json& value) {
  return load_error({{"tokenizer.json", tokenizer_json(name, pointer, value)}});
}

}  // namespace longformer
