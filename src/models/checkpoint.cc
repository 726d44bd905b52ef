#include "models/checkpoint.h"

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>

#include "core/error.h"
#include "core/random.h"
#include "formats/json.h"

namespace longformer::models {
namespace {

constexpr std::array<std::string_view, 3> kPrefixes = {"longformer.", "bert.", "roberta."};

void replace_ending(std::string& name, std::string_view ending, std::string_view by) {
  if (name.ends_with(ending)) name.replace(name.size() - ending.size(), ending.size(), by);
}

std::string plain_name(std::string name) {
  for (const std::string_view prefix : kPrefixes) {
    if (name.starts_with(prefix)) {
      name.erase(0, prefix.size());
      break;
    }
  }
  replace_ending(name, "LayerNorm.gamma", "LayerNorm.weight");
  replace_ending(name, "LayerNorm.beta", "LayerNorm.bias");
  return name;
}

Tensor random_weights(const std::string& name, const Shape& shape, std::uint64_t seed) {
  if (name.ends_with("bias")) return Tensor::zeros(shape, DType::f32);
  if (shape.size() == 1) {
    const std::vector<float> ones(static_cast<std::size_t>(element_count(shape)), 1.0f);
    return Tensor::from(ones, shape);
  }
  return random_normal_tensor(shape, 0.02f, seed ^ std::hash<std::string>()(name));
}

}  // namespace

Checkpoint Checkpoint::open(const std::string& folder) {
  Checkpoint checkpoint;
  checkpoint.files_ = formats::WeightFiles::open(folder);
  checkpoint.name_ = checkpoint.files_->path();
  for (const auto& [name, tensor] : checkpoint.files_->tensors()) {
    const bool added = checkpoint.tensors_.emplace(plain_name(name), tensor).second;
    require(added, "{}: expected one tensor {}, found it with and without a prefix",
            checkpoint.name_, formats::quote(plain_name(name)));
  }
  return checkpoint;
}

Checkpoint Checkpoint::random(std::uint64_t seed) {
  Checkpoint checkpoint;
  checkpoint.name_ = "random weights";
  checkpoint.seed_ = seed;
  return checkpoint;
}

bool Checkpoint::has(const std::string& name) const {
  return seed_ ? name.starts_with("pooler.") : tensors_.contains(name);
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

const Shape& Checkpoint::shape(const std::string& name) const {
  const auto found = tensors_.find(name);
  require(found != tensors_.end(), "{}: expected a tensor {}, found none", name_, name);
  return found->second.shape();
}

bool Checkpoint::is_buffer(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found != tensors_.end() && !is_floating(found->second.dtype());
}

Tensor Checkpoint::get(const std::string& name, const Shape& shape) const {
  if (seed_) return random_weights(name, shape, *seed_);
  const auto found = tensors_.find(name);
  require(found != tensors_.end(), "{}: expected a tensor {} of shape {}, found none", name_, name,
          to_string(shape));
  const formats::StoredTensor& tensor = found->second;
  require(tensor.shape() == shape, "{}: tensor {}: expected shape {}, found {}", name_, name,
          to_string(shape), to_string(tensor.shape()));
  require(is_floating(tensor.dtype()), "{}: tensor {}: expected fp32, fp16, bf16 or fp64, found {}",
          name_, name, name_of(tensor.dtype()));
  return tensor.load();
}

Tensor Checkpoint::get_fp32(const std::string& name, const Shape& shape) const {
  return get(name, shape).to(DType::f32);
}

void Checkpoint::release(const Tensor& tensor) const {
  if (files_) files_->release(tensor);
}

std::uint64_t Checkpoint::fingerprint() const { return files_ ? files_->fingerprint() : *seed_; }

}  // namespace longformer::models
