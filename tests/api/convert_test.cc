// Conversion of folders of other encoders, and the error of each bad folder.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "error_testing.h"
#include "fixtures.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "kernels/rows.h"
#include "longformer/checkpoint.h"
#include "longformer/options.h"
#include "models/config.h"

namespace longformer::models::convert_test {
namespace {

namespace fs = std::filesystem;
using formats::SafetensorsFile;
using Json = nlohmann::ordered_json;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

const fs::path kFixtures = fixtures_folder();

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

struct BadFolder {
  std::string name;
  std::function<void()> spoil;
  std::vector<std::string> message;
};

/// Copies of the fixtures, in a folder that goes away with the test.
class ConvertTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "longformer-convert-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    use("tiny_bert");
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path source() const { return folder_ / "source"; }
  fs::path target() const { return folder_ / "target"; }

  void use(const std::string& fixture) const {
    fs::remove_all(source());
    fs::copy(kFixtures / fixture, source(), fs::copy_options::recursive);
  }

  static ConvertOptions options(std::int64_t max_positions = 50, std::int64_t window = 8) {
    return {.max_positions = max_positions, .windows = {window}};
  }

  std::string error(const ConvertOptions& how = options()) const {
    return error_of([&] { convert(source().string(), target().string(), how); });
  }

  /// Changes a JSON file of the source.
  void edit(const std::string& name, const std::function<void(Json&)>& change) const {
    Json value = formats::read_json((source() / name).string());
    change(value);
    write(name, value.dump());
  }
  void write(const std::string& name, const std::string& contents) const {
    std::ofstream(source() / name, std::ios::binary) << contents;
  }

  NamedTensors tensors() const {
    const auto file = SafetensorsFile::open((source() / "model.safetensors").string());
    return {file.tensors().begin(), file.tensors().end()};
  }
  void save(const NamedTensors& tensors) const {
    formats::write_safetensors((source() / "model.safetensors").string(), tensors);
  }

  /// Each spoils a fresh source; the conversion says so and leaves nothing behind.
  void expect_errors(const std::vector<BadFolder>& cases) const {
    for (const BadFolder& bad : cases) {
      SCOPED_TRACE(bad.name);
      use("tiny_bert");
      bad.spoil();
      expect_error(error(), bad.message);
      for (const auto& entry : fs::directory_iterator(folder_)) {
        EXPECT_EQ(entry.path(), source());
      }
    }
  }

  std::set<std::string> entries(const fs::path& folder) const {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      names.insert(fs::relative(entry.path(), folder).string());
    }
    return names;
  }
  Json target_json(const std::string& name) const {
    return formats::read_json((target() / name).string());
  }

  fs::path folder_;
};

TEST_F(ConvertTest, BertBecomesLongformer) {
  ASSERT_EQ(error(), "");
  EXPECT_EQ(entries(folder_).count("target"), 1u);
  EXPECT_EQ(entries(target()),
            (std::set<std::string>{"1_Pooling", "1_Pooling/config.json", "config.json",
                                   "model.safetensors", "modules.json", "sentence_bert_config.json",
                                   "special_tokens_map.json", "tokenizer.json",
                                   "tokenizer_config.json", "vocab.txt"}));
  const auto before = SafetensorsFile::open((source() / "model.safetensors").string());
  const auto after = SafetensorsFile::open((target() / "model.safetensors").string());
  EXPECT_EQ(after.tensors().size(), before.tensors().size() + 2 * 6);
  for (const auto& [name, tensor] : before.tensors()) {
    SCOPED_TRACE(name);
    if (name == "embeddings.position_embeddings.weight") continue;
    EXPECT_TRUE(same_bytes(tensor, after.tensors().at(name)));
    for (const std::string projection : {"query", "key", "value"}) {
      const auto place = name.find("self." + projection);
      if (place == std::string::npos) continue;
      std::string global = name;
      global.insert(place + 5 + projection.size(), "_global");
      EXPECT_TRUE(same_bytes(tensor, after.tensors().at(global)));
    }
  }
}

