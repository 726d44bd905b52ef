#include "hub/download.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "formats/json.h"
#include "longformer/report.h"

namespace longformer::hub {
namespace {

namespace fs = std::filesystem;

std::string system_reason() { return std::generic_category().message(errno); }

/// The first byte of "bytes 7-10/11"; -1 for anything else.
std::int64_t first_of_range(std::string_view range) {
  constexpr std::string_view kUnit = "bytes ";
  if (!range.starts_with(kUnit)) return -1;
  range.remove_prefix(kUnit.size());
  std::int64_t first = -1;
  const auto [end, fault] = std::from_chars(range.data(), range.data() + range.size(), first);
  return fault == std::errc() && end != range.data() + range.size() && *end == '-' ? first : -1;
}

}  // namespace

Download::Download(RemoteFile file, const Repository& repository, std::string address)
    : file_(std::move(file)),
      repository_(repository),
      address_(std::move(address)),
      sum_(Checksum::of_file(file_.hash.size(), file_.size)) {}

bool Download::is_in_place() const {
  std::error_code ignored;
  return fs::is_regular_file(repository_.blob(file_.hash), ignored);
}

bool Download::open() {
  auto lock = repository_.lock(file_.hash);
  if (!lock) return false;
  lock_ = std::move(*lock);
  if (is_in_place()) return true;
  const fs::path path = repository_.partial(file_.hash);
  partial_ = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  require(partial_.is_open(), "{}: could not create the file: {}", path.string(), system_reason());
  read_partial();
  return true;
}

void Download::read_partial() {
  std::array<char, 1 << 16> buffer;
  while (done_ <= file_.size) {
    const ssize_t count = ::read(partial_.number(), buffer.data(), buffer.size());
    require(count >= 0, "{}: could not read the file: {}", repository_.partial(file_.hash).string(),
            system_reason());
    if (count == 0) break;
    sum_.add({buffer.data(), static_cast<std::size_t>(count)});
    done_ += count;
    Interruption::poll();
  }
  inherited_ = most_ = done_;
  if (done_ > file_.size) begin_anew();
}

void Download::begin(const AnswerHead& head) {
  if (head.status != 206) {
    if (done_ > 0) begin_anew();
    return;
  }
  const std::string range = head.header("content-range");
  require(first_of_range(range) == done_,
          "{}: expected the bytes from {} on, found those of content-range {}", file_.name, done_,
          formats::quote(range));
}

void Download::take(std::string_view bytes) {
  require(done_ + std::ssize(bytes) <= file_.size, "{}: expected {} bytes, found more", file_.name,
          file_.size);
  sum_.add(bytes);
  while (!bytes.empty()) {
    const ssize_t count = ::write(partial_.number(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    require(count > 0, "{}: could not write the file: {}", repository_.partial(file_.hash).string(),
            system_reason());
    bytes.remove_prefix(static_cast<std::size_t>(count));
    done_ += count;
  }
}

void Download::begin_anew() {
  const bool is_empty =
      ::ftruncate(partial_.number(), 0) == 0 && ::lseek(partial_.number(), 0, SEEK_SET) == 0;
  require(is_empty, "{}: could not write the file: {}", repository_.partial(file_.hash).string(),
          system_reason());
  sum_ = Checksum::of_file(file_.hash.size(), file_.size);
  done_ = inherited_ = 0;
}

bool Download::finish() {
  const std::string found = sum_.hexadecimal();
  const fs::path path = repository_.partial(file_.hash);
  if (found != file_.hash) {
    const bool was_inherited = inherited_ > 0;
    begin_anew();
    if (was_inherited) return false;
    ::unlink(path.c_str());
    fail("{}: expected the {} {}, found {}: the file came damaged", file_.name,
         file_.hash.size() == 64 ? "SHA-256" : "git hash", file_.hash, found);
  }
  const bool is_placed = ::fdatasync(partial_.number()) == 0 &&
                         ::rename(path.c_str(), repository_.blob(file_.hash).c_str()) == 0;
  require(is_placed, "{}: could not write the file: {}", path.string(), system_reason());
  close();
  return true;
}

void Download::close() {
  partial_ = Descriptor();
  lock_ = Descriptor();
}

bool Download::try_again(std::optional<std::chrono::seconds> asked) {
  constexpr int kMostTries = 5;
  constexpr std::chrono::milliseconds kFirstPause(500);
  // A file that comes from its beginning again has not grown.
  if (done_ > most_) tries_ = 0;
  most_ = std::max(most_, done_);
  if (tries_ + 1 == kMostTries) return false;
  const std::chrono::milliseconds pause = asked ? *asked : kFirstPause * (1 << tries_);
  ++tries_;
  due_ = Clock::now() + pause;
  return true;
}

}  // namespace longformer::hub
