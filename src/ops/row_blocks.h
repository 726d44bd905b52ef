// How ops cut the rows of a document into blocks, so that wide intermediates stay in the cache.
#pragma once

#include <vector>

#include "core/threads.h"
#include "kernels/packed_linear.h"
#include "ops/context.h"

namespace longformer::ops {

struct RowBlock {
  Index begin = 0;
  Index rows = 0;
};

/// How the rows of one op are shared out.
struct RowPlan {
  std::vector<RowBlock> blocks;
  /// Few rows: every product spreads over all threads, block after block. Otherwise each block
  /// belongs to one thread.
  bool spread = false;
  /// Threads that take blocks.
  int workers = 1;

  Index count() const { return static_cast<Index>(blocks.size()); }
  /// Rows of the largest block.
  Index largest() const;
};

/// Blocks of at most kRowBlock rows that load `threads` threads evenly. Sizes are multiples of
/// kernels::row_unit except for a smaller one at the end, so that few different products are ever
/// compiled.
RowPlan plan_rows(Index rows, int threads);

/// One buffer of [largest block, width] per worker.
Tensor scratch(const Context& context, const RowPlan& plan, Index width, DType dtype);

/// The compiled product of a packed dense layer for each block.
std::vector<const kernels::PackedLinear::Kernel*> kernels_of(const kernels::PackedLinear& dense,
                                                             const RowPlan& plan, DType output);

/// Calls body(first, count, byte offset of the first) for blocks of the elements of a tensor, on
/// all threads.
template <typename Body>
void for_elements(const Context& context, const Tensor& x, const Body& body) {
  constexpr Index kBlock = Index{1} << 16;
  parallel_for(context.threads, (x.size() + kBlock - 1) / kBlock, [&](Index block) {
    const Index first = block * kBlock;
    const Index count = x.size() - first < kBlock ? x.size() - first : kBlock;
    body(first, count, static_cast<std::size_t>(first) * element_size(x.dtype()));
  });
}

/// sum += x, of like shape and dtype, on all threads.
void add_to(const Context& context, const Tensor& x, Tensor& sum);

/// Calls body(first, rows) for blocks of rows, on all threads.
template <typename Body>
void for_row_blocks(const Context& context, Index rows, const Body& body) {
  const RowPlan plan = plan_rows(rows, context.threads);
  parallel_for(context.threads, plan.count(), [&](Index b) {
    const RowBlock& block = plan.blocks[static_cast<std::size_t>(b)];
    body(block.begin, block.rows);
  });
}

/// Start of row `row` of a row-major matrix.
void* row_of(Tensor& matrix, Index row);
const void* row_of(const Tensor& matrix, Index row);

}  // namespace longformer::ops
