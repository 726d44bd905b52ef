#include "models/checkpoint.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/finite.h"
#include "core/random.h"
#include "core/tape.h"
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

/// The same on every machine, unlike std::hash.
std::uint64_t hash_of(const std::string& name) {
  std::uint64_t hash = 0;
  for (const char letter : name) hash = random_bits(hash, static_cast<unsigned char>(letter));
  return hash;
}

struct Deviations {
  double weights = 0.02, gains = 0;
};

Tensor random_weights(const std::string& name, const Shape& shape, const Deviations& deviations,
                      std::uint64_t seed) {
  if (name.ends_with("bias")) return Tensor::zeros(shape, DType::f32);
  const std::uint64_t own_seed = seed ^ hash_of(name);
  if (shape.size() > 1) {
    return random_normal_tensor(shape, static_cast<float>(deviations.weights), own_seed);
  }
  std::vector<float> gains =
      random_normal_tensor(shape, static_cast<float>(deviations.gains), own_seed).to_floats();
  for (float& gain : gains) gain += 1;
  return Tensor::from(gains, shape);
}

Tensor with_zero_row(const Tensor& table, Index row) {
  std::vector<float> values = table.to_floats();
  std::fill_n(values.begin() + row * table.columns(), table.columns(), 0.0f);
  return Tensor::from(values, table.shape());
}

/// The table with further rows, drawn from the distribution of its values.
Tensor with_further_rows(const Tensor& table, const Shape& shape, std::uint64_t seed) {
  const std::vector<float> values = table.to_floats();
  double sum = 0, squares = 0;
  for (const float value : values) {
    sum += value;
    squares += double{value} * value;
  }
  const auto count = static_cast<double>(values.size());
  const double mean = sum / count;
  const double deviation = std::sqrt(std::max(0.0, squares / count - mean * mean));
  const Tensor drawn = random_normal_tensor({shape[0] - table.rows(), shape[1]},
                                            static_cast<float>(deviation), seed);
  std::vector<float> all = values;
  for (const float value : drawn.to_floats()) all.push_back(value + static_cast<float>(mean));
  return Tensor::from(all, shape);
}

}  // namespace

struct Checkpoint::Parameters {
  Training training;
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> aliases;
  std::set<std::string> drawn;

  bool may_draw(const std::string& name) const {
    return std::any_of(training.fresh.begin(), training.fresh.end(),
                       [&](const NamedShape& tensor) { return tensor.name == name; });
  }

  bool may_grow(const std::string& name) const {
    return std::find(training.grown.begin(), training.grown.end(), name) != training.grown.end();
  }
};

/// Each tensor is looked at when it is first asked for.
struct Checkpoint::Findings {
  std::set<std::string> seen;
  /// "name (3 of 768)" of tensors that hold NaN or infinite numbers and have not been told.
  std::vector<std::string> nonfinite;

  void look_at(const std::string& shown, const Tensor& tensor) {
    const Index count = count_nonfinite(tensor);
    if (count > 0) nonfinite.push_back(fmt::format("{} ({} of {})", shown, count, tensor.size()));
  }
};

