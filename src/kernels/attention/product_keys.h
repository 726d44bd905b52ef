// Parts shared by the forward and the backward pass by products: prepared products, and the keys of
// a task as matrices.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "kernels/attention/product_rows.h"
#include "kernels/attention/tasks.h"
#include "kernels/gemm.h"

namespace longformer::kernels {

/// Keys whose scores are kept at a time.
inline constexpr Index kProductKeys = 1024;

/// Products by their shape, prepared at first use. For one thread.
class PreparedProducts {
 public:
  void run(const GemmShape& shape, const BFloat16* a, const BFloat16* b, float* c);

 private:
  std::map<std::array<Index, 6>, PreparedProduct> products_;
};

/// The rows of one head of a tensor [H, rows, d].
struct HeadMatrix {
  const BFloat16* data = nullptr;
  /// Rows that may be read: those of the heads behind it too.
  Index readable_rows = 0;
  Index head_size = 0;

  HeadMatrix() = default;
  HeadMatrix(const Tensor& tensor, Index head)
      : data(tensor.data<BFloat16>() + head * tensor.dimension(1) * tensor.dimension(2)),
        readable_rows((tensor.dimension(0) - head) * tensor.dimension(1)),
        head_size(tensor.dimension(2)) {}
  const BFloat16* row(Index index) const { return data + index * head_size; }
};

/// The keys at the places begin … end − 1 of a sequence as matrices of `columns` rows, a multiple
/// of kProductTile; rows behind the last key are nobody's.
struct KeyBlock {
  const BFloat16* keys = nullptr;
  const BFloat16* values = nullptr;
  Index columns = 0;
  Index begin = 0;
  Index end = 0;
  /// Number of the first row in the gathered matrices, or among the keys of the head.
  Index first_row = 0;
  bool gathered = false;

  /// Columns of the keys of a range of places that lie in the block.
  Range columns_of(const Range& places) const {
    const Index first = std::max(places.begin, begin);
    const Index last = std::min(places.end, end);
    if (first >= last) return {};
    return {first - begin, last - begin};
  }
};

/// The keys of one task. Those that lie next to each other stay where they are; those of a dilated
/// head, the global ones, and those at the end of the tensor, where a block would reach beyond it,
/// are gathered. So are those beside masked ones, whose numbers are undefined: zeros take their
/// place. Either way a document has the same bits alone and in a batch.
class ProductKeys {
 public:
  void start(const KeySequence& sequence, const HeadMatrix& keys, const HeadMatrix& values,
             bool masked);

  /// Places that can be had in one block, none global beside one of a window: calls body(block) for
  /// the blocks of equal size that cover the range.
  template <typename Body>
  void for_blocks(const Range& places, Body&& body) const {
    const Index count = places.end - places.begin;
    if (count <= 0) return;
    const Index step = round_up(divide_up(count, divide_up(count, kProductKeys)), kProductTile);
    for (Index begin = places.begin; begin < places.end; begin += step) {
      body(block(begin, std::min(begin + step, places.end)));
    }
  }

  /// One byte for each column, 0 where no window sees the key; empty when all are seen.
  std::span<const std::uint8_t> kept(const KeyBlock& block);
  /// Key row of each column, times DropoutRow::kColumnStep.
  const std::uint32_t* dropout_columns(const KeyBlock& block);

  /// Calls body(gathered row, place) for all places that were gathered.
  template <typename Body>
  void for_gathered(Body&& body) const {
    const Index globals = sequence_.global_count();
    for (Index i = 0; i < globals; ++i) body(i, i);
    if (!windows_gathered_) return;
    for (Index i = globals; i < sequence_.count; ++i) body(global_rows_ + i - globals, i);
  }
  /// Rows of the gathered matrices.
  Index gathered_rows() const { return gathered_rows_; }

 private:
  KeyBlock block(Index begin, Index end) const;

  KeySequence sequence_;
  HeadMatrix keys_, values_;
  bool windows_gathered_ = false;
  Index global_rows_ = 0;
  Index gathered_rows_ = 0;
  std::vector<BFloat16> gathered_keys_, gathered_values_;
  std::vector<std::uint8_t> kept_;
  std::vector<std::uint32_t> columns_;
};

}  // namespace longformer::kernels
