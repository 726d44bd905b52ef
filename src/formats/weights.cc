#include "formats/weights.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/hash.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "formats/torch_file.h"

namespace longformer::formats {
namespace {

namespace fs = std::filesystem;

bool present(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) || fs::is_symlink(path, ignored);
}

/// The tensors of each file that an index names. A name may not lead out of the folder.
std::map<std::string, std::vector<std::string>> read_index(const std::string& path) {
  const nlohmann::ordered_json index = read_json(path);
  const nlohmann::ordered_json& files = ConfigReader(index, path).at("weight_map");
  require(files.is_object() && !files.empty(),
          "{}: weight_map: expected an object of file names, found {}", path, shown(files));
  std::map<std::string, std::vector<std::string>> tensors;
  for (const auto& [tensor, file] : files.items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    const bool is_plain = name.ends_with(".safetensors") || name.ends_with(".bin");
    require(is_plain && name.find_first_of("/\\") == std::string::npos,
            "{}: weight_map: {}: expected the name of a file beside it, found {}", path,
            quote(tensor), shown(file));
    tensors[name].push_back(tensor);
  }
  return tensors;
}

}  // namespace

bool has_weights(const std::string& folder) {
  return std::any_of(std::begin(kWeightFiles), std::end(kWeightFiles),
                     [&](const char* name) { return present(fs::path(folder) / name); });
}

std::string weights_file(const std::string& folder) {
  for (const char* name : kWeightFiles) {
    if (present(fs::path(folder) / name)) return folder + "/" + name;
  }
  for (const char* other : {"tf_model.h5", "flax_model.msgpack", "rust_model.ot"}) {
    require(!present(fs::path(folder) / other),
            "{}: expected model.safetensors or pytorch_model.bin, found {}: save the model again "
            "with save_pretrained",
            folder, other);
  }
  fail("{}: expected model.safetensors or pytorch_model.bin, found neither", folder);
}

WeightFiles WeightFiles::open(const std::string& folder) {
  WeightFiles weights;
  weights.path_ = weights_file(folder);
  if (!weights.path_.ends_with(".json")) {
    weights.add(weights.path_, {});
    return weights;
  }
  for (const auto& [name, tensors] : read_index(weights.path_)) {
    const std::string path = (fs::path(folder) / name).string();
    require(present(path), "{}: expected the file {} beside it, found none", weights.path_,
            quote(name));
    weights.add(path, tensors);
  }
  return weights;
}

WeightFiles WeightFiles::of_file(const std::string& path) {
  WeightFiles weights;
  weights.path_ = path;
  weights.add(path, {});
  return weights;
}

void WeightFiles::add(const std::string& path, const std::vector<std::string>& expected) {
  const std::shared_ptr<MappedFile> file = MappedFile::open(path);
  StoredTensors tensors;
  if (path.ends_with(".safetensors")) {
    tensors = read_safetensors_header(file, path).tensors;
    format_ = "safetensors";
  } else {
    TorchHeader header = read_torch_header(file, path);
    tensors = std::move(header.tensors);
    format_ = header.is_stream ? "PyTorch stream" : "PyTorch zip";
  }
  for (const std::string& name : expected) {
    require(tensors.contains(name), "{}: expected the tensor {}, as {} says, found none", path,
            quote(name), path_);
  }
  for (auto& [name, tensor] : tensors) {
    const bool added = tensors_.emplace(name, std::move(tensor)).second;
    require(added, "{}: expected each tensor in one file, found {} in two", path_, quote(name));
  }
  files_.push_back(file);
}

void WeightFiles::release(const Tensor& tensor) const {
  for (const auto& file : files_) file->release(tensor.raw(), tensor.bytes());
}

std::uint64_t WeightFiles::fingerprint() const {
  constexpr std::size_t kSample = 64;
  std::uint64_t hash = fnv1a("");
  const auto mix = [&hash](std::string_view bytes) { hash = fnv1a(bytes, hash); };
  for (const auto& [name, tensor] : tensors_) {
    mix(name);
    mix(name_of(tensor.dtype()));
    mix(to_string(tensor.shape()));
    const auto sample = tensor.first(kSample / element_size(tensor.dtype()));
    mix({reinterpret_cast<const char*>(sample.data()), sample.size()});
  }
  return hash;
}

}  // namespace longformer::formats
