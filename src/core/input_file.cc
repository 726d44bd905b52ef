#include "core/input_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/descriptor.h"
#include "core/error.h"
#include "longformer/report.h"

namespace longformer {
namespace {

constexpr const char* kStandardInput = "-";
constexpr int kPauseMilliseconds = 100;

/// Returns when there is something to read, or the end.
void wait_for(int descriptor) {
  pollfd one = {.fd = descriptor, .events = POLLIN, .revents = 0};
  while (::poll(&one, 1, kPauseMilliseconds) <= 0) Interruption::poll();
}

/// The bytes as they are.
class RawFile {
 public:
  explicit RawFile(std::string path) : path_(std::move(path)) {
    // Without O_NONBLOCK, a named pipe that nobody writes to would keep even a signal waiting.
    descriptor_ = Descriptor(path_ == kStandardInput
                                 ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                 : ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status = {};
    require(descriptor_.is_open() && ::fstat(descriptor_.number(), &status) == 0, FileName{path_},
            "expected a readable file, found: {}", std::strerror(errno));
    require(!S_ISDIR(status.st_mode), FileName{path_}, "expected a file, found a folder");
    is_regular_ = S_ISREG(status.st_mode);
  }

  std::size_t read(std::span<char> bytes) const {
    while (true) {
      if (!is_regular_) wait_for(descriptor_.number());
      const ssize_t count = ::read(descriptor_.number(), bytes.data(), bytes.size());
      if (count >= 0) return static_cast<std::size_t>(count);
      require(errno == EINTR || errno == EAGAIN, FileName{path_},
              "expected a readable file, found: {}", std::strerror(errno));
    }
  }

 private:
  std::string path_;
  Descriptor descriptor_;
  bool is_regular_ = false;
};

ByteSource source_of(const std::string& path) {
  return [file = std::make_shared<RawFile>(path)](std::span<char> to) { return file->read(to); };
}

}  // namespace

InputFile::InputFile(const std::string& path) : input_(path, source_of(path)) {}

bool is_read_once(const std::string& path) {
  if (path == kStandardInput) return true;
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

std::string read_input(const std::string& path) {
  InputFile file(path);
  std::string all;
  std::array<char, std::size_t{1} << 16> buffer;
  for (std::size_t count = 0; (count = file.read(buffer)) > 0;) all.append(buffer.data(), count);
  return all;
}

std::shared_ptr<const std::string> KeptInputs::bytes_of(const std::string& path) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const std::string>& bytes = inputs_[path];
  if (!bytes) bytes = std::make_shared<const std::string>(read_input(path));
  return bytes;
}

}  // namespace longformer
