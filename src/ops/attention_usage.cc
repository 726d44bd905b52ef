#include "ops/attention_usage.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "core/tape.h"
#include "ops/device.h"
#include "ops/gradients.h"

namespace longformer::ops {
namespace {

/// For every key row of every group the sum of its probabilities over heads and queries: what the
/// backward pass sends to a value when the gradient of all results is 1.
std::vector<std::vector<double>> sums_of_probabilities(const Context& context, const Tensor& query,
                                                       std::span<const KeyGroup> groups) {
  Tape tape;
  Context own = context;
  own.tape = &tape;
  own.dtype = DType::f32;
  std::vector<KeyGroup> constant;
  for (const KeyGroup& group : groups) {
    KeyGroup& copy = constant.emplace_back(group);
    copy.spec.dropout = {};
    copy.key = stop_gradient(group.key.to(DType::f32));
    copy.value = Tensor::zeros(group.value.shape(), DType::f32);
    Tape::track(copy.value);
    if (copy.distance_bias) copy.distance_bias = stop_gradient(*copy.distance_bias);
    if (!copy.relative) continue;
    RelativePositions& relative = *copy.relative;
    relative = {stop_gradient(relative.content_bias), stop_gradient(relative.position_bias),
                stop_gradient(relative.keys.to(DType::f32))};
  }
  const Tensor found = attention_over(own, stop_gradient(query.to(DType::f32)), constant);
  const std::vector<float> ones(static_cast<std::size_t>(found.size()), 1);
  found.gradient()->sum = Tensor::from(ones, found.shape());
  tape.backward();
  std::vector<std::vector<double>> sums;
  for (const KeyGroup& group : constant) {
    const Index heads = group.key.dimension(0), rows = group.key.dimension(1);
    const Index width = group.key.dimension(2);
    const std::vector<float> gradient = group.value.gradient()->sum.to_floats();
    std::vector<double>& of_rows = sums.emplace_back(static_cast<std::size_t>(rows));
    for (Index head = 0; head < heads; ++head) {
      for (Index row = 0; row < rows; ++row) {
        of_rows[static_cast<std::size_t>(row)] +=
            static_cast<double>(gradient[static_cast<std::size_t>((head * rows + row) * width)]);
      }
    }
  }
  return sums;
}

}  // namespace

std::vector<Index> most_used_rows(const Context& context, const Tensor& query,
                                  std::span<const KeyGroup> groups, const UsedRows& rows) {
  refuse_device("most_used_rows", query);
  assert(rows.old <= rows.memory + rows.segment && rows.kept <= rows.old);
  const auto sums = sums_of_probabilities(context, query, groups);
  const std::vector<double>& of_segment = sums.back();
  std::vector<Index> chosen;
  for (Index s = 0; s < rows.streams; ++s) {
    std::vector<double> usage;
    for (Index row = 0; row < rows.old; ++row) {
      const bool is_recent = row < rows.memory;
      const double sum =
          is_recent ? sums[sums.size() - 2][static_cast<std::size_t>(s * rows.memory + row)]
                    : of_segment[static_cast<std::size_t>(s * rows.segment + row - rows.memory)];
      const Index queries = std::min(rows.segment, rows.segment + rows.memory - row);
      usage.push_back(sum / static_cast<double>(queries));
    }
    std::vector<Index> order(usage.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) {
      return usage[static_cast<std::size_t>(a)] > usage[static_cast<std::size_t>(b)];
    });
    order.resize(static_cast<std::size_t>(rows.kept));
    std::sort(order.begin(), order.end());
    for (const Index row : order) chosen.push_back(s * rows.old + row);
  }
  return chosen;
}

}  // namespace longformer::ops