TEST_F(ConvertTest, BertPositionsMoveByOneAndRepeat) {
  ASSERT_EQ(error(options(50)), "");
  const std::string name = "embeddings.position_embeddings.weight";
  const Tensor before =
      SafetensorsFile::open((source() / "model.safetensors").string()).tensors().at(name);
  const Tensor after =
      SafetensorsFile::open((target() / "model.safetensors").string()).tensors().at(name);
  ASSERT_EQ(after.shape(), (Shape{51, 16}));
  EXPECT_EQ(after.slice_rows(0, 1).to_floats(), std::vector<float>(16, 0.0f));
  for (Index t = 0; t < 50; ++t) {
    EXPECT_TRUE(same_bytes(after.slice_rows(1 + t, 1), before.slice_rows(t % 24, 1))) << t;
  }
}

TEST_F(ConvertTest, RobertaKeepsItsReservedRowsAndItsHead) {
  use("tiny_roberta");
  ASSERT_EQ(error(options(7)), "");
  const auto before = SafetensorsFile::open((source() / "model.safetensors").string());
  const auto after = SafetensorsFile::open((target() / "model.safetensors").string());
  const Tensor table = after.tensors().at("longformer.embeddings.position_embeddings.weight");
  EXPECT_TRUE(same_bytes(
      table,
      before.tensors().at("roberta.embeddings.position_embeddings.weight").slice_rows(0, 9)));
  for (const char* name : {"lm_head.dense.weight", "lm_head.layer_norm.bias", "lm_head.bias"}) {
    EXPECT_TRUE(same_bytes(before.tensors().at(name), after.tensors().at(name))) << name;
  }
  EXPECT_FALSE(after.tensors().contains("lm_head.decoder.weight"));
  const Json config = target_json("config.json");
  EXPECT_EQ(config["architectures"], Json({"LongformerForMaskedLM"}));
  EXPECT_EQ(config["max_position_embeddings"], 9);
  EXPECT_EQ(config["sep_token_id"], 2);
  EXPECT_EQ(config["hidden_act"], "gelu_new");
  EXPECT_EQ(target_json("tokenizer_config.json"),
            (Json{{"model_max_length", 7}, {"tokenizer_class", "RobertaTokenizer"}}));
}

TEST_F(ConvertTest, DistilBertGetsNamesOfBertAndTypesOfZeros) {
  use("tiny_distilbert");
  edit("config.json", [](Json& json) { json["activation"] = "gelu"; });
  ASSERT_EQ(error(), "");
  const auto before = SafetensorsFile::open((source() / "model.safetensors").string());
  const auto after = SafetensorsFile::open((target() / "model.safetensors").string());
  const std::string own = "distilbert.transformer.layer.1.", layer = "longformer.encoder.layer.1.";
  const std::vector<std::pair<std::string, std::string>> names = {
      {own + "attention.q_lin.weight", layer + "attention.self.query.weight"},
      {own + "attention.q_lin.weight", layer + "attention.self.query_global.weight"},
      {own + "attention.v_lin.bias", layer + "attention.self.value_global.bias"},
      {own + "attention.out_lin.weight", layer + "attention.output.dense.weight"},
      {own + "sa_layer_norm.weight", layer + "attention.output.LayerNorm.weight"},
      {own + "ffn.lin1.weight", layer + "intermediate.dense.weight"},
      {own + "ffn.lin2.weight", layer + "output.dense.weight"},
      {own + "output_layer_norm.bias", layer + "output.LayerNorm.bias"},
      {"vocab_transform.weight", "lm_head.dense.weight"},
      {"vocab_layer_norm.weight", "lm_head.layer_norm.weight"},
      {"vocab_projector.bias", "lm_head.bias"}};
  for (const auto& [from, to] : names) {
    EXPECT_TRUE(same_bytes(before.tensors().at(from), after.tensors().at(to))) << to;
  }
  const Tensor types = after.tensors().at("longformer.embeddings.token_type_embeddings.weight");
  EXPECT_EQ(types.shape(), (Shape{2, 16}));
  EXPECT_EQ(types.to_floats(), std::vector<float>(32, 0.0f));
  const Json config = target_json("config.json");
  EXPECT_EQ(config["type_vocab_size"], 2);
  EXPECT_EQ(config["hidden_size"], 16);
  EXPECT_EQ(config["hidden_act"], "gelu");
  for (const char* key : {"dim", "n_layers", "activation", "dropout", "qa_dropout"}) {
    EXPECT_FALSE(config.contains(key)) << key;
  }
  EXPECT_EQ(target_json("tokenizer_config.json")["tokenizer_class"], "DistilBertTokenizer");
}

