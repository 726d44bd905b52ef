#include "kernels/attention/distance_bias.h"

#include <cmath>
#include <limits>

namespace longformer::kernels {
namespace {

/// How many numbers from the first on follow each other, where all others are the last of these, as
/// in tiles that are not full; else 0.
Index run_of(std::span<const Index> numbers) {
  std::size_t run = 1;
  while (run < numbers.size() && numbers[run] == numbers[run - 1] + 1) ++run;
  const auto rest = numbers.subspan(run);
  const bool repeats = std::all_of(rest.begin(), rest.end(),
                                   [&](Index number) { return number == numbers[run - 1]; });
  return repeats ? static_cast<Index>(run) : 0;
}

}  // namespace

HeadBiases::HeadBiases(const Tensor* biases, Index head) {
  if (biases == nullptr) return;
  reach = biases->dimension(1) / 2;
  centre = biases->data<float>() + head * biases->dimension(1) + reach;
}

DistanceBias::DistanceBias(const Tensor& biases, Index lanes)
    : lanes_(lanes), reach_(biases.dimension(1) / 2) {
  row_.resize(static_cast<std::size_t>(2 * (reach_ + lanes) + 1));
  sums_.resize(row_.size(), 0.0f);
}

void DistanceBias::start_head(const Tensor& biases, Index head, Index dilation, float factor) {
  dilation_ = dilation;
  steps_ = divide_up(reach_, dilation);
  const float* from = biases.data<float>() + head * biases.dimension(1);
  for (Index i = 0; i < places(); ++i) {
    const float bias = factor * from[column(i)];
    // Pairs of bf16 would make a zero of other NaN.
    row_[i] = std::isnan(bias) ? std::numeric_limits<float>::quiet_NaN() : bias;
  }
}

void DistanceBias::scores(std::span<const Index> queries, std::span<const Index> keys, Range range,
                          float* added) const {
  const Index run = run_of(queries);
  for (Index key = range.begin; key < range.end; ++key) {
    float* to = added + key * lanes_;
    if (run > 0) {
      std::copy_n(row_.data() + first_place(queries.front() - keys[key]), run, to);
      std::fill(to + run, to + lanes_, to[run - 1]);
      continue;
    }
    for (Index lane = 0; lane < lanes_; ++lane) {
      to[lane] = row_[place(std::clamp(queries[lane] - keys[key], -steps_, steps_))];
    }
  }
}

template <typename Number>
void DistanceBias::send_back(std::span<const Index> queries, std::span<const Index> keys,
                             Range range, const Number* weights) {
  const Index run = run_of(queries);
  for (Index key = range.begin; key < range.end; ++key, weights += lanes_) {
    if (run > 0) {
      // Lanes behind the last query have no gradient.
      float* to = sums_.data() + first_place(queries.front() - keys[key]);
      for (Index lane = 0; lane < run; ++lane) to[lane] += static_cast<float>(weights[lane]);
      continue;
    }
    for (Index lane = 0; lane < lanes_; ++lane) {
      sums_[place(std::clamp(queries[lane] - keys[key], -steps_, steps_))] +=
          static_cast<float>(weights[lane]);
    }
  }
}

template void DistanceBias::send_back(std::span<const Index>, std::span<const Index>, Range,
                                      const float*);
template void DistanceBias::send_back(std::span<const Index>, std::span<const Index>, Range,
                                      const BFloat16*);

void DistanceBias::finish(std::span<double> gradient) {
  for (Index i = 0; i < places(); ++i) gradient[column(i)] += static_cast<double>(sums_[i]);
  std::fill(sums_.begin(), sums_.end(), 0.0f);
}

}  // namespace longformer::kernels
