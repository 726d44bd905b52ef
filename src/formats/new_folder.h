// Folders that appear whole or not at all.
#pragma once

#include <filesystem>

namespace longformer::formats {

/// A folder that is filled under a temporary name beside its own, and removed unless it is
/// committed.
class NewFolder {
 public:
  /// Throws filesystem_error when it cannot be created.
  explicit NewFolder(std::filesystem::path target);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::filesystem::path& target() const { return target_; }
  /// Folder of its files until then.
  const std::filesystem::path& path() const { return path_; }

  /// Waits until everything in it is on the disk. Throws Error with the system's reason.
  void sync() const;
  /// Syncs, and gives the folder its name, which must be free or that of an empty folder: not even
  /// a loss of power shows it half-written. Throws Error or filesystem_error.
  void commit() const;

 private:
  std::filesystem::path target_;
  std::filesystem::path path_;
};

/// The name under which a file or folder is written or removed.
std::filesystem::path temporary_name(const std::filesystem::path& target);

/// Waits until a file, or the names in a folder, are on the disk. Throws Error.
void sync(const std::filesystem::path& path);

}  // namespace longformer::formats