TEST_F(ConvertTest, SaysWhatToDoInsteadWhereLongformerHasNoSuchPart) {
  use("tiny_distilbert_classifier");
  expect_error(error(), {"model.safetensors", "tanh", "found one with relu", "fine-tuned from"});
  use("tiny_electra");
  expect_error(error(), {"model.safetensors", "no projection", "width of 12", "larger model"});
  EXPECT_FALSE(fs::exists(target()));
}

TEST_F(ConvertTest, WritesTheConfigurationThatTransformersReads) {
  edit("config.json", [](Json& json) {
    for (const char* key : {"layer_norm_eps", "type_vocab_size", "pad_token_id"}) json.erase(key);
    json["position_embedding_type"] = "absolute";
  });
  ASSERT_EQ(error(options(50, 6)), "");
  const Json config = target_json("config.json");
  EXPECT_EQ(config["model_type"], "longformer");
  EXPECT_EQ(config["architectures"], Json({"LongformerModel"}));
  EXPECT_EQ(config["attention_window"], Json({6, 6}));
  EXPECT_EQ(config["max_position_embeddings"], 51);
  EXPECT_EQ(config["pad_token_id"], 0);
  EXPECT_EQ(config["type_vocab_size"], 2);
  EXPECT_EQ(config["layer_norm_eps"], 1e-12);
  EXPECT_EQ(config["bos_token_id"], 2);
  EXPECT_EQ(config["sep_token_id"], 3);
  EXPECT_EQ(config["eos_token_id"], 3);
  for (const char* key : {"position_embedding_type", "use_cache", "transformers_version"}) {
    EXPECT_FALSE(config.contains(key)) << key;
  }
  const EncoderConfig read = read_config((target() / "config.json").string());
  EXPECT_EQ(read.max_tokens(), 50);
}

TEST_F(ConvertTest, RewritesTheLengthsOfTokenizerFiles) {
  ASSERT_EQ(error(), "");
  Json tokenizer = formats::read_json((source() / "tokenizer.json").string());
  ASSERT_FALSE(tokenizer["truncation"].is_null());
  tokenizer["truncation"] = nullptr;
  tokenizer["padding"] = nullptr;
  EXPECT_EQ(target_json("tokenizer.json"), tokenizer);
  EXPECT_EQ(target_json("tokenizer_config.json"), (Json{{"do_lower_case", true},
                                                        {"model_max_length", 50},
                                                        {"tokenizer_class", "BertTokenizer"}}));
  EXPECT_EQ(target_json("sentence_bert_config.json"),
            (Json{{"max_seq_length", 50}, {"do_lower_case", false}}));
  for (const char* name : {"vocab.txt", "modules.json", "1_Pooling/config.json"}) {
    EXPECT_EQ(formats::read_file((source() / name).string()),
              formats::read_file((target() / name).string()));
  }
}

TEST_F(ConvertTest, KeepsTheDtypeOfTheFile) {
  NamedTensors narrow = tensors();
  for (auto& [name, tensor] : narrow) tensor = tensor.to(DType::bf16);
  save(narrow);
  ASSERT_EQ(error(), "");
  const auto after = SafetensorsFile::open((target() / "model.safetensors").string());
  for (const auto& [name, tensor] : after.tensors()) EXPECT_EQ(tensor.dtype(), DType::bf16) << name;
}

