// The weights of a model by name, wherever they come from: stored in a folder, drawn, trained, or
// only recorded (docs/spec/encoder.md#a2).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "formats/weights.h"
#include "kernels/features/feature_map.h"
#include "models/adapter.h"
#include "models/int8_layers.h"
#include "models/tensor_names.h"
#include "ops/device.h"
#include "ops/linear.h"

namespace longformer::models {

class SharedLayers;

/// How a tensor begins where no file has it.
struct Init {
  enum class Kind {
    zeros,
    constant,
    normal,
    gains,
    features,
    xavier,
    pooled,
    averaging,
    orthogonal,
    uniform
  };
  Kind kind = Kind::zeros;
  double deviation = 0;
  /// Numbers of Kind::normal are within ± so many deviations; 0: they have no bound.
  double cutoff = 0;
  /// Initial value of Kind::constant; Kind::uniform is between `least` and it.
  double value = 0, least = 0;
  /// A row that is zero: that of padding.
  Index zero_row = -1;
  /// It keeps its numbers in a training.
  bool is_frozen = false;
  /// Directions of features, which are never trained but drawn again after so many steps; 0: never.
  kernels::FeatureDraw draw = {};
  Index redraw_interval = 0;

  static Init zeros() { return {}; }
  static Init constant(double value) {
    Init init;
    init.kind = Kind::constant;
    init.value = value;
    return init;
  }
  static Init uniform(double least, double most) {
    Init init = constant(most);
    init.least = least;
    init.kind = Kind::uniform;
    return init;
  }
  /// N(0, deviation²).
  static Init normal(double deviation, Index zero_row = -1, double cutoff = 0) {
    return {.kind = Kind::normal, .deviation = deviation, .cutoff = cutoff, .zero_row = zero_row};
  }
  /// N(1, deviation²).
  static Init gains(double deviation = 0) { return {.kind = Kind::gains, .deviation = deviation}; }
  /// Ω, [m, d] or [H, m, d] (docs/spec/low-rank-and-kernels.md#f3).
  static Init features(const kernels::FeatureDraw& draw, Index redraw_interval) {
    return {.kind = Kind::features,
            .is_frozen = true,
            .draw = draw,
            .redraw_interval = redraw_interval};
  }
  /// Projections of a Linformer (kernels/initialization.h).
  static Init projection(Kind kind) {
    Init init;
    init.kind = kind;
    return init;
  }
};

/// A tensor that a model has asked for.
struct WeightRecord {
  std::string name;
  Shape shape;
};

class Weights {
 public:
  /// Opens the weights of a folder: safetensors or PyTorch, one file or several with an index. One
  /// leading prefix is dropped from names, and LayerNorm.gamma/beta are read as weight/bias. With
  /// the folder of an adapter: see adapted(). Throws Error.
  static Weights open(const std::string& folder, const TensorNames& names,
                      const std::string& adapter = {});

  /// Opens one file of any name, as of a head beside the model.
  static Weights of_file(const std::string& path, const TensorNames& names);

  /// Weights made on demand, each as its Init says.
  static Weights drawn(std::uint64_t seed, const TensorNames& names = {});

  /// The same weights as parameters of a training run: fp32, each with a gradient. What the model
  /// asks for and the file has not is drawn where its name is among `fresh`; so is everything when
  /// the weights are drawn. Tensors become parameters when a model first asks for them.
  struct Training {
    std::vector<WeightRecord> fresh = {};
    std::uint64_t seed = 0;
    /// Parameters for whose names it holds get no gradient.
    std::function<bool(const std::string& name)> frozen = {};
    /// Tensors for whose names it holds are as if the file had none.
    std::function<bool(const std::string& name)> left_out = {};
    /// Tables that get more rows than they have in the file: further ones are drawn from the normal
    /// distribution with mean and deviation of those in the file
    /// (docs/spec/tasks.md#c4-candidates).
    std::vector<std::string> grown = {};
    /// Trains what an adapter adds to linear layers, and keeps their weights.
    std::optional<AdapterTraining> adapter = {};
  };
  static Weights trained(Weights weights, Training training);

  /// The same weights, merged with those of an adapter, for a model whose layers keep their tensors
  /// in fp32: gradients go through them, and nothing is trained.
  static Weights kept(Weights weights);

