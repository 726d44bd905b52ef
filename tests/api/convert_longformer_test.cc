// Longformer folders into others, heads, originals, and how a target is replaced.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "fixtures.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "formats/weights.h"
#include "longformer/checkpoint.h"
#include "longformer/model.h"
#include "longformer/options.h"
#include "models/config.h"

namespace longformer::models::convert_longformer_test {
namespace {

namespace fs = std::filesystem;
using formats::SafetensorsFile;
using Json = nlohmann::ordered_json;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

const fs::path kFixtures = fixtures_folder();
constexpr const char* kPositions = "embeddings.position_embeddings.weight";

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

/// Copies of the fixtures, in a folder that goes away with the test.
class LongformerConversion : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "longformer-convert-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    use("tiny_longformer");
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path source() const { return folder_ / "source"; }
  fs::path target() const { return folder_ / "target"; }

  void use(const std::string& fixture) const {
    fs::remove_all(source());
    fs::copy(kFixtures / fixture, source(), fs::copy_options::recursive);
  }

  std::string error(const ConvertOptions& options = {}) const {
    try {
      convert(source().string(), target().string(), options);
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      return message;
    }
    return "";
  }
  void expect_error(const std::vector<std::string>& parts,
                    const ConvertOptions& options = {}) const {
    const std::string message = error(options);
    EXPECT_NE(message, "");
    for (const std::string& part : parts) {
      EXPECT_NE(message.find(part), std::string::npos) << "no \"" << part << "\" in: " << message;
    }
  }

  void edit(const std::function<void(Json&)>& change) const {
    const std::string path = (source() / "config.json").string();
    Json value = formats::read_json(path);
    change(value);
    formats::write_file(path, value.dump());
  }

  NamedTensors tensors() const {
    const auto file = SafetensorsFile::open((source() / "model.safetensors").string());
    return {file.tensors().begin(), file.tensors().end()};
  }
  void save(const NamedTensors& tensors) const {
    formats::write_safetensors((source() / "model.safetensors").string(), tensors);
  }
  /// The source's tensors with more of these shapes, each filled with its own number.
  void save_with(const std::vector<std::pair<std::string, Shape>>& more) const {
    NamedTensors all = tensors();
    for (std::size_t i = 0; i < more.size(); ++i) {
      const auto count = static_cast<std::size_t>(element_count(more[i].second));
      const std::vector<float> values(count, static_cast<float>(i + 1));
      all.emplace_back(more[i].first, Tensor::from(values, more[i].second));
    }
    save(all);
  }

  formats::StoredTensors result() const {
    return formats::WeightFiles::open(target().string()).tensors();
  }
  float last_value(const std::string& name) const {
    const auto all = result();
    const auto found = all.find(name);
    return found == all.end() ? -1.0f : found->second.load().to_floats().back();
  }
  Json config() const { return formats::read_json((target() / "config.json").string()); }

