#include "kernels/attention/product_keys.h"

#include <algorithm>
#include <cstring>

#include "core/random.h"

namespace longformer::kernels {

void PreparedProducts::run(const GemmShape& shape, const BFloat16* a, const BFloat16* b, float* c) {
  const std::array<Index, 6> key = {shape.m,           shape.n,           shape.k,
                                    shape.transpose_a, shape.transpose_b, shape.beta != 0};
  const auto found = products_.try_emplace(key, shape).first;
  found->second.run(a, b, c);
}

void ProductKeys::start(const KeySequence& sequence, const HeadMatrix& keys,
                        const HeadMatrix& values, bool masked) {
  sequence_ = sequence;
  keys_ = keys;
  values_ = values;
  const Index globals = sequence.global_count();
  const Index windows = sequence.count - globals;
  const bool beyond = sequence.first_row + windows + kProductTile > keys.readable_rows;
  windows_gathered_ = masked || beyond || sequence.stride != 1;
  global_rows_ = round_up(globals, kProductTile);
  // A block may end up to one tile behind the last key.
  gathered_rows_ =
      global_rows_ + (windows_gathered_ ? round_up(windows, kProductTile) + kProductTile : 0);
  const Index d = keys.head_size;
  gathered_keys_.assign(at(gathered_rows_ * d), BFloat16());
  gathered_values_.assign(at(gathered_rows_ * d), BFloat16());
  for_gathered([&](Index row, Index place) {
    if (!sequence_.keeps(place)) return;
    const Index from = sequence_.row(place);
    std::copy_n(keys_.row(from), d, gathered_keys_.data() + row * d);
    std::copy_n(values_.row(from), d, gathered_values_.data() + row * d);
  });
}

KeyBlock ProductKeys::block(Index begin, Index end) const {
  const Index globals = sequence_.global_count();
  KeyBlock block;
  block.columns = round_up(end - begin, kProductTile);
  block.begin = begin;
  block.end = end;
  block.gathered = begin < globals || windows_gathered_;
  if (block.gathered) {
    block.first_row = begin < globals ? begin : global_rows_ + begin - globals;
    block.keys = gathered_keys_.data() + block.first_row * keys_.head_size;
    block.values = gathered_values_.data() + block.first_row * keys_.head_size;
    return block;
  }
  block.first_row = sequence_.row(begin);
  block.keys = keys_.row(block.first_row);
  block.values = values_.row(block.first_row);
  return block;
}

std::span<const std::uint8_t> ProductKeys::kept(const KeyBlock& block) {
  if (sequence_.kept == nullptr || block.begin < sequence_.global_count()) return {};
  if (!block.gathered) {
    const std::uint8_t* own = sequence_.kept + block.first_row;
    if (std::memchr(own, 0, at(block.end - block.begin)) == nullptr) return {};
  }
  kept_.assign(at(block.columns), 1);
  bool all = true;
  for (Index place = block.begin; place < block.end; ++place) {
    const bool keeps = sequence_.keeps(place);
    kept_[at(place - block.begin)] = keeps ? 1 : 0;
    all = all && keeps;
  }
  if (all) return {};
  return kept_;
}

const std::uint32_t* ProductKeys::dropout_columns(const KeyBlock& block) {
  columns_.assign(at(block.columns), 0);
  for (Index place = block.begin; place < block.end; ++place) {
    columns_[at(place - block.begin)] =
        static_cast<std::uint32_t>(sequence_.row(place)) * DropoutRow::kColumnStep;
  }
  return columns_.data();
}

}  // namespace longformer::kernels
