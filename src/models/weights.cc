#include "models/weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
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
#include "kernels/initialization.h"
#include "kernels/int8_rows.h"
#include "kernels/optimizer_steps.h"
#include "text/encoder_folder.h"

namespace longformer::models {
namespace {

/// A hash that is equal on every machine, unlike std::hash.
std::uint64_t hash_of(const std::string& name) {
  std::uint64_t hash = 0;
  for (const char letter : name) hash = random_bits(hash, static_cast<unsigned char>(letter));
  return hash;
}

constexpr const char* kWeight = ".weight";

/// The name of a layer and the ending of one of its tensors, such as ".weight".
std::pair<std::string, std::string> parts_of(const std::string& tensor) {
  const std::size_t dot = std::min(tensor.rfind('.'), tensor.size());
  return {tensor.substr(0, dot), tensor.substr(dot)};
}

/// Addition of an adapter to a tensor of a layer, to a bias as a matrix of one column; may be
/// empty.
ops::LowRank addition_to(const Adapter::Layer& layer, const std::string& ending) {
  if (ending == kWeight) return {.a = layer.a, .b = layer.b, .scale = layer.scale};
  if (ending != ".bias" || layer.bias.empty()) return {};
  return {.a = Tensor::from(std::array{1.0f}, {1, 1}),
          .b = layer.bias.reshaped({layer.bias.size(), 1}),
          .scale = layer.scale};
}

Tensor drawn_tensor(const std::string& name, const Shape& shape, const Init& init,
                    std::uint64_t seed) {
  const auto deviation = static_cast<float>(init.deviation);
  const std::uint64_t own_seed = seed ^ hash_of(name);
  if (init.kind == Init::Kind::zeros) return Tensor::zeros(shape, DType::f32);
  if (init.kind == Init::Kind::constant) {
    const std::vector<float> values(at(element_count(shape)), static_cast<float>(init.value));
    return Tensor::from(values, shape);
  }
  if (init.kind == Init::Kind::gains) return kernels::random_gains(shape, deviation, own_seed);
  switch (init.kind) {
    case Init::Kind::xavier:
      return kernels::xavier_projection(shape, own_seed);
    case Init::Kind::pooled:
      return kernels::pooled_projection(shape);
    case Init::Kind::averaging:
      return kernels::averaging_convolution(shape);
    case Init::Kind::uniform:
      return kernels::uniform_numbers(shape, init.least, init.value, own_seed);
    case Init::Kind::orthogonal:
      return kernels::orthogonal_projection(shape, own_seed);
    default:
      break;
  }
  if (init.kind == Init::Kind::features) {
    Tensor directions(shape, DType::f32);
    kernels::draw_head_features(init.draw, random_bits(own_seed, 0), directions);
    return directions;
  }
  Tensor table = init.cutoff > 0
                     ? kernels::truncated_normal(shape, deviation, init.cutoff, own_seed)
                     : random_normal_tensor(shape, deviation, own_seed);
  if (init.zero_row >= 0) kernels::clear_row(table, init.zero_row);
  return table;
}

}  // namespace

struct Weights::Parameters {
  Training training;
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> aliases;
  std::set<std::string> drawn;
  /// Directions of features that are drawn again.
  std::map<std::string, Init> redrawn;
  /// Additions of an adapter, by layer; empty for layers without one.
  std::map<std::string, ops::LowRank> low_rank;

  bool may_draw(const std::string& name) const {
    return std::any_of(training.fresh.begin(), training.fresh.end(),
                       [&](const WeightRecord& tensor) { return tensor.name == name; });
  }

  bool may_grow(const std::string& name) const {
    return std::find(training.grown.begin(), training.grown.end(), name) != training.grown.end();
  }
};

/// Each tensor is looked at when it is first asked for.
struct Weights::Findings {
  std::set<std::string> seen;
  /// "name (3 of 768)" of tensors that hold NaN or infinite numbers and have not been told.
  std::vector<std::string> nonfinite;

