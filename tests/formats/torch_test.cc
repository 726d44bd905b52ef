// PyTorch .bin files: what torch.save wrote is read as it is, and nothing else is.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "error_testing.h"
#include "fixtures.h"
#include "formats/json.h"
#include "formats/pickle.h"
#include "formats/safetensors.h"
#include "formats/torch_file.h"
#include "formats/zip_archive.h"

namespace longformer::formats::torch_test {
namespace {

namespace fs = std::filesystem;

const fs::path kFixtures = fixtures_folder() / "torch";

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

template <typename Number>
std::string little_endian(Number value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// Opcodes of a pickle, as text that the tests put together.
std::string text(const std::string& value) {
  return "X" + little_endian(static_cast<std::uint32_t>(value.size())) + value;
}
std::string integer(std::int64_t value) { return "\x8a\x08" + little_endian(value); }
std::string tuple(const std::vector<std::int64_t>& values) {
  std::string opcodes = "(";
  for (const std::int64_t value : values) opcodes += integer(value);
  return opcodes + "t";
}
std::string storage(const std::string& type, const std::string& key, std::int64_t elements,
                    const std::string& view = "") {
  return "(" + text("storage") + "ctorch\n" + type + "\n" + text(key) + text("cpu") +
         integer(elements) + view + "tQ";
}
std::string tensor(const std::string& stored, std::int64_t offset,
                   const std::vector<std::int64_t>& shape,
                   const std::vector<std::int64_t>& strides) {
  return "ctorch._utils\n_rebuild_tensor_v2\n(" + stored + integer(offset) + tuple(shape) +
         tuple(strides) + "\x89" + "ccollections\nOrderedDict\n)RtR";
}
std::string state_dict(const std::string& name, const std::string& value) {
  return std::string("\x80\x02}(") + text(name) + value + "u.";
}
/// A tensor "w" of two fp32 numbers in storage 0.
std::string plain_state() {
  return state_dict("w", tensor(storage("FloatStorage", "0", 2), 0, {2}, {1}));
}

class TorchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "longformer-torch-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path() const { return (folder_ / "pytorch_model.bin").string(); }

  void write(const std::string& contents) const {
    std::ofstream(path(), std::ios::binary) << contents;
  }

  /// A zip file with this pickle and a storage "0" of these bytes.
  void write_archive(const std::string& pickle, std::size_t bytes = 8) const {
    const std::string data(bytes, '\1');
    write_zip(path(), {{"m/data.pkl", bytes_of(pickle)}, {"m/data/0", bytes_of(data)}});
  }

  /// A stream file with this state dict and these keys with their numbers of fp32 elements.
  void write_stream(const std::string& state,
                    const std::vector<std::pair<std::string, std::int64_t>>& storages) const {
    std::string contents("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
    contents += std::string("\x80\x02") + integer(1001) + ".";
    contents += std::string("\x80\x02}") + text("little_endian") + "\x88s.";
    contents += state + "\x80\x02](";
    for (const auto& [key, elements] : storages) contents += text(key);
    contents += "e.";
    for (const auto& [key, elements] : storages) {
      contents += little_endian(elements);
      for (std::int64_t i = 0; i < std::min<std::int64_t>(elements, 100); ++i) {
        contents += little_endian(static_cast<float>(i));
      }
    }
    write(contents);
  }

  StoredTensors read() const { return read_torch_header(MappedFile::open(path()), path()).tensors; }

  std::string error() const {
    return error_of([&] { read(); });
  }

  std::string contents() const { return read_file(path()); }

  fs::path folder_;
};

class TorchFixture : public ::testing::TestWithParam<const char*> {};

TEST_P(TorchFixture, HoldsWhatTorchSaved) {
  const std::string path = (kFixtures / GetParam()).string();
  const StoredTensors found = read_torch_header(MappedFile::open(path), path).tensors;
  const auto expected = SafetensorsFile::open((kFixtures / "values.safetensors").string());
  EXPECT_EQ(found.size(), expected.tensors().size());
  EXPECT_GE(found.size(), 20u);
  for (const auto& [name, tensor] : expected.tensors()) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(found.contains(name));
    const Tensor loaded = found.at(name).load();
    EXPECT_EQ(loaded.dtype(), tensor.dtype());
    ASSERT_EQ(loaded.shape(), tensor.shape());
    ASSERT_EQ(loaded.bytes(), tensor.bytes());
    EXPECT_TRUE(tensor.bytes() == 0 ||
                std::memcmp(loaded.raw(), tensor.raw(), tensor.bytes()) == 0);
    const auto first = found.at(name).first(3);
    ASSERT_EQ(first.size(),
              std::min<std::size_t>(3 * element_size(tensor.dtype()), tensor.bytes()));
    EXPECT_TRUE(first.empty() || std::memcmp(first.data(), tensor.raw(), first.size()) == 0);
  }
}
INSTANTIATE_TEST_SUITE_P(Formats, TorchFixture,
                         ::testing::Values("values_zip.bin", "values_stream.bin"),
                         [](const auto& info) { return std::string(info.param).substr(7, 3); });

TEST_F(TorchTest, TensorsOfAZipAreViewsOfTheFile) {
  const std::string path = (kFixtures / "values_zip.bin").string();
  const auto file = MappedFile::open(path);
  const StoredTensors found = read_torch_header(file, path).tensors;
  for (const char* name : {"f32", "shared", "rows", "bf16", "parameter", "one_of_many"}) {
    EXPECT_TRUE(file->holds(found.at(name).load().raw())) << name;
  }
  EXPECT_EQ(found.at("f32").load().raw(), found.at("shared").load().raw());
  EXPECT_FALSE(file->holds(found.at("transposed").load().raw()));
}

TEST_F(TorchTest, WritesWhatItReads) {
  const auto expected = SafetensorsFile::open((kFixtures / "values.safetensors").string());
  write_torch_file(path(), {expected.tensors().begin(), expected.tensors().end()});
  const auto file = MappedFile::open(path());
  const StoredTensors found = read_torch_header(file, path()).tensors;
  ASSERT_EQ(found.size(), expected.tensors().size());
  for (const auto& [name, tensor] : expected.tensors()) {
    SCOPED_TRACE(name);
    const Tensor loaded = found.at(name).load();
    EXPECT_EQ(loaded.dtype(), tensor.dtype());
    ASSERT_EQ(loaded.shape(), tensor.shape());
    EXPECT_TRUE(tensor.bytes() == 0 ||
                std::memcmp(loaded.raw(), tensor.raw(), tensor.bytes()) == 0);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(loaded.raw()) % 64, 0u);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(TorchTest, ReadsWhatOldVersionsWrote) {
  // Python 2 hands a dictionary over as a list of pairs, and names are byte strings.
  write_archive(
      "\x80\x02"
      "ccollections\nOrderedDict\n(](](U\x01w" +
      tensor(storage("FloatStorage", "0", 2), 0, {2}, {1}) + "eetR.");
  EXPECT_EQ(read().at("w").shape(), Shape{2});
  // _rebuild_tensor, protocol 4 with frames and names from the stack.
  write_archive(std::string("\x80\x04\x95") + std::string(8, '\0') + "}\x94\x8c\x01w" +
                "\x8c\x0ctorch._utils\x94\x8c\x0f_rebuild_tensor\x94\x93(" +
                storage("FloatStorage", "0", 2) + integer(1) + tuple({1}) + tuple({1}) + "tRs.");
  EXPECT_EQ(read().at("w").load().shape(), Shape{1});
  // A view of a storage, as files of 2017 have it.
  const std::string view = "(" + text("9") + integer(3) + integer(2) + "t";
  write_stream(state_dict("w", tensor(storage("FloatStorage", "7", 6, view), 0, {2}, {1})),
               {{"7", 6}});
  EXPECT_EQ(read().at("w").load().to_floats(), (std::vector<float>{3, 4}));
}

TEST_F(TorchTest, LeavesOutWhatIsNoTensor) {
  write_archive(std::string("\x80\x02}(") + text("step") + integer(3) + text("lr") + "G" +
                std::string(8, '\0') + text("note") + text("x") + text("none") + "N" +
                text("flag") + "\x88" + "u.");
  EXPECT_EQ(error(), "");
  EXPECT_EQ(read().size(), 0u);
}

struct BadPickle {
  std::string name;
  std::string pickle;
  std::vector<std::string> message;
};

void PrintTo(const BadPickle& bad, std::ostream* out) { *out << bad.name; }

class MaliciousPickle : public TorchTest, public ::testing::WithParamInterface<BadPickle> {};

TEST_P(MaliciousPickle, IsRefusedInBothFormats) {
  write_archive(GetParam().pickle);
  auto message = GetParam().message;
  message.push_back("pytorch_model.bin");
  expect_error(error(), message);
  write_stream(GetParam().pickle, {{"0", 2}});
  expect_error(error(), message);
}

std::string float_tensor(std::int64_t elements, std::int64_t offset,
                         const std::vector<std::int64_t>& shape,
                         const std::vector<std::int64_t>& strides) {
  return state_dict("w", tensor(storage("FloatStorage", "0", elements), offset, shape, strides));
}

std::vector<BadPickle> bad_pickles() {
  const std::string start = "\x80\x02";
  const std::string call = "(" + text("touch /tmp/owned") + "tR.";
  const std::string deep_lists = start + std::string(100000, ']') + std::string(99999, 'a') + ".";
  std::string deep_tuples = start + ")";
  for (int i = 0; i < 1000; ++i) deep_tuples += "\x85";
  std::string itself =
      start + "}q" + std::string(1, '\0') + text("w") + "h" + std::string(1, '\0') + "s.";
  return {
      {"SystemCall", start + "cposix\nsystem\n" + call, {"\"posix.system\"", "not allowed"}},
      {"Eval", start + "c__builtin__\neval\n" + call, {"__builtin__.eval"}},
      {"Import", start + "c__builtin__\n__import__\n" + call, {"__import__"}},
      {"StackImport", std::string("\x80\x04\x8c\x02os\x8c\x06system\x93") + call, {"os.system"}},
      {"LoadFromBytes", start + "ctorch.storage\n_load_from_bytes\n" + call, {"_load_from_bytes"}},
      {"NameAlike", start + "ctorch\nFloatStorage.x\n.", {"FloatStorage.x"}},
      {"NameAcrossTheSpace", start + "ctorch FloatStorage\n\n.", {"not allowed"}},
      {"Instance", start + "(" + text("x") + "ios\nsystem\n.", {"0x69", "not allowed"}},
      {"Object", start + "(cposix\nsystem\no.", {"posix.system"}},
      {"NewObject", start + "ccollections\nOrderedDict\n)\x81.", {"0x81"}},
      {"Extension", start + "\x82\x01.", {"0x82"}},
      {"PersistentText", start + "Pos.system\n.", {"0x50"}},
      {"CalledDictionary", start + "})R.", {"expected the name of a function"}},
      {"AttributesOfATensor", start + "ctorch\nFloatStorage\n}b.", {"attributes"}},
      {"AttributesThatAreNone", start + "}Nb.", {"dictionary of attributes"}},
      {"DeepLists", deep_lists, {"at most 100 levels"}},
      {"DeepTuples", deep_tuples + ".", {"at most 100 levels"}},
      {"DeepMarks", start + std::string(100000, '(') + ".", {"at most 100 levels"}},
      {"HoldsItself", itself, {"expected a tensor, found a dictionary"}},
      {"NestedState", state_dict("model", "}" + text("w") + "Ns"), {"found a dictionary"}},
      {"ManyObjects", start + std::string(2'000'001, ')') + ".", {"at most 2000000 objects"}},
      {"HugeText", start + "X\xff\xff\xff\xff.", {"cut short"}},
      {"HugeText8", start + "\x8d" + std::string(8, '\xff') + ".", {"cut short"}},
      {"HugeInteger", start + "\x8b\xff\xff\xff\x7f.", {"at most 64 bits"}},
      {"NoNewline", start + "ctorch", {"no end"}},
      {"EmptyStack", start + "R.", {"stack"}},
      {"BelowTheMark", start + "}(a.", {"stack"}},
      {"NoMark", start + "}u.", {"mark"}},
      {"NothingLeft", start + ".", {"one object"}},
      {"TwoObjects", start + "}}.", {"one object"}},
      {"OddPairs", start + "}(Nu.", {"pairs"}},
      {"PairsOfAList", start + "]NNs.", {"dictionary"}},
      {"UnknownMemo", start + "h\x05.", {"number 5"}},
      {"OldProtocol", "(dp0\n.", {"0x64"}},
      {"Protocol1", "\x80\x01}.", {"protocol 1"}},
      {"AList", start + "].", {"expected a dictionary of tensors, found a list"}},
      {"ATensor",
       start + tensor(storage("FloatStorage", "0", 2), 0, {2}, {1}) + ".",
       {"expected a dictionary"}},
      {"NumberAsName", start + "}K\x01Ns.", {"names of tensors"}},
      {"NameTwice", start + "}(" + text("w") + "N" + text("w") + "Nu.", {"\"w\" twice"}},
  };
}

std::vector<BadPickle> bad_tensors() {
  return {
      {"UnknownStorage",
       state_dict("w", tensor(storage("QInt8Storage", "0", 2), 0, {2}, {1})),
       {"QInt8Storage"}},
      {"StorageOfAName",
       state_dict("w", tensor("ctorch\nFloatStorage\n", 0, {2}, {1})),
       {"expected a storage"}},
      {"ShortStorageTuple",
       state_dict("w", tensor("(" + text("storage") + "tQ", 0, {2}, {1})),
       {"expected 2 values, found 1"}},
      {"FewArguments", state_dict("w", "ctorch._utils\n_rebuild_tensor_v2\n)R"), {"found 0"}},
      {"StorageBeyondTheFile", float_tensor(1'000'000'000, 0, {2}, {1}), {"1000000000"}},
      {"StorageBeyond64Bits", float_tensor(std::int64_t{1} << 62, 0, {2}, {1}), {"46116860184"}},
      {"NegativeStorage", float_tensor(-1, 0, {2}, {1}), {"found the number -1"}},
      {"BeyondItsStorage", float_tensor(2, 1, {2}, {1}), {"inside the 2 of its storage"}},
      {"ShapeBeyondItsStorage", float_tensor(2, 0, {3}, {1}), {"inside the 2"}},
      {"StrideBeyondItsStorage", float_tensor(2, 0, {2}, {2}), {"inside the 2"}},
      {"Expanded", float_tensor(2, 0, {1'000'000, 1'000'000}, {0, 0}), {"inside the 2"}},
      {"OverflowingStrides", float_tensor(2, 0, {2, 2}, {INT64_MAX, INT64_MAX}), {"inside the 2"}},
      {"OverflowingShape",
       float_tensor(2, 0, {INT64_MAX, INT64_MAX, 0}, {1, 1, 1}),
       {"inside the 2"}},
      {"OffsetOfNothing", float_tensor(2, 3, {0}, {1}), {"inside the 2"}},
      {"NegativeShape", float_tensor(2, 0, {-1}, {1}), {"found the number -1"}},
      {"NegativeStride", float_tensor(2, 1, {2}, {-1}), {"found the number -1"}},
      {"ManyDimensions",
       float_tensor(2, 0, std::vector<std::int64_t>(17, 1), {1}),
       {"at most 16 dimensions"}},
      {"StridesOfAnotherRank", float_tensor(2, 0, {2}, {1, 1}), {"stride for each dimension"}},
      {"ViewBeyondItsStorage",
       state_dict("w", tensor(storage("FloatStorage", "0", 2,
                                      "(" + text("1") + integer(1) + integer(2) + "t"),
                              0, {2}, {1})),
       {"expected a view inside the 2"}},
  };
}
INSTANTIATE_TEST_SUITE_P(Tensors, MaliciousPickle, ::testing::ValuesIn(bad_tensors()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Pickles, MaliciousPickle, ::testing::ValuesIn(bad_pickles()),
                         [](const auto& info) { return info.param.name; });

TEST_F(TorchTest, PickleWithoutAnEnd) {
  write_archive("\x80\x02}");
  expect_error(error(), {"data.pkl", "cut short"});
}

TEST_F(TorchTest, StreamStorages) {
  using Storages = std::vector<std::pair<std::string, std::int64_t>>;
  const auto message = [&](const Storages& storages, const std::string& state) {
    write_stream(state, storages);
    return error();
  };
  EXPECT_EQ(message({{"0", 2}}, plain_state()), "");
  expect_error(message({}, plain_state()), {"expected a storage \"0\", found none"});
  expect_error(message({{"0", 2}, {"1", 2}}, plain_state()), {"storages of its tensors"});
  expect_error(message({{"0", 2}, {"0", 2}}, plain_state()), {"\"0\"", "twice"});
  expect_error(message({{"0", 3}}, plain_state()), {"expected 2 elements", "found 3"});
  expect_error(message({{"0", -2}}, plain_state()), {"found -2"});
  expect_error(message({{"0", 500}}, float_tensor(500, 0, {2}, {1})), {"cut short"});
  const std::string two_types = std::string("\x80\x02}(") + text("a") +
                                tensor(storage("FloatStorage", "0", 2), 0, {2}, {1}) + text("b") +
                                tensor(storage("HalfStorage", "0", 2), 0, {2}, {1}) + "u.";
  expect_error(message({{"0", 2}}, two_types), {"one type and size"});
}

TEST_F(TorchTest, OtherData) {
  const auto message = [&](const std::string& contents) {
    write(contents);
    return error();
  };
  expect_error(message(""), {"expected a file of torch.save, found an empty file"});
  for (const std::string& other : {std::string("\x80"), std::string(100, 'x'),
                                   std::string("\x80\x02}."), std::string("PK\3")}) {
    expect_error(message(other), {"expected a file of torch.save, found other data"});
  }
  expect_error(message("PK\3\4"), {"expected a zip archive, found 4 bytes"});
  expect_error(message("PK\3\4" + std::string(100, '\0')), {"directory at its end", "cut short"});
  write_stream(plain_state(), {{"0", 2}});
  const std::string whole = contents();
  for (std::size_t size = 15; size < whole.size(); ++size) {
    EXPECT_NE(message(whole.substr(0, size)), "") << size;
  }
}

/// A zip file of two entries that single bytes are changed of.
class ZipTest : public TorchTest {
 protected:
  void SetUp() override {
    TorchTest::SetUp();
    write_archive(plain_state());
    whole_ = contents();
    directory_ = whole_.find("PK\1\2");
    second_ = whole_.find("PK\1\2", directory_ + 1);
    ASSERT_NE(second_, std::string::npos);
  }

  /// The error after so many bytes at a place were replaced.
  std::string patched(std::size_t place, const std::string& bytes) const {
    std::string copy = whole_;
    copy.replace(place, bytes.size(), bytes);
    write(copy);
    return error();
  }

  std::string whole_;
  std::size_t directory_ = 0, second_ = 0;
};

TEST_F(ZipTest, IsGoodAsItIs) {
  EXPECT_EQ(error(), "");
  write(whole_ + "");
  EXPECT_EQ(read().at("w").shape(), Shape{2});
}

TEST_F(ZipTest, Compressed) {
  expect_error(patched(second_ + 10, little_endian(std::uint16_t{8})),
               {"m/data/0", "expected stored data, found compression method 8"});
}

TEST_F(ZipTest, Encrypted) {
  expect_error(patched(second_ + 8, little_endian(std::uint16_t{1})), {"encryption"});
}

TEST_F(ZipTest, SizesThatDiffer) {
  // Sizes are in the ZIP64 field behind the name of 8 bytes.
  expect_error(patched(second_ + 46 + 8 + 4, little_endian(std::uint64_t{1} << 40)),
               {"expected as many bytes as are stored", "1099511627776"});
}

TEST_F(ZipTest, LargerThanTheFile) {
  const std::string size = little_endian(std::uint64_t{1} << 40);
  expect_error(patched(second_ + 46 + 8 + 4, size + size), {"before the directory"});
}

TEST_F(ZipTest, Overlapping) {
  // The second entry's header lies in the data of the first.
  const std::size_t header = whole_.find("PK\3\4", 1);
  const std::string inner = whole_.substr(header, directory_ - header);
  const std::string pickle = plain_state() + inner + std::string(64, '\0');
  const std::string data(8, '\1');
  write_zip(path(), {{"m/data.pkl", bytes_of(pickle)}, {"m/data/0", bytes_of(data)}});
  whole_ = contents();
  second_ = whole_.find("PK\1\2", whole_.find("PK\1\2") + 1);
  expect_error(patched(second_ + 46 + 8 + 20, little_endian(whole_.find("PK\3\4", 1))),
               {"m/data/0", "overlap"});
}

TEST_F(ZipTest, SharingOneHeader) {
  const std::size_t names[] = {whole_.find("m/data/0"), second_ + 46};
  std::string copy = whole_;
  for (const std::size_t place : names) copy.replace(place, 8, "m/data/1");
  ASSERT_LT(names[0], directory_);
  // Both directory entries point at the header of the first.
  copy.replace(second_ + 46 + 8 + 20, 8, little_endian(std::uint64_t{0}));
  write(copy);
  expect_error(error(), {"same name in directory and header"});
}

TEST_F(ZipTest, NameTwice) {
  const std::string pickle = plain_state();
  write_zip(path(), {{"m/data.pkl", bytes_of(pickle)},
                     {"m/data/0", bytes_of(pickle)},
                     {"m/data/0", bytes_of(pickle)}});
  expect_error(error(), {"\"m/data/0\"", "twice"});
}

TEST_F(ZipTest, AnotherNameInItsHeader) {
  expect_error(patched(whole_.find("m/data/0"), "m/data/7"), {"same name in directory and header"});
}

TEST_F(ZipTest, DamagedPickle) {
  expect_error(patched(whole_.find("storage"), "Storage"), {"checksum", "damaged"});
}

TEST_F(ZipTest, HeaderElsewhere) {
  expect_error(patched(second_ + 46 + 8 + 20, little_endian(std::uint64_t{5})),
               {"expected its header at byte 5"});
  expect_error(patched(second_ + 46 + 8 + 20, little_endian(~std::uint64_t{0})), {"inside the"});
}

TEST_F(ZipTest, DirectoryThatLies) {
  const std::size_t end64 = whole_.find("PK\6\6");
  for (const std::uint64_t value : {std::uint64_t{3}, std::uint64_t{1000}, ~std::uint64_t{0}}) {
    expect_error(patched(end64 + 32, little_endian(value)), {path()});
  }
  for (const std::size_t field : {std::size_t{40}, std::size_t{48}}) {
    for (const std::uint64_t value :
         {std::uint64_t{1}, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
      expect_error(patched(end64 + field, little_endian(value)), {path()});
    }
  }
  expect_error(patched(whole_.find("PK\6\7") + 8, little_endian(std::uint64_t{7})),
               {"ZIP64 end record at byte 7"});
}

TEST_F(ZipTest, NoPickle) {
  write_zip(path(), {{"m/data/0", bytes_of(whole_)}});
  expect_error(error(), {"no data.pkl"});
}

TEST_F(ZipTest, NoStorage) {
  write_archive(state_dict("w", tensor(storage("FloatStorage", "../0", 2), 0, {2}, {1})));
  expect_error(error(), {"expected an entry \"m/data/../0\", found none"});
}

TEST_F(ZipTest, BigEndian) {
  const std::string pickle = plain_state();
  write_zip(path(), {{"m/data.pkl", bytes_of(pickle)}, {"m/byteorder", bytes_of("big")}});
  expect_error(error(), {"byteorder", "\"big"});
}

TEST_F(ZipTest, EveryCut) {
  for (std::size_t size = 4; size < whole_.size(); ++size) {
    write(whole_.substr(0, size));
    EXPECT_NE(error(), "") << size;
  }
}

}  // namespace
}  // namespace longformer::formats::torch_test
