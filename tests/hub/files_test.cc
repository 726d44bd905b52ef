// The Hub's lists of files, and the choice among them.
#include "hub/files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "error_testing.h"

namespace longformer::hub::files_test {
namespace {

const std::string kCommit(40, 'c');

/// The answer of the Hub for files whose contents do not matter.
std::string answer(const std::vector<std::string>& names) {
  std::string files;
  for (const std::string& name : names) {
    files += fmt::format(R"({}{{"rfilename": "{}", "size": 7, "blobId": "{}"}})",
                         files.empty() ? "" : ", ", name, std::string(40, 'b'));
  }
  return fmt::format(R"({{"id": "o/n", "sha": "{}", "siblings": [{}]}})", kCommit, files);
}

std::vector<std::string> chosen(const std::vector<std::string>& names,
                                const std::map<std::string, std::string>& texts = {}) {
  const FileAnswers answers = {.text = [&](const RemoteFile& file) { return texts.at(file.name); },
                               .describe = [](RemoteFile&) { FAIL() << "the list does"; }};
  std::vector<std::string> found;
  for (const auto& file : files_to_read(parse_listing(answer(names), "o/n"), "o/n", answers)) {
    found.push_back(file.name);
  }
  std::ranges::sort(found);
  return found;
}

using Names = std::vector<std::string>;

TEST(HubFiles, ListOfTheHub) {
  const std::string sum(64, 'a'), hash(40, 'b');
  const Listing listing =
      parse_listing(fmt::format(R"({{"sha": "{0}", "private": false, "siblings": [
        {{"rfilename": "config.json", "size": 12, "blobId": "{2}"}},
        {{"rfilename": "w/model.safetensors", "size": 99, "blobId": "{2}",
          "lfs": {{"sha256": "{1}", "size": 99, "pointerSize": 134}}}}]}})",
                                kCommit, sum, hash),
                    "o/n");
  EXPECT_EQ(listing.commit, kCommit);
  ASSERT_EQ(listing.files.size(), 2u);
  EXPECT_EQ(listing.files[0].hash, hash);
  EXPECT_EQ(listing.files[0].size, 12);
  EXPECT_EQ(listing.files[1].hash, sum);
  EXPECT_EQ(listing.find("w/model.safetensors")->size, 99);
  EXPECT_EQ(listing.find("model.safetensors"), nullptr);
}

TEST(HubFiles, BadLists) {
  const auto error = [](const std::string& json) {
    return error_of([&] { parse_listing(json, "o/n"); });
  };
  expect_error(error("<html>"), {"o/n"});
  expect_error(error("{}"), {"o/n", "description"});
  expect_error(error("[]"), {"o/n"});
  expect_error(error(R"({"sha": "../../x", "siblings": []})"), {"description"});
  expect_error(error(fmt::format(R"({{"sha": "{}"}})", kCommit)), {"list of files"});
  expect_error(error(answer({"a", "a"})), {"found", "twice"});
}

TEST(HubFiles, NamesThatLeadOutAreNoFiles) {
  for (const char* name : {"../x", "/etc/passwd", "a/../../x", "", R"(a\\b)"}) {
    const Listing listing = parse_listing(answer({name, "config.json"}), "o/n");
    ASSERT_EQ(listing.files.size(), 1u) << name;
    EXPECT_EQ(listing.files[0].name, "config.json");
  }
}

