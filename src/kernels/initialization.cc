#include "kernels/initialization.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/random.h"

namespace longformer::kernels {

Tensor random_gains(const Shape& shape, float deviation, std::uint64_t seed) {
  Tensor gains = random_normal_tensor(shape, deviation, seed);
  float* values = gains.data<float>();
  for (Index i = 0; i < gains.size(); ++i) values[i] += 1;
  return gains;
}

void clear_row(Tensor& table, Index row) {
  std::fill_n(table.data<float>() + row * table.columns(), table.columns(), 0.0f);
}

Tensor with_further_rows(const Tensor& table, Index rows, std::uint64_t seed) {
  const std::vector<float> values = table.to_floats();
  double sum = 0, squares = 0;
  for (const float value : values) {
    sum += value;
    squares += double{value} * value;
  }
  const auto count = static_cast<double>(values.size());
  const double mean = sum / count;
  const double deviation = std::sqrt(std::max(0.0, squares / count - mean * mean));
  const Tensor drawn = random_normal_tensor({rows - table.rows(), table.columns()},
                                            static_cast<float>(deviation), seed);
  Tensor all({rows, table.columns()}, DType::f32);
  float* to = std::copy(values.begin(), values.end(), all.data<float>());
  const float* further = drawn.data<float>();
  for (Index i = 0; i < drawn.size(); ++i) to[i] = further[i] + static_cast<float>(mean);
  return all;
}

}  // namespace longformer::kernels