Checkpoint Checkpoint::open(const std::string& folder) {
  Checkpoint checkpoint;
  checkpoint.findings_ = std::make_shared<Findings>();
  checkpoint.files_ = formats::WeightFiles::open(folder);
  checkpoint.name_ = checkpoint.files_->path();
  for (const auto& [name, tensor] : checkpoint.files_->tensors()) {
    const bool added = checkpoint.tensors_.emplace(plain_name(name), tensor).second;
    checkpoint.stored_names_.emplace(plain_name(name), name);
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

Checkpoint Checkpoint::trainable(Checkpoint weights, Training training) {
  weights.parameters_ = std::make_shared<Parameters>();
  for (const std::string& prefix : training.left_out) {
    std::erase_if(weights.tensors_,
                  [&](const auto& entry) { return entry.first.starts_with(prefix); });
  }
  weights.parameters_->training = std::move(training);
  return weights;
}

std::vector<std::pair<std::string, Tensor>> Checkpoint::parameters() const {
  return {parameters_->tensors.begin(), parameters_->tensors.end()};
}

const std::map<std::string, std::string>& Checkpoint::aliases() const {
  return parameters_->aliases;
}

bool Checkpoint::tie(const std::string& alias, const std::string& name) const {
  if (!is_trainable() || !tensors_.contains(alias) || !tensors_.contains(name)) return false;
  if (shape(alias) != shape(name)) return false;
  const Tensor value = parameter(name, shape(name));
  if (!stored(alias, shape(alias)).copied().equals(value)) return false;
  parameters_->aliases.insert_or_assign(alias, name);
  return true;
}

std::vector<std::string> Checkpoint::drawn() const {
  return {parameters_->drawn.begin(), parameters_->drawn.end()};
}

bool Checkpoint::has(const std::string& name) const {
  if (parameters_ && parameters_->may_draw(name)) return true;
  if (seed_) return !parameters_ && name.starts_with("pooler.");
  return tensors_.contains(name);
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

const std::string& Checkpoint::stored_name(const std::string& name) const {
  const auto found = stored_names_.find(name);
  return found == stored_names_.end() ? name : found->second;
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
  return is_trainable() ? parameter(name, shape) : stored(name, shape);
}

Tensor Checkpoint::parameter(const std::string& name, const Shape& shape) const {
  Parameters& all = *parameters_;
  if (const auto alias = all.aliases.find(name); alias != all.aliases.end()) {
    return parameter(alias->second, shape);
  }
  if (const auto found = all.tensors.find(name); found != all.tensors.end()) return found->second;
  const bool in_file = tensors_.contains(name);
  const bool draws = seed_.has_value() || (!in_file && all.may_draw(name));
  Tensor value;
  if (draws) {
    const Deviations deviations = {.weights = all.training.deviation,
                                   .gains = all.training.gain_deviation};
    value = random_weights(name, shape, deviations, seed_.value_or(all.training.seed));
    const auto zero = all.training.zero_rows.find(name);
    if (zero != all.training.zero_rows.end()) value = with_zero_row(value, zero->second);
    all.drawn.insert(name);
  } else {
    Shape kept = shape;
    if (all.may_grow(name)) kept[0] = std::min(kept[0], this->shape(name)[0]);
    const Tensor original = stored(name, kept);
    value = kept == shape ? original.copied()
                          : with_further_rows(original, shape, all.training.seed ^ hash_of(name));
    release(original);
  }
  const bool frozen = all.training.frozen && all.training.frozen(name);
  if (!frozen) value.set_gradient(std::make_shared<Gradient>());
  return all.tensors.emplace(name, value).first->second;
}

Tensor Checkpoint::stored(const std::string& name, const Shape& shape) const {
  if (seed_) return random_weights(name, shape, {}, *seed_);
  const auto found = tensors_.find(name);
  require(found != tensors_.end(), "{}: expected a tensor {} of shape {}, found none", name_, name,
          to_string(shape));
  const formats::StoredTensor& tensor = found->second;
  require(tensor.shape() == shape, "{}: tensor {}: expected shape {}, found {}", name_, name,
          to_string(shape), to_string(tensor.shape()));
  require(is_floating(tensor.dtype()), "{}: tensor {}: expected fp32, fp16, bf16 or fp64, found {}",
          name_, name, name_of(tensor.dtype()));
  Tensor loaded = tensor.load();
  if (findings_->seen.insert(name).second) {
    findings_->look_at(stored_name(name), loaded);
    // Most tables and some matrices stay where they are, and few of their rows are needed.
    files_->release(loaded);
  }
  return loaded;
}

Tensor Checkpoint::get_fp32(const std::string& name, const Shape& shape) const {
  return get(name, shape).to(DType::f32);
}

Tensor Checkpoint::stored_fp32(const std::string& name) const {
  return stored(name, shape(name)).to(DType::f32);
}

void Checkpoint::tell_nonfinite(const std::function<void(const std::string&)>& note) const {
  if (!findings_ || findings_->nonfinite.empty() || !note) return;
  constexpr std::size_t kNamed = 3;
  const std::vector<std::string> found = std::exchange(findings_->nonfinite, {});
  const std::span<const std::string> named(found.data(), std::min(kNamed, found.size()));
  std::string rest;
  if (found.size() > kNamed) rest = fmt::format(" and {} more tensors", found.size() - kNamed);
  note(fmt::format("{}: expected finite weights, found NaN or infinite ones in {}{}", name_,
                   fmt::join(named, ", "), rest));
}

void Checkpoint::release(const Tensor& tensor) const {
  if (files_ && !wants_gradient(tensor)) files_->release(tensor);
}

std::uint64_t Checkpoint::fingerprint() const { return files_ ? files_->fingerprint() : *seed_; }

}  // namespace longformer::models
