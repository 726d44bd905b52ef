// The keys and values of a layer that later tokens still see, for text that is read piece by piece
// (spec.md D.4).
#pragma once

#include "core/tensor.h"

namespace longformer::ops {

/// Keeps the last `past` tokens before those that were appended last. A row is moved about once in
/// its life, whatever the length of the text.
class KeyRing {
 public:
  KeyRing(Index heads, Index head_size, Index past, DType dtype);

  /// Key and value [H, q, d] of the next q tokens.
  void append(const Tensor& key, const Tensor& value);

  /// [H, capacity, d]; rows begin() … begin() + count() − 1 hold the tokens, the others numbers
  /// without meaning.
  const Tensor& keys() const { return keys_; }
  const Tensor& values() const { return values_; }
  Index begin() const { return begin_; }
  Index count() const { return count_; }
  Index capacity() const { return keys_.dimension(1); }

 private:
  void make_room(Index kept, Index added);

  Index past_;
  Tensor keys_, values_;
  Index begin_ = 0, count_ = 0;
};

}  // namespace longformer::ops
