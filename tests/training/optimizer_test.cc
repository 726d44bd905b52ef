// Optimizer steps, clipping and schedules, held against torch and transformers by the recordings
// of tests/fixtures/make_optimizers.py.
//
// Reruns: tsan
#include "training/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/random.h"
#include "error_testing.h"
#include "fixtures.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "kernels/optimizer_steps.h"
#include "training/schedule.h"

namespace longformer::training::optimizer_test {
namespace {

namespace fs = std::filesystem;

const fs::path kFixtures = fixtures_folder() / "optimizers";
const std::vector<std::string> kNames = {"matrix", "stack", "vector"};

std::map<std::string, Tensor> recording() {
  return formats::SafetensorsFile::open((kFixtures / "steps.safetensors").string()).tensors();
}

Tensor copy_of(const Tensor& source) { return Tensor::from(source.to_floats(), source.shape()); }

/// Largest |a − b| over the largest |b|.
double relative_difference(const Tensor& a, const Tensor& b) {
  const std::vector<float> x = a.to_floats();
  const std::vector<float> y = b.to_floats();
  double difference = 0;
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double distance = std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
    if (!(distance <= difference)) difference = distance;
    largest = std::max(largest, std::abs(static_cast<double>(y[i])));
  }
  return difference / largest;
}

struct AdamWCase {
  std::string name;
  kernels::AdamWStep step;
};

TEST(AdamW, SixtyStepsAsTorch) {
  auto tensors = recording();
  const std::vector<AdamWCase> cases = {
      {"plain", {.learning_rate = 1e-2}},
      {"decay",
       {.learning_rate = 3e-3, .beta2 = 0.98, .epsilon = 1e-6, .weight_decay = 0.1, .threads = 2}}};
  for (const AdamWCase& one : cases) {
    for (const std::string& name : kNames) {
      Tensor value = copy_of(tensors.at("start." + name));
      Tensor mean = Tensor::zeros(value.shape(), DType::f32);
      Tensor square = Tensor::zeros(value.shape(), DType::f32);
      const Tensor& gradients = tensors.at("gradients." + name);
      kernels::AdamWStep step = one.step;
      for (step.step = 1; step.step <= gradients.rows(); ++step.step) {
        const Tensor gradient = gradients.slice_rows(step.step - 1, 1).reshaped(value.shape());
        kernels::adamw_step(value, gradient, mean, square, step);
      }
      const double difference =
          relative_difference(value, tensors.at("adamw." + one.name + "." + name));
      EXPECT_TRUE(difference <= 1e-6) << one.name << " " << name << ": " << difference;
    }
  }
}

/// A step is never much longer than the learning rate, however small gradient and epsilon are.
TEST(AdamW, TinyGradientsMoveNothingFar) {
  for (const float size : {1e-12f, 1e-15f, 2.9e-17f, 1e-18f, 1e-25f, 1e-38f}) {
    for (const double epsilon : {1e-8, 1e-20, 1e-30}) {
      Tensor value = Tensor::from(std::vector<float>(17, 1.0f), {17});
      Tensor mean = Tensor::zeros({17}, DType::f32), square = Tensor::zeros({17}, DType::f32);
      const Tensor gradient = Tensor::from(std::vector<float>(17, size), {17});
      kernels::AdamWStep step = {.learning_rate = 1e-2, .epsilon = epsilon};
      for (step.step = 1; step.step <= 5; ++step.step) {
        kernels::adamw_step(value, gradient, mean, square, step);
      }
      for (const float one : value.to_floats()) {
        ASSERT_TRUE(one >= 1 - 5 * 1.2e-2 && one <= 1) << size << ", " << epsilon << ": " << one;
      }
    }
  }
}

struct AdafactorCase {
  std::string name;
  kernels::AdafactorStep step;
};

TEST(Adafactor, SixtyStepsAsTransformers) {
  auto tensors = recording();
  const std::vector<AdafactorCase> cases = {
      {"relative", {}},
      {"warmup", {.warmup_init = true}},
      {"fixed", {.learning_rate = 1e-3, .scale_parameter = false, .weight_decay = 0.05}},
      {"mean", {.learning_rate = 2e-2, .beta1 = 0.9, .clip_threshold = 0.5, .threads = 2}}};
  for (const AdafactorCase& one : cases) {
    for (const std::string& name : kNames) {
      Tensor value = copy_of(tensors.at("start." + name));
      auto moments = kernels::AdafactorMoments::zeros(value.shape(), one.step.beta1.has_value());
      const Tensor& gradients = tensors.at("gradients." + name);
      kernels::AdafactorStep step = one.step;
      for (step.step = 1; step.step <= gradients.rows(); ++step.step) {
        const Tensor gradient = gradients.slice_rows(step.step - 1, 1).reshaped(value.shape());
        kernels::adafactor_step(value, gradient, moments, step);
      }
      const double difference =
          relative_difference(value, tensors.at("adafactor." + one.name + "." + name));
      EXPECT_TRUE(difference <= 2e-6) << one.name << " " << name << ": " << difference;
    }
  }
}

struct AdagradCase {
  std::string name;
  kernels::AdagradStep step;
};

TEST(Adagrad, SixtyStepsAsTorch) {
  auto tensors = recording();
  const std::vector<AdagradCase> cases = {
      {"plain", {.learning_rate = 7e-2}},
      {"decay", {.learning_rate = 1e-2, .weight_decay = 0.1, .threads = 2}},
      {"clipped", {.learning_rate = 7e-2, .clip = 0.5}}};
  for (const AdagradCase& one : cases) {
    for (const std::string& name : kNames) {
      Tensor value = copy_of(tensors.at("start." + name));
      Tensor sum = Tensor::zeros(value.shape(), DType::f32);
      const Tensor& gradients = tensors.at("gradients." + name);
      for (Index i = 0; i < gradients.rows(); ++i) {
        const Tensor gradient = gradients.slice_rows(i, 1).reshaped(value.shape());
        kernels::adagrad_step(value, gradient, sum, one.step);
      }
      const double difference =
          relative_difference(value, tensors.at("adagrad." + one.name + "." + name));
      EXPECT_TRUE(difference <= 1e-6) << one.name << " " << name << ": " << difference;
    }
  }
}

TEST(OptimizerSteps, NumbersStayWithinTheirLimits) {
  ParameterSet parameters;
  const std::vector<float> begin = {0.5f, 0.01f, 0.99f}, slope = {0, 1, -1};
  Parameter& limited = parameters.add("spans", Tensor::from(begin, {3}));
  limited.limits = {.least = 0, .most = 1};
  limited.value.gradient()->sum = Tensor::from(slope, {3});
  const auto optimizer = Optimizer::make({.optim = "adagrad"}, parameters, 1);
  optimizer->step(0.1, 1);
  EXPECT_EQ(limited.value.to_floats(), (std::vector<float>{0.5f, 0, 1}));
}

TEST(OptimizerSteps, AveragesMoveTowardsDirections) {
  const std::vector<float> begin = {1, 0, 0, 1, 3, 4}, sums = {0, 2, 0, 0, -3, 4};
  for (const char* name : {"adamw", "adafactor", "adagrad"}) {
    ParameterSet parameters;
    Parameter& centroids = parameters.add("centroids", Tensor::from(begin, {1, 3, 2}));
    centroids.averages = 0.75;
    TrainingOptions options;
    options.optim = name;
    const auto step = [&](Optimizer& optimizer) {
      centroids.value.gradient()->sum = Tensor::from(sums, {1, 3, 2});
      EXPECT_EQ(gradient_norm(parameters, 1), 0);
      optimizer.step(1e-3, 1);
      return centroids.value.to_floats();
    };
    const auto optimizer = Optimizer::make(options, parameters, 1);
    // Nothing of the beginning is left, but where nothing came.
    const std::vector<float> first = {0, 1, 0, 1, -0.6f, 0.8f};
    EXPECT_EQ(step(*optimizer), first);
    EXPECT_EQ(step(*optimizer), first);
    EXPECT_TRUE(optimizer->moments().empty());
    EXPECT_EQ(optimizer->step_counts().at("centroids"), 2);
    // A training that goes on knows how many steps there were: a quarter of the way, not all of it.
    const auto resumed = Optimizer::make(options, parameters, 1);
    resumed->restore({}, {{"centroids", 99}}, "checkpoint");
    Tensor value = centroids.value;
    value.data<float>()[0] = 1;
    EXPECT_EQ(step(*resumed)[0], 0.75f);
  }
}

TEST(OptimizerSteps, ScaledGradientsAndThreadCounts) {
  const Tensor gradient = random_normal_tensor({517, 301}, 1, 3);
  Tensor small = random_normal_tensor({517, 301}, 1, 3);
  for (Index i = 0; i < small.size(); ++i) small.data<float>()[i] *= 4;
  for (const bool adam : {true, false}) {
    std::vector<std::vector<float>> results;
    for (const int threads : {1, 2, 3}) {
      Tensor value = random_normal_tensor({517, 301}, 1, 5);
      Tensor mean = Tensor::zeros(value.shape(), DType::f32);
      Tensor square = Tensor::zeros(value.shape(), DType::f32);
      auto moments = kernels::AdafactorMoments::zeros(value.shape(), false);
      // A quarter of four times the gradient is the gradient.
      const bool scaled = threads == 3;
      for (std::int64_t i = 1; i <= 3; ++i) {
        const double scale = scaled ? 0.25 : 1.0;
        const Tensor& g = scaled ? small : gradient;
        if (adam) {
          kernels::adamw_step(
              value, g, mean, square,
              {.learning_rate = 0.1, .step = i, .gradient_scale = scale, .threads = threads});
        } else {
          kernels::adafactor_step(value, g, moments,
                                  {.step = i, .gradient_scale = scale, .threads = threads});
        }
      }
      results.push_back(value.to_floats());
    }
    EXPECT_TRUE(results[0] == results[1]);
    if (adam) {
      EXPECT_TRUE(results[0] == results[2]);
    }
  }
}

TEST(GradientNorm, ExactAndIndependentOfThreads) {
  const Tensor x = random_normal_tensor({777, 333}, 2, 9);
  double expected = 0;
  for (const float value : x.to_floats()) expected += static_cast<double>(value) * value;
  const double sum = kernels::sum_of_squares(x, 1);
  EXPECT_TRUE(std::abs(sum - expected) <= 1e-12 * expected);
  EXPECT_EQ(sum, kernels::sum_of_squares(x, 2));
  EXPECT_EQ(sum, kernels::sum_of_squares(x, 3));
}

TEST(GradientNorm, NamesTheFirstBadGradient) {
  ParameterSet parameters;
  for (const char* name : {"a", "b", "c"}) {
    parameters.add(name, Tensor::zeros({4}, DType::f32));
    parameters.at(name).value.gradient()->sum = Tensor::from(std::vector<float>{3, 0, 4, 0}, {4});
  }
  EXPECT_EQ(first_bad_gradient(parameters, 1), "");
  EXPECT_DOUBLE_EQ(gradient_norm(parameters, 1), std::sqrt(75.0));
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    parameters.at("b").value.gradient()->sum.data<float>()[2] = bad;
    EXPECT_FALSE(std::isfinite(gradient_norm(parameters, 1)));
    EXPECT_EQ(first_bad_gradient(parameters, 1), "b");
  }
}

