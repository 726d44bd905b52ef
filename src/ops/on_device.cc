#include "ops/on_device.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <utility>

#include "kernels/attention/global_rows.h"
#include "kernels/opencl/attention.h"
#include "kernels/opencl/pass_data.h"
#include "kernels/opencl/pool.h"
#include "ops/device.h"

namespace longformer::ops::on_device {
namespace {

namespace opencl = kernels::opencl;
using opencl::device_of;
using Turn = std::scoped_lock<std::mutex>;
using Numbers = std::vector<std::int32_t>;

opencl::Norm norm_of(const LayerNorm& norm) {
  return {.weight = norm.weight,
          .shift = norm.bias,
          .offset = norm.gain_offset,
          .epsilon = norm.epsilon,
          .centres = norm.centres};
}

Numbers narrow(std::span<const Index> values) {
  Numbers numbers;
  for (const Index value : values) numbers.push_back(static_cast<std::int32_t>(value));
  return numbers;
}

Tensor uploaded(opencl::Device& device, std::span<const std::int32_t> numbers) {
  return device.pool().uploaded(numbers.data(), {std::ssize(numbers)}, DType::i32);
}

/// A tensor on the device: itself, or a copy of what the host has for this op alone.
Tensor laid(opencl::Device& device, const Tensor& tensor) {
  if (tensor.is_on_device()) return tensor;
  const Tensor wide = tensor.to(DType::f32);
  return device.pool().uploaded(wide.raw(), wide.shape(), DType::f32);
}

/// laid() for a tensor that many passes read: its copy stays.
Tensor mirrored(opencl::Device& device, const Tensor& tensor) {
  if (tensor.empty() || tensor.is_on_device()) return tensor;
  const auto owner = std::make_shared<const Tensor>(tensor);
  const auto key = fmt::format("tensor {} {}", tensor.raw(), to_string(tensor.shape()));
  return *device.pass_data().get<Tensor>(owner, key, [&] { return laid(device, tensor); });
}

/// Tensors below each other, as one of `columns` columns.
Tensor stacked(opencl::Device& device, std::span<const Tensor> parts, Index columns) {
  Index size = 0;
  for (const Tensor& part : parts) size += part.size();
  Tensor all = device.pool().tensor({size / columns, columns});
  Index begin = 0;
  for (const Tensor& part : parts) {
    opencl::copy_elements(part, all, begin);
    begin += part.size();
  }
  return all;
}

/// dense(x) before bias and activation.
Tensor product(const Tensor& x, const Dense& dense) { return opencl::multiply(x, dense.matrix); }

}  // namespace

std::shared_ptr<const Dense> dense_of(std::span<const Tensor> weights,
                                      std::span<const Tensor> biases) {
  opencl::Device& device = device_of(weights[0]);
  const Turn turn(device.turn);
  const Index in = weights[0].columns();
  const auto below = [&](std::span<const Tensor> parts, Index columns) {
    return parts.size() == 1 ? opencl::whole(parts[0]) : stacked(device, parts, columns);
  };
  Dense dense;
  dense.matrix = opencl::matrix_of_weights(below(weights, in));
  if (!biases.empty()) dense.bias = below(biases, 1);
  return std::make_shared<const Dense>(std::move(dense));
}

Tensor linear(const Tensor& x, const Linear& layer) {
  const Dense& dense = *layer.on_device();
  opencl::Device& device = device_of(dense.matrix.numbers);
  const Turn turn(device.turn);
  // Rows of the host are few: those that heads read of some texts.
  Tensor y = product(laid(device, x), dense);
  opencl::finish(y, {.bias = dense.bias, .activation = layer.activation()});
  return y;
}

std::vector<Tensor> project_heads(const Tensor& x, const Linear& projections, Index heads,
                                  Index head_size) {
  const Dense& dense = *projections.on_device();
  const Turn turn(device_of(x).turn);
  const Tensor stacked = product(x, dense);
  const Index width = heads * head_size;
  std::vector<Tensor> projected;
  for (Index first = 0; first < dense.matrix.out; first += width) {
    projected.push_back(opencl::split_heads(
        stacked, dense.bias, {.heads = heads, .head_size = head_size, .first = first}));
  }
  return projected;
}

Tensor linear_add_norm(const Tensor& x, const Linear& layer, const Tensor& residual,
                       const LayerNorm& norm) {
  const Dense& dense = *layer.on_device();
  const Turn turn(device_of(x).turn);
  return opencl::normalise(product(x, dense), dense.bias, residual, norm_of(norm));
}

Tensor linear_add(const Tensor& x, const Linear& layer, const Tensor& residual) {
  const Dense& dense = *layer.on_device();
  const Turn turn(device_of(x).turn);
  Tensor y = product(x, dense);
  opencl::finish(y, {.bias = dense.bias, .residual = residual});
  return y;
}

Tensor add(const Tensor& x, const Tensor& residual) {
  opencl::Device& device = device_of(x);
  const Turn turn(device.turn);
  Tensor y = device.pool().tensor(x.shape());
  opencl::copy_elements(x, y, 0);
  opencl::finish(y, {.residual = laid(device, residual)});
  return y;
}

Tensor layer_norm(const Tensor& x, const LayerNorm& norm) {
  const Turn turn(device_of(x).turn);
  return opencl::normalise(x, {}, {}, norm_of(norm));
}

Tensor feed_forward(const Tensor& x, const FeedForward& block, const Tensor& residual,
                    const LayerNorm* norm) {
  const Dense &up = *block.up.on_device(), &down = *block.down.on_device();
  opencl::Device& device = device_of(x);
  const Turn turn(device.turn);
  Tensor wide = product(x, up);
  if (block.gate) {
    wide = opencl::gate(wide, {.activation = block.gate->activation,
                               .activates_second = block.gate->activates_second,
                               .bias = up.bias});
  } else {
    opencl::finish(wide, {.bias = up.bias, .activation = block.up.activation()});
  }
  Tensor y = product(wide, down);
  const Tensor there = laid(device, residual);
  if (norm != nullptr) return opencl::normalise(y, down.bias, there, norm_of(*norm));
  opencl::finish(y, {.bias = down.bias, .residual = there});
  return y;
}

Tensor embed(const EmbeddingTables& tables, const EmbeddingRows& rows) {
  require(rows.given.empty(),
          "embeddings that are given: expected a model on the CPU, found one on a device");
  opencl::Device& device = device_of(tables.words);
  const Turn turn(device.turn);
  opencl::EmbeddedRows looked_up = {.words = tables.words,
                                    .types = mirrored(device, tables.types),
                                    .positions = mirrored(device, tables.positions),
                                    .word_rows = uploaded(device, rows.words),
                                    .type_rows = {},
                                    .position_rows = {},
                                    .scale = tables.word_scale};
  if (!tables.types.empty()) looked_up.type_rows = uploaded(device, rows.types);
  if (!tables.positions.empty()) looked_up.position_rows = uploaded(device, rows.positions);
  const Tensor sums = opencl::embed(looked_up);
  if (tables.norm.weight.empty()) return sums;
  return opencl::normalise(sums, {}, {}, norm_of(tables.norm));
}

Tensor select_rows(const Tensor& x, std::span<const Index> rows) {
  opencl::Device& device = device_of(x);
  const Turn turn(device.turn);
  return opencl::select_rows(x, uploaded(device, narrow(rows)));
}

Tensor joined_rows(std::span<const Tensor> parts) {
  opencl::Device& device = device_of(parts[0]);
  const Turn turn(device.turn);
  return stacked(device, parts, parts[0].columns());
}

Tensor fold_rows(const Tensor& x, std::span<const RowRange> ranges, opencl::Fold how) {
  opencl::Device& device = device_of(x);
  const Turn turn(device.turn);
  Numbers ends;
  for (const RowRange& range : ranges) {
    ends.push_back(static_cast<std::int32_t>(range.begin));
    ends.push_back(static_cast<std::int32_t>(range.end));
  }
  return opencl::fold_rows(x, uploaded(device, ends), how);
}

void copy_rows(const Tensor& x, std::span<const RowRange> ranges, Tensor& to) {
  Index next = 0;
  for (const RowRange& range : ranges) {
    const Tensor part = x.slice_rows(range.begin, range.end - range.begin);
    part.copy_to({to.data<float>() + next, static_cast<std::size_t>(part.size())});
    next += part.size();
  }
}

Tensor lowered_rows(const Tensor& x, std::span<const RowRange> ranges, float amount) {
  opencl::Device& device = device_of(x);
  const Turn turn(device.turn);
  Numbers marks(static_cast<std::size_t>(x.rows()));
  for (const RowRange& range : ranges) {
    std::fill(marks.begin() + range.begin, marks.begin() + range.end, 1);
  }
  return opencl::lower_rows(x, uploaded(device, marks), amount);
}

Tensor unit_rows(const Tensor& x) {
  const Turn turn(device_of(x).turn);
  return opencl::unit_rows(x);
}

Tensor take_heads(const Tensor& x, std::span<const Index> heads) {
  opencl::Device& device = device_of(x);
  const Turn turn(device.turn);
  return opencl::take_heads(x, uploaded(device, narrow(heads)));
}

Tensor rotate(const Tensor& x, const std::shared_ptr<const Rotation>& rotation) {
  opencl::Device& device = device_of(x);
  const Turn turn(device.turn);
  const auto places =
      device.pass_data().get<Tensor>(rotation, fmt::format("places {}", fmt::ptr(rotation.get())),
                                     [&] { return uploaded(device, narrow(rotation->places)); });
  return opencl::rotate(x, {.table = mirrored(device, rotation->table),
                            .places = *places,
                            .pairs_neighbours = rotation->pairs_neighbours});
}

Tensor attention_over(const Tensor& query, std::span<const KeyGroup> groups,
                      std::span<const EdgeGroup> edges) {
  require(edges.empty(), "edges: expected a model on the CPU, found one on a device");
  opencl::Device& device = device_of(query);
  const Turn turn(device.turn);
  std::optional<opencl::SoftmaxPart> all;
  for (const KeyGroup& group : groups) {
    require(!group.relative && !group.distance_keys,
            "relative positions: expected a model on the CPU, found one on a device, which has no "
            "such attention");
    opencl::SoftmaxPart part = opencl::attend(
        group.spec, {.query = query,
                     .key = group.key,
                     .value = group.value,
                     .distance_bias = mirrored(device, group.distance_bias.value_or(Tensor()))});
    if (groups.size() > 1 && group.spec.log_weight != 0) {
      part.logsumexp = opencl::lower_rows(part.logsumexp, {}, -group.spec.log_weight);
    }
    all = all ? opencl::merged(*all, part) : std::move(part);
  }
  return all->out;
}

void global_attention(const AttentionSpec& spec, const GlobalProjections& projections,
                      const Tensor& x, Tensor& attended) {
  const std::vector<kernels::GlobalRows> documents = kernels::documents_with_globals(spec);
  if (documents.empty()) return;
  require(projections.query_addition.a.empty() && projections.key_addition.a.empty() &&
              projections.value_addition.a.empty(),
          "projections of global tokens: expected no adapter that is kept apart on a device");
  opencl::Device& device = device_of(x);
  const Turn turn(device.turn);
  /// The list of global rows and the mask of a batch, for all layers.
  struct Rows {
    Tensor globals, mask;
  };
  const auto rows = device.pass_data().get<Rows>(
      spec.rows, fmt::format("globals {}", fmt::ptr(spec.rows.get())), [&] {
        const auto& mask = spec.rows->key_mask;
        Rows made = {.globals = uploaded(device, narrow(spec.rows->global_keys)), .mask = {}};
        if (mask.empty()) return made;
        made.mask = device.pool().uploaded(mask.data(), {std::ssize(mask)}, DType::u8);
        return made;
      });
  const opencl::GlobalWeights weights = {.query = projections.query_weight,
                                         .query_bias = projections.query_bias,
                                         .key = projections.key_weight,
                                         .value = projections.value_weight,
                                         .value_bias = projections.value_bias};
  Index first = 0;
  for (const kernels::GlobalRows& document : documents) {
    // The list is that of all documents, in their order.
    while (spec.rows->global_keys[static_cast<std::size_t>(first)] != document.rows[0]) ++first;
    opencl::attend_globally(x, weights,
                            {.rows = rows->globals,
                             .first = first,
                             .count = document.count(),
                             .key_begin = document.document.key_begin,
                             .key_count = document.document.key_count,
                             .mask = rows->mask,
                             .head_size = spec.head_size},
                            attended);
  }
}

}  // namespace longformer::ops::on_device
