#include "tasks/embedding/vector_modules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <variant>

#include "core/error.h"
#include "core/finite.h"
#include "models/layers.h"

namespace longformer::tasks {
namespace {

using kernels::Activation;

/// Names in the file of a head.
constexpr std::array<models::TensorNames::Rename, 2> kHeadNames = {
    {{"linear.weight", "weight"}, {"linear.bias", "bias"}}};

models::Weights weights_of(const DenseModule& dense) {
  if (dense.file.empty()) return models::Weights::open(dense.folder, {});
  return models::Weights::of_file(dense.file, {.renames = kHeadNames});
}

/// Rows [rows, D] behind an activation. One that is not finite before becomes NaN: tanh(∞) is 1.
std::vector<float> vectors_behind(const ops::Context& context, Activation activation,
                                  const Tensor& x) {
  const std::vector<float> before = x.to_floats();
  std::vector<float> after = ops::activated(context, activation, x).to_floats();
  const auto width = static_cast<std::size_t>(x.columns());
  for (std::size_t first = 0; first < before.size(); first += width) {
    if (all_finite(std::span(before).subspan(first, width))) continue;
    std::ranges::fill(std::span(after).subspan(first, width),
                      std::numeric_limits<float>::quiet_NaN());
  }
  return after;
}

}  // namespace

void scale_to_unit_length(std::span<float> rows, Index width) {
  for (std::size_t first = 0; first < rows.size(); first += static_cast<std::size_t>(width)) {
    const std::span<float> row = rows.subspan(first, static_cast<std::size_t>(width));
    double square = 0;
    for (const float x : row) square += static_cast<double>(x) * x;
    const float scale = square > 0 ? static_cast<float>(1.0 / std::sqrt(square)) : 0.0f;
    for (float& x : row) x *= scale;
  }
}

std::vector<float> first_columns(std::span<const float> rows, Index width, Index kept) {
  std::vector<float> columns;
  columns.reserve(rows.size() / static_cast<std::size_t>(width) * static_cast<std::size_t>(kept));
  for (std::size_t first = 0; first < rows.size(); first += static_cast<std::size_t>(width)) {
    const auto row = rows.subspan(first, static_cast<std::size_t>(kept));
    columns.insert(columns.end(), row.begin(), row.end());
  }
  return columns;
}

VectorModules::VectorModules(std::span<const VectorModule> modules, Index width,
                             const std::function<void(const std::string&)>& note)
    : first_width_(width), width_(width) {
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const auto* dense = std::get_if<DenseModule>(&modules[i]);
    if (dense == nullptr) {
      if (i + 1 < modules.size()) steps_.push_back({});
      continue;
    }
    require(dense->in_features == width_, "{}: in_features: expected {}, found {}", dense->folder,
            width_, dense->in_features);
    const models::Weights weights = weights_of(*dense);
    steps_.push_back({std::make_shared<const ops::Linear>(models::linear(
                          {.weights = weights}, "linear", {dense->out_features, dense->in_features},
                          {.has_bias = dense->bias})),
                      dense->activation});
    weights.tell_nonfinite(note);
    width_ = dense->out_features;
    fingerprint_ = fingerprint_ * 31 + weights.fingerprint();
  }
}

std::vector<float> VectorModules::apply(const ops::Context& context,
                                        std::vector<float> vectors) const {
  Index width = first_width_;
  for (const Step& step : steps_) {
    if (!step.dense) {
      scale_to_unit_length(vectors, width);
      continue;
    }
    const Index rows = static_cast<Index>(vectors.size()) / width;
    if (rows == 0) break;
    const Tensor x = Tensor::from(vectors, {rows, width});
    const Tensor y = ops::linear(context, x, *step.dense, DType::f32);
    vectors = step.activation ? vectors_behind(context, *step.activation, y) : y.to_floats();
    width = step.dense->out_features();
  }
  return vectors;
}

}  // namespace longformer::tasks
