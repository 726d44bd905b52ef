#include "training/optimizer.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "kernels/optimizer_steps.h"

namespace longformer::training {
namespace {

class AdamW : public Optimizer {
 public:
  AdamW(const TrainingOptions& options, ParameterSet& parameters, int threads)
      : Optimizer(parameters),
        options_(options),
        threads_(threads),
        means_(parameters.items().size()),
        squares_(parameters.items().size()) {}

  std::int64_t state_bytes() const override { return 8 * parameters().trained_elements(); }

  NamedTensors moments() const override {
    NamedTensors tensors;
    for (std::size_t i = 0; i < means_.size(); ++i) {
      if (means_[i].empty()) continue;
      tensors.emplace_back("exp_avg." + parameters().items()[i].name, means_[i]);
      tensors.emplace_back("exp_avg_sq." + parameters().items()[i].name, squares_[i]);
    }
    return tensors;
  }

 private:
  void start(std::size_t place) override {
    const Shape shape = parameters().items()[place].trained_value().shape();
    means_[place] = Tensor::zeros(shape, DType::f32);
    squares_[place] = Tensor::zeros(shape, DType::f32);
  }

  void step_one(const Parameter& parameter, const Step& step) override {
    Tensor value = parameter.trained_value();
    kernels::adamw_step(value, parameter.trained_gradient(), means_[step.place],
                        squares_[step.place],
                        {.learning_rate = step.learning_rate * parameter.learning_rate_scale,
                         .beta1 = options_.adam_beta1,
                         .beta2 = options_.adam_beta2,
                         .epsilon = options_.adam_epsilon,
                         .weight_decay = parameter.decays ? options_.weight_decay : 0,
                         .step = step.count,
                         .gradient_scale = step.gradient_scale,
                         .threads = threads_});
  }

  TrainingOptions options_;
  int threads_;
  std::vector<Tensor> means_;
  std::vector<Tensor> squares_;
};

/// Adafactor as the Hugging Face Trainer uses it: without first moment; learning rates are given,
/// or relative to the size of the weights.
class Adafactor : public Optimizer {
 public:
  Adafactor(const TrainingOptions& options, ParameterSet& parameters, int threads)
      : Optimizer(parameters),
        options_(options),
        threads_(threads),
        moments_(parameters.items().size()) {}

  std::int64_t state_bytes() const override {
    std::int64_t bytes = 0;
    for (const Parameter& parameter : parameters().items()) {
      if (!parameter.is_trained()) continue;
      const Tensor value = parameter.trained_value();
      const Shape& shape = value.shape();
      bytes += 4 * (shape.size() < 2
                        ? value.size()
                        : value.size() / shape.back() + value.size() / shape[shape.size() - 2]);
    }
    return bytes;
  }

  NamedTensors moments() const override {
    NamedTensors tensors;
    for (std::size_t i = 0; i < moments_.size(); ++i) {
      const std::string& name = parameters().items()[i].name;
      if (!moments_[i].rows.empty()) {
        tensors.emplace_back("exp_avg_sq_row." + name, moments_[i].rows);
        tensors.emplace_back("exp_avg_sq_col." + name, moments_[i].columns);
      }
      if (!moments_[i].square.empty()) {
        tensors.emplace_back("exp_avg_sq." + name, moments_[i].square);
      }
    }
    return tensors;
  }

 private:
  void start(std::size_t place) override {
    moments_[place] = kernels::AdafactorMoments::zeros(
        parameters().items()[place].trained_value().shape(), false);
  }

  void step_one(const Parameter& parameter, const Step& step) override {
    Tensor value = parameter.trained_value();
    kernels::AdafactorStep own = {.scale_parameter = options_.adafactor_relative_step,
                                  .weight_decay = parameter.decays ? options_.weight_decay : 0,
                                  .learning_rate_scale = parameter.learning_rate_scale,
                                  .step = step.count,
                                  .gradient_scale = step.gradient_scale,
                                  .threads = threads_};
    if (!options_.adafactor_relative_step) own.learning_rate = step.learning_rate;
    kernels::adafactor_step(value, parameter.trained_gradient(), moments_[step.place], own);
  }

  TrainingOptions options_;
  int threads_;
  std::vector<kernels::AdafactorMoments> moments_;
};

class Adagrad : public Optimizer {
 public:
  Adagrad(const TrainingOptions& options, ParameterSet& parameters, int threads)
      : Optimizer(parameters),
        options_(options),
        threads_(threads),
        sums_(parameters.items().size()) {}

  std::int64_t state_bytes() const override { return 4 * parameters().trained_elements(); }

  NamedTensors moments() const override {
    NamedTensors tensors;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      if (!sums_[i].empty()) tensors.emplace_back("sum." + parameters().items()[i].name, sums_[i]);
    }
    return tensors;
  }

 private:
  void start(std::size_t place) override {
    sums_[place] = Tensor::zeros(parameters().items()[place].trained_value().shape(), DType::f32);
  }

