#include "ops/row_blocks.h"

#include <algorithm>

#include "kernels/gemm.h"

namespace longformer::ops {

std::vector<RowBlock> row_blocks(Index rows, int threads) {
  constexpr Index kUnit = 16;
  const auto round_up = [](Index value, Index unit) { return (value + unit - 1) / unit * unit; };
  const Index count = round_up((rows + kernels::kRowBlock - 1) / kernels::kRowBlock, threads);
  const Index block = count == 0 ? 0 : round_up((rows + count - 1) / count, kUnit);
  std::vector<RowBlock> blocks;
  for (Index begin = 0; begin < rows; begin += block) {
    const Index size = std::min(block, rows - begin);
    const Index whole = size / kUnit * kUnit;
    if (whole > 0) blocks.push_back({begin, whole});
    if (size > whole) blocks.push_back({begin + whole, size - whole});
  }
  return blocks;
}

}  // namespace longformer::ops
