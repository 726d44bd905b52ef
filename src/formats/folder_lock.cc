#include "formats/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>

#include "core/error.h"

namespace longformer::formats {
namespace {

/// Whether the open file still has its name: who held it may have removed it.
bool is_named(int file) {
  struct stat status = {};
  return ::fstat(file, &status) == 0 && status.st_nlink > 0;
}

/// The id of the process that holds the lock, which it has written there.
std::string holder_of(int file) {
  std::array<char, 32> text = {};
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : "unknown";
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder, const char* name)
    : path_(folder / ".lock") {
  while (file_ < 0) {
    const int file = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    require(file >= 0, "{}: expected a folder to write into, found '{}': {}", name, folder.string(),
            std::generic_category().message(errno));
    if (::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      const std::string holder = holder_of(file);
      ::close(file);
      fail("{}: expected a folder that nobody else trains in, found '{}' in use by process {}",
           name, folder.string(), holder);
    }
    if (is_named(file)) {
      file_ = file;
    } else {
      ::close(file);
    }
  }
  const std::string id = std::to_string(::getpid());
  // It is for a message alone.
  if (::ftruncate(file_, 0) == 0) {
    [[maybe_unused]] const ssize_t written = ::pwrite(file_, id.data(), id.size(), 0);
  }
}

FolderLock::~FolderLock() {
  ::unlink(path_.c_str());
  ::close(file_);
}

}  // namespace longformer::formats
