// Files whose pages are read on first use.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace longformer::formats {

/// A file mapped read-only; pages are read on first use.
class MappedFile {
 public:
  /// Throws Error when the file cannot be opened or mapped.
  static std::shared_ptr<MappedFile> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  /// Whether this address lies in the file.
  bool holds(const void* address) const;
  /// Tells the system that the pages of this range are not needed any more.
  void release(const void* begin, std::size_t bytes) const;

 private:
  MappedFile(std::byte* data, std::size_t size) : data_(data), size_(size) {}
  std::byte* data_;
  std::size_t size_;
};

}  // namespace longformer::formats
