// Attention on a device of OpenCL: an online softmax over tiles of keys in local memory. Memory is
// that of the inputs, the output and one number for each row.
#pragma once

#include <optional>
#include <string>

#include "kernels/attention/attention.h"
#include "kernels/opencl/rows.h"

namespace longformer::kernels {

/// Why the device cannot run the spec; nothing when it can.
std::optional<std::string> why_not_opencl(const AttentionSpec& spec);

/// Like attention(), for a checked spec and fp32 tensors of the right shapes. `narrow`: queries,
/// keys and values were bf16, so the device stores them in fp16 where they are in its range; what
/// is computed stays fp32. Throws Error when there is no OpenCL, no device, or one that cannot run
/// it.
void attention_opencl(const AttentionSpec& spec, const AttentionArguments& in, bool narrow);

/// Like attention_backward(), for a checked spec and fp32 tensors; `narrow` as above. Nothing is
/// added by two work items to one number, so the same bits come out every time.
void attention_backward_opencl(const AttentionSpec& spec, const AttentionBackwardArguments& in,
                               bool narrow);

namespace opencl {

/// Heads of tensors on a device, [H, n, d], and biases by distance where the spec has them, else an
/// empty tensor.
struct DeviceHeads {
  const Tensor& query;
  const Tensor& key;
  const Tensor& value;
  Tensor distance_bias = {};
};
/// Like attention() on tensors of a device. What the kernels need of the rows of the spec is laid
/// down once for all layers of a pass. Throws Error for a spec that the device cannot run. Whoever
/// calls this has the turn of the device.
SoftmaxPart attend(const AttentionSpec& spec, const DeviceHeads& heads);

}  // namespace opencl
}  // namespace longformer::kernels
