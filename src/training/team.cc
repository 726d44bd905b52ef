#include "training/team.h"

#include <algorithm>
#include <exception>
#include <string>

#include "core/error.h"
#include "core/hash.h"

namespace longformer::training {

template <typename Number>
void Team::sum_all(std::span<Number> values) const {
  if (size() == 1 || values.empty()) return;
  try {
    ranks_->sum(values);
  } catch (const std::exception& error) {
    throw RankLost(error.what());
  }
}

void Team::sum(std::span<double> values) const { sum_all(values); }

void Team::sum_gradients(ParameterSet& parameters) const {
  if (size() == 1) return;
  // A parameter may be used by some ranks only, or by none.
  std::vector<double> users;
  for (const Parameter& parameter : parameters.items()) {
    users.push_back(parameter.has_gradient() ? 1 : 0);
  }
  sum(users);
  for (std::size_t i = 0; i < users.size(); ++i) {
    if (users[i] == 0) continue;
    const Tensor& value = parameters.items()[i].value;
    Tensor& gradient = value.gradient()->sum;
    if (gradient.empty()) gradient = Tensor::zeros(value.shape(), DType::f32);
    sum_all(std::span(gradient.data<float>(), static_cast<std::size_t>(gradient.size())));
  }
}

void Team::follow(std::span<double> values) const {
  if (!leads()) std::ranges::fill(values, 0.0);
  sum(values);
}

void Team::check_same(std::uint64_t number, std::string_view what) const {
  if (size() == 1) return;
  // A double holds 53 bits exactly.
  constexpr int kLostBits = 11;
  std::vector<double> numbers(static_cast<std::size_t>(size()), 0.0);
  numbers[static_cast<std::size_t>(rank())] = static_cast<double>(number >> kLostBits);
  sum(numbers);
  for (std::size_t other = 1; other < numbers.size(); ++other) {
    require(numbers[other] == numbers[0],
            "ranks: expected {} in all of them, found others in rank {}", what, other);
  }
}

std::uint64_t hash_of(const ParameterSet& parameters) {
  std::uint64_t hash = fnv1a({});
  for (const Parameter& parameter : parameters.items()) {
    const Tensor& value = parameter.value;
    const auto bytes = static_cast<std::size_t>(value.size()) * sizeof(float);
    hash = fnv1a({reinterpret_cast<const char*>(value.data<float>()), bytes}, hash);
  }
  return hash;
}

}  // namespace longformer::training
