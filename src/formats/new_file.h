// Files that appear whole or not at all.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

namespace longformer::formats {

/// A file that is written under a temporary name in the same folder, and removed unless it is
/// committed.
class NewFile {
 public:
  /// Throws Error with the system's reason when it cannot be created.
  explicit NewFile(std::string path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// A failure shows in commit().
  void write(const void* data, std::size_t bytes);
  /// Gives the file its name. Throws Error with the system's reason when anything went wrong.
  void commit();

 private:
  std::string path_;
  std::string temporary_;
  std::FILE* file_;
  bool good_ = true;
};

}  // namespace longformer::formats
