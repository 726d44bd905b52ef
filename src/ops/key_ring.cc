#include "ops/key_ring.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/tape.h"
#include "kernels/head_rows.h"

namespace longformer::ops {
namespace {

/// Rows of a stream for which there is room before any has come: of dense attention nobody knows
/// how many will.
constexpr Index kFirstRows = 4096;

}  // namespace

KeyRing::KeyRing(const Size& size, DType dtype)
    : size_(size),
      capacity_(std::min(2 * size.past, kFirstRows) + 1),
      keys_(Tensor::zeros({size.heads, size.streams * capacity_, size.head_size}, dtype)),
      values_(Tensor::zeros({size.heads, size.streams * capacity_, size.head_size}, dtype)),
      places_(at(size.streams)) {}

/// Every stream keeps its rows, at the beginning of a larger section.
void KeyRing::grow(Index capacity) {
  for (Tensor* ring : {&keys_, &values_}) {
    Tensor larger =
        Tensor::zeros({size_.heads, streams() * capacity, size_.head_size}, ring->dtype());
    for (Index s = 0; s < streams(); ++s) {
      kernels::copy_head_rows(*ring, begin(s), larger, s * capacity, count(s));
    }
    *ring = larger;
  }
  for (Place& place : places_) place.begin = 0;
  capacity_ = capacity;
}

/// Lets go of all but the last `kept` tokens and makes room behind them.
void KeyRing::make_room(Index stream, Index kept, Index added) {
  Place& place = places_[at(stream)];
  place.begin += place.count - kept;
  place.count = kept;
  if (place.begin + kept + added <= capacity_) return;
  const Index needed = kept + added;
  // A part of it stays free, so that the next move is far away; of a text that is kept whole half
  // as much as there is, as fresh pages cost as much as a layer of attention.
  if (needed > capacity_) return grow(needed + std::min(size_.past, needed / 2));
  for (Tensor* ring : {&keys_, &values_}) {
    kernels::copy_head_rows(*ring, begin(stream), *ring, stream * capacity_, kept);
  }
  place.begin = 0;
}

void KeyRing::append(Index stream, const NewRows& rows) {
  require(!wants_gradient(rows.key) && !wants_gradient(rows.value),
          "key ring: expected keys and values without gradients, found some that want one");
  make_room(stream, std::min(size_.past, count(stream)), rows.count);
  const Index target = begin(stream) + count(stream);
  kernels::copy_head_rows(rows.key, rows.first, keys_, target, rows.count);
  kernels::copy_head_rows(rows.value, rows.first, values_, target, rows.count);
  places_[at(stream)].count += rows.count;
}

void KeyRing::append(const Tensor& key, const Tensor& value, std::span<const Index> starts) {
  for (Index s = 0; s < streams(); ++s) {
    append(s, {key, value, starts[at(s)], starts[at(s + 1)] - starts[at(s)]});
  }
}

void KeyRing::begin_with(const Tensor& key, const Tensor& value, std::span<const Index> starts) {
  clear();
  for (Index s = 0; s < streams(); ++s) {
    const Index end = starts[at(s + 1)], kept = std::min(end - starts[at(s)], size_.past);
    append(s, {key, value, end - kept, kept});
  }
}

void KeyRing::append_to(Index stream, const Tensor& key, const Tensor& value) {
  append(stream, {key, value, 0, key.dimension(1)});
}

void KeyRing::reorder(std::span<const Index> sources) {
  const auto streams = static_cast<Index>(sources.size());
  std::vector<Place> places;
  for (const Index source : sources) places.push_back({0, count(source)});
  for (Tensor* ring : {&keys_, &values_}) {
    Tensor ordered =
        Tensor::zeros({size_.heads, streams * capacity_, size_.head_size}, ring->dtype());
    for (Index s = 0; s < streams; ++s) {
      const Index source = sources[at(s)];
      kernels::copy_head_rows(*ring, begin(source), ordered, s * capacity_, count(source));
    }
    *ring = ordered;
  }
  places_ = std::move(places);
}

KeyRing KeyRing::copied() const {
  KeyRing same = *this;
  std::vector<Index> all(at(streams()));
  std::iota(all.begin(), all.end(), 0);
  same.reorder(all);
  return same;
}

std::vector<Tensor> KeyRing::saved() const {
  std::vector<Tensor> tensors;
  for (Index s = 0; s < streams(); ++s) {
    tensors.push_back(kept_keys(s));
    tensors.push_back(kept_values(s));
  }
  return tensors;
}

void KeyRing::restore(std::span<const Tensor> saved) {
  require(std::ssize(saved) == 2 * streams(),
          "state: expected keys and values of {} streams, found {} tensors", streams(),
          saved.size());
  const Shape& own = keys_.shape();
  for (Index s = 0; s < streams(); ++s) {
    const Tensor &key = saved[at(2 * s)], &value = saved[at(2 * s + 1)];
    const bool fits = key.shape() == value.shape() && key.shape().size() == 3 &&
                      key.dimension(0) == own[0] && key.dimension(2) == own[2] &&
                      key.dtype() == keys_.dtype() && value.dtype() == key.dtype();
    require(fits, "state: expected keys and values [{}, n, {}] of {}, found {} of {}", own[0],
            own[2], name_of(keys_.dtype()), to_string(key.shape()), name_of(key.dtype()));
    append_to(s, key, value);
  }
}

Tensor KeyRing::kept(const Tensor& rows, Index stream) const {
  Tensor result({size_.heads, count(stream), size_.head_size}, rows.dtype());
  kernels::copy_head_rows(rows, begin(stream), result, 0, count(stream));
  return result;
}

Tensor KeyRing::kept_keys(Index stream) const { return kept(keys_, stream); }
Tensor KeyRing::kept_values(Index stream) const { return kept(values_, stream); }

std::int64_t KeyRing::bytes() const {
  return static_cast<std::int64_t>(keys_.bytes() + values_.bytes());
}

}  // namespace longformer::ops
