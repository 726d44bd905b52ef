#include "kernels/attention/key_kinds.h"

#include <algorithm>

namespace longformer::kernels {

KindTerm::KindTerm(const Tensor& scores, std::span<const std::uint8_t> kinds, Index lanes,
                   Index keys)
    : scores_(scores),
      kinds_of_rows_(kinds),
      lanes_(lanes),
      kinds_(scores.dimension(2)),
      rows_(at(lanes)),
      chunk_(at(keys)),
      tile_(at(kinds_ * lanes)) {}

void KindTerm::add_scores(Index head, Range keys, float factor, float* added) {
  for (Index lane = 0; lane < lanes_; ++lane) {
    const float* from = scores_.data<float>() + of_query(head, lane);
    for (Index kind = 0; kind < kinds_; ++kind) {
      tile_[at(kind * lanes_ + lane)] = factor * from[kind];
    }
  }
  for (Index key = keys.begin; key < keys.end; ++key) {
    if (chunk_[at(key)] == RowPlaces::kNoKind) continue;
    const float* from = tile_.data() + Index{chunk_[at(key)]} * lanes_;
    float* to = added + key * lanes_;
    for (Index lane = 0; lane < lanes_; ++lane) to[lane] += from[lane];
  }
}

template <typename Number>
void KindTerm::send_back(Index head, Range keys, const Number* weights, Tensor& gradient) {
  std::fill(tile_.begin(), tile_.end(), 0.0f);
  for (Index key = keys.begin; key < keys.end; ++key, weights += lanes_) {
    if (chunk_[at(key)] == RowPlaces::kNoKind) continue;
    float* to = tile_.data() + Index{chunk_[at(key)]} * lanes_;
    for (Index lane = 0; lane < lanes_; ++lane) to[lane] += static_cast<float>(weights[lane]);
  }
  for (Index lane = 0; lane < lanes_; ++lane) {
    float* to = gradient.data<float>() + of_query(head, lane);
    for (Index kind = 0; kind < kinds_; ++kind) to[kind] += tile_[at(kind * lanes_ + lane)];
  }
}

template void KindTerm::send_back(Index, Range, const float*, Tensor&);
template void KindTerm::send_back(Index, Range, const BFloat16*, Tensor&);

}  // namespace longformer::kernels