  void look_at(const std::string& shown, const Tensor& tensor) {
    const Index count = count_nonfinite(tensor);
    if (count > 0) nonfinite.push_back(fmt::format("{} ({} of {})", shown, count, tensor.size()));
  }
};

struct Weights::Records {
  std::vector<WeightRecord> tensors;
  std::vector<std::string> aliases;
  /// Null for a model of which nothing is stored.
  std::shared_ptr<const Weights> like;
};

Weights Weights::of_files(formats::WeightFiles files, const TensorNames& names) {
  Weights weights;
  weights.tensor_names_ = names;
  weights.findings_ = std::make_shared<Findings>();
  weights.files_ = std::move(files);
  weights.name_ = weights.files_->path();
  for (const auto& [stored, tensor] : weights.files_->tensors()) {
    const std::string name = names.model_name(stored);
    const bool added = weights.tensors_.emplace(name, tensor).second;
    weights.stored_names_.emplace(name, stored);
    require(added, "{}: expected one tensor {}, found it with and without a prefix", weights.name_,
            formats::quote(name));
  }
  // Scales belong to the tensors that they scale.
  for (const auto& [stored, tensor] : weights.files_->tensors()) {
    const auto scale = weights.files_->tensors().find(stored + kScaleEnding);
    if (tensor.dtype() != DType::i8 || scale == weights.files_->tensors().end()) continue;
    const Index rows = tensor.shape().empty() ? 0 : tensor.shape()[0];
    const Shape& shape = scale->second.shape();
    require((shape == Shape{rows} || shape == Shape{rows, 1}) && tensor.shape().size() == 2 &&
                is_floating(scale->second.dtype()),
            "{}: tensor {}: expected a scale for each of {} rows, found {} {}", weights.name_,
            scale->first, rows, name_of(scale->second.dtype()), to_string(shape));
    weights.scales_.emplace(names.model_name(stored), scale->second);
    weights.tensors_.erase(names.model_name(scale->first));
    weights.stored_names_.erase(names.model_name(scale->first));
  }
  return weights;
}

void Weights::use_device(std::shared_ptr<const ops::Device> device) {
  device_ = std::move(device);
  if (device_ == nullptr) return;
  Index numbers = 0;
  for (const auto& [name, tensor] : tensors_) {
    if (!is_buffer(name)) numbers += element_count(tensor.shape());
  }
  device_->check_room(numbers * static_cast<Index>(sizeof(float)), name_);
}

bool Weights::uses_int8(std::span<const std::string> layers) const {
  if (int8_ == nullptr) return false;
  bool has_all = true;
  for (const std::string& layer : layers) {
    const std::string weight = layer + kWeight;
    // In a file with such weights, others are left as they are on purpose.
    const bool is_left = !scales_.empty() && !is_int8(weight);
    has_all = int8_->has(layer, parts_of(stored_name(weight)).first) && !is_left && has_all;
  }
  return has_all && !keeps_tensors();
}

Weights Weights::of_file(const std::string& path, const TensorNames& names) {
  return of_files(formats::WeightFiles::of_file(path), names);
}

Weights Weights::open(const std::string& folder, const TensorNames& names,
                      const std::string& adapter) {
  Weights weights = of_files(formats::WeightFiles::open(text::encoder_folder(folder)), names);
  if (!adapter.empty()) return adapted(std::move(weights), Adapter::open(adapter, names));
  return weights;
}

Weights Weights::drawn(std::uint64_t seed, const TensorNames& names) {
  Weights weights;
  weights.tensor_names_ = names;
  weights.name_ = "random weights";
  weights.seed_ = seed;
  weights.drawn_ = std::make_shared<std::map<std::string, Tensor>>();
  return weights;
}

Weights Weights::trained(Weights weights, Training training) {
  weights.parameters_ = std::make_shared<Parameters>();
  if (training.left_out) {
    std::erase_if(weights.tensors_,
                  [&](const auto& entry) { return training.left_out(entry.first); });
  }
  weights.parameters_->training = std::move(training);
  return weights;
}

Weights Weights::kept(Weights weights) {
  weights.keeps_tensors_ = true;
  return weights;
}

SharedLayers* Weights::shared(const std::string& layer) const {
  return has_whole(layer) ? nullptr : shared_.get();
}

bool Weights::has_whole(const std::string& layer) const {
  if (adapter_ == nullptr) return false;
  const auto& whole = adapter_->whole();
  return whole.contains(layer) || whole.contains(layer + kWeight) ||
         std::ranges::any_of(tensor_names_.modules_of(layer), [&](const std::string& module) {
           return whole.contains(module + kWeight);
         });
}

ops::LowRank Weights::addition(const std::string& module) const {
  if (adapter_ == nullptr) return {};
  const auto found = adapter_->layers().find(module);
  if (found == adapter_->layers().end()) return {};
  const auto& [a, b, bias, scale] = found->second;
  if (findings_->seen.insert(module + kLowRankA).second) {
    findings_->look_at(module + kLowRankA, a);
    findings_->look_at(module + kLowRankB, b);
  }
  return {.a = a, .b = b, .scale = scale};
}

bool Weights::changes(const std::string& tensor) const {
  if (adapter_ == nullptr) return false;
  if (adapter_->whole().contains(tensor)) return true;
  const auto [layer, ending] = parts_of(tensor);
  for (const std::string& module : tensor_names_.modules_of(layer)) {
    if (adapter_->whole().contains(module + ending)) return true;
    const auto found = adapter_->layers().find(module);
    if (found == adapter_->layers().end()) continue;
    if (!addition_to(found->second, ending).empty()) return true;
  }
  return false;
}

Weights Weights::adapted(Weights weights, std::shared_ptr<const Adapter> adapter) {
  weights.unadapted_ = std::make_shared<const Weights>(weights);
  // Modules of a layer that is packed in the file have as many rows each.
  const auto check = [&](const std::string& module, const std::string& ending, const Shape& shape) {
    const TensorNames::Place place = weights.tensor_names_.place_of(module);
    const auto found = weights.tensors_.find(place.layer + ending);
    require(found != weights.tensors_.end(),
            "{}: expected layers of {}, found {}, which it has not", adapter->path(), weights.name_,
            formats::quote(weights.tensor_names_.module_layer(module)));
    Shape expected = found->second.shape();
    if (!expected.empty()) expected[0] /= place.count;
    require(shape == expected, "{}: layer {}: expected {} as in {}, found {}", adapter->path(),
            formats::quote(weights.tensor_names_.module_layer(module)), to_string(expected),
            weights.name_, to_string(shape));
  };
  for (const auto& [module, added] : adapter->layers()) {
    check(module, kWeight, {added.b.rows(), added.a.columns()});
    const std::string layer = weights.tensor_names_.place_of(module).layer;
    require(added.bias.empty() || weights.tensors_.contains(layer + ".bias"),
            "{}: lora_bias: expected layers of {} that have a bias, found {}, which has none",
            adapter->path(), weights.name_,
            formats::quote(weights.tensor_names_.module_layer(module)));
  }
  for (const auto& [name, tensor] : adapter->whole()) {
    const auto [module, ending] = parts_of(name);
    if (weights.tensor_names_.place_of(module).count == 1) {
      weights.tensors_.insert_or_assign(name, tensor);
    } else {
      check(module, ending, tensor.shape());
    }
  }
  weights.adapter_ = std::move(adapter);
  return weights;
}

Weights Weights::recording(const Weights* like) {
  Weights weights;
  weights.name_ = like == nullptr ? "configuration" : like->path();
  weights.records_ = std::make_shared<Records>();
  if (like != nullptr) weights.records_->like = std::make_shared<const Weights>(*like);
  return weights;
}

const std::vector<WeightRecord>& Weights::recorded() const { return records_->tensors; }

const std::vector<std::string>& Weights::recorded_aliases() const { return records_->aliases; }

std::vector<std::pair<std::string, Tensor>> Weights::parameters() const {
  return {parameters_->tensors.begin(), parameters_->tensors.end()};
}

const std::map<std::string, std::string>& Weights::aliases() const { return parameters_->aliases; }

bool Weights::tie(const std::string& alias, const std::string& name) const {
  if (records_) {
    const bool both = has(alias) && has(name);
    if (both) records_->aliases.push_back(alias);
    return both;
  }
  if (!is_trained() || !tensors_.contains(alias) || !tensors_.contains(name)) return false;
  if (shape(alias) != shape(name)) return false;
  const Tensor value = parameter(name, shape(name), {});
  if (!stored(alias, shape(alias)).copied().equals(value)) return false;
  parameters_->aliases.insert_or_assign(alias, name);
  return true;
}

void Weights::begin_step(std::int64_t step) const {
  for (const auto& [name, init] : parameters_->redrawn) {
    if (step == 0 || step % init.redraw_interval != 0) continue;
    const std::uint64_t seed = seed_.value_or(parameters_->training.seed) ^ hash_of(name);
    const auto number = static_cast<std::uint64_t>(step / init.redraw_interval);
    kernels::draw_head_features(init.draw, random_bits(seed, number),
                                parameters_->tensors.at(name));
  }
}

std::vector<std::string> Weights::drawn_parameters() const {
  return {parameters_->drawn.begin(), parameters_->drawn.end()};
}

bool Weights::has(const std::string& name) const {
  if (records_) return records_->like && records_->like->has(name);
  if (parameters_ && parameters_->may_draw(name)) return true;
  if (seed_) return !parameters_ && name.starts_with("pooler.");
  return tensors_.contains(name);
}

std::vector<std::string> Weights::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

const std::string& Weights::stored_name(const std::string& name) const {
  const auto found = stored_names_.find(name);
  return found == stored_names_.end() ? name : found->second;
}

std::string Weights::file_name(const std::string& name) const {
  if (const auto found = stored_names_.find(name); found != stored_names_.end()) {
    return found->second;
  }
  const std::string own = tensor_names_.file_name(name);
  // A prefix goes with a part of the model, so a tensor that is missing has that of its neighbours.
  for (const std::string& part : {name.substr(0, name.find('.') + 1), std::string("encoder.")}) {
    const auto near = stored_names_.lower_bound(part);
    if (near == stored_names_.end() || !near->first.starts_with(part)) continue;
    const std::string without = tensor_names_.file_name(near->first);
    if (!near->second.ends_with(without)) continue;
    return near->second.substr(0, near->second.size() - without.size()) + own;
  }
  return own;
}

const Shape& Weights::shape(const std::string& name) const {
  const auto found = tensors_.find(name);
  require(found != tensors_.end(), "{}: expected a tensor {}, found none", name_, file_name(name));
  return found->second.shape();
}

DType Weights::dtype(const std::string& name) const {
  return is_int8(name) ? DType::f32 : tensors_.at(name).dtype();
}

bool Weights::is_buffer(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found != tensors_.end() && !is_floating(found->second.dtype()) && !is_int8(name);
}

Tensor Weights::get(const std::string& name, const Shape& shape, const Init& init) const {
  if (records_) {
    const bool known = std::any_of(records_->tensors.begin(), records_->tensors.end(),
                                   [&](const WeightRecord& one) { return one.name == name; });
    if (!known) records_->tensors.push_back({name, shape});
    return {nullptr, nullptr, shape, DType::f32};
  }
  if (is_trained()) return parameter(name, shape, init);
  const Tensor tensor = seed_ ? drawn_once(name, shape, init) : stored(name, shape);
  if (device_ == nullptr) return keeps_tensors_ ? tensor.to(DType::f32) : tensor;
  Tensor there = device_->uploaded(tensor);
  release(tensor);
  return there;
}

Tensor Weights::drawn_once(const std::string& name, const Shape& shape, const Init& init) const {
  std::erase_if(*drawn_, [](const auto& one) { return one.second.is_sole_owner(); });
  const auto found = drawn_->find(name);
  if (found != drawn_->end() && found->second.shape() == shape) return found->second;
  return drawn_->insert_or_assign(name, drawn_tensor(name, shape, init, *seed_)).first->second;
}

Tensor Weights::parameter(const std::string& name, const Shape& shape, const Init& init) const {
  Parameters& all = *parameters_;
  if (const auto alias = all.aliases.find(name); alias != all.aliases.end()) {
    return parameter(alias->second, shape, init);
  }
  if (const auto found = all.tensors.find(name); found != all.tensors.end()) return found->second;
  const bool in_file = tensors_.contains(name);
  const bool draws = seed_.has_value() || (!in_file && all.may_draw(name));
  const bool is_kept = in_file && keeps(name);
  bool grows = false;
  Tensor value;
  if (draws) {
    value = drawn_tensor(name, shape, init, seed_.value_or(all.training.seed));
    all.drawn.insert(name);
  } else {
    Shape kept = shape;
    if (all.may_grow(name)) kept[0] = std::min(kept[0], this->shape(name)[0]);
    grows = kept != shape;
    const Tensor original = stored(name, kept);
    if (grows) {
      value = kernels::with_further_rows(original, shape[0], all.training.seed ^ hash_of(name));
    } else {
      // A tensor that the adapter does not change stays in the file, of which a step may need few
      // pages.
      value = is_kept ? original.to(DType::f32) : original.copied();
    }
    if (!value.is_same_as(original)) release(original);
  }
  const bool redraws = init.kind == Init::Kind::features && init.redraw_interval > 0;
  if (redraws && !all.training.adapter) all.redrawn[name] = init;
  const bool frozen =
      init.is_frozen || (is_kept && !grows) || (all.training.frozen && all.training.frozen(name));
  if (!frozen) value.set_gradient(std::make_shared<Gradient>());
  return all.tensors.emplace(name, value).first->second;
}

bool Weights::keeps(const std::string& name) const {
  const auto& training = parameters_->training.adapter;
  if (!training) return false;
  return adapter_ ? !adapter_->whole().contains(name) : training->is_kept(name);
}

std::string Weights::adapter_folder() const {
  if (!adapter_) return {};
  const std::string folder = std::filesystem::path(adapter_->path()).parent_path().string();
  return folder.empty() ? "." : folder;
}

const AdapterConfig* Weights::trained_adapter() const {
  if (!is_trained() || !parameters_->training.adapter) return nullptr;
  return adapter_ ? &adapter_->config() : &parameters_->training.adapter->config;
}

ops::LowRank Weights::low_rank(const std::string& module, Index out, Index in) const {
  const AdapterConfig* config = trained_adapter();
  if (config == nullptr) return {};
  Parameters& all = *parameters_;
  if (const auto found = all.low_rank.find(module); found != all.low_rank.end()) {
    return found->second;
  }
  ops::LowRank& added = all.low_rank[module];
  const std::string name = tensor_names_.module_layer(module);
  Index rank = config->rank;
  if (adapter_) {
    const auto given = adapter_->layers().find(module);
    if (given == adapter_->layers().end()) return added;
    require(given->second.bias.empty(), "{}: lora_bias: expected none to train on, found one",
            adapter_->path());
    rank = given->second.a.rows();
    added.a = given->second.a.copied();
    added.b = given->second.b.copied();
    added.scale = given->second.scale;
  } else {
    if (!config->targets_layer(name) || !keeps(module + kWeight)) return added;
    const std::uint64_t seed = all.training.seed;
    // The initial values of peft: the addition is zero, and A is drawn as torch draws a linear
    // layer.
    const double limit = 1 / std::sqrt(static_cast<double>(in));
    added.a = drawn_tensor(module + kLowRankA, {rank, in}, Init::uniform(-limit, limit), seed);
    added.b = Tensor::zeros({out, rank}, DType::f32);
    added.scale = config->scale(name, rank);
  }
  added.dropout = config->dropout;
  added.place = hash_of(module);
  for (auto* part : {&added.a, &added.b}) {
    const std::string part_name = module + (part == &added.a ? kLowRankA : kLowRankB);
    const bool frozen = all.training.frozen && all.training.frozen(part_name);
    if (!frozen) part->set_gradient(std::make_shared<Gradient>());
    all.tensors.emplace(part_name, *part);
  }
  return added;
}

void Weights::check_low_rank() const {
  const AdapterConfig* config = trained_adapter();
  if (config == nullptr) return;
  std::set<std::string> endings;
  for (const auto& [layer, added] : parameters_->low_rank) {
    const std::string name = tensor_names_.module_layer(layer);
    if (keeps(layer + kWeight)) endings.insert(name.substr(name.rfind('.') + 1));
  }
  for (const std::string& target : adapter_ ? std::vector<std::string>() : config->targets) {
    const bool found = std::any_of(
        parameters_->low_rank.begin(), parameters_->low_rank.end(), [&](const auto& entry) {
          const std::string name = tensor_names_.module_layer(entry.first);
          return !entry.second.empty() && (target == kAllLinear || ends_with_name(name, target));
        });
    require(found, OptionName("training.lora_target"), "expected {} or {}, found {}",
            fmt::join(endings, ", "), kAllLinear, formats::quote(target));
  }
  if (!adapter_) return;
  // Norms are trained whole or not at all.
  require(config->bias != "all", "{}: bias: expected none or lora_only to train on, found all",
          adapter_->path());
  for (const auto& [name, tensor] : adapter_->whole()) {
    const std::string module = parts_of(name).first;
    require(tensor_names_.place_of(module).count == 1,
            "{}: expected no tensor of {} whole to train on, as it is rows of one in {}, found {}",
            adapter_->path(), formats::quote(tensor_names_.module_layer(module)), name_,
            formats::quote(tensor_names_.module_name(name)));
  }
  for (const auto& [layer, added] : adapter_->layers()) {
    const auto found = parameters_->low_rank.find(layer);
    require(found != parameters_->low_rank.end() && !found->second.empty(),
            "{}: expected layers of {} that can be trained, found {}", adapter_->path(), name_,
            formats::quote(layer));
  }
}

const formats::StoredTensor& Weights::checked(const std::string& name, const Shape& shape) const {
  const auto found = tensors_.find(name);
  require(found != tensors_.end(), "{}: expected a tensor {} of shape {}, found none", name_,
          file_name(name), to_string(shape));
  const formats::StoredTensor& tensor = found->second;
  require(tensor.shape() == shape, "{}: tensor {}: expected shape {}, found {}", name_,
          file_name(name), to_string(shape), to_string(tensor.shape()));
  require(is_floating(tensor.dtype()) || is_int8(name),
          "{}: tensor {}: expected fp32, fp16, bf16, fp64, or int8 with scales, found {}", name_,
          file_name(name), name_of(tensor.dtype()));
  return tensor;
}

Tensor Weights::loaded(const std::string& name, const Shape& shape) const {
  const Tensor tensor = checked(name, shape).load();
  if (!is_int8(name)) return tensor;
  Tensor wide = kernels::dequantized({.numbers = tensor, .scales = scales_.at(name).load()});
  files_->release(tensor);
  return wide;
}

Tensor Weights::stored(const std::string& name, const Shape& shape) const {
  Tensor tensor = merged(name, loaded(name, shape));
  if (findings_->seen.insert(name).second) {
    findings_->look_at(stored_name(name), tensor);
    // Most tables and some matrices stay where they are, and few of their rows are needed.
    files_->release(tensor);
  }
  return tensor;
}

Tensor Weights::merged(const std::string& name, Tensor tensor) const {
  if (!adapter_ || is_trained()) return tensor;
  const auto [layer, ending] = parts_of(name);
  const std::vector<std::string> modules = tensor_names_.modules_of(layer);
  const Index count = tensor.rows() / std::ssize(modules);
  Tensor sum;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const auto found = adapter_->layers().find(modules[i]);
    const ops::LowRank added =
        found == adapter_->layers().end() ? ops::LowRank() : addition_to(found->second, ending);
    // The whole tensor of a layer that is not packed is the given one.
    const auto whole =
        modules.size() == 1 ? adapter_->whole().end() : adapter_->whole().find(modules[i] + ending);
    const bool is_whole = whole != adapter_->whole().end();
    if (added.empty() && !is_whole) continue;
    if (sum.empty()) sum = tensor.copied();
    Tensor rows = sum.slice_rows(static_cast<Index>(i) * count, count);
    if (is_whole) kernels::assign(rows, whole->second.load().to(DType::f32));
    if (!added.empty()) ops::merge_into(rows, added);
  }
  return sum.empty() ? tensor : sum;
}

