// The random rotations that a Reformer hashes with (docs/spec/other-attentions.md#h3), as PyTorch
// draws them on a CPU.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "models/reformer_config.h"
#include "ops/sorted_chunks.h"

namespace longformer::models {

/// torch.manual_seed(seed); torch.randn(shape), fp32 on the CPU: MT19937 and Box–Muller in blocks
/// of sixteen. Equal but for the last bits of sines and logarithms.
Tensor torch_normals(const Shape& shape, std::uint64_t seed);

/// Those of all layers, as they have one seed: each number of buckets has its own, drawn when it is
/// first asked for. Any thread.
class Rotations {
 public:
  struct Size {
    Index heads = 0, head_size = 0, rounds = 1;
    std::uint64_t seed = 0;
  };
  explicit Rotations(const Size& size) : size_(size) {}

  std::shared_ptr<const ops::HashRotations> of(const std::vector<Index>& factors) const;

 private:
  Size size_;
  mutable std::mutex mutex_;
  mutable std::map<std::vector<Index>, std::shared_ptr<const ops::HashRotations>> drawn_;
};

}  // namespace longformer::models
