// The directory of a zip archive (PKWARE APPNOTE 6.3: end of central directory, central directory,
// ZIP64), and archives whose entries are stored as they are, as PyTorch writes them.
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

/// An entry of an archive.
struct ZipEntry {
  /// How APPNOTE calls the two methods that documents have.
  static constexpr std::uint16_t stored = 0, deflated = 8;

  /// Its bytes in the archive.
  std::span<const std::byte> packed;
  std::uint64_t size = 0;
  std::uint32_t checksum = 0;
  std::uint16_t method = stored;
  bool is_encrypted = false;
};

/// Checks the whole directory: each entry named once and alike in its own header, inside the
/// archive, sharing no byte with another. `path` stands for the file in messages. Throws Error that
/// names file, entry and values.
std::map<std::string, ZipEntry> zip_entries(std::span<const std::byte> bytes,
                                            const std::string& path);

/// The entries of an archive by name, as ranges of its bytes.
class ZipArchive {
 public:
  /// Checks the directory as zip_entries(), and that each entry is stored without compression or
  /// encryption. `path` stands for the file in messages. Throws Error as zip_entries().
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
