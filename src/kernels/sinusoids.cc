#include "kernels/sinusoids.h"

#include <cmath>
#include <vector>

namespace longformer::kernels {

void fill_sinusoids(Tensor& table, Index first, Index rows, Index begin, Index step) {
  const Index width = table.columns();
  const Index half = width / 2;
  std::vector<double> frequencies(static_cast<std::size_t>(half));
  for (Index t = 0; t < half; ++t) {
    frequencies[static_cast<std::size_t>(t)] =
        std::pow(10000.0, -2.0 * static_cast<double>(t) / static_cast<double>(width));
  }
  for (Index row = first; row < first + rows; ++row) {
    float* to = table.data<float>() + row * width;
    for (Index t = 0; t < half; ++t) {
      const double angle =
          static_cast<double>((begin + row) * step) * frequencies[static_cast<std::size_t>(t)];
      to[t] = static_cast<float>(std::sin(angle));
      to[half + t] = static_cast<float>(std::cos(angle));
    }
  }
}

void fill_rounded_sinusoids(Tensor& table) {
  const Index width = table.columns();
  const Index half = width / 2;
  const auto step = static_cast<float>(-std::log(10000.0) / static_cast<double>(half - 1));
  std::vector<float> frequencies(static_cast<std::size_t>(half));
  for (Index t = 0; t < half; ++t) {
    const float exponent = static_cast<float>(t) * step;
    frequencies[static_cast<std::size_t>(t)] =
        static_cast<float>(std::exp(static_cast<double>(exponent)));
  }
  for (Index row = 0; row < table.rows(); ++row) {
    float* to = table.data<float>() + row * width;
    for (Index t = 0; t < half; ++t) {
      const float angle = static_cast<float>(row) * frequencies[static_cast<std::size_t>(t)];
      to[t] = std::sin(angle);
      to[half + t] = std::cos(angle);
    }
  }
}

}  // namespace longformer::kernels
