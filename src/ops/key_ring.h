// The keys and values of a layer that later tokens still see, for texts that are read piece by
// piece (docs/spec/language-models.md#d4).
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "core/tensor.h"

namespace longformer::ops {

/// Keeps, for each of several streams, the last `past` tokens before those that were appended last.
/// A row is moved about once in its life, whatever the length of the text.
class KeyRing {
 public:
  struct Size {
    Index heads = 0, head_size = 0;
    Index past = 0;
    Index streams = 1;
  };
  KeyRing(const Size& size, DType dtype);

  /// Key and value [H, n, d] of the next tokens: rows starts[s] … starts[s + 1] − 1 are those of
  /// stream s.
  void append(const Tensor& key, const Tensor& value, std::span<const Index> starts);
  /// The first tokens of all streams, of which only the last `past` are kept: for who sees the
  /// others without the ring.
  void begin_with(const Tensor& key, const Tensor& value, std::span<const Index> starts);
  /// The next tokens of one stream alone.
  void append_to(Index stream, const Tensor& key, const Tensor& value);

  /// [H, streams · capacity, d]; rows begin(s) … begin(s) + count(s) − 1 hold the tokens of stream
  /// s, all others numbers without meaning.
  const Tensor& keys() const { return keys_; }
  const Tensor& values() const { return values_; }
  Index begin(Index stream) const { return stream * capacity_ + places_[at(stream)].begin; }
  Index count(Index stream) const { return places_[at(stream)].count; }
  Index streams() const { return static_cast<Index>(places_.size()); }
  /// Tokens of the stream that has most.
  Index most_rows() const {
    Index most = 0;
    for (const Place& place : places_) most = std::max(most, place.count);
    return most;
  }

  /// Forgets all tokens.
  void clear() { std::fill(places_.begin(), places_.end(), Place()); }
  /// Stream i becomes a copy of stream sources[i].
  void reorder(std::span<const Index> sources);
  /// The same tokens in memory of their own: a plain copy has the memory of the first.
  KeyRing copied() const;
  /// Keys and values of each stream in turn, and those tokens in a ring that has none. Throws Error
  /// for tensors of another number, shape or dtype.
  std::vector<Tensor> saved() const;
  void restore(std::span<const Tensor> saved);
  /// The tokens of a stream, [H, count, d]: keys, or values.
  Tensor kept_keys(Index stream) const;
  Tensor kept_values(Index stream) const;
  std::int64_t bytes() const;

 private:
  struct Place {
    Index begin = 0, count = 0;
  };
  struct NewRows {
    const Tensor &key, &value;
    Index first = 0, count = 0;
  };
  void append(Index stream, const NewRows& rows);
  void make_room(Index stream, Index kept, Index added);
  void grow(Index capacity);
  Tensor kept(const Tensor& rows, Index stream) const;

  Size size_;
  Index capacity_;
  Tensor keys_, values_;
  std::vector<Place> places_;
};

}  // namespace longformer::ops