TEST_F(ConvertTest, ReadsPrefixesOldNamesAndBuffers) {
  NamedTensors renamed;
  for (auto [name, tensor] : tensors()) {
    const auto place = name.find("LayerNorm.");
    if (place != std::string::npos) {
      name.replace(place + 10, std::string::npos, name.ends_with("weight") ? "gamma" : "beta");
    }
    renamed.emplace_back("bert." + name, tensor);
  }
  renamed.emplace_back("bert.embeddings.position_ids", Tensor::zeros({1, 24}, DType::i64));
  renamed.emplace_back("cls.seq_relationship.weight", Tensor::zeros({2, 16}, DType::f32));
  renamed.emplace_back("cls.seq_relationship.bias", Tensor::zeros({2}, DType::f32));
  save(renamed);
  ASSERT_EQ(error(), "");
  const auto after = SafetensorsFile::open((target() / "model.safetensors").string());
  const auto fixture =
      SafetensorsFile::open((kFixtures / "tiny_bert" / "model.safetensors").string());
  EXPECT_EQ(after.tensors().size(), fixture.tensors().size() + 12);
  EXPECT_TRUE(same_bytes(after.tensors().at("embeddings.LayerNorm.bias"),
                         fixture.tensors().at("embeddings.LayerNorm.bias")));
}

TEST_F(ConvertTest, BertHeadTakesTheNamesOfLongformer) {
  NamedTensors with_head = tensors();
  const Index vocabulary = read_config((source() / "config.json").string()).vocab_size;
  const auto add = [&](const std::string& name, const Shape& shape, float value) {
    const std::vector<float> values(static_cast<std::size_t>(element_count(shape)), value);
    with_head.emplace_back("cls.predictions." + name, Tensor::from(values, shape));
  };
  add("transform.dense.weight", {16, 16}, 1);
  add("transform.dense.bias", {16}, 2);
  add("transform.LayerNorm.weight", {16}, 3);
  add("transform.LayerNorm.bias", {16}, 4);
  add("decoder.weight", {vocabulary, 16}, 5);
  add("decoder.bias", {vocabulary}, 6);
  save(with_head);
  ASSERT_EQ(error(), "");
  const auto value_of = [&](const std::string& name) {
    const auto after = SafetensorsFile::open((target() / "model.safetensors").string());
    const auto found = after.tensors().find(name);
    return found == after.tensors().end() ? -1.0f : found->second.to_floats().back();
  };
  EXPECT_EQ(value_of("lm_head.dense.weight"), 1);
  EXPECT_EQ(value_of("lm_head.dense.bias"), 2);
  EXPECT_EQ(value_of("lm_head.layer_norm.weight"), 3);
  EXPECT_EQ(value_of("lm_head.layer_norm.bias"), 4);
  EXPECT_EQ(value_of("lm_head.bias"), 6);
  EXPECT_EQ(value_of("lm_head.decoder.weight"), -1) << "tied";
  EXPECT_NE(value_of("longformer.pooler.dense.bias"), -1);

  edit("config.json", [](Json& json) { json["tie_word_embeddings"] = false; });
  fs::remove_all(target());
  ASSERT_EQ(error(), "");
  EXPECT_EQ(value_of("lm_head.decoder.weight"), 5);
  EXPECT_EQ(value_of("lm_head.decoder.bias"), 6);

  fs::remove_all(target());
  edit("config.json", [](Json& json) { json["hidden_act"] = "relu"; });
  expect_error(error(), {"hidden_act: expected gelu", "relu"});
}

TEST_F(ConvertTest, NeedsNoTokenizer) {
  for (const char* name : {"tokenizer.json", "vocab.txt", "modules.json"}) {
    fs::remove(source() / name);
  }
  ASSERT_EQ(error(), "");
  EXPECT_EQ(entries(target()), (std::set<std::string>{"config.json", "model.safetensors"}));
}

