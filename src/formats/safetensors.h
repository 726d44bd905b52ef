// safetensors files: u64 little-endian header length, JSON header, raw row-major data
// (docs/spec/encoder.md#a2).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "formats/stored_tensor.h"

namespace longformer::formats {

/// Contents of a file's header.
struct SafetensorsHeader {
  StoredTensors tensors;
  std::map<std::string, std::string> metadata;
};

/// Checks the whole header: length, JSON depth, dtypes, shapes, offsets inside the file, without
/// overlap or overflow, and sizes that agree with shapes. `path` stands for the file in messages.
/// Throws Error that names file, tensor and values.
SafetensorsHeader read_safetensors_header(const std::shared_ptr<MappedFile>& file,
                                          const std::string& path);

/// The tensors of one file. Tensors are views of the mapping and keep it alive.
class SafetensorsFile {
 public:
  /// Maps the file and reads its header.
  static SafetensorsFile open(const std::string& path);

  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// Writes a file that `safetensors` and `transformers` read: metadata {"format": "pt"}, data
/// aligned to 64 bytes, through a temporary name. Throws Error when the disk refuses.
void write_safetensors(const std::string& path,
                       const std::vector<std::pair<std::string, Tensor>>& tensors);

}  // namespace longformer::formats
