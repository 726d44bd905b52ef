// The weights that a training changes, by name.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/tape.h"

namespace longformer::training {

/// A weight: fp32, on the heap, shared with the model. It is trained when it has a gradient slot,
/// else frozen.
struct Parameter {
  std::string name;
  Tensor value;
  bool decays = true;
  double learning_rate_scale = 1;
  /// After a step its numbers are moved into these.
  struct Limits {
    float least = 0, most = 0;
  };
  std::optional<Limits> limits = std::nullopt;
  /// A moving average of directions: its gradient holds the sums that its rows move towards, and no
  /// learning rate counts. This part of each stays in a step, or of the first ones, by their number
  /// t, (t − 1)/t where that is less.
  std::optional<double> averages = std::nullopt;
  /// Rows before it are frozen; for tables of which only an extension is trained.
  Index first_trained_row = 0;

  bool is_trained() const { return wants_gradient(value); }
  bool has_gradient() const { return is_trained() && !value.gradient()->sum.empty(); }
  /// The trained rows of value and gradient; views.
  Tensor trained_value() const { return trained_rows(value); }
  Tensor trained_gradient() const { return trained_rows(value.gradient()->sum); }

 private:
  Tensor trained_rows(const Tensor& whole) const {
    return first_trained_row == 0
               ? whole
               : whole.slice_rows(first_trained_row, whole.rows() - first_trained_row);
  }
};

/// Whether weight decay applies to a weight of this name: not to biases and norms, by the patterns
/// of the Hugging Face Trainer and the names that norms have in checkpoints.
bool decays_by_name(const std::string& name);

class ParameterSet {
 public:
  /// Adds a trained parameter, which gets a gradient slot when it has none; whether it decays
  /// follows from its name. Throws Error for a second one of the name and for values that are not
  /// fp32.
  Parameter& add(const std::string& name, Tensor value);
  /// Adds a parameter as it is.
  Parameter& add(Parameter parameter);

  std::vector<Parameter>& items() { return items_; }
  const std::vector<Parameter>& items() const { return items_; }
  /// Throws Error when there is none of this name.
  Parameter& at(const std::string& name);

  Index trained_elements() const;
  Index frozen_elements() const;

  /// Writes all values as safetensors under their names. Throws Error.
  void write(const std::string& path) const;
  /// Reads all values back in place; every parameter must be there in its shape. Throws Error.
  void read(const std::string& path);

 private:
  std::vector<Parameter> items_;
  std::map<std::string, std::size_t> places_;
};

}  // namespace longformer::training