  fs::path folder_;
};

TEST_F(LongformerConversion, KeepsEverythingUnlessTold) {
  ASSERT_EQ(error(), "");
  const auto after = result();
  EXPECT_EQ(after.size(), tensors().size());
  for (const auto& [name, tensor] : tensors()) {
    ASSERT_TRUE(after.contains(name)) << name;
    EXPECT_TRUE(same_bytes(after.at(name).load(), tensor)) << name;
  }
  EXPECT_EQ(config()["attention_window"], Json({4, 8}));
  EXPECT_EQ(config()["max_position_embeddings"], 42);
  EXPECT_EQ(config()["architectures"], Json({"LongformerModel"}));
}

TEST_F(LongformerConversion, PositionsAreRepeatedOrCut) {
  const Tensor before =
      SafetensorsFile::open((source() / "model.safetensors").string()).tensors().at(kPositions);
  for (const Index count : {7, 40, 41, 100}) {
    fs::remove_all(target());
    ASSERT_EQ(error({.max_positions = count}), "");
    const Tensor after = result().at(kPositions).load();
    ASSERT_EQ(after.shape(), (Shape{count + 2, 16}));
    for (Index row = 0; row < count + 2; ++row) {
      const Index from = row < 2 ? row : 2 + (row - 2) % 40;
      EXPECT_TRUE(same_bytes(after.slice_rows(row, 1), before.slice_rows(from, 1))) << row;
    }
    EXPECT_EQ(read_config((target() / "config.json").string()).max_tokens(), count);
  }
}

TEST_F(LongformerConversion, TakesAnotherWindowInEveryLayer) {
  ASSERT_EQ(error({.windows = {6}}), "");
  EXPECT_EQ(config()["attention_window"], Json({6, 6}));
}

TEST_F(LongformerConversion, WritesTheDtypeThatIsAskedFor) {
  const std::vector<std::pair<std::string, DType>> dtypes = {
      {"fp16", DType::f16}, {"bf16", DType::bf16}, {"fp32", DType::f32}};
  for (const auto& [name, dtype] : dtypes) {
    for (const std::string format : {"bin", "safetensors"}) {
      fs::remove_all(target());
      ASSERT_EQ(error({.format = format, .dtype = name}), "");
      EXPECT_EQ(fs::exists(target() / "pytorch_model.bin"), format == "bin");
      const auto after = result();
      for (const auto& [tensor_name, tensor] : tensors()) {
        EXPECT_TRUE(same_bytes(after.at(tensor_name).load(), tensor.to(dtype))) << tensor_name;
      }
    }
  }
  EXPECT_EQ(config()["dtype"], "float32");
  edit([](Json& json) {
    json.erase("dtype");
    json["torch_dtype"] = "float32";
  });
  fs::remove_all(target());
  ASSERT_EQ(error({.dtype = "bf16"}), "");
  EXPECT_EQ(config()["torch_dtype"], "bfloat16");
}

TEST_F(LongformerConversion, SaysWhichTensorDoesNotFit) {
  NamedTensors all = tensors();
  all[3].second =
      Tensor::from(std::vector<float>(static_cast<std::size_t>(all[3].second.size()), 1e5f),
                   all[3].second.shape());
  save(all);
  expect_error({all[3].first, "fp16", "found 100000"}, {.dtype = "fp16"});
  EXPECT_FALSE(fs::exists(target()));
  expect_error({"dtype: expected fp32, fp16, bf16 or int8", "\"fp64\""}, {.dtype = "fp64"});
  expect_error({"format: expected safetensors or bin", "\"onnx\""}, {.format = "onnx"});
}

TEST_F(LongformerConversion, KeepsHeadsOfEveryKind) {
  save_with({{"classifier.dense.weight", {16, 16}},
             {"classifier.dense.bias", {16}},
             {"classifier.out_proj.weight", {3, 16}},
             {"classifier.out_proj.bias", {3}},
             {"my_own.gate", {2, 2, 2}}});
  edit([](Json& json) { json["architectures"] = {"LongformerForSequenceClassification"}; });
  ASSERT_EQ(error({.max_positions = 80}), "");
  EXPECT_EQ(config()["architectures"], Json({"LongformerForSequenceClassification"}));
  EXPECT_EQ(last_value("classifier.dense.weight"), 1);
  EXPECT_EQ(last_value("classifier.out_proj.bias"), 4);
  EXPECT_EQ(last_value("my_own.gate"), 5);
  EXPECT_TRUE(result().contains("longformer.embeddings.LayerNorm.bias"));
}

struct HeadCase {
  std::string architecture;
  std::vector<std::pair<std::string, Shape>> tensors;
  /// Names in the target, of the tensors above in their order; empty: left out.
  std::vector<std::string> names;
  bool keeps_pooler = false;
};

TEST_F(LongformerConversion, HeadsOfBertTakeTheNamesOfLongformer) {
  const std::vector<HeadCase> cases = {
      {"BertForSequenceClassification",
       {{"classifier.weight", {3, 16}}, {"classifier.bias", {3}}},
       {"classifier.out_proj.weight", "classifier.out_proj.bias"}},
      {"BertForTokenClassification",
       {{"classifier.weight", {5, 16}}, {"classifier.bias", {5}}},
       {"classifier.weight", "classifier.bias"}},
      {"BertForMultipleChoice",
       {{"classifier.weight", {1, 16}}, {"classifier.bias", {1}}},
       {"classifier.weight", "classifier.bias"},
       true},
      {"BertForQuestionAnswering",
       {{"qa_outputs.weight", {2, 16}}, {"qa_outputs.bias", {2}}},
       {"qa_outputs.weight", "qa_outputs.bias"}},
  };
  for (const HeadCase& head : cases) {
    SCOPED_TRACE(head.architecture);
    use("tiny_bert");
    fs::remove_all(target());
    save_with(head.tensors);
    edit([&](Json& json) {
      json["architectures"] = {head.architecture};
      json["id2label"] = {{"0", "no"}, {"1", "yes"}, {"2", "maybe"}};
      json["problem_type"] = "single_label_classification";
    });
    ASSERT_EQ(error(), "");
    EXPECT_EQ(config()["architectures"], Json({"Longformer" + head.architecture.substr(4)}));
    EXPECT_EQ(config()["id2label"]["2"], "maybe");
    EXPECT_EQ(config()["problem_type"], "single_label_classification");
    for (std::size_t i = 0; i < head.names.size(); ++i) {
      EXPECT_EQ(last_value(head.names[i]), static_cast<float>(i + 1)) << head.names[i];
    }
    EXPECT_EQ(result().contains("longformer.pooler.dense.weight"), head.keeps_pooler);
    EXPECT_EQ(result().contains("classifier.dense.weight"),
              head.architecture == "BertForSequenceClassification");
  }
  use("tiny_bert");
  const Tensor pooler = SafetensorsFile::open((source() / "model.safetensors").string())
                            .tensors()
                            .at("pooler.dense.weight");
  save_with(cases[0].tensors);
  edit([](Json& json) { json["architectures"] = {"BertForSequenceClassification"}; });
  fs::remove_all(target());
  ASSERT_EQ(error(), "");
  EXPECT_TRUE(same_bytes(result().at("classifier.dense.weight").load(), pooler));
}

TEST_F(LongformerConversion, RefusesHeadsThatItCannotTell) {
  use("tiny_bert");
  save_with({{"classifier.weight", {3, 16}}, {"classifier.bias", {3}}});
  expect_error({"architectures", "classifier.weight", "BertModel"});
  edit([](Json& json) { json.erase("architectures"); });
  expect_error({"architectures", "classifier.weight"});
  edit([](Json& json) { json["architectures"] = {"BertForTokenClassification"}; });
  save_with({{"crf.transitions", {3, 3}}});
  expect_error({"a head that Longformer has or none", "\"crf.transitions\""});
  use("tiny_bert");
  save_with({{"qa_outputs.weight", {2, 15}}, {"qa_outputs.bias", {2}}});
  expect_error({"qa_outputs.weight of 16 columns", "[2, 15]"});
}

/// tiny_longformer_mlm as the first implementation had it.
class OriginalConversion : public LongformerConversion {
 protected:
  void SetUp() override {
    LongformerConversion::SetUp();
    use("tiny_longformer_mlm");
    NamedTensors renamed;
    for (auto [name, tensor] : tensors()) {
      if (name.starts_with("longformer.")) name = "roberta." + name.substr(11);
      renamed.emplace_back(name, tensor);
    }
    save(renamed);
    edit([](Json& json) {
      json["model_type"] = "roberta";
      json["architectures"] = {"RobertaForMaskedLM"};
      json["attention_window"] = {2, 4};
      json["attention_dilation"] = {1, 1};
      json["attention_mode"] = "sliding_chunks";
      json["autoregressive"] = false;
    });
  }
};

TEST_F(OriginalConversion, DoublesTheWindowsOfOneSide) {
  const ConvertedFrom from = convert(source().string(), target().string(), {});
  EXPECT_EQ(from.model_type, "original longformer");
  EXPECT_EQ(from.max_tokens, 41);
  EXPECT_EQ(config()["model_type"], "longformer");
  EXPECT_EQ(config()["attention_window"], Json({4, 8}));
  EXPECT_EQ(config()["architectures"], Json({"LongformerForMaskedLM"}));
  for (const char* key : {"attention_mode", "attention_dilation", "autoregressive"}) {
    EXPECT_FALSE(config().contains(key)) << key;
  }
  const auto after = result();
  const auto wanted =
      SafetensorsFile::open((kFixtures / "tiny_longformer_mlm" / "model.safetensors").string());
  for (const auto& [name, tensor] : wanted.tensors()) {
    ASSERT_TRUE(after.contains(name)) << name;
    EXPECT_TRUE(same_bytes(after.at(name).load(), tensor)) << name;
  }
}

TEST_F(LongformerConversion, KeepsOneNameOfTiedTensors) {
  use("tiny_longformer_mlm");
  edit([](Json& json) { json["tie_word_embeddings"] = true; });
  ASSERT_EQ(error(), "");
  EXPECT_TRUE(result().contains("lm_head.decoder.weight")) << "it is another tensor";
  // A PyTorch file in which both names are one storage.
  const std::string tied = (kFixtures / "torch" / "tied.bin").string();
  fs::remove(source() / "model.safetensors");
  fs::copy(tied, source() / "pytorch_model.bin");
  fs::remove_all(target());
  ASSERT_EQ(error(), "");
  EXPECT_FALSE(result().contains("lm_head.decoder.weight"));
  EXPECT_TRUE(result().contains("lm_head.bias"));
  EXPECT_FALSE(result().contains("lm_head.decoder.bias"));
}

TEST_F(OriginalConversion, KeepsTheTotalWindowsOfAReplacedAttention) {
  edit([](Json& json) { json.erase("attention_mode"); });
  ASSERT_EQ(error(), "");
  EXPECT_EQ(config()["attention_window"], Json({2, 4}));
}

TEST_F(OriginalConversion, NeedsNoModelType) {
  edit([](Json& json) {
    json.erase("model_type");
    json["attention_mode"] = "tvm";
  });
  ASSERT_EQ(error(), "");
  EXPECT_EQ(config()["attention_window"], Json({4, 8}));
}

TEST_F(OriginalConversion, RefusesWhatTransformersHasNot) {
  struct Bad {
    const char* key;
    Json value;
    std::vector<std::string> message;
  };
  const std::vector<Bad> cases = {
      {"attention_mode", "n2", {"attention_mode", "\"n2\""}},
      {"attention_mode", "sliding_chunks_no_overlap", {"another function"}},
      {"attention_mode", 3, {"attention_mode", "found 3"}},
      {"attention_dilation", {1, 0}, {"attention_dilation", "found 0"}},
      {"attention_dilation", {1, 2, 3}, {"attention_dilation", "2 layers", "[1,2,3]"}},
      {"attention_dilation", {1, {1, 2, 3, 4, 5}}, {"attention_dilation", "heads", "layer 1"}},
      {"attention_dilation", "2", {"attention_dilation", "\"2\""}},
      {"autoregressive", true, {"autoregressive", "decoders"}},
      {"attention_window", {0, 4}, {"attention_window", "found 0"}},
      {"attention_window", {2, "4"}, {"attention_window", "\"4\""}},
      {"attention_window", {1 << 30, 4}, {"attention_window", "1073741824"}},
      {"attention_window", {2, 4, 6}, {"attention_window", "2 layers"}},
  };
  for (const Bad& bad : cases) {
    SCOPED_TRACE(bad.key);
    const std::string path = (source() / "config.json").string();
    const std::string good = formats::read_file(path);
    edit([&](Json& json) { json[bad.key] = bad.value; });
    expect_error(bad.message);
    formats::write_file(path, good);
  }
}

TEST_F(OriginalConversion, KeepsDilationOfLayersAndHeads) {
  const Json dilation = {2, {1, 3}};
  edit([&](Json& json) { json["attention_dilation"] = dilation; });
  std::string note;
  ASSERT_EQ(error({.note = [&](const std::string& text) { note = text; }}), "");
  EXPECT_NE(note.find("attention_dilation"), std::string::npos) << note;
  EXPECT_EQ(config()["attention_dilation"], dilation);
  const EncoderConfig read = read_config((target() / "config.json").string());
  EXPECT_EQ(read.pattern(0)[1].dilation, 2);
  EXPECT_EQ(read.pattern(1)[0].dilation, 1);
  EXPECT_EQ(read.pattern(1)[1].dilation, 3);
  fs::remove_all(target());
  edit([&](Json& json) { json["attention_dilation"] = {1, {1, 1}}; });
  ASSERT_EQ(error(), "");
  EXPECT_FALSE(config().contains("attention_dilation"));
}

TEST_F(LongformerConversion, GivesLayersAndHeadsDilation) {
  std::string note;
  const auto take_note = [&](const std::string& text) { note = text; };
  ASSERT_EQ(error({.dilations = {1, 4}, .dilated_heads = 1, .note = take_note}), "");
  EXPECT_NE(note.find("attention_dilation is new"), std::string::npos) << note;
  const EncoderConfig read = read_config((target() / "config.json").string());
  for (Index head = 0; head < read.heads; ++head) {
    EXPECT_EQ(read.pattern(0)[static_cast<std::size_t>(head)].dilation, 1);
    EXPECT_EQ(read.pattern(1)[static_cast<std::size_t>(head)].dilation,
              head + 1 == read.heads ? 4 : 1);
  }
  fs::remove_all(target());
  ASSERT_EQ(error({.dilations = {3}}), "");
  EXPECT_EQ(config()["attention_dilation"], Json({3, 3}));
  // A dilated source becomes one without.
  fs::remove_all(source());
  fs::rename(target(), source());
  note.clear();
  ASSERT_EQ(error({.dilations = {1}, .note = take_note}), "");
  EXPECT_FALSE(config().contains("attention_dilation"));
  EXPECT_EQ(note, "");
}

TEST_F(LongformerConversion, RefusesDilationThatDoesNotFit) {
  expect_error({"dilation", "2 layers", "found 3"}, {.dilations = {1, 2, 3}});
  expect_error({"dilation", "found 0"}, {.dilations = {0}});
  expect_error({"dilated", "heads of a layer", "found 9"}, {.dilations = {2}, .dilated_heads = 9});
  expect_error({"dilated", "expected a dilation"}, {.dilated_heads = 1});
  expect_error({"dilation", "performer"}, {.target = "performer", .dilations = {2}});
}

/// Last hidden state of one document.
std::vector<float> states_of(const fs::path& folder, std::span<const std::int32_t> ids) {
  const Model model = Model::load(folder.string());
  const DocumentInput document = {.ids = ids,
                                  .attention_mask = {},
                                  .token_type_ids = {},
                                  .position_ids = {},
                                  .global_attention_mask = {}};
  return model.forward({&document, 1}, {})[0].last_hidden_state;
}

TEST_F(LongformerConversion, DilatedWindowsSeeOnlyTheirSteps) {
  edit([](Json& json) { json["attention_dilation"] = 3; });
  ASSERT_EQ(error({.max_positions = 64}), "");
  std::vector<std::int32_t> ids(60);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(3 + i % 11);
  const auto before = states_of(target(), ids);
  constexpr std::size_t kChanged = 30;
  ids[kChanged] = 2;
  const auto after = states_of(target(), ids);
  const std::size_t width = before.size() / ids.size();
  // Two layers that reach 2 and 4 steps of three tokens.
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::size_t distance = i > kChanged ? i - kChanged : kChanged - i;
    const bool sees = distance % 3 == 0 && distance <= 18;
    const bool differs = !std::equal(before.begin() + static_cast<std::ptrdiff_t>(i * width),
                                     before.begin() + static_cast<std::ptrdiff_t>((i + 1) * width),
                                     after.begin() + static_cast<std::ptrdiff_t>(i * width));
    EXPECT_EQ(differs, sees) << i;
  }
}

