#include "hub/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <string_view>
#include <system_error>

#include "core/error.h"
#include "formats/json.h"
#include "hub/names.h"

namespace longformer::hub {
namespace {

namespace fs = std::filesystem;

/// Signature of the standard for folders that backups leave out.
constexpr std::string_view kCacheTag =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This file is a cache directory tag, see https://bford.info/cachedir/\n";

/// Throws Error with the reason of the system.
void check(const std::error_code& fault, const fs::path& path) {
  require(!fault, "{}: could not write there: {}", path.string(), fault.message());
}

void make_folder(const fs::path& folder) {
  std::error_code fault;
  fs::create_directories(folder, fault);
  check(fault, folder);
}

std::string folder_name(const std::string& repository) {
  std::string folder = "models--" + repository;
  if (const auto slash = folder.find('/'); slash != std::string::npos) {
    folder.replace(slash, 1, "--");
  }
  return folder;
}

bool is_configuration(const RemoteFile& file) {
  return std::ranges::find(kConfigurations, file.name) != std::end(kConfigurations);
}

/// The contents of the link that stands at snapshots/COMMIT/NAME.
fs::path target_of(const RemoteFile& file) {
  fs::path up = "../..";
  for (auto depth = std::ranges::count(file.name, '/'); depth > 0; --depth) up /= "..";
  return up / "blobs" / file.hash;
}

}  // namespace

Repository::Repository(fs::path cache, const std::string& name)
    : cache_(std::move(cache)),
      folder_(cache_ / folder_name(name)),
      locks_(cache_ / ".locks" / folder_name(name)) {}

fs::path Repository::blob(const std::string& hash) const { return folder_ / "blobs" / hash; }

fs::path Repository::partial(const std::string& hash) const {
  return folder_ / "blobs" / (hash + ".incomplete");
}

fs::path Repository::snapshot(const std::string& commit) const {
  return folder_ / "snapshots" / commit;
}

fs::path Repository::snapshot_of(const std::string& revision) const {
  std::string commit = revision;
  std::error_code ignored;
  const fs::path reference = folder_ / "refs" / revision;
  if (fs::is_regular_file(reference, ignored)) {
    commit = formats::read_file(reference.string());
    commit.erase(std::min(commit.find_first_of(" \r\n"), commit.size()));
  }
  if (!is_revision(commit)) return {};
  const fs::path found = snapshot(commit);
  const bool is_there = std::ranges::any_of(
      kConfigurations, [&](const char* name) { return fs::exists(found / name, ignored); });
  return is_there ? found : fs::path();
}

void Repository::prepare() const {
  make_folder(folder_ / "blobs");
  make_folder(locks_);
  // A cache that cannot be marked is one all the same.
  std::error_code ignored;
  const fs::path tag = cache_ / "CACHEDIR.TAG";
  if (fs::exists(tag, ignored)) return;
  try {
    formats::write_file(tag.string(), kCacheTag);
  } catch (const Error&) {
  }
}

std::optional<Descriptor> Repository::lock(const std::string& hash) const {
  const fs::path path = locks_ / (hash + ".lock");
  for (;;) {
    Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664));
    require(file.is_open(), "{}: could not create the file: {}", path.string(),
            std::generic_category().message(errno));
    if (::flock(file.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return {};
    // Who held it may have removed it.
    struct stat status = {};
    if (::fstat(file.number(), &status) == 0 && status.st_nlink > 0) return file;
  }
}

void Repository::link(const std::string& commit, std::span<const RemoteFile> files) const {
  for (const bool last : {false, true}) {
    for (const RemoteFile& file : files) {
      if (is_configuration(file) == last) link(commit, file);
    }
  }
}

void Repository::link(const std::string& commit, const RemoteFile& file) const {
  const fs::path path = snapshot(commit) / file.name, target = target_of(file);
  make_folder(path.parent_path());
  std::error_code fault;
  if (fs::read_symlink(path, fault) == target && !fault) return;
  // Another process may be making it too; the rename takes the place of any file.
  const fs::path temporary = path.string() + fmt::format(".tmp{}", ::getpid());
  fs::remove(temporary, fault);
  fs::create_symlink(target, temporary, fault);
  check(fault, temporary);
  fs::rename(temporary, path, fault);
  check(fault, path);
}

void Repository::mark_absent(const std::string& commit, const std::string& file) const {
  if (is_known_absent(commit, file)) return;
  const fs::path path = folder_ / ".no_exist" / commit / file;
  try {
    make_folder(path.parent_path());
    formats::write_file(path.string(), "");
  } catch (const Error&) {
  }
}

bool Repository::is_known_absent(const std::string& commit, const std::string& file) const {
  std::error_code ignored;
  return fs::exists(folder_ / ".no_exist" / commit / file, ignored);
}

void Repository::refer(const std::string& revision, const std::string& commit) const {
  if (revision == commit) return;
  const fs::path path = folder_ / "refs" / revision;
  std::error_code ignored;
  // Nothing to write in a cache that may not be written.
  if (fs::is_regular_file(path, ignored) && formats::read_file(path.string()) == commit) return;
  make_folder(path.parent_path());
  formats::write_file(path.string(), commit);
}

}  // namespace longformer::hub