  /// The weights of a model with an adapter: what is asked for is merged, in fp32, and what the
  /// adapter has whole takes the place of the file's. Parameters of them are not merged: low_rank()
  /// has what is added. Throws Error for an adapter of another model.
  static Weights adapted(Weights weights, std::shared_ptr<const Adapter> adapter);

  /// Weights without numbers, which note what a model asks for. A model finds those parts in them
  /// that it finds in `like`; in nothing, when that is null: the parts that every model has.
  static Weights recording(const Weights* like = nullptr);

  /// Layers are packed once for all weights of the file that are given the same; what an adapter
  /// adds to them is kept apart.
  void share(std::shared_ptr<SharedLayers> layers) { shared_ = std::move(layers); }
  /// Null where nothing is shared, and for a layer whose matrix the adapter has whole.
  SharedLayers* shared(const std::string& layer) const;
  /// The products of layers of stacks become those of 8-bit whole numbers; where the file has such
  /// weights, those of its layers that are stored so.
  void use_int8(const std::vector<std::string>& skipped) {
    int8_ = std::make_shared<const Int8Layers>(skipped);
  }
  /// Lays all that models ask for on the device, in fp32; null: it stays on the host. Throws Error
  /// where the device has no room for all of it.
  void use_device(std::shared_ptr<const ops::Device> device);
  bool is_on_device() const { return device_ != nullptr; }
  /// Whether dense layers that are stacked are multiplied so.
  bool uses_int8(std::span<const std::string> layers) const;
  /// Null where nothing is multiplied so.
  const Int8Layers* int8_layers() const { return int8_.get(); }
  /// Whether a tensor of the file is 8-bit whole numbers with a scale for each row.
  bool is_int8(const std::string& name) const { return scales_.contains(name); }
  /// Whether any tensor of the file is.
  bool has_int8() const { return !scales_.empty(); }

  /// These weights without their adapter.
  const Weights& without_adapter() const { return unadapted_ ? *unadapted_ : *this; }
  /// Low-rank addition of the adapter to the product of a module, which the weight of its layer has
  /// merged; empty for none.
  ops::LowRank addition(const std::string& module) const;
  /// Whether the adapter has a tensor of the model whole, or adds to it.
  bool changes(const std::string& tensor) const;

  bool is_trained() const { return parameters_ != nullptr; }
  bool is_recording() const { return records_ != nullptr; }
  /// Whether a model should keep the tensors as they are, rather than packed copies of them.
  bool keeps_tensors() const { return keeps_tensors_ || is_trained() || is_recording(); }

  /// Tensors that models have asked a recording for, each once, in the order of asking.
  const std::vector<WeightRecord>& recorded() const;
  /// Further names of recorded tensors: tied ones.
  const std::vector<std::string>& recorded_aliases() const;

  /// In the order of their names, each once: those that models have asked for.
  std::vector<std::pair<std::string, Tensor>> parameters() const;
  /// Further names of parameters, and the names of those.
  const std::map<std::string, std::string>& aliases() const;
  /// Makes `alias` another name of the parameter `name` where the file has both and they are alike;
  /// else, and when nothing is trained, false.
  bool tie(const std::string& alias, const std::string& name) const;
  /// Before a step of a training: draws those directions of features again whose turn it is, in
  /// place. The same step gives the same numbers, whenever the training began.
  void begin_step(std::int64_t step) const;
  /// Names of parameters that were drawn.
  std::vector<std::string> drawn_parameters() const;

  /// Addition to the product of a module, [out, in], that is trained by an adapter; empty for
  /// others, and where nothing is trained. Its parts are parameters, "NAME.lora_A.weight" and
  /// "NAME.lora_B.weight".
  ops::LowRank low_rank(const std::string& module, Index out, Index in) const;
  /// Throws Error where a target of the adapter that is trained is none of the layers that models
  /// have asked for, or it has others.
  void check_low_rank() const;
  /// Configuration of the trained adapter; null if none is trained.
  const AdapterConfig* trained_adapter() const;

  bool has(const std::string& name) const;
  /// Names of all tensors of the file, sorted.
  std::vector<std::string> names() const;

