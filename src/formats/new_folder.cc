#include "formats/new_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "core/error.h"

namespace longformer::formats {

namespace fs = std::filesystem;

fs::path temporary_name(const fs::path& target) {
  return fmt::format("{}.tmp{}", target.string(), ::getpid());
}

void sync(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(file >= 0, "{}: could not be opened: {}", path.string(),
          std::generic_category().message(errno));
  const int result = ::fsync(file);
  const int reason = errno;
  ::close(file);
  // Some file systems have nothing to wait for and say so.
  require(result == 0 || reason == EINVAL || reason == ENOTSUP, "{}: could not be written: {}",
          path.string(), std::generic_category().message(reason));
}

NewFolder::NewFolder(fs::path target) : target_(std::move(target)), path_(temporary_name(target_)) {
  fs::remove_all(path_);
  fs::create_directories(path_);
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void NewFolder::sync() const {
  for (const auto& entry : fs::recursive_directory_iterator(path_)) {
    if (entry.is_directory() || entry.is_regular_file()) formats::sync(entry.path());
  }
  formats::sync(path_);
}

void NewFolder::commit() const {
  sync();
  fs::rename(path_, target_);
  const fs::path parent = target_.parent_path();
  formats::sync(parent.empty() ? fs::path(".") : parent);
}

}  // namespace longformer::formats