TEST(HubFiles, OnlyFilesThatAreReadNeedSizeAndHash) {
  const std::string no_hash = R"({{"sha": "{0}", "siblings": [{{"rfilename": "{1}"{2}}}, {3}]}})";
  const std::string others =
      R"({"rfilename": "config.json", "size": 7, "blobId": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"})";
  FileAnswers answers = {.text = [](const RemoteFile&) { return ""; },
                         .describe = [](RemoteFile&) {}};
  const auto read_with = [&](const char* name, const char* more) {
    const std::string json = fmt::format(fmt::runtime(no_hash), kCommit, name, more, others);
    return files_to_read(parse_listing(json, "o/n"), "o/n", answers);
  };
  for (const char* more :
       {"", R"(, "size": 3)",
        R"(, "size": -1, "blobId": "0123456789012345678901234567890123456789")",
        R"(, "size": 70368744177664, "blobId": "0123456789012345678901234567890123456789")",
        R"(, "size": 9223372036854775807, "blobId": "0123456789012345678901234567890123456789")",
        R"(, "size": 3, "blobId": "../../../../../../../../../../../../../x")",
        R"(, "size": 3, "lfs": {"sha256": "0123456789012345678901234567890123456789"})"}) {
    EXPECT_EQ(read_with("runs/a.txt", more).size(), 1u) << more;
    expect_error(error_of([&] { read_with("tokenizer.json", more); }),
                 {"o/n", "size and the hash", "tokenizer.json"});
  }
  // The server may tell what its list does not.
  const std::string sum(64, 'a');
  answers.describe = [&](RemoteFile& file) { file.describe(3, sum); };
  EXPECT_EQ(read_with("tokenizer.json", "").back().hash, sum);
  answers.describe = [&](RemoteFile& file) { file.describe(3, "67a-5f"); };
  expect_error(error_of([&] { read_with("tokenizer.json", ""); }), {"size 3", "67a-5f"});
}

TEST(HubFiles, WhatIsRead) {
  EXPECT_EQ(
      chosen({".gitattributes", "README.md", "config.json", "model.safetensors",
              "pytorch_model.bin", "tf_model.h5", "onnx/model.onnx", "tokenizer.json", "vocab.txt",
              "tokenizer_config.json", "special_tokens_map.json", "openvino/openvino_model.bin",
              "checkpoint-5/model.safetensors", "model.fp16.safetensors", "modeling_x.py"}),
      Names({"config.json", "model.safetensors", "special_tokens_map.json", "tokenizer.json",
             "tokenizer_config.json"}));
}

TEST(HubFiles, VocabulariesWithoutTokenizerJson) {
  EXPECT_EQ(chosen({"config.json", "model.safetensors", "vocab.json", "merges.txt"}),
            Names({"config.json", "merges.txt", "model.safetensors", "vocab.json"}));
}

TEST(HubFiles, ShardsOfAnIndex) {
  const std::string index = R"({"weight_map": {"a": "part1.safetensors", "b": "w/2.safetensors",
                                               "c": "part1.safetensors"}})";
  const Names names = {"config.json",       "model.safetensors.index.json",
                       "part1.safetensors", "w/2.safetensors",
                       "pytorch_model.bin", "model-fp16-9.safetensors"};
  EXPECT_EQ(chosen(names, {{"model.safetensors.index.json", index}}),
            Names({"config.json", "model.safetensors.index.json", "part1.safetensors",
                   "w/2.safetensors"}));
  EXPECT_EQ(chosen({"config.json", "pytorch_model.bin.index.json", "pytorch_model-1-of-1.bin",
                    "training_args.bin"},
                   {{"pytorch_model.bin.index.json",
                     R"({"weight_map": {"a": "pytorch_model-1-of-1.bin"}})"}}),
            Names({"config.json", "pytorch_model-1-of-1.bin", "pytorch_model.bin.index.json"}));
  for (const char* missing : {"other.safetensors", "../../x", ""}) {
    const std::string map = fmt::format(R"({{"weight_map": {{"a": "{}"}}}})", missing);
    expect_error(error_of([&] {
                   chosen(names, {{"model.safetensors.index.json", map}});
                 }),
                 {"o/n", "model.safetensors.index.json", missing});
  }
  // The loader says what is wrong with these.
  for (const char* text :
       {"{", "[]", "{}", R"({"weight_map": 3})", R"({"weight_map": {"a": 3}})"}) {
    EXPECT_EQ(chosen(names, {{"model.safetensors.index.json", text}}),
              Names({"config.json", "model.safetensors.index.json"}))
        << text;
  }
}

TEST(HubFiles, PyTorchWhereThereIsNothingElse) {
  EXPECT_EQ(chosen({"config.json", "pytorch_model.bin", "tf_model.h5"}),
            Names({"config.json", "pytorch_model.bin"}));
}