  /// The name that a tensor has in the file, with its prefix.
  const std::string& stored_name(const std::string& name) const;
  /// The name that the file has, or would have where there is no such tensor, for messages.
  std::string file_name(const std::string& name) const;
  /// Throws Error when there is no tensor of this name.
  const Shape& shape(const std::string& name) const;
  /// Dtype of stored(): fp32 for 8-bit numbers.
  DType dtype(const std::string& name) const;
  /// Whether a tensor holds no weights: a buffer of integers or truth values, such as position
  /// numbers in old files.
  bool is_buffer(const std::string& name) const;
  /// The file of the weights, and its format: see formats::WeightFiles.
  const std::string& path() const { return name_; }
  const std::string& format() const { return files_->format(); }
  const TensorNames& tensor_names() const { return tensor_names_; }

  /// The tensor in the dtype of the file; a view of the mapped file where it can be; the parameter
  /// itself when there is one. Throws Error when it is missing, not floating-point, or of another
  /// shape.
  Tensor get(const std::string& name, const Shape& shape, const Init& init) const;
  /// A stored tensor of whole numbers, [count]. Throws Error.
  std::vector<Index> integers(const std::string& name, Index count) const;
  /// The weight as fp32.
  Tensor get_fp32(const std::string& name, const Shape& shape, const Init& init) const;
  /// The weight as fp32, for what is compared: a NaN would get lost in that. Throws Error for one.
  Tensor get_finite(const std::string& name, const Shape& shape, const Init& init) const;

  /// The place of a tensor in the file. Throws Error when it is missing, not floating-point, or of
  /// another shape.
  const formats::StoredTensor& checked(const std::string& name, const Shape& shape) const;
  /// A tensor of the file, as it is there, whatever was trained.
  Tensor stored(const std::string& name, const Shape& shape) const;
  /// A tensor of the file in fp32, in its own shape.
  Tensor stored_fp32(const std::string& name) const;

  /// Notes that tensors hold NaN or infinite numbers, in one line that names them: those that
  /// models have asked for since the last call. Nothing without a callback.
  void tell_nonfinite(const std::function<void(const std::string&)>& note) const;

  /// Gives the mapped pages of a tensor that was copied elsewhere back to the system.
  void release(const Tensor& tensor) const;

  /// A number that other weights hardly share: of names, shapes and samples of the data.
  std::uint64_t fingerprint() const;
  /// Folder of the given adapter; empty if none was given.
  std::string adapter_folder() const;

 private:
  struct Parameters;
  struct Findings;
  struct Records;
  static Weights of_files(formats::WeightFiles files, const TensorNames& names);
  Tensor parameter(const std::string& name, const Shape& shape, const Init& init) const;
  /// The drawn tensor of that name that somebody still holds, else a new one: encoder, decoder and
  /// head of a model share one table, as they do in a file.
  Tensor drawn_once(const std::string& name, const Shape& shape, const Init& init) const;
  /// Whether a training of an adapter keeps a weight as it is.
  bool keeps(const std::string& name) const;
  /// Whether the adapter has the weight of a layer whole, or that of one of its modules.
  bool has_whole(const std::string& layer) const;
  /// A tensor of the file, 8-bit whole numbers multiplied with their scales.
  Tensor loaded(const std::string& name, const Shape& shape) const;
  /// A tensor of the file with what an adapter adds to it.
  Tensor merged(const std::string& name, Tensor tensor) const;

  std::string name_;
  TensorNames tensor_names_;
  std::optional<std::uint64_t> seed_;
  /// Drawn tensors by name; what is held here alone goes with the next draw.
  std::shared_ptr<std::map<std::string, Tensor>> drawn_;
  /// Copies of the weights share these.
  std::shared_ptr<Parameters> parameters_;
  std::shared_ptr<Findings> findings_;
  std::shared_ptr<Records> records_;
  std::optional<formats::WeightFiles> files_;
  formats::StoredTensors tensors_;
  /// Scales of the rows of tensors of 8-bit whole numbers, by the names of those.
  formats::StoredTensors scales_;
  std::shared_ptr<const Int8Layers> int8_;
  std::shared_ptr<const ops::Device> device_;
  std::map<std::string, std::string> stored_names_;
  std::shared_ptr<const Adapter> adapter_;
  std::shared_ptr<const Weights> unadapted_;
  std::shared_ptr<SharedLayers> shared_;
  bool keeps_tensors_ = false;
};

}  // namespace longformer::models
