#include "ops/value_probes.h"

#include <algorithm>
#include <vector>

#include "ops/device.h"

namespace longformer::ops {
namespace {

/// Component c of row first + c is 1, in every head.
Tensor probe_values(const ValueRows& of, Index first) {
  Tensor values = Tensor::zeros({of.heads, of.rows, of.head_size}, DType::f32);
  auto* const data = values.data<float>();
  const Index count = std::min(of.head_size, of.rows - first);
  for (Index head = 0; head < of.heads; ++head) {
    for (Index c = 0; c < count; ++c) {
      data[(head * of.rows + first + c) * of.head_size + c] = 1;
    }
  }
  return values;
}

/// Copies the columns of a head from [n, H·d] to columns first … of [n, m].
void copy_columns(const Tensor& attended, const ValueRows& of, Index head, Index first,
                  Tensor& probabilities) {
  const Index count = std::min(of.head_size, of.rows - first);
  const auto* from = attended.data<float>() + head * of.head_size;
  auto* to = probabilities.data<float>() + first;
  for (Index row = 0; row < probabilities.rows(); ++row) {
    std::copy_n(from + row * attended.columns(), count, to + row * of.rows);
  }
}

/// Rows first … of values as those of a group, whose document may begin anywhere.
Tensor group_values(const KeyGroup& group, const Tensor& values, Index first) {
  const Index heads = group.key.dimension(0), rows = group.key.dimension(1);
  const Index width = group.key.dimension(2), all = values.dimension(1);
  const auto& document = group.spec.rows->documents[0];
  Tensor own = Tensor::zeros({heads, rows, width}, DType::f32);
  for (Index head = 0; head < heads; ++head) {
    std::copy_n(values.data<float>() + (head * all + first) * width, document.key_count * width,
                own.data<float>() + (head * rows + document.key_begin) * width);
  }
  return own;
}

}  // namespace

Tensor columns_of(const Tensor& matrix, Index first, Index count) {
  Tensor columns({matrix.rows(), count}, DType::f32);
  for (Index row = 0; row < matrix.rows(); ++row) {
    std::copy_n(matrix.data<float>() + row * matrix.columns() + first, count,
                columns.data<float>() + row * count);
  }
  return columns;
}

void probabilities_by_values(const Context& context, const ValueRows& values,
                             std::span<const Index> heads,
                             const std::function<Tensor(const Tensor& values)>& attend,
                             const TakeProbabilities& take) {
  std::vector<Tensor> found(heads.size());
  for (Index first = 0; first < values.rows; first += values.head_size) {
    const Tensor attended = attend(probe_values(values, first).to(context.dtype)).to(DType::f32);
    for (std::size_t i = 0; i < heads.size(); ++i) {
      if (found[i].empty()) found[i] = Tensor({attended.rows(), values.rows}, DType::f32);
      copy_columns(attended, values, heads[i], first, found[i]);
    }
  }
  for (std::size_t i = 0; i < heads.size(); ++i) take(heads[i], std::move(found[i]));
}

void probabilities_over(const Context& context, const Tensor& query,
                        std::span<const KeyGroup> groups, std::span<const Index> heads,
                        const TakeProbabilities& take) {
  refuse_device("probabilities_over", query);
  ValueRows rows = {.heads = query.dimension(0), .head_size = query.dimension(2)};
  for (const KeyGroup& group : groups) rows.rows += group.spec.rows->documents[0].key_count;
  const auto attend = [&](const Tensor& values) {
    const Tensor wide = values.to(DType::f32);
    std::vector<KeyGroup> probed(groups.begin(), groups.end());
    Index first = 0;
    for (KeyGroup& group : probed) {
      group.value = group_values(group, wide, first).to(context.dtype);
      group.spec.dropout = {};
      first += group.spec.rows->documents[0].key_count;
    }
    return attention_over(context, query, probed);
  };
  probabilities_by_values(context, rows, heads, attend, take);
}

}  // namespace longformer::ops
