// The cache of huggingface_hub on this machine: each file once by its hash, and a folder of links
// for each commit.
//
//   CACHE/models--org--name/blobs/HASH                  a file; HASH.incomplete while it comes
//   CACHE/models--org--name/snapshots/COMMIT/NAME       a link to ../../blobs/HASH
//   CACHE/models--org--name/refs/REVISION               the commit of a branch or tag
//   CACHE/models--org--name/.no_exist/COMMIT/NAME       empty: the repository has no such file
//   CACHE/.locks/models--org--name/HASH.lock            held by the process that fetches the file
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "core/descriptor.h"
#include "hub/files.h"

namespace longformer::hub {

/// The part of the cache that belongs to one repository.
class Repository {
 public:
  Repository(std::filesystem::path cache, const std::string& name);

  const std::filesystem::path& cache() const { return cache_; }
  std::filesystem::path blob(const std::string& hash) const;
  std::filesystem::path partial(const std::string& hash) const;

  /// The snapshot of a branch, tag or commit; an empty path where there is none with a
  /// configuration.
  std::filesystem::path snapshot_of(const std::string& revision) const;
  std::filesystem::path snapshot(const std::string& commit) const;

  /// Makes the folders of blobs and locks. Throws Error with the system's reason.
  void prepare() const;
  /// The lock of a file; nothing while another process holds it. It ends with the process too, and
  /// on a file system without locks nobody is refused. Throws Error.
  std::optional<Descriptor> lock(const std::string& hash) const;
  /// Makes the links of a snapshot, that of its configuration last: an unfinished snapshot is none.
  /// Throws Error.
  void link(const std::string& commit, std::span<const RemoteFile> files) const;
  /// Says that a commit has no such file. A cache that cannot be written stays as it is.
  void mark_absent(const std::string& commit, const std::string& file) const;
  bool is_known_absent(const std::string& commit, const std::string& file) const;
  /// Says which commit a branch or tag is. Throws Error.
  void refer(const std::string& revision, const std::string& commit) const;

 private:
  void link(const std::string& commit, const RemoteFile& file) const;

  std::filesystem::path cache_, folder_, locks_;
};

}  // namespace longformer::hub
