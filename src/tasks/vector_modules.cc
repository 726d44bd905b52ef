#include "tasks/vector_modules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>

#include "core/error.h"
#include "core/finite.h"
#include "models/checkpoint.h"

namespace longformer::tasks {
namespace {

/// Makes all of a row NaN that is not finite in `before`: tanh(∞) is 1.
void spoil_as_before(std::span<const float> before, std::span<float> after, Index rows) {
  const std::size_t width_before = before.size() / static_cast<std::size_t>(rows);
  const std::size_t width_after = after.size() / static_cast<std::size_t>(rows);
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    if (all_finite(before.subspan(row * width_before, width_before))) continue;
    std::ranges::fill(after.subspan(row * width_after, width_after),
                      std::numeric_limits<float>::quiet_NaN());
  }
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
    const models::Checkpoint weights = models::Checkpoint::open(dense->folder);
    const Shape shape = {dense->out_features, dense->in_features};
    const Tensor weight = weights.get_fp32("linear.weight", shape);
    std::vector<Tensor> biases;
    if (dense->bias) biases.push_back(weights.get_fp32("linear.bias", {dense->out_features}));
    steps_.push_back({std::make_shared<const ops::Linear>(
        std::span(&weight, 1), biases, ops::LinearOptions{.activation = dense->activation})});
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
    std::vector<float> next = ops::linear(context, x, *step.dense, DType::f32).to_floats();
    spoil_as_before(vectors, next, rows);
    vectors = std::move(next);
    width = step.dense->out_features();
  }
  return vectors;
}

}  // namespace longformer::tasks