TEST(Clipping, Factor) {
  EXPECT_EQ(clipping_factor(0.5, 1), 1.0);
  EXPECT_EQ(clipping_factor(1e9, 0), 1.0);
  EXPECT_DOUBLE_EQ(clipping_factor(4, 1), 1 / (4 + 1e-6));
}

TEST(Parameters, DecayByName) {
  for (const char* name :
       {"roberta.encoder.layer.0.attention.output.LayerNorm.weight", "lm_head.layer_norm.weight",
        "encoder.layer.0.output.dense.bias", "cls.predictions.bias", "layers.3.norm1.weight",
        "norm.weight", "final_norm.weight", "r_w_bias"}) {
    EXPECT_FALSE(decays_by_name(name)) << name;
  }
  for (const char* name : {"encoder.layer.0.output.dense.weight", "embeddings.weight",
                           "normaliser.weight", "abnormal"}) {
    EXPECT_TRUE(decays_by_name(name)) << name;
  }
}

TEST(Optimizer, FrozenRowsUnusedWeightsAndScales) {
  for (const char* optim : {"adamw", "adafactor"}) {
    ParameterSet parameters;
    const std::vector<float> values = {1, 2, 3, 4, 5, 6};
    parameters.add({.name = "frozen", .value = Tensor::from(values, {3, 2})});
    for (const char* name : {"rows", "unused", "head", "body"}) {
      parameters.add(name, Tensor::from(values, {3, 2}));
    }
    parameters.at("rows").first_trained_row = 2;
    parameters.at("head").learning_rate_scale = 10;
    EXPECT_EQ(parameters.trained_elements(), 20);
    EXPECT_EQ(parameters.frozen_elements(), 10);
    const TrainingOptions options{.optim = optim, .weight_decay = 0.5};
    const auto optimizer = Optimizer::make(options, parameters, 1);
    std::map<std::string, std::vector<float>> before;
    for (const Parameter& parameter : parameters.items()) {
      before[parameter.name] = parameter.value.to_floats();
    }
    for (const char* name : {"rows", "head", "body"}) {
      parameters.at(name).value.gradient()->sum =
          Tensor::from(std::vector<float>{1, 1, 1, 1, 1, 1}, {3, 2});
    }
    const auto version = parameters.at("body").value.gradient()->version;
    optimizer->step(1e-2, 1);
    const auto change = [&](const std::string& name, std::size_t i) {
      return static_cast<double>(parameters.at(name).value.to_floats()[i] - before[name][i]);
    };
    EXPECT_EQ(parameters.at("frozen").value.to_floats(), before["frozen"]);
    EXPECT_EQ(parameters.at("unused").value.to_floats(), before["unused"]);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(change("rows", i), 0);
    EXPECT_LT(change("rows", 4), -1e-3);
    EXPECT_NEAR(change("head", 5), 10 * change("body", 5), 1e-5);
    EXPECT_EQ(parameters.at("body").value.gradient()->version, version + 1);
    EXPECT_FALSE(parameters.at("body").has_gradient());
    EXPECT_EQ(optimizer->step_counts(),
              (std::map<std::string, std::int64_t>{{"body", 1}, {"head", 1}, {"rows", 1}}));
    std::int64_t bytes = 0;
    for (const auto& [name, tensor] : optimizer->moments()) {
      bytes += static_cast<std::int64_t>(tensor.bytes());
    }
    // The unused weight has no moments yet; the prediction counts it.
    EXPECT_EQ(optimizer->state_bytes() - bytes, options.optim == "adamw" ? 48 : 20);
  }
}

