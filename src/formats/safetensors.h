// safetensors files: u64 little-endian header length, JSON header, raw row-major data (spec.md
// A.2).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

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
  /// Tells the system that the pages of this range are not needed any more.
  void release(const void* begin, std::size_t bytes) const;

 private:
  MappedFile(std::byte* data, std::size_t size) : data_(data), size_(size) {}
  std::byte* data_;
  std::size_t size_;
};

/// The tensors of one file. Tensors are views of the mapping and keep it alive.
class SafetensorsFile {
 public:
  /// Checks the whole header: length, JSON depth, dtypes, shapes, offsets inside the file, without
  /// overlap or overflow, and sizes that agree with shapes. Throws Error that names file, tensor
  /// and values.
  static SafetensorsFile open(const std::string& path);

  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Tells the system that the mapped pages of this tensor are not needed for now.
  void release(const Tensor& tensor) const { file_->release(tensor.raw(), tensor.bytes()); }
  /// A hash of names, shapes, dtypes and the first bytes of every tensor.
  std::uint64_t fingerprint() const;

 private:
  std::shared_ptr<MappedFile> file_;
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// Path of the weights of a checkpoint folder. Throws Error that says which files are missing, or
/// which unsupported format the folder has instead.
std::string weights_file(const std::string& folder);

/// Writes a file that `safetensors` and `transformers` read: metadata {"format": "pt"}, data
/// aligned to 64 bytes, through a temporary name. Throws Error when the disk refuses.
void write_safetensors(const std::string& path,
                       const std::vector<std::pair<std::string, Tensor>>& tensors);

}  // namespace longformer::formats
