// The weights of a checkpoint folder, whatever files hold them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "formats/mapped_file.h"
#include "formats/stored_tensor.h"

namespace longformer::formats {

/// Files that a folder may hold its weights in, the one that `transformers` prefers first.
inline constexpr const char* kWeightFiles[] = {"model.safetensors", "model.safetensors.index.json",
                                               "pytorch_model.bin", "pytorch_model.bin.index.json"};

/// The file of an adapter of low rank, as peft writes it.
inline constexpr const char* kAdapterFile = "adapter_model.safetensors";

/// Whether a folder has one of them.
bool has_weights(const std::string& folder);

/// Path of the file of a folder that its weights are read from: the first of kWeightFiles. Throws
/// Error that says which files are expected and what the folder has instead.
std::string weights_file(const std::string& folder);

class WeightFiles {
 public:
  /// Opens the weights of a folder; of an index all files that it names. Throws Error that names
  /// file, tensor, expected and found.
  static WeightFiles open(const std::string& folder);

  /// Opens one file of any name: safetensors, or PyTorch. Throws Error.
  static WeightFiles of_file(const std::string& path);

  const StoredTensors& tensors() const { return tensors_; }
  /// The file that was found, for messages.
  const std::string& path() const { return path_; }
  /// "safetensors", "PyTorch zip" or "PyTorch stream".
  const std::string& format() const { return format_; }
  std::size_t file_count() const { return files_.size(); }

  /// Tells the system that the mapped pages of this tensor are not needed for now.
  void release(const Tensor& tensor) const;
  /// A hash of names, shapes, dtypes and the first bytes of every tensor.
  std::uint64_t fingerprint() const;

 private:
  void add(const std::string& path, const std::vector<std::string>& expected);

  std::string path_;
  std::string format_;
  std::vector<std::shared_ptr<MappedFile>> files_;
  StoredTensors tensors_;
};

}  // namespace longformer::formats