TEST(Optimizer, ContinuesBitEqualFromItsMoments) {
  for (const char* optim : {"adamw", "adafactor"}) {
    const TrainingOptions options{.optim = optim, .weight_decay = 0.01};
    const auto fill = [](ParameterSet& parameters, std::uint64_t step) {
      for (Parameter& parameter : parameters.items()) {
        parameter.value.gradient()->sum = random_normal_tensor(parameter.value.shape(), 1, step);
      }
    };
    ParameterSet whole;
    ParameterSet resumed;
    for (ParameterSet* set : {&whole, &resumed}) {
      set->add("weight", random_normal_tensor({6, 4}, 1, 1));
      set->add("bias", random_normal_tensor({6}, 1, 2));
    }
    const auto undisturbed = Optimizer::make(options, whole, 1);
    auto optimizer = Optimizer::make(options, resumed, 1);
    for (std::uint64_t step = 0; step < 8; ++step) {
      fill(whole, step);
      undisturbed->step(1e-2, 0.5);
      fill(resumed, step);
      optimizer->step(1e-2, 0.5);
      std::map<std::string, Tensor> stored;
      for (const auto& [name, tensor] : optimizer->moments()) {
        stored.emplace(name, copy_of(tensor));
      }
      const auto counts = optimizer->step_counts();
      optimizer = Optimizer::make(options, resumed, 1);
      optimizer->restore(stored, counts, "optimizer.safetensors");
    }
    for (const char* name : {"weight", "bias"}) {
      EXPECT_EQ(whole.at(name).value.to_floats(), resumed.at(name).value.to_floats());
    }
    expect_error(error_of([&] { optimizer->restore({}, optimizer->step_counts(), "o.st"); }),
                 {"o.st", "expected a tensor", "weight"});
  }
}

