#include "engine/frame/epoch_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/random.h"

namespace longformer::engine {

std::vector<Index> shuffled(Index count, std::uint64_t seed) {
  std::vector<Index> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), Index{0});
  for (Index i = count - 1; i > 0; --i) {
    const auto at = static_cast<std::uint64_t>(i);
    std::swap(order[at], order[random_bits(seed, at) % (at + 1)]);
  }
  return order;
}

std::vector<Index> shuffled_by_length(std::span<const Index> lengths, Index batch,
                                      std::uint64_t seed) {
  constexpr Index kBatches = 50;
  std::vector<Index> order = shuffled(static_cast<Index>(lengths.size()), seed);
  const auto longer = [&](Index a, Index b) {
    return lengths[static_cast<std::size_t>(a)] > lengths[static_cast<std::size_t>(b)];
  };
  const Index group = kBatches * batch;
  for (Index begin = 0; begin < static_cast<Index>(order.size()); begin += group) {
    const auto end = std::min(begin + group, static_cast<Index>(order.size()));
    std::stable_sort(order.begin() + begin, order.begin() + end, longer);
  }
  // The first micro-batch needs the most memory of all: what does not fit fails at once.
  const auto longest = std::min_element(order.begin(), order.end(), longer);
  if (longest != order.end()) std::iter_swap(order.begin(), longest);
  return order;
}

}  // namespace longformer::engine
