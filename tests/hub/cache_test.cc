// The layout of the cache, as huggingface_hub has it.
#include "hub/cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "error_testing.h"
#include "temporary_folder.h"

namespace longformer::hub::cache_test {
namespace {

namespace fs = std::filesystem;

const std::string kCommit(40, 'c');
const std::string kSum(64, 'a'), kHash(40, 'b');

std::string contents(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

class HubCache : public ::testing::Test {
  TemporaryFolder cache_;

 protected:
  const fs::path models_ = cache_.path() / "models--org--name";
  const Repository repository_{cache_.path(), "org/name"};
  const std::vector<RemoteFile> files_ = {{"config.json", 2, kHash},
                                          {"1_Pooling/config.json", 2, kHash},
                                          {"model.safetensors", 3, kSum}};
};

TEST_F(HubCache, FilesThatTheHubDoesNotHave) {
  repository_.prepare();
  EXPECT_FALSE(repository_.is_known_absent(kCommit, "modules.json"));
  repository_.mark_absent(kCommit, "modules.json");
  repository_.mark_absent(kCommit, "modules.json");
  EXPECT_TRUE(repository_.is_known_absent(kCommit, "modules.json"));
  EXPECT_FALSE(repository_.is_known_absent(kCommit, "tokenizer.json"));
  // The place that huggingface_hub looks at.
  EXPECT_TRUE(fs::is_regular_file(models_ / ".no_exist" / kCommit / "modules.json"));
}

TEST_F(HubCache, Layout) {
  repository_.prepare();
  EXPECT_TRUE(contents(models_.parent_path() / "CACHEDIR.TAG").starts_with("Signature: 8a477f59"));
  std::ofstream(repository_.blob(kHash)) << "{}";
  std::ofstream(repository_.blob(kSum)) << "abc";
  EXPECT_EQ(repository_.blob(kSum), models_ / "blobs" / kSum);
  EXPECT_EQ(repository_.partial(kSum), models_ / "blobs" / (kSum + ".incomplete"));
  EXPECT_EQ(repository_.snapshot_of("main"), "");

  repository_.link(kCommit, files_);
  repository_.link(kCommit, files_);
  const fs::path snapshot = models_ / "snapshots" / kCommit;
  EXPECT_EQ(fs::read_symlink(snapshot / "config.json"), "../../blobs/" + kHash);
  EXPECT_EQ(fs::read_symlink(snapshot / "1_Pooling/config.json"), "../../../blobs/" + kHash);
  EXPECT_EQ(contents(snapshot / "1_Pooling/config.json"), "{}");
  EXPECT_EQ(contents(snapshot / "model.safetensors"), "abc");
  EXPECT_EQ(repository_.snapshot_of("main"), "");
  EXPECT_EQ(repository_.snapshot_of(kCommit), snapshot);

  repository_.refer("main", kCommit);
  repository_.refer("refs/pr/1", kCommit);
  repository_.refer(kCommit, kCommit);
  EXPECT_EQ(contents(models_ / "refs/main"), kCommit);
  EXPECT_EQ(contents(models_ / "refs/refs/pr/1"), kCommit);
  EXPECT_FALSE(fs::exists(models_ / "refs" / kCommit));
  EXPECT_EQ(repository_.snapshot_of("main"), snapshot);
}

TEST_F(HubCache, LinksTakeThePlaceOfOthers) {
  const fs::path path = models_ / "snapshots" / kCommit / "config.json";
  fs::create_directories(path.parent_path());
  std::ofstream(path) << "a copy";
  repository_.link(kCommit, files_);
  EXPECT_EQ(fs::read_symlink(path), "../../blobs/" + kHash);
}

TEST_F(HubCache, AnUnfinishedSnapshotIsNone) {
  repository_.refer("main", kCommit);
  repository_.link(kCommit, std::vector<RemoteFile>{{"model.safetensors", 3, kSum}});
  EXPECT_EQ(repository_.snapshot_of("main"), "");
}

TEST_F(HubCache, LocksAreHeldOnce) {
  repository_.prepare();
  auto first = repository_.lock(kSum);
  ASSERT_TRUE(first.has_value());
  EXPECT_TRUE(fs::exists(models_.parent_path() / ".locks/models--org--name" / (kSum + ".lock")));
  EXPECT_FALSE(repository_.lock(kSum).has_value());
  EXPECT_TRUE(repository_.lock(kHash).has_value());
  first.reset();
  EXPECT_TRUE(repository_.lock(kSum).has_value());
}

TEST_F(HubCache, ReferencesLeadNowhereElse) {
  fs::create_directories(models_ / "refs");
  std::ofstream(models_ / "refs/main") << "../../../elsewhere";
  EXPECT_EQ(repository_.snapshot_of("main"), "");
}

TEST_F(HubCache, AFileInThePlaceOfAFolder) {
  std::ofstream(models_.parent_path() / ".locks") << "x";
  expect_error(error_of([&] { repository_.prepare(); }), {".locks"});
}

}  // namespace
}  // namespace longformer::hub::cache_test
