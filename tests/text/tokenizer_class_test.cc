// The classes of transformers over a tokenizer.json, and the habits of those who write the files.
#include <algorithm>

#include "tokenizer_cases.h"

namespace longformer::tokenizer_class_test {
namespace {

const Json& class_cases() {
  static const Json cases = read_json(kFixtures.parent_path() / "tokenizer_classes.json");
  return cases;
}

/// The files of a case of tokenizer_classes.json.
std::map<std::string, std::string> files_of(const Json& one) {
  Json tokenizer = class_cases()["bases"][one["base"].get<std::string>()];
  for (const Json& change : one["changes"]) {
    Json* part = &tokenizer;
    for (const Json& key : change[0]) part = &(*part)[key.get<std::string>()];
    *part = change[1];
  }
  std::map<std::string, std::string> files{{"tokenizer.json", tokenizer.dump()}};
  if (!one["config"].is_null()) files["tokenizer_config.json"] = one["config"].dump();
  if (!one["model"].is_null()) files["config.json"] = one["model"].dump();
  for (const auto& [name, content] : one["files"].items()) files[name] = content.dump();
  return files;
}

/// The files of a base with other keys in tokenizer_config.json.
std::map<std::string, std::string> base_files(const std::string& base, const Json& config,
                                              const std::string& part = "",
                                              const Json& value = nullptr) {
  Json tokenizer = class_cases()["bases"][base];
  if (!part.empty()) tokenizer[part] = value;
  return {{"tokenizer.json", tokenizer.dump()}, {"tokenizer_config.json", config.dump()}};
}

TEST(TokenizerClass, TokensAreThoseOfAutoTokenizer) {
  const Json& all = class_cases();
  ASSERT_GT(all["cases"].size(), 200u);
  for (const Json& one : all["cases"]) {
    const TemporaryFolder folder(files_of(one));
    const auto tokenizer = Tokenizer::load(folder.name());
    const Json& expected = all["results"][one["expected"].get<std::size_t>()];
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Encoding found = tokenizer.encode(all["texts"][i].get<std::string>());
      EXPECT_EQ(found.ids, expected[i][0].get<Ids>()) << one.dump() << " text " << i;
      Json offsets = Json::array();
      for (const CharacterSpan& span : found.offsets) offsets.push_back({span.begin, span.end});
      EXPECT_EQ(offsets, expected[i][1]) << one.dump() << " text " << i;
    }
    EXPECT_TRUE(tokenizer.notes().empty()) << one.dump();
  }
}

TEST(TokenizerClass, WhatTransformersFiveReplacesIsTold) {
  const Json config = {{"tokenizer_class", "BertTokenizer"}};
  const Json own = {{"type", "Sequence"},
                    {"normalizers", {{{"type", "NFC"}}, {{"type", "Lowercase"}}}}};
  const TemporaryFolder normalizer(base_files("wordpiece", config, "normalizer", own));
  const auto notes = Tokenizer::load(normalizer.name()).notes();
  ASSERT_EQ(notes.size(), 1u);
  expect_contains(notes[0], "normalizer");
  expect_contains(notes[0], "BertTokenizer");
  Json other = class_cases()["bases"]["wordpiece"]["post_processor"];
  other["single"].erase(0);
  const TemporaryFolder processor(base_files("wordpiece", config, "post_processor", other));
  ASSERT_EQ(Tokenizer::load(processor.name()).notes().size(), 1u);
  const TemporaryFolder generic(base_files("wordpiece", Json::object(), "normalizer", own));
  EXPECT_TRUE(Tokenizer::load(generic.name()).notes().empty());
}

TEST(TokenizerClass, TextsAreCutAtTheSideThatTheFilesName) {
  const std::string text = "an anna an Anna";
  const Json truncation = {
      {"direction", "Left"}, {"max_length", 4}, {"strategy", "LongestFirst"}, {"stride", 0}};
  const TemporaryFolder usual(base_files("wordpiece", Json::object()));
  const auto whole = Tokenizer::load(usual.name()).encode(text).ids;
  const Ids first{whole[0], whole[1], whole[2], whole.back()};
  const Ids last{whole[0], whole[3], whole[4], whole.back()};
  const auto cut = [&](const std::map<std::string, std::string>& files) {
    const TemporaryFolder folder(files);
    return Tokenizer::load(folder.name()).encode(text, {.max_length = 4}).ids;
  };
  EXPECT_EQ(cut(base_files("wordpiece", Json::object())), first);
  EXPECT_EQ(cut(base_files("wordpiece", {{"truncation_side", "left"}})), last);
  EXPECT_EQ(cut(base_files("wordpiece", Json::object(), "truncation", truncation)), last);
  EXPECT_EQ(cut(base_files("wordpiece", {{"truncation_side", "right"}}, "truncation", truncation)),
            first);
  expect_contains(load_error(base_files("wordpiece", {{"truncation_side", "top"}})),
                  "truncation_side");
}

TEST(TokenizerClass, TokensBehindTheTableAreNamed) {
  const TemporaryFolder folder(
      base_files("wordpiece", {{"additional_special_tokens", {"<drug>", "<dose>"}}}));
  const auto whole = Tokenizer::load(folder.name());
  const auto rows = whole.vocabulary_size() - 1;
  const auto tokenizer = whole.with_rows(rows);
  EXPECT_EQ(tokenizer.vocabulary_size(), rows);
  EXPECT_EQ(tokenizer.encode("an <drug> anna").ids, whole.encode("an <drug> anna").ids);
  for (const bool pair : {false, true}) {
    try {
      if (pair) {
        tokenizer.encode_pair("an", "a <dose>");
      } else {
        tokenizer.encode("a <dose> an");
      }
      ADD_FAILURE() << "a token without a row is taken";
    } catch (const Error& error) {
      expect_contains(error.what(), "'<dose>'");
      expect_contains(error.what(), std::to_string(rows));
    }
  }
}

std::string with_ends(std::string text, const std::string& end) {
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += end.size()) {
    text.replace(at, 1, end);
  }
  return text;
}

