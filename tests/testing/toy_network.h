// A network of two layers that learns a fixed random function: small enough for plain loops, with
// everything that a training must bring back after a restart (dropout, noise, an order of data).
#pragma once

#include <cmath>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/random.h"
#include "ops/context.h"
#include "ops/recompute.h"
#include "training/trainer.h"

namespace longformer::toy {

/// Elements that the recorded steps of a tape hold.
class Ledger {
 public:
  /// Counts a tensor for as long as the result lives.
  std::shared_ptr<void> hold(const Tensor& tensor) {
    held_ += tensor.size();
    peak_ = std::max(peak_, held_);
    return {nullptr, [this, size = tensor.size()](void*) { held_ -= size; }};
  }
  Index peak() const { return peak_; }
  Index held() const { return held_; }

 private:
  Index held_ = 0;
  Index peak_ = 0;
};

inline void add(const std::shared_ptr<Gradient>& slot, const Tensor& change) {
  if (slot == nullptr) return;
  if (slot->sum.empty()) slot->sum = Tensor::zeros(change.shape(), DType::f32);
  for (Index i = 0; i < change.size(); ++i) slot->sum.data<float>()[i] += change.data<float>()[i];
}

/// x [n, in] by weight [out, in].
inline Tensor linear(const ops::Context& context, const Tensor& x, const Tensor& weight,
                     Ledger& ledger) {
  const Index n = x.rows();
  const Index in = x.columns();
  const Index out = weight.rows();
  Tensor y = Tensor::zeros({n, out}, DType::f32);
  for (Index i = 0; i < n * out; ++i) {
    for (Index k = 0; k < in; ++k) {
      y.data<float>()[i] +=
          x.data<float>()[i / out * in + k] * weight.data<float>()[i % out * in + k];
    }
  }
  if (context.tape == nullptr) return y;
  Tape::track(y);
  context.tape->record("toy", [=, slot = y.gradient(), held = ledger.hold(x)] {
    const Tensor dy = slot->take();
    if (dy.empty()) return;
    Tensor dx = Tensor::zeros(x.shape(), DType::f32);
    Tensor dw = Tensor::zeros(weight.shape(), DType::f32);
    for (Index i = 0; i < n * out; ++i) {
      for (Index k = 0; k < in; ++k) {
        const float g = dy.data<float>()[i];
        dx.data<float>()[i / out * in + k] += g * weight.data<float>()[i % out * in + k];
        dw.data<float>()[i % out * in + k] += g * x.data<float>()[i / out * in + k];
      }
    }
    add(x.gradient(), dx);
    add(weight.gradient(), dw);
  });
  return y;
}

/// tanh(x), with dropout.
inline Tensor activate(const ops::Context& context, const Tensor& x, const Dropout& dropout,
                       Ledger& ledger) {
  Tensor y(x.shape(), DType::f32);
  const auto factor = [dropout](Index i) {
    return dropout.active() ? dropout.factor(static_cast<std::uint64_t>(i)) : 1.0f;
  };
  for (Index i = 0; i < x.size(); ++i) {
    y.data<float>()[i] = std::tanh(x.data<float>()[i]) * factor(i);
  }
  if (context.tape == nullptr) return y;
  Tape::track(y);
  context.tape->record("toy", [=, slot = y.gradient(), held = ledger.hold(x)] {
    const Tensor dy = slot->take();
    if (dy.empty()) return;
    Tensor dx(x.shape(), DType::f32);
    for (Index i = 0; i < x.size(); ++i) {
      const float t = std::tanh(x.data<float>()[i]);
      dx.data<float>()[i] = dy.data<float>()[i] * factor(i) * (1 - t * t);
    }
    add(x.gradient(), dx);
  });
  return y;
}

/// ½ Σ (y − target)²; puts the gradient into place.
inline double squared_error(const Tensor& y, const Tensor& target) {
  double sum = 0;
  Tensor dy(y.shape(), DType::f32);
  for (Index i = 0; i < y.size(); ++i) {
    const float difference = y.data<float>()[i] - target.data<float>()[i];
    dy.data<float>()[i] = difference;
    sum += 0.5 * static_cast<double>(difference) * static_cast<double>(difference);
  }
  if (wants_gradient(y)) y.gradient()->sum = dy;
  return sum;
}

/// Learns the function of another random network of its kind.
class Network : public training::Objective {
 public:
  static constexpr Index kInputs = 12;
  static constexpr Index kHidden = 24;
  static constexpr Index kOutputs = 4;
  static constexpr Index kRows = 8;

  Network() {
    const std::vector<Shape> shapes = {{kHidden, kInputs}, {kOutputs, kHidden}};
    for (std::size_t i = 0; i < 2; ++i) {
      weights_.push_back(random_normal_tensor(shapes[i], 0.3f, 10 + i));
      teacher_.push_back(random_normal_tensor(shapes[i], 0.5f, 20 + i));
      parameters_.add(kNames[i], weights_[i]);
      weights_[i] = parameters_.at(kNames[i]).value;
    }
  }

  training::ParameterSet& parameters() { return parameters_; }
  void checkpoint(bool on) { recomputes_ = on; }
  Ledger& ledger() { return ledger_; }

  training::MicroBatchLoss run(const training::MicroBatch& batch) override {
    const Tensor x = random_normal_tensor({kRows, kInputs}, 1, batch.seed);
    Tape tape;
    const Tensor target = forward({.memory = pool_}, x, teacher_);
    const Tensor y =
        forward({.memory = pool_, .tape = &tape, .dropout_seed = batch.seed}, x, weights_);
    const double loss = squared_error(y, target);
    tape.backward();
    return {.loss = loss, .weight = static_cast<double>(kRows), .tokens = kRows};
  }

  training::Metrics evaluate() override {
    const Tensor x = random_normal_tensor({64, kInputs}, 1, 99);
    const ops::Context context{.memory = pool_};
    const double loss =
        squared_error(forward(context, x, weights_), forward(context, x, teacher_)) / 64;
    return {{"loss", loss}};
  }

  void save(const std::filesystem::path& folder) override {
    parameters_.write((folder / "model.safetensors").string());
  }
  void load(const std::filesystem::path& folder) override {
    parameters_.read((folder / "model.safetensors").string());
  }

 private:
  Tensor forward(const ops::Context& context, const Tensor& x, const std::vector<Tensor>& weights) {
    const ops::Part layer = [this, weights](const ops::Context& inner,
                                            std::span<const Tensor> inputs) {
      const Tensor hidden = linear(inner, inputs[0], weights[0], ledger_);
      const Tensor active = activate(inner, hidden, inner.dropout(0.1, 1), ledger_);
      return std::vector<Tensor>{linear(inner, active, weights[1], ledger_)};
    };
    return recomputes_ ? ops::recompute(context, {x}, layer)[0]
                       : layer(context, std::vector<Tensor>{x})[0];
  }

  static constexpr const char* kNames[2] = {"hidden.weight", "output.weight"};
  MemoryPool pool_;
  std::vector<Tensor> weights_;
  std::vector<Tensor> teacher_;
  training::ParameterSet parameters_;
  Ledger ledger_;
  bool recomputes_ = false;
};

}  // namespace longformer::toy