  void step_one(const Parameter& parameter, const Step& step) override {
    Tensor value = parameter.trained_value();
    kernels::adagrad_step(value, parameter.trained_gradient(), sums_[step.place],
                          {.learning_rate = step.learning_rate * parameter.learning_rate_scale,
                           .clip = options_.adagrad_clip,
                           .weight_decay = parameter.decays ? options_.weight_decay : 0,
                           .gradient_scale = step.gradient_scale,
                           .threads = threads_});
  }

  TrainingOptions options_;
  int threads_;
  std::vector<Tensor> sums_;
};

/// The first steps weigh alike, so that nothing is left of how a training began.
void move_average(const Parameter& parameter, std::int64_t step) {
  const double most = static_cast<double>(step - 1) / static_cast<double>(step);
  Tensor value = parameter.trained_value();
  kernels::average_directions(value, parameter.trained_gradient(),
                              std::min(*parameter.averages, most));
}

}  // namespace

double gradient_norm(const ParameterSet& parameters, int threads) {
  double sum = 0;
  for (const Parameter& parameter : parameters.items()) {
    if (parameter.has_gradient() && !parameter.averages)
      sum += kernels::sum_of_squares(parameter.trained_gradient(), threads);
  }
  return std::sqrt(sum);
}

std::string first_bad_gradient(const ParameterSet& parameters, int threads) {
  for (const Parameter& parameter : parameters.items()) {
    if (!parameter.has_gradient()) continue;
    if (!std::isfinite(kernels::sum_of_squares(parameter.trained_gradient(), threads))) {
      return parameter.name;
    }
  }
  return "";
}

std::set<std::string> bad_weights(const ParameterSet& parameters, int threads) {
  std::set<std::string> bad;
  for (const Parameter& parameter : parameters.items()) {
    const double sum = kernels::sum_of_squares(parameter.value, threads);
    if (!std::isfinite(sum)) bad.insert(parameter.name);
  }
  return bad;
}

double clipping_factor(double norm, double limit) {
  return limit > 0 ? std::min(1.0, limit / (norm + 1e-6)) : 1.0;
}

std::unique_ptr<Optimizer> Optimizer::make(const TrainingOptions& options, ParameterSet& parameters,
                                           int threads) {
  if (options.optim == "adamw") return std::make_unique<AdamW>(options, parameters, threads);
  if (options.optim == "adafactor") {
    return std::make_unique<Adafactor>(options, parameters, threads);
  }
  if (options.optim == "adagrad") return std::make_unique<Adagrad>(options, parameters, threads);
  fail(OptionName("training.optim"), "expected adamw, adafactor or adagrad, found '{}'",
       options.optim);
}

void Optimizer::step(double learning_rate, double gradient_scale) {
  for (std::size_t i = 0; i < step_counts_.size(); ++i) {
    Parameter& parameter = parameters_.items()[i];
    if (!parameter.has_gradient()) continue;
    if (step_counts_[i] == 0 && !parameter.averages) start(i);
    const Step step = {.place = i,
                       .count = ++step_counts_[i],
                       .learning_rate = learning_rate,
                       .gradient_scale = gradient_scale};
    if (parameter.averages) {
      move_average(parameter, step.count);
    } else {
      step_one(parameter, step);
    }
    if (parameter.limits) {
      Tensor value = parameter.trained_value();
      kernels::clamp(value, parameter.limits->least, parameter.limits->most);
    }
    ++parameter.value.gradient()->version;
    parameter.value.gradient()->clear();
  }
}

std::map<std::string, std::int64_t> Optimizer::step_counts() const {
  std::map<std::string, std::int64_t> counts;
  for (std::size_t i = 0; i < step_counts_.size(); ++i) {
    if (step_counts_[i] > 0) counts.emplace(parameters_.items()[i].name, step_counts_[i]);
  }
  return counts;
}

void Optimizer::restore(const std::map<std::string, Tensor>& stored,
                        const std::map<std::string, std::int64_t>& step_counts,
                        const std::string& file) {
  for (std::size_t i = 0; i < step_counts_.size(); ++i) {
    const auto count = step_counts.find(parameters_.items()[i].name);
    step_counts_[i] = count == step_counts.end() ? 0 : count->second;
    if (step_counts_[i] > 0 && !parameters_.items()[i].averages) start(i);
  }
  const NamedTensors targets = moments();
  for (const auto& [name, target] : targets) {
    const auto source = stored.find(name);
    require(source != stored.end(), "{}: expected a tensor {}, found none", file, name);
    require(source->second.dtype() == target.dtype() && source->second.shape() == target.shape(),
            "{}: tensor {}: expected fp32 {}, found {} {}", file, name, to_string(target.shape()),
            name_of(source->second.dtype()), to_string(source->second.shape()));
    Tensor writable = target;
    kernels::assign(writable, source->second);
  }
  require(stored.size() == targets.size(), "{}: expected {} tensors, found {}", file,
          targets.size(), stored.size());
}

}  // namespace longformer::training
