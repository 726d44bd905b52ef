// LoRA adapters as the peft package keeps them: a folder with adapter_config.json and
// adapter_model.safetensors.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "formats/stored_tensor.h"
#include "formats/weights.h"

namespace longformer::models {

struct TensorNames;

/// Settings used of adapter_config.json.
struct AdapterConfig {
  Index rank = 8;
  double alpha = 8;
  double dropout = 0;
  /// The product is divided by √rank instead of the rank.
  bool is_rank_stabilized = false;
  /// Names of layers, or endings of names: "query" is any layer whose last part it is. Empty for
  /// an adapter that says it in another way: its tensors have the names.
  std::vector<std::string> targets = {};
  /// "none", "all" or "lora_only": biases of the model that are trained too.
  std::string bias = "none";
  /// Endings of names of layers that have an alpha or a rank of their own; the ranks as they are
  /// written, since tensors say them.
  std::vector<std::pair<std::string, double>> alphas = {};
  nlohmann::ordered_json ranks = nlohmann::ordered_json::object();
  /// Parts of the model that the adapter has whole.
  std::vector<std::string> whole = {};

  /// Whether a layer of this name in files of `transformers` is a target.
  bool targets_layer(std::string_view name) const;
  /// Factor of B·A in that layer.
  float scale(std::string_view name, Index own_rank) const;
};

/// Every linear layer of encoder and decoder, among targets.
inline constexpr const char* kAllLinear = "all-linear";

inline constexpr const char* kAdapterConfigFile = "adapter_config.json";

/// Whether a folder has an adapter's configuration and its weights.
bool is_adapter_folder(const std::string& folder);
using formats::kAdapterFile;
/// Prefix of the names of a model's tensors in that file.
inline constexpr std::string_view kPeftPrefix = "base_model.model.";
/// Endings of the names of what is added to a layer.
inline constexpr const char* kLowRankA = ".lora_A.weight";
inline constexpr const char* kLowRankB = ".lora_B.weight";

/// Whether `name` is `ending`, or ends with it behind a dot.
bool ends_with_name(std::string_view name, std::string_view ending);

class Adapter {
 public:
  /// The names are those of the model that it is for. Throws Error for a folder that is no adapter,
  /// another kind of one, one that needs what is not computed here, and damaged files.
  static std::shared_ptr<const Adapter> open(const std::string& folder, const TensorNames& names);

  struct Layer {
    /// [r, in], [out, r] and, or empty, [out], in fp32.
    Tensor a = {}, b = {}, bias = {};
    float scale = 1;
  };

  const AdapterConfig& config() const { return config_; }
  /// Keys are names of modules: of layers as models ask for them, without ".weight", or of
  /// those that a packed layer consists of (TensorNames::modules_of).
  const std::map<std::string, Layer>& layers() const { return layers_; }
  /// Tensors that take the place of those of the model, by names as models ask for them.
  const formats::StoredTensors& whole() const { return whole_; }
  /// One of all these by the name that a parameter has in a training, in fp32. Throws Error when it
  /// is missing or of another shape.
  Tensor tensor(const std::string& name, const Shape& shape) const;
  /// The file of the tensors, for messages.
  const std::string& path() const { return path_; }
  /// A number that other adapters hardly share.
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  void read_tensors(const TensorNames& names);
  void check_layer(const std::string& name, const Layer& layer) const;
  /// Divides what is for packed layers among their modules.
  void unpack(const TensorNames& names);
  /// Says targets, alphas and ranks by the names of modules.
  void rename_layers(const TensorNames& names);

  std::string path_;
  AdapterConfig config_;
  std::map<std::string, Layer> layers_;
  formats::StoredTensors whole_;
  std::uint64_t fingerprint_ = 0;
};

/// A training of what adapters add, see Weights::Training.
struct AdapterTraining {
  AdapterConfig config = {};
  /// Weights for whose names it holds keep their values, unless they are drawn. Of an adapter that
  /// is trained on, all that it does not have do.
  std::function<bool(const std::string& name)> is_kept = {};
};

/// adapter_config.json, for a model whose weights are in the folder `base`. The architecture is
/// that of its config.json.
nlohmann::ordered_json adapter_json(const AdapterConfig& config, const std::string& base,
                                    std::string_view architecture);

/// The config.json of a model with an adapter: that of the adapter's folder, where it has one, as
/// labels may be others there; else that of the model. Throws Error for that of another model.
std::string config_file(const std::string& folder, const std::string& adapter);

}  // namespace longformer::models