Tensor Weights::get_fp32(const std::string& name, const Shape& shape, const Init& init) const {
  return get(name, shape, init).to(DType::f32);
}

Tensor Weights::get_finite(const std::string& name, const Shape& shape, const Init& init) const {
  Tensor tensor = get_fp32(name, shape, init);
  require(is_recording() || count_nonfinite(tensor) == 0,
          "{}: tensor {}: expected finite weights, found others", name_, file_name(name));
  return tensor;
}

std::vector<Index> Weights::integers(const std::string& name, Index count) const {
  const auto found = tensors_.find(name);
  require(found != tensors_.end() && found->second.shape() == Shape{count},
          "{}: expected a tensor {} of {} whole numbers, found another or none", name_,
          file_name(name), count);
  const DType dtype = found->second.dtype();
  require(dtype == DType::i64 || dtype == DType::i32,
          "{}: tensor {}: expected 32 or 64-bit integers, found {}", name_, file_name(name),
          name_of(dtype));
  const std::vector<std::byte> bytes = found->second.first(at(count));
  std::vector<Index> numbers(at(count));
  if (dtype == DType::i64) {
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
  } else {
    std::vector<std::int32_t> small(at(count));
    std::memcpy(small.data(), bytes.data(), bytes.size());
    std::ranges::copy(small, numbers.begin());
  }
  return numbers;
}

Tensor Weights::stored_fp32(const std::string& name) const {
  return stored(name, shape(name)).to(DType::f32);
}

void Weights::tell_nonfinite(const std::function<void(const std::string&)>& note) const {
  if (!findings_ || findings_->nonfinite.empty() || !note) return;
  constexpr std::size_t kNamed = 3;
  const std::vector<std::string> found = std::exchange(findings_->nonfinite, {});
  const std::span<const std::string> named(found.data(), std::min(kNamed, found.size()));
  std::string rest;
  if (found.size() > kNamed) rest = fmt::format(" and {} more tensors", found.size() - kNamed);
  note(fmt::format("{}: expected finite weights, found NaN or infinite ones in {}{}", name_,
                   fmt::join(named, ", "), rest));
}

void Weights::release(const Tensor& tensor) const {
  if (files_ && !wants_gradient(tensor) && !tensor.is_on_device()) files_->release(tensor);
}

std::uint64_t Weights::fingerprint() const {
  const std::uint64_t own = files_ ? files_->fingerprint() : *seed_;
  return adapter_ ? random_bits(own, adapter_->fingerprint()) : own;
}

}  // namespace longformer::models