TEST(HubFiles, Modules) {
  const std::string modules = R"([
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"},
    {"idx": 3, "name": "3", "path": "../up", "type": "x"}])";
  EXPECT_EQ(chosen({"modules.json", "config.json", "model.safetensors", "1_Pooling/config.json",
                    "2_Dense/config.json", "2_Dense/model.safetensors", "2_Dense/pytorch_model.bin",
                    "3_Other/config.json", "sentence_bert_config.json",
                    "config_sentence_transformers.json"},
                   {{"modules.json", modules}}),
            Names({"1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors",
                   "config.json", "config_sentence_transformers.json", "model.safetensors",
                   "modules.json", "sentence_bert_config.json"}));
  // Without a list, pooling is read from its usual folder.
  EXPECT_EQ(chosen({"config.json", "model.safetensors", "1_Pooling/config.json"}),
            Names({"1_Pooling/config.json", "config.json", "model.safetensors"}));
}

TEST(HubFiles, EncoderBelow) {
  const std::string modules = R"([{"path": "0_Transformer", "type": "a.Transformer"}])";
  EXPECT_EQ(chosen({"modules.json", "model.safetensors", "0_Transformer/config.json",
                    "0_Transformer/pytorch_model.bin", "0_Transformer/vocab.txt"},
                   {{"modules.json", modules}}),
            Names({"0_Transformer/config.json", "0_Transformer/pytorch_model.bin",
                   "0_Transformer/vocab.txt", "modules.json"}));
}

TEST(HubFiles, Routers) {
  const std::string modules = R"([{"path": "", "type": "a.Router"}])";
  const std::string routes = R"({"types": {"query_0_X": "a.X", "document_0_Y": "a.Y"},
    "structure": {"query": ["query_0_X"], "document": ["document_0_Y", "../z"]}})";
  EXPECT_EQ(chosen({"modules.json", "router_config.json", "query_0_X/config.json",
                    "query_0_X/model.safetensors", "document_0_Y/config.json",
                    "document_0_Y/tokenizer.json", "document_0_Y/model.safetensors"},
                   {{"modules.json", modules}, {"router_config.json", routes}}),
            Names({"document_0_Y/config.json", "document_0_Y/model.safetensors",
                   "document_0_Y/tokenizer.json", "modules.json", "query_0_X/config.json",
                   "query_0_X/model.safetensors", "router_config.json"}));
}

TEST(HubFiles, MalformedModulesAreLeftToTheLoader) {
  for (const char* text : {"{", "{}", "[]", "[7]", R"([{"path": 7}])", "null"}) {
    EXPECT_EQ(
        chosen({"modules.json", "config.json", "model.safetensors"}, {{"modules.json", text}}),
        Names({"config.json", "model.safetensors", "modules.json"}))
        << text;
  }
}

TEST(HubFiles, Adapters) {
  EXPECT_EQ(chosen({"adapter_config.json", "adapter_model.safetensors", "adapter_model.bin",
                    "README.md", "optimizer.pt"}),
            Names({"adapter_config.json", "adapter_model.safetensors"}));
  EXPECT_EQ(chosen({"adapter_config.json", "adapter_model.bin"}),
            Names({"adapter_config.json", "adapter_model.bin"}));
}

TEST(HubFiles, NothingThatCanBeRead) {
  const auto error = [](const Names& names) { return error_of([&] { chosen(names); }); };
  expect_error(error({}), {"o/n", "config.json", "no files"});
  expect_error(error({"data.csv", "README.md"}), {"config.json", "2 files"});
  for (const char* name : {"tf_model.h5", "flax_model.msgpack", "onnx/model.onnx", "m.gguf"}) {
    expect_error(error({"config.json", name}), {"model.safetensors", name, "save_pretrained"});
  }
  // A tokenizer alone is of use.
  EXPECT_EQ(chosen({"config.json", "tokenizer.json"}), Names({"config.json", "tokenizer.json"}));
}

}  // namespace
}  // namespace longformer::hub::files_test
