// Inputs and results of attention in the memory of a device.
#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <span>
#include <vector>

#include "core/error.h"
#include "kernels/opencl/attention_plan.h"
#include "kernels/opencl/device.h"

namespace longformer::kernels::opencl {

inline Buffer buffer_of(Device& device, const Tensor& tensor) {
  return {device, tensor.empty() ? nullptr : tensor.raw(), tensor.empty() ? 0 : tensor.bytes()};
}

inline Buffer result_of(Device& device, Tensor& tensor) {
  return Buffer::result(device, tensor.empty() ? nullptr : tensor.data<float>(),
                        static_cast<std::size_t>(tensor.size()) * sizeof(float));
}

template <typename Value>
Buffer buffer_of(Device& device, const std::vector<Value>& values) {
  return {device, values.data(), values.size() * sizeof(Value)};
}

/// Rows of a head size with zeros behind them; none without a tensor.
inline std::vector<float> padded(const Tensor* from, Index head_size, Index dims) {
  if (from == nullptr || from->empty()) return {};
  const Index rows = from->size() / head_size;
  std::vector<float> to(at(rows * dims));
  for (Index row = 0; row < rows; ++row) {
    std::copy_n(from->data<float>() + row * head_size, head_size, to.data() + row * dims);
  }
  return to;
}

/// Whether fp16 has the range of these numbers. Of numbers that were bf16 it has all digits from
/// 2^-17 on; smaller ones are rounded by 2^-25 at most.
inline bool fits_half(const Tensor& tensor) {
  constexpr float kMost = 65504;
  const std::span numbers(tensor.data<float>(), at(tensor.size()));
  return std::ranges::all_of(numbers,
                             [](float x) { return !(std::abs(x) > kMost) || std::isinf(x); });
}

/// How many bytes queries, keys and values have on the device.
struct StoredHeads {
  /// `narrow`: they were 16-bit numbers, and become fp16 where they fit.
  StoredHeads(const AttentionInputs& in, bool narrow)
      : half(narrow && fits_half(in.query) && fits_half(in.key) && fits_half(in.value)),
        query(in.query.to(dtype())),
        key(in.key.to(dtype())),
        value(in.value.to(dtype())) {}

  DType dtype() const { return half ? DType::f16 : DType::f32; }

  bool half;
  Tensor query, key, value;
};

/// Inputs of a call in the memory of the device.
struct DeviceInputs {
  DeviceInputs(Device& device, const AttentionPlan& plan, const AttentionInputs& in,
               const StoredHeads& stored)
      : relative_rows(padded(in.relative != nullptr ? &in.relative->keys : nullptr,
                             plan.spec.head_size, plan.tiles.dims)),
        content_rows(padded(in.relative != nullptr ? &in.relative->content_bias : nullptr,
                            plan.spec.head_size, plan.tiles.dims)),
        position_rows(padded(in.relative != nullptr ? &in.relative->position_bias : nullptr,
                             plan.spec.head_size, plan.tiles.dims)),
        heads(buffer_of(device, plan.heads)),
        rows(buffer_of(device, plan.rows)),
        listed(buffer_of(device, plan.listed)),
        kinds(buffer_of(device, plan.kinds)),
        global_keys(buffer_of(device, plan.global_keys)),
        query(buffer_of(device, stored.query)),
        key(buffer_of(device, stored.key)),
        value(buffer_of(device, stored.value)),
        biases(buffer_of(device, in.distance_bias != nullptr ? *in.distance_bias : Tensor())),
        relative(buffer_of(device, relative_rows)),
        content_bias(buffer_of(device, content_rows)),
        position_bias(buffer_of(device, position_rows)) {}

  std::vector<float> relative_rows, content_rows, position_rows;
  Buffer heads, rows, listed, kinds, global_keys, query, key, value, biases, relative, content_bias,
      position_bias;
};

/// Throws Error when inputs and results do not fit into the memory of the device.
inline void check_memory(const Device& device, std::initializer_list<const Tensor*> tensors) {
  std::size_t bytes = 0;
  for (const Tensor* tensor : tensors) {
    if (tensor != nullptr) bytes += tensor->bytes();
  }
  const DeviceFacts& facts = device.facts();
  require(bytes <= facts.memory, "opencl: {}: out of memory: expected at most {} MiB, found {}",
          facts.name, facts.memory >> 20, bytes >> 20);
}

}  // namespace longformer::kernels::opencl