TEST_F(ConvertTest, OverwritesOnlyWhenAskedAndOnlyItsOwnFiles) {
  fs::create_directory(target());
  ASSERT_EQ(error(options(30)), "") << "an empty folder is as good as a new name";
  std::ofstream(target() / "notes.txt") << "mine";
  expect_error(error(options(40)), {target().string(), "expected an empty folder", "overwrite"});
  EXPECT_EQ(target_json("config.json")["max_position_embeddings"], 31);
  ConvertOptions again = options(40);
  again.overwrite = true;
  ASSERT_EQ(error(again), "");
  EXPECT_EQ(target_json("config.json")["max_position_embeddings"], 41);
  EXPECT_EQ(formats::read_file((target() / "notes.txt").string()), "mine");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 2);
}

TEST_F(ConvertTest, TakesATrailingSlashAndMakesParents) {
  const std::string name = (folder_ / "new" / "deep" / "").string();
  convert(source().string() + "/", name, options());
  EXPECT_TRUE(fs::exists(folder_ / "new" / "deep" / "config.json"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "new"), fs::directory_iterator()), 1);
}

TEST_F(ConvertTest, ReportsBadTargets) {
  std::ofstream(target()) << "a file";
  expect_error(error(), {target().string(), "found a file"});
  ConvertOptions over = options();
  over.overwrite = true;
  expect_error(error_of([&] { convert(source().string(), source().string(), over); }),
               {"other than the source"});
  expect_error(
      error_of([&] { convert(source().string(), (target() / "below").string(), options()); }),
      {"below", "could not be written"});
  expect_error(error_of([&] { convert(source().string(), "", options()); }), {"target folder"});
}

TEST_F(ConvertTest, ReportsBadOptions) {
  expect_error(error(options(50, 7)), {"window: expected even numbers", "found 7"});
  expect_error(error(options(50, 0)), {"window", "found 0"});
  expect_error(error(options(50, -2)), {"window", "found -2"});
  expect_error(error(options(0)), {"max positions", "found 0"});
  expect_error(error(options(std::int64_t{1} << 40)), {"max positions", "found 1099511627776"});
}

/// A value of its own for each option, and its name where the target has it.
struct GivenOption {
  std::string name;
  std::function<void(ConvertOptions&)> give;
  std::set<std::string> targets;
};

const std::set<std::string> kEncoders = {"longformer", "linformer", "performer",
                                         "blockwise",  "sparse",    "big_bird"};

const std::vector<GivenOption> kGiven = {
    {"max positions", [](ConvertOptions& all) { all.max_positions = 40; }, kEncoders},
    {"window", [](ConvertOptions& all) { all.windows = {8}; }, {"longformer"}},
    {"dilation", [](ConvertOptions& all) { all.dilations = {2}; }, {"longformer"}},
    {"dilated heads", [](ConvertOptions& all) { all.dilated_heads = 1; }, {"longformer"}},
    {"cross attention rows",
     [](ConvertOptions& all) { all.cross_attention_rows = 4; },
     {"longformer"}},
    {"rotary", [](ConvertOptions& all) { all.rotary = "base"; }, {"longformer"}},
    {"dtype", [](ConvertOptions& all) { all.dtype = "bf16"; }, kEncoders},
    {"seed", [](ConvertOptions& all) { all.seed = 7; }, {"linformer", "performer"}},
    {"projected length", [](ConvertOptions& all) { all.projected_length = 4; }, {"linformer"}},
    {"projection", [](ConvertOptions& all) { all.projection = "mean"; }, {"linformer"}},
    {"projection sharing",
     [](ConvertOptions& all) { all.projection_sharing = "none"; },
     {"linformer"}},
    {"projection initialization",
     [](ConvertOptions& all) { all.projection_initialization = "xavier"; },
     {"linformer"}},
    {"features", [](ConvertOptions& all) { all.features = 8; }, {"performer"}},
    {"feature kernel", [](ConvertOptions& all) { all.feature_kernel = "relu"; }, {"performer"}},
    {"feature epsilon", [](ConvertOptions& all) { all.feature_epsilon = 0.5; }, {"performer"}},
    {"blocks", [](ConvertOptions& all) { all.blocks = 2; }, {"blockwise"}},
    {"block heads",
     [](ConvertOptions& all) {
       all.block_heads = {1, 1};
     },
     {"blockwise"}},
    {"pattern", [](ConvertOptions& all) { all.pattern = "fixed"; }, {"sparse"}},
    {"stride", [](ConvertOptions& all) { all.stride = 8; }, {"sparse"}},
    {"summary", [](ConvertOptions& all) { all.summary = 2; }, {"sparse"}},
    {"integration", [](ConvertOptions& all) { all.integration = "heads"; }, {"sparse"}},
};

