#include "models/attention/random_blocks.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>
#include <span>
#include <utility>

#include "core/error.h"

namespace longformer::models {
namespace {

/// The order of numpy's `RandomState.permutation`: Fisher and Yates from the end, with numbers
/// below a limit by masks and rejection.
void permute(std::vector<Index>& values, std::mt19937& generator) {
  for (std::size_t last = values.size(); last-- > 1;) {
    const auto limit = static_cast<std::uint32_t>(last);
    const std::uint32_t mask = std::bit_ceil(limit + 1) - 1;
    std::uint32_t drawn = 0;
    do {
      drawn = static_cast<std::uint32_t>(generator()) & mask;
    } while (drawn > limit);
    std::swap(values[last], values[drawn]);
  }
}

std::vector<Index> numbers_between(Index begin, Index end) {
  std::vector<Index> numbers(static_cast<std::size_t>(std::max<Index>(end - begin, 0)));
  std::iota(numbers.begin(), numbers.end(), begin);
  return numbers;
}

/// Blocks that block `row` of the queries may draw in a text as long as the longest of the plan, of
/// which it sees those before `last`.
std::vector<Index> planned_choice(Index row, Index blocks, Index last) {
  if (row == 1) return numbers_between(3, std::min(last, blocks - 2) + 1);
  if (row == 2) return numbers_between(4, std::min(last, blocks - 2) + 1);
  const Index end = std::min(last, blocks - 2) + 1;
  if (row == blocks - 3 || row == blocks - 2 || row - 2 > last) return numbers_between(1, end);
  std::vector<Index> allowed = numbers_between(1, std::min(row - 1, end));
  if (row + 1 == last) return allowed;
  for (const Index after : numbers_between(row + 2, end)) allowed.push_back(after);
  return allowed;
}

/// Whether block `row` of the queries may not draw a block of the first `end`: it sees it anyway,
/// or the pair is left out.
bool is_left_out(Index row, Index drawn, Index end) {
  return std::abs(row - drawn) <= 1 || drawn == 0 || drawn == end - 1 ||
         (row == 1 && drawn == end - 2) || (row == end - 2 && drawn == 1);
}

/// Draws one block of queries after the other, and in each head after head.
class Draw {
 public:
  Draw(const RandomBlockPlan& plan, Index blocks)
      : plan_(plan),
        rows_(blocks - 2),
        generator_(plan.seed),
        found_(static_cast<std::size_t>(plan.heads * rows_ * plan.count)) {}

  /// Heads one after the other, each for all blocks of the longest text.
  std::vector<Index> by_plan() {
    const Index blocks = plan_.longest / plan_.block;
    constexpr Index kDrawnTokens = 1024;
    const Index last = kDrawnTokens > 2 * plan_.block ? kDrawnTokens / plan_.block - 1 : blocks - 1;
    for (Index head = 0; head < plan_.heads; ++head) {
      for (Index row = 1; row < blocks - 1; ++row) {
        std::vector<Index> allowed = planned_choice(row, blocks, last);
        permute(allowed, generator_);
        if (row <= rows_) keep(head, row, allowed);
      }
    }
    return std::move(found_);
  }

  /// Blocks one after the other, each for all heads; all draw from the first blocks of the text.
  std::vector<Index> by_blocks() {
    const Index end = 2 * plan_.count + 5;
    for (Index row = 1; row <= rows_ + 1; ++row) {
      for (Index head = 0; head < plan_.heads; ++head) {
        std::vector<Index> drawn = numbers_between(0, end);
        permute(drawn, generator_);
        std::erase_if(drawn, [&](Index block) { return is_left_out(row, block, end); });
        if (row <= rows_) keep(head, row, drawn);
      }
    }
    return std::move(found_);
  }

 private:
  void keep(Index head, Index row, std::span<const Index> drawn) {
    require(std::ssize(drawn) >= plan_.count,
            "bigbird: expected at least num_random_blocks {} blocks to draw for block {} of a text "
            "of {} blocks of {} tokens, found {}",
            plan_.count, row, rows_ + 2, plan_.block, drawn.size());
    std::copy_n(drawn.begin(), plan_.count,
                found_.begin() + (head * rows_ + row - 1) * plan_.count);
  }

  const RandomBlockPlan& plan_;
  Index rows_;
  std::mt19937 generator_;
  std::vector<Index> found_;
};

}  // namespace

std::vector<Index> random_blocks(const RandomBlockPlan& plan, Index blocks) {
  Draw draw(plan, blocks);
  const Index tokens = blocks * plan.block;
  const bool has_plan = tokens == 1024 || tokens == 3072 || tokens == 4096;
  return has_plan ? draw.by_plan() : draw.by_blocks();
}

}  // namespace longformer::models