TEST_F(LongformerConversion, TakesAWindowForEachLayer) {
  ASSERT_EQ(error({.windows = {6, 12}}), "");
  EXPECT_EQ(config()["attention_window"], Json({6, 12}));
  fs::remove_all(target());
  expect_error({"window", "2 layers", "found 3"}, {.windows = {6, 12, 2}});
  expect_error({"window", "even", "found 7"}, {.windows = {6, 7}});
}

TEST_F(OriginalConversion, IsNeverReadAsAPlainRoberta) {
  try {
    read_config((source() / "config.json").string());
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("longformer convert"), std::string::npos);
  }
}

TEST_F(LongformerConversion, ReplacesTheWholeTarget) {
  ASSERT_EQ(error({.format = "bin"}), "");
  fs::create_directories(target() / "notes" / "deep");
  std::ofstream(target() / "notes" / "deep" / "a.txt") << "mine";
  fs::create_symlink("notes/deep/a.txt", target() / "link");
  std::ofstream(target() / "pytorch_model-00001-of-00002.bin") << "stale";
  std::ofstream(target() / "tokenizer.json") << "stale";
  ASSERT_EQ(error({.max_positions = 20, .overwrite = true}), "");
  EXPECT_TRUE(fs::exists(target() / "model.safetensors"));
  for (const char* stale :
       {"pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "tokenizer.json"}) {
    EXPECT_FALSE(fs::exists(target() / stale)) << stale;
  }
  EXPECT_EQ(formats::read_file((target() / "link").string()), "mine");
  EXPECT_TRUE(fs::is_symlink(target() / "link"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 2);
}

TEST_F(LongformerConversion, AFailureLeavesTheTargetAsItWas) {
  ASSERT_EQ(error(), "");
  const std::string before = formats::read_file((target() / "config.json").string());
  edit([](Json& json) { json["vocab_size"] = 1000; });
  expect_error({"word_embeddings"}, {.overwrite = true});
  EXPECT_EQ(formats::read_file((target() / "config.json").string()), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 2);
}

TEST_F(LongformerConversion, FollowsALinkToTheTarget) {
  fs::create_directory(folder_ / "real");
  fs::create_symlink("real", target());
  ASSERT_EQ(error(), "");
  ASSERT_EQ(error({.max_positions = 9, .overwrite = true}), "");
  EXPECT_TRUE(fs::is_symlink(target()));
  EXPECT_EQ(config()["max_position_embeddings"], 11);
}

}  // namespace
}  // namespace longformer::models::convert_longformer_test