TEST(Schedule, AsTransformers) {
  const auto rows = formats::read_json((kFixtures / "schedules.json").string());
  for (const auto& row : rows) {
    const Schedule schedule{.kind = schedule_kind(row.at("schedule").get<std::string>()),
                            .peak = 3e-4,
                            .warmup_steps = row.at("warmup_steps").get<std::int64_t>(),
                            .steps = 100,
                            .power = row.value("power", 3.0),
                            .end = row.value("lr_end", 0.0)};
    const auto rates = row.at("rates").get<std::vector<double>>();
    ASSERT_EQ(rates.size(), 106u);
    for (std::size_t step = 0; step < rates.size(); ++step) {
      // The cosine of transformers begins anew after its last step.
      if (schedule.kind == Schedule::Kind::cosine && step > 100) continue;
      const double difference =
          std::abs(schedule.rate(static_cast<std::int64_t>(step)) - rates[step]);
      EXPECT_TRUE(difference <= 1e-15) << row.at("schedule") << " step " << step;
    }
  }
  EXPECT_EQ(rows.size(), 8u);
}

TEST(Schedule, PolynomialOfThePaper) {
  const Schedule schedule{
      .kind = Schedule::Kind::polynomial, .peak = 3e-5, .warmup_steps = 500, .steps = 65000};
  EXPECT_DOUBLE_EQ(schedule.rate(250), 1.5e-5);
  EXPECT_DOUBLE_EQ(schedule.rate(500), 3e-5);
  EXPECT_DOUBLE_EQ(schedule.rate(32750), 3.75e-6);
  EXPECT_DOUBLE_EQ(schedule.rate(65000), 0);
}

TEST(Schedule, WarmupAndNames) {
  EXPECT_EQ(warmup_of(7, 0.5, 100), 7);
  EXPECT_EQ(warmup_of(0, 0.1, 101), 11);
  EXPECT_EQ(warmup_of(0, 0, 101), 0);
  EXPECT_EQ(schedule_kind("constant_with_warmup"), Schedule::Kind::constant);
  expect_error(error_of([] { schedule_kind("exponential"); }),
               {"lr_scheduler_type", "linear", "'exponential'"});
}

}  // namespace
}  // namespace longformer::training::optimizer_test