TEST_F(ConvertTest, RefusesOptionsThatTheTargetDoesNotHave) {
  const std::set<std::string> of_all = {"format", "overwrite", "merge_adapter", "int8_skip"};
  ConvertOptions listed;
  EXPECT_EQ(kGiven.size() + of_all.size(), fields(listed).size());
  std::vector<std::string> targets = conversion_targets();
  EXPECT_EQ(targets.size(), kEncoders.size() + 1);
  for (const std::string& target : targets) {
    for (const GivenOption& given : kGiven) {
      SCOPED_TRACE(target + ", " + given.name);
      ConvertOptions how = {.target = target};
      given.give(how);
      const std::string said = error(how);
      const std::string refused = given.name + ": expected none for a " + target + ", found ";
      EXPECT_EQ(said.starts_with(refused), !given.targets.contains(target)) << said;
    }
  }
}

TEST_F(ConvertTest, RefusesOptionsBesideAnAdapterThatIsMerged) {
  for (const GivenOption& given : kGiven) {
    SCOPED_TRACE(given.name);
    ConvertOptions how = {.merge_adapter = "nowhere"};
    given.give(how);
    const std::string refused = given.name + ": expected none beside an adapter that is merged";
    EXPECT_EQ(error(how).starts_with(refused), given.name != "dtype") << error(how);
  }
}

TEST_F(ConvertTest, ReportsEachBadFile) {
  const std::vector<BadFolder> cases = {
      {"no folder", [&] { fs::remove_all(source()); }, {"source", "a model folder", "none"}},
      {"a file",
       [&] { fs::remove_all(source()), std::ofstream(source()) << "x"; },
       {"found a file"}},
      {"no config", [&] { fs::remove(source() / "config.json"); }, {"config.json", "No such file"}},
      {"no weights",
       [&] { fs::remove(source() / "model.safetensors"); },
       {"expected model.safetensors", "found neither"}},
      {"pickled weights",
       [&] { fs::rename(source() / "model.safetensors", source() / "tf_model.h5"); },
       {"expected model.safetensors or pytorch_model.bin", "found tf_model.h5"}},
      {"a format under another name",
       [&] { fs::rename(source() / "model.safetensors", source() / "pytorch_model.bin"); },
       {"pytorch_model.bin", "expected a file of torch.save"}},
      {"truncated weights",
       [&] { fs::resize_file(source() / "model.safetensors", 9000); },
       {"model.safetensors", "data bytes of the file"}},
      {"config is cut", [&] { write("config.json", "{\"model_type\": "); }, {"syntax error"}},
      {"config is a list", [&] { write("config.json", "[]"); }, {"config.json", "JSON object"}},
      {"no model_type",
       [&] { edit("config.json", [](Json& json) { json.erase("model_type"); }); },
       {"config.json", "expected the key \"model_type\"", "found none"}},
      {"tokenizer is cut", [&] { write("tokenizer.json", "{"); }, {"tokenizer.json"}},
      {"tokenizer config is a list",
       [&] { write("tokenizer_config.json", "[1]"); },
       {"tokenizer_config.json"}},
      {"modules are cut", [&] { write("modules.json", "[{"); }, {"modules.json", "syntax error"}},
      {"modules lead outside",
       [&] { write("modules.json", R"([{"path": "../source"}])"); },
       {"modules.json", "path", "\"../source\""}},
  };
  expect_errors(cases);
}

