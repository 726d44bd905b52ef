// PyTorch .bin files: the zip format of torch 1.6 and later, and the stream format before it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "formats/mapped_file.h"
#include "formats/stored_tensor.h"

namespace longformer::formats {

struct TorchHeader {
  StoredTensors tensors;
  /// The stream format, whose data is seldom aligned.
  bool is_stream = false;
};

/// The tensors of a state dict that torch.save wrote. The pickle in the file is read as data, by an
/// allow-list: nothing of it is run or imported. Tensors that share a storage, and transposed or
/// sliced ones, become views of the same bytes. Values that are no tensors are left out. `path`
/// stands for the file in messages. Throws Error that names file, tensor, expected and found.
TorchHeader read_torch_header(const std::shared_ptr<MappedFile>& file, const std::string& path);

/// Writes a file of the zip format that torch.load(weights_only=True) reads as a state dict,
/// through a temporary name. Throws Error when the disk refuses.
void write_torch_file(const std::string& path,
                      const std::vector<std::pair<std::string, Tensor>>& tensors);

}  // namespace longformer::formats
