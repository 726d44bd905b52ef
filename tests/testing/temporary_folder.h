// A folder of files that goes away with its test.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "fixtures.h"

namespace longformer {

class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::map<std::string, std::string>& files = {}) {
    std::string name = (std::filesystem::temp_directory_path() / "longformer_XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
    for (const auto& [file, contents] : files) add(file, contents);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  /// Writes a file, in a folder of its own where the name says so, and returns its path.
  std::string add(const std::string& file, const std::string& contents) {
    std::filesystem::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file, std::ios::binary) << contents;
    return (path_ / file).string();
  }
  std::string name() const { return path_.string(); }
  std::filesystem::path path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Folder of the real data (LONGFORMER_DATA, else beside the tree); empty when it is not there.
inline std::filesystem::path data_folder() {
  namespace fs = std::filesystem;
  const char* named = std::getenv("LONGFORMER_DATA");
  const fs::path folder =
      named ? fs::path(named) : source_folder().parent_path() / "shared" / "data";
  return fs::is_directory(folder) ? folder : fs::path();
}

}  // namespace longformer
