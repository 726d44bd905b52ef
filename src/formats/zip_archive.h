// The directory of a zip archive whose entries are stored as they are, as PyTorch writes them
// (PKWARE APPNOTE 6.3: end of central directory, central directory, ZIP64).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/mapped_file.h"

namespace longformer::formats {

/// The entries of an archive by name, as ranges of its bytes.
class ZipArchive {
 public:
  /// Checks the whole directory: each entry stored without compression or encryption, named once
  /// and alike in its own header, inside the archive, sharing no byte with another. `path` stands
  /// for the file in messages. Throws Error that names file, entry and values.
  static ZipArchive open(std::span<const std::byte> bytes, const std::string& path);

  /// Whether the bytes begin like a zip archive.
  static bool is_zip(std::span<const std::byte> bytes);

  const std::map<std::string, std::span<const std::byte>>& entries() const { return entries_; }

  /// Compares the contents of an entry with its checksum. Throws Error when they differ.
  void check_contents(const std::string& name) const;

 private:
  std::string path_;
  std::map<std::string, std::span<const std::byte>> entries_;
  std::map<std::string, std::uint32_t> checksums_;
};

/// A named part of an archive that is written.
struct ZipContents {
  std::string name;
  std::span<const std::byte> bytes;
};

/// Writes an archive of stored entries, each aligned to 64 bytes, through a temporary name in the
/// same folder. Throws Error when the disk refuses.
void write_zip(const std::string& path, const std::vector<ZipContents>& contents);

}  // namespace longformer::formats
