// One process at a time writes into a folder.
#pragma once

#include <filesystem>

namespace longformer::formats {

/// Holds a folder by a lock on its file `.lock`, which vanishes with the process whatever ends it.
class FolderLock {
 public:
  /// Throws Error that begins with `name` when somebody else holds the folder. On a file system
  /// without locks nobody is refused.
  FolderLock(const std::filesystem::path& folder, const char* name);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  std::filesystem::path path_;
  int file_ = -1;
};

}  // namespace longformer::formats
