#include "ops/attention_shares.h"

#include <algorithm>

#include "core/error.h"
#include "ops/device.h"

namespace longformer::ops {
namespace {

/// Values of a group whose component c is 1 in the rows of part first + c of all parts of all
/// groups, and else 0: attention to them sums the probabilities of each part.
Tensor part_indicators(const KeyGroup& group, Index number, Index size, Index first) {
  const Index heads = group.key.dimension(0), rows = group.key.dimension(1);
  const Index width = group.key.dimension(2);
  Tensor values = Tensor::zeros({heads, rows, width}, DType::f32);
  auto* const data = values.data<float>();
  const Index part_rows = size / kAges;
  for (const auto& document : group.spec.rows->documents) {
    for (Index place = 0; place < document.key_count; ++place) {
      const Index part = part_rows == 0 ? kAges - 1 : std::min(kAges - 1, place / part_rows);
      const Index component = number * kAges + part - first;
      if (component < 0 || component >= width) continue;
      for (Index head = 0; head < heads; ++head) {
        data[(head * rows + document.key_begin + place) * width + component] = 1;
      }
    }
  }
  return values;
}

}  // namespace

std::vector<AgeShares> attention_shares(const Context& context, const Tensor& query,
                                        std::span<const KeyGroup> groups,
                                        std::span<const Index> sizes) {
  refuse_device("attention_shares", query);
  require(groups.size() == sizes.size(), "attention shares: expected {} sizes, found {}",
          groups.size(), sizes.size());
  Context quiet = context;
  quiet.tape = nullptr;
  quiet.dtype = DType::f32;
  // A share is a sum over all rows: bf16 would round what a row gives to two digits.
  std::vector<KeyGroup> indicated(groups.begin(), groups.end());
  for (KeyGroup& group : indicated) {
    group.key = group.key.to(DType::f32);
    group.spec.dropout = {};
    if (group.relative) group.relative->keys = group.relative->keys.to(DType::f32);
  }
  const Tensor wide = query.to(DType::f32);
  const Index parts = std::ssize(groups) * kAges, width = query.dimension(2);
  const double rows = static_cast<double>(query.dimension(0) * query.dimension(1));
  std::vector<AgeShares> shares(groups.size(), AgeShares{});
  for (Index first = 0; first < parts; first += width) {
    for (std::size_t group = 0; group < groups.size(); ++group) {
      indicated[group].value =
          part_indicators(groups[group], static_cast<Index>(group), sizes[group], first);
    }
    const std::vector<float> sums = attention_over(quiet, wide, indicated).to_floats();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const Index part = first + static_cast<Index>(i) % width;
      if (part >= parts) continue;
      shares[static_cast<std::size_t>(part / kAges)][static_cast<std::size_t>(part % kAges)] +=
          static_cast<double>(sums[i]) / rows;
    }
  }
  return shares;
}

}  // namespace longformer::ops
