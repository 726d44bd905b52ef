#include "ops/key_ring.h"

#include <algorithm>

#include "core/error.h"
#include "core/tape.h"
#include "kernels/head_rows.h"

namespace longformer::ops {
KeyRing::KeyRing(Index heads, Index head_size, Index past, DType dtype)
    : past_(past),
      keys_(Tensor::zeros({heads, 2 * past + 1, head_size}, dtype)),
      values_(Tensor::zeros({heads, 2 * past + 1, head_size}, dtype)) {}

void KeyRing::make_room(Index kept, Index added) {
  const Index first = begin_ + count_ - kept;
  if (first + kept + added <= capacity()) {
    begin_ = first;
    return;
  }
  // Half of it stays free, so that the next move is far away.
  const bool grows = kept + added > capacity();
  const Shape larger = {keys_.dimension(0), 2 * past_ + added, keys_.dimension(2)};
  for (Tensor* ring : {&keys_, &values_}) {
    Tensor target = grows ? Tensor::zeros(larger, ring->dtype()) : *ring;
    kernels::copy_head_rows(*ring, first, target, 0, kept);
    *ring = target;
  }
  begin_ = 0;
}

void KeyRing::append(const Tensor& key, const Tensor& value) {
  require(!wants_gradient(key) && !wants_gradient(value),
          "key ring: expected keys and values without gradients, found some that want one");
  const Index added = key.dimension(1);
  const Index kept = std::min(past_, count_);
  make_room(kept, added);
  kernels::copy_head_rows(key, 0, keys_, begin_ + kept, added);
  kernels::copy_head_rows(value, 0, values_, begin_ + kept, added);
  count_ = kept + added;
}

}  // namespace longformer::ops