const std::string kMark = "\xef\xbb\xbf";
const std::string kWords = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nan\n##na\nbook\n";
const std::string kBytes = R"({"<s>":0,"<pad>":1,"</s>":2,"<unk>":3,"a":4,"n":5,"an":6,"ana":7})";
const std::string kMerges = "#version: 0.2\na n\nan a\n";

TEST(WritersHabits, LineEndsAndMarksOfOtherSystemsAreTakenOff) {
  for (const std::string& mark : {std::string(), kMark}) {
    for (const std::string end : {"\n", "\r\n"}) {
      const TemporaryFolder words({{"vocab.txt", mark + with_ends(kWords, end)}});
      const auto word_piece = Tokenizer::load(words.name());
      EXPECT_EQ(word_piece.encode("anna book").ids, (Ids{2, 5, 6, 7, 3}));
      EXPECT_EQ(word_piece.vocabulary_size(), 8);
      EXPECT_EQ(word_piece.special_tokens().pad, 0);
      const TemporaryFolder bytes(
          {{"vocab.json", mark + kBytes}, {"merges.txt", mark + with_ends(kMerges, end)}});
      EXPECT_EQ(Tokenizer::load(bytes.name()).encode("ana").ids, (Ids{0, 7, 2}));
      const TemporaryFolder whole(
          {{"tokenizer.json", mark + with_ends(class_cases()["bases"]["bytes"].dump(1), end)},
           {"tokenizer_config.json", mark + "{}"}});
      EXPECT_GT(Tokenizer::load(whole.name()).vocabulary_size(), 256);
    }
  }
}

TEST(WritersHabits, MergesThatAreNotThereAreAnError) {
  for (const std::string& merges : {std::string(), std::string("#version: 0.2\n"), kMark}) {
    expect_contains(load_error({{"vocab.json", kBytes}, {"merges.txt", merges}}), "merges.txt");
  }
  Json model = class_cases()["bases"]["bytes"]["model"];
  model["merges"] = Json::array();
  expect_contains(load_error(base_files("bytes", Json::object(), "model", model)), "merge");
  // A vocabulary of single bytes needs none, nor does one whose words are looked up whole.
  const TemporaryFolder single(
      {{"vocab.json", R"({"<s>":0,"</s>":1,"a":2})"}, {"merges.txt", "#version: 0.2\n"}});
  EXPECT_EQ(Tokenizer::load(single.name()).encode("aa").ids, (Ids{0, 2, 2, 1}));
  model["ignore_merges"] = true;
  const TemporaryFolder looked_up(base_files("bytes", Json::object(), "model", model));
  EXPECT_NO_THROW(Tokenizer::load(looked_up.name()));
  expect_contains(load_error({{"vocab.json", kBytes}, {"merges.txt", "a n\nn n\n"}}), "'nn'");
  expect_contains(load_error({{"vocab.txt", "[UNK]\n\xff\xfe\n"}}), "vocab.txt");
}

TEST(OldFolders, TheEncoderIsInTheFolderOfTheFirstModule) {
  const TemporaryFolder old(
      {{"modules.json", R"([{"idx":0,"name":"0","path":"0_Transformer","type":"Transformer"}])"},
       {"config.json", R"({"__version__":"0.3.8"})"},
       {"0_Transformer/config.json", R"({"model_type":"bert"})"},
       {"0_Transformer/vocab.txt", kWords}});
  EXPECT_EQ(Tokenizer::load(old.name()).encode("ANNA").ids, (Ids{2, 5, 6, 3}));
}

}  // namespace
}  // namespace longformer::tokenizer_class_test
