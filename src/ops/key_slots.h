// The keys and values of all tokens that several streams have read, for decoders that write token
// by token.
#pragma once

#include <span>
#include <vector>

#include "core/tensor.h"

namespace longformer::ops {

/// Each stream has a slot of rows. Reordering streams moves no rows but those of a stream that goes
/// on as several.
class KeySlots {
 public:
  KeySlots(Index heads, Index head_size, Index streams, DType dtype);

  /// Key and value [H, n, d] of the next tokens: rows starts[s] … starts[s + 1] − 1 are those of
  /// stream s.
  void append(const Tensor& key, const Tensor& value, std::span<const Index> starts);
  /// The next tokens of one stream alone.
  void append_to(Index stream, const Tensor& key, const Tensor& value);

  /// [H, slots · capacity, d]; rows begin(s) … begin(s) + count(s) − 1 hold the tokens of stream s,
  /// all others numbers without meaning.
  const Tensor& keys() const { return keys_; }
  const Tensor& values() const { return values_; }
  Index begin(Index stream) const { return places_[at(stream)].slot * capacity_; }
  Index count(Index stream) const { return places_[at(stream)].count; }
  Index streams() const { return static_cast<Index>(places_.size()); }

  /// Streams behind the others, which have no tokens.
  void add(Index streams);
  /// Stream i becomes a copy of stream sources[i].
  void reorder(std::span<const Index> sources);
  /// The tokens of a stream, [H, count, d]: keys, or values.
  Tensor kept_keys(Index stream) const;
  Tensor kept_values(Index stream) const;
  /// The same tokens in memory of their own.
  KeySlots copied() const;
  std::int64_t bytes() const;

 private:
  struct Place {
    Index slot = 0, count = 0;
  };
  void make_room(Index slots, Index capacity);
  void put(Index stream, const Tensor& key, const Tensor& value, Index first, Index count);
  Index slots() const { return capacity_ == 0 ? 0 : keys_.dimension(1) / capacity_; }

  Index capacity_ = 0;
  Tensor keys_, values_;
  std::vector<Place> places_;
};

}  // namespace longformer::ops