TEST_F(ConvertTest, ReportsEachBadConfiguration) {
  const auto config = [&](const std::string& key, const Json& value) {
    return [this, key, value] { edit("config.json", [&](Json& json) { json[key] = value; }); };
  };
  expect_errors({
      {"other model_type", config("model_type", "t5"), {"model_type", "found \"t5\""}},
      {"known elsewhere", config("model_type", "deberta"), {"\"deberta\"", "disentangled"}},
      {"is an LED only by name",
       config("model_type", "led"),
       {"query_global.weight", "found none"}},
      {"is a Longformer only by name",
       config("model_type", "longformer"),
       {"query_global.weight", "found none"}},
      {"negative layers", config("num_hidden_layers", -1), {"num_hidden_layers", "found -1"}},
      {"huge size",
       config("hidden_size", std::int64_t{1} << 60),
       {"hidden_size", "from 1 to 65536"}},
      {"number as text", config("vocab_size", "58"), {"vocab_size", "found \"58\""}},
      {"config against tensors",
       config("vocab_size", 99),
       {"embeddings.word_embeddings.weight", "expected shape [99, 16]", "found [58, 16]"}},
      {"fewer positions",
       config("max_position_embeddings", 20),
       {"position_embeddings", "expected shape [20, 16]", "found [24, 16]"}},
      {"more layers",
       config("num_hidden_layers", 3),
       {"expected a tensor encoder.layer.2.attention.self.query.weight", "found none"}},
      {"fewer layers", config("num_hidden_layers", 1), {"found a tensor \"encoder.layer.1."}},
  });
}

TEST_F(ConvertTest, ReportsEachBadTensor) {
  const auto without = [&](const std::string& name) {
    return [this, name] {
      NamedTensors rest = tensors();
      std::erase_if(rest, [&](const auto& entry) { return entry.first == name; });
      save(rest);
    };
  };
  const auto with = [&](const std::string& name, const Shape& shape, DType dtype) {
    return [this, name, shape, dtype] {
      NamedTensors all = tensors();
      std::erase_if(all, [&](const auto& entry) { return entry.first == name; });
      all.emplace_back(name, Tensor::zeros(shape, dtype));
      save(all);
    };
  };
  const std::string key_bias = "encoder.layer.1.attention.self.key.bias";
  expect_errors({
      {"missing tensor", without(key_bias), {key_bias, "of shape [16]", "found none"}},
      {"wrong shape", with(key_bias, {4, 4}, DType::f32), {key_bias, "found [4, 4]"}},
      {"wrong dtype", with(key_bias, {16}, DType::i32), {key_bias, "found int32"}},
      {"another head",
       with("classifier.weight", {2, 16}, DType::f32),
       {"architectures", "\"classifier.weight\"", "BertModel"}},
      {"under two prefixes",
       with("bert.pooler.dense.bias", {16}, DType::f32),
       {"pooler.dense.bias", "with and without a prefix"}},
  });
}

TEST(TileRows, RepeatsWhatFollowsTheReservedRows) {
  std::vector<float> values;
  for (int i = 0; i < 10; ++i) values.push_back(static_cast<float>(i));
  const Tensor table = Tensor::from(values, {5, 2});
  const auto firsts = [&](const kernels::RowTiling& tiling) {
    const std::vector<float> all = kernels::tile_rows(table, tiling).to_floats();
    std::vector<int> result;
    for (std::size_t i = 0; i < all.size(); i += 2) {
      EXPECT_EQ(all[i + 1], all[i] == 0 ? all[i + 1] : all[i] + 1);
      result.push_back(static_cast<int>(all[i] / 2));
    }
    return result;
  };
  EXPECT_EQ(firsts({2, 2, 7}), (std::vector<int>{0, 1, 2, 3, 4, 2, 3, 4, 2}));
  EXPECT_EQ(firsts({2, 2, 2}), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(firsts({0, 1, 6}), (std::vector<int>{0, 0, 1, 2, 3, 4, 0}));
  EXPECT_EQ(firsts({4, 0, 3}), (std::vector<int>{4, 4, 4}));
}

}  // namespace
}  // namespace longformer::models::convert_test
