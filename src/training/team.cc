#include "training/team.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <system_error>
#include <thread>

#include "core/error.h"
#include "core/hash.h"

namespace longformer::training {

namespace {

/// Calls `send`, whose exceptions mean that a rank is lost.
template <typename Send>
void sent(Send&& send) {
  try {
    send();
  } catch (const std::exception& error) {
    throw RankLost(error.what());
  }
}

}  // namespace

void Team::sum(std::span<double> values) const {
  if (size() > 1) sent([&] { ranks_->sum(values); });
}

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
    sent([&] { sum_over(*ranks_, gradient); });
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

bool hold_folder(std::optional<formats::FolderLock>& lock, const std::filesystem::path& folder) {
  constexpr int kTries = 50;
  constexpr std::chrono::milliseconds kPause(100);
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  for (int i = 0; !lock && i < kTries; ++i) {
    if (i > 0) std::this_thread::sleep_for(kPause);
    try {
      lock.emplace(folder, "output_dir");
    } catch (const Error&) {
      continue;
    }
  }
  return lock.has_value();
}

std::uint64_t hash_of(const ParameterSet& parameters) {
  std::uint64_t hash = fnv1a({});
  for (const Parameter& parameter : parameters.items()) hash = hash_of(parameter.value, hash);
  return hash;
}

}  // namespace longformer::training
