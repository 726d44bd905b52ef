// The weights of a folder by their Hugging Face names, with every shape checked (spec.md A.2).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "formats/weights.h"
#include "models/tensor_names.h"

namespace longformer::models {

class Checkpoint {
 public:
  /// Opens the weights of a folder: safetensors or PyTorch, one file or several with an index. One
  /// leading prefix of longformer., bert. or roberta. is dropped from names, and
  /// LayerNorm.gamma/beta are read as weight/bias. Throws Error.
  static Checkpoint open(const std::string& folder);

  /// Weights made on demand: N(0, 0.02) matrices, LayerNorm gains 1, biases 0.
  static Checkpoint random(std::uint64_t seed);

  /// The same weights as parameters of a training run: fp32, each with a gradient. What the model
  /// asks for and the file has not is drawn from N(0, deviation²), LayerNorm gains from N(1,
  /// gain_deviation²), biases 0, where its name is among `fresh`; so is everything when the weights
  /// are random. Tensors become parameters when a model first asks for them.
  struct Training {
    std::vector<NamedShape> fresh = {};
    double deviation = 0.02;
    double gain_deviation = 0;
    /// Rows that are 0 where their table is drawn: those of padding.
    std::map<std::string, Index> zero_rows = {};
    std::uint64_t seed = 0;
    /// Parameters for whose names it holds get no gradient.
    std::function<bool(const std::string& name)> frozen = {};
    /// Tensors whose names begin with one of these are as if the file had none.
    std::vector<std::string> left_out = {};
    /// Tables that get more rows than they have in the file: further ones are drawn from the normal
    /// distribution with mean and deviation of those in the file (spec.md C.4).
    std::vector<std::string> grown = {};
  };
  static Checkpoint trainable(Checkpoint weights, Training training);

  bool is_trainable() const { return parameters_ != nullptr; }
  /// In the order of their names, each once: those that models have asked for.
  std::vector<std::pair<std::string, Tensor>> parameters() const;
  /// Further names of parameters, and the names of those.
  const std::map<std::string, std::string>& aliases() const;
  /// Makes `alias` another name of the parameter `name` where the file has both and they are alike;
  /// else, and when nothing is trained, false.
  bool tie(const std::string& alias, const std::string& name) const;
  /// Names of parameters that were drawn.
  std::vector<std::string> drawn() const;

  bool has(const std::string& name) const;
  /// Names of all tensors of the file, sorted.
  std::vector<std::string> names() const;

  /// The name that a tensor has in the file, with its prefix.
  const std::string& stored_name(const std::string& name) const;
  /// Throws Error when there is no tensor of this name.
  const Shape& shape(const std::string& name) const;
  /// Whether a tensor holds no weights: a buffer of integers or truth values, such as position
  /// numbers in old files.
  bool is_buffer(const std::string& name) const;
  /// The file of the weights, and its format: see formats::WeightFiles.
  const std::string& path() const { return name_; }
  const std::string& format() const { return files_->format(); }

  /// The tensor in the dtype of the file; a view of the mapped file where it can be; the parameter
  /// itself when there is one. Throws Error when it is missing, not floating-point, or of another
  /// shape.
  Tensor get(const std::string& name, const Shape& shape) const;
  /// The same as fp32.
  Tensor get_fp32(const std::string& name, const Shape& shape) const;

  /// The tensor as the file has it, in fp32, whatever was trained.
  Tensor stored_fp32(const std::string& name) const;

  /// Notes that tensors hold NaN or infinite numbers, in one line that names them: those that
  /// models have asked for since the last call. Nothing without a callback.
  void tell_nonfinite(const std::function<void(const std::string&)>& note) const;

  /// Gives the mapped pages of a tensor that was copied elsewhere back to the system.
  void release(const Tensor& tensor) const;

  /// A number that other weights hardly share: of names, shapes and samples of the data.
  std::uint64_t fingerprint() const;

 private:
  struct Parameters;
  struct Findings;
  Tensor stored(const std::string& name, const Shape& shape) const;
  Tensor parameter(const std::string& name, const Shape& shape) const;

  std::string name_;
  std::optional<std::uint64_t> seed_;
  /// Copies of a checkpoint share it.
  std::shared_ptr<Parameters> parameters_;
  std::shared_ptr<Findings> findings_;
  std::optional<formats::WeightFiles> files_;
  formats::StoredTensors tensors_;
  /// By plain name.
  std::map<std::string, std::string> stored_names_;
};

}  // namespace longformer::models
