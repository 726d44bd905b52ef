// The optimizers: their moments, and one step over all parameters.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "longformer/training.h"
#include "training/parameters.h"

namespace longformer::training {

/// √Σ g² over the gradients of all trained parameters; the same bits for every number of threads.
/// Not finite where a gradient is not.
double gradient_norm(const ParameterSet& parameters, int threads);

/// Name of the first parameter whose gradient has a NaN or infinity; empty when all are finite.
std::string first_bad_gradient(const ParameterSet& parameters, int threads);
/// Names of the parameters that hold a NaN or infinity.
std::set<std::string> bad_weights(const ParameterSet& parameters, int threads);

/// min(1, limit ÷ (norm + 1e-6)); 1 when the limit is 0.
double clipping_factor(double norm, double limit);

/// Moments by name, as they lie in a checkpoint.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

class Optimizer {
 public:
  /// The one that `options.optim` names. The parameters must outlive it. Throws Error.
  static std::unique_ptr<Optimizer> make(const TrainingOptions& options, ParameterSet& parameters,
                                         int threads);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Changes all parameters that have a gradient by it, multiplied with the scale, and takes it
  /// away. One without a gradient keeps its value, undecayed, and its moments.
  void step(double learning_rate, double gradient_scale);

  /// Bytes that moments of all trained parameters take.
  virtual std::int64_t state_bytes() const = 0;
  /// Everything that a continued training needs: the moments, and how many steps each parameter
  /// has taken.
  virtual NamedTensors moments() const = 0;
  std::map<std::string, std::int64_t> step_counts() const;
  /// Takes up what `moments` and `step_counts` gave. Throws Error that names the file and tensor.
  void restore(const std::map<std::string, Tensor>& moments,
               const std::map<std::string, std::int64_t>& step_counts, const std::string& file);

 protected:
  explicit Optimizer(ParameterSet& parameters)
      : parameters_(parameters), step_counts_(parameters.items().size(), 0) {}

  struct Step {
    std::size_t place;
    std::int64_t count;
    double learning_rate;
    double gradient_scale;
  };
  virtual void step_one(const Parameter& parameter, const Step& step) = 0;
  /// Makes the moments of a parameter, zero.
  virtual void start(std::size_t place) = 0;

  const ParameterSet& parameters() const { return parameters_; }

 private:
  ParameterSet& parameters_;
  std::vector<std::int64_t> step_counts_;
};

}  // namespace longformer::training
