#include "ops/key_slots.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/tape.h"
#include "kernels/head_rows.h"

namespace longformer::ops {
namespace {

/// Rows that a slot begins with; it doubles when it is full.
constexpr Index kFirstCapacity = 32;

Tensor kept(const Tensor& rows, Index begin, Index count) {
  Tensor result({rows.dimension(0), count, rows.dimension(2)}, rows.dtype());
  kernels::copy_head_rows(rows, begin, result, 0, count);
  return result;
}

}  // namespace

KeySlots::KeySlots(Index heads, Index head_size, Index streams, DType dtype)
    : capacity_(kFirstCapacity),
      keys_(Tensor::zeros({heads, streams * kFirstCapacity, head_size}, dtype)),
      values_(Tensor::zeros({heads, streams * kFirstCapacity, head_size}, dtype)),
      places_(at(streams)) {
  for (Index s = 0; s < streams; ++s) places_[at(s)].slot = s;
}

/// Every stream keeps its slot and its rows.
void KeySlots::make_room(Index slots, Index capacity) {
  if (slots <= this->slots() && capacity <= capacity_) return;
  for (Tensor* all : {&keys_, &values_}) {
    Tensor larger =
        Tensor::zeros({all->dimension(0), slots * capacity, all->dimension(2)}, all->dtype());
    for (const Place& place : places_) {
      kernels::copy_head_rows(*all, place.slot * capacity_, larger, place.slot * capacity,
                              place.count);
    }
    *all = std::move(larger);
  }
  capacity_ = capacity;
}

void KeySlots::put(Index stream, const Tensor& key, const Tensor& value, Index first, Index count) {
  require(!wants_gradient(key) && !wants_gradient(value),
          "key slots: expected keys and values without gradients, found some that want one");
  const Index needed = this->count(stream) + count;
  if (needed > capacity_) make_room(slots(), std::max(needed, 2 * capacity_));
  const Index target = begin(stream) + this->count(stream);
  kernels::copy_head_rows(key, first, keys_, target, count);
  kernels::copy_head_rows(value, first, values_, target, count);
  places_[at(stream)].count = needed;
}

void KeySlots::append(const Tensor& key, const Tensor& value, std::span<const Index> starts) {
  for (Index s = 0; s < streams(); ++s) {
    put(s, key, value, starts[at(s)], starts[at(s + 1)] - starts[at(s)]);
  }
}

void KeySlots::append_to(Index stream, const Tensor& key, const Tensor& value) {
  put(stream, key, value, 0, key.dimension(1));
}

void KeySlots::add(Index streams) {
  std::vector<bool> taken(at(slots()), false);
  for (const Place& place : places_) taken[at(place.slot)] = true;
  make_room(std::max(slots(), this->streams() + streams), capacity_);
  taken.resize(at(slots()), false);
  for (Index s = 0; s < streams; ++s) {
    const auto free = std::find(taken.begin(), taken.end(), false);
    *free = true;
    places_.push_back({.slot = free - taken.begin(), .count = 0});
  }
}

void KeySlots::reorder(std::span<const Index> sources) {
  constexpr Index kNobody = -1;
  std::vector<Index> owners(at(slots()), kNobody);
  std::vector<Place> places;
  // The first that goes on from a stream takes its slot.
  for (std::size_t i = 0; i < sources.size(); ++i) {
    places.push_back(places_[at(sources[i])]);
    Index& owner = owners[at(places[i].slot)];
    if (owner == kNobody) owner = static_cast<Index>(i);
  }
  const std::vector<Place> before = std::exchange(places_, places);
  make_room(std::max(slots(), static_cast<Index>(sources.size())), capacity_);
  owners.resize(at(slots()), kNobody);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const Place from = before[at(sources[i])];
    if (owners[at(from.slot)] == static_cast<Index>(i)) continue;
    const auto free = std::find(owners.begin(), owners.end(), kNobody);
    *free = static_cast<Index>(i);
    places_[i].slot = free - owners.begin();
    for (Tensor* all : {&keys_, &values_}) {
      kernels::copy_head_rows(*all, from.slot * capacity_, *all, places_[i].slot * capacity_,
                              from.count);
    }
  }
}

Tensor KeySlots::kept_keys(Index stream) const { return kept(keys_, begin(stream), count(stream)); }
Tensor KeySlots::kept_values(Index stream) const {
  return kept(values_, begin(stream), count(stream));
}

KeySlots KeySlots::copied() const {
  KeySlots same = *this;
  same.keys_ = keys_.copied();
  same.values_ = values_.copied();
  return same;
}

std::int64_t KeySlots::bytes() const {
  return static_cast<std::int64_t>(keys_.bytes() + values_.bytes());
}

}  // namespace longformer::ops
