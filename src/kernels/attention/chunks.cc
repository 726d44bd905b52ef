// Overlapping blocks: the band is cut out of products of 2b queries × 2b keys that overlap by b
// (the reach), as the published implementations do. The band is materialised, the softmax is a pass
// of its own, and the products with the values take blocks of b queries × 3b keys.
#include <algorithm>

#include "core/error.h"
#include "core/threads.h"
#include "kernels/attention/backends.h"
#include "kernels/gemm.h"

namespace longformer::kernels {
namespace {

/// A row of scores holds the global keys first, then the keys at −reach … +reach.
struct Layout {
  Layout(const DocumentRows& rows, const HeadPattern& pattern, Index head_size)
      : n(rows.query_count),
        reach(std::min(pattern.reach_left, std::max<Index>(n - 1, 0))),
        block(std::max<Index>(reach, 1)),
        globals(static_cast<Index>(rows.globals.size())),
        row(globals + 2 * reach + 1),
        widest(globals + 3 * block) {
    scores = std::max(n * row, n);
    tile = std::max(4 * block * block, block * widest);
    gathered = widest * head_size;
  }

  Index n, reach, block, globals;
  /// Scores of one query, and most keys that one block of queries is multiplied with.
  Index row, widest;
  /// Floats of the three parts of the working memory.
  Index scores, tile, gathered;
  Index floats() const { return scores + tile + gathered; }
};

struct Chunks {
  const DocumentRows& rows;
  const HeadRows& head;
  Layout layout;
  float* scores;
  float* tile;
  float* gathered;

  float* band_of(Index query) const {
    return scores + query * layout.row + layout.globals + layout.reach - query;
  }
};

/// Copies the rows of the global keys or values below each other.
void gather_globals(const Chunks& chunks, const float* source) {
  const Index d = chunks.head.head_size;
  float* target = chunks.gathered;
  for (const Index j : chunks.rows.globals) target = std::copy_n(source + j * d, d, target);
}

void score_globals(const Chunks& chunks) {
  const auto& [rows, head, layout, scores, tile, gathered] = chunks;
  if (layout.globals == 0) return;
  gather_globals(chunks, head.key);
  const Index d = head.head_size;
  const GemmShape shape = {.m = layout.n,
                           .n = layout.globals,
                           .k = d,
                           .transpose_b = true,
                           .lda = d,
                           .ldb = d,
                           .ldc = layout.row,
                           .alpha = head.scale};
  gemm(shape, head.query, gathered, scores);
}

/// The scores of 2b queries and 2b keys from row `begin` on; keeps those inside the window.
void score_chunk(const Chunks& chunks, Index begin) {
  const auto& [rows, head, layout, scores, tile, gathered] = chunks;
  const Index d = head.head_size;
  const Index end = std::min(begin + 2 * layout.block, layout.n);
  const Index size = end - begin;
  const GemmShape shape = {.m = size,
                           .n = size,
                           .k = d,
                           .transpose_b = true,
                           .lda = d,
                           .ldb = d,
                           .ldc = size,
                           .alpha = head.scale};
  gemm(shape, head.query + begin * d, head.key + begin * d, tile);
  for (Index i = begin; i < end; ++i) {
    const float* source = tile + (i - begin) * size - begin;
    float* target = chunks.band_of(i);
    const Index last = std::min(end - 1, i + layout.reach);
    for (Index j = std::max(begin, i - layout.reach); j <= last; ++j) {
      // A global key is scored once, in its own column.
      target[j] = rows.keys[j] == KeyKind::ordinary ? source[j] : kMaskedScore;
    }
  }
}

void score_band(const Chunks& chunks) {
  const Layout& layout = chunks.layout;
  for (Index i = 0; i < layout.n; ++i) {
    // Slots before the first and behind the last key are the only ones that no chunk writes.
    float* row = chunks.scores + i * layout.row + layout.globals;
    std::fill_n(row, std::max<Index>(layout.reach - i, 0), kMaskedScore);
    const Index beyond = std::max<Index>(i + layout.reach - (layout.n - 1), 0);
    std::fill_n(row + 2 * layout.reach + 1 - beyond, beyond, kMaskedScore);
  }
  for (Index begin = 0; begin == 0 || begin + layout.block < layout.n; begin += layout.block) {
    score_chunk(chunks, begin);
  }
}

/// The outputs of the b queries from row `begin` on: their probabilities against the keys of three
/// blocks, and the global ones, as one product.
void weigh_block(const Chunks& chunks, Index begin) {
  const auto& [rows, head, layout, scores, tile, gathered] = chunks;
  const Index d = head.head_size;
  const Index end = std::min(begin + layout.block, layout.n);
  const Index first_key = std::max<Index>(begin - layout.block, 0);
  const Index last_key = std::min(end + layout.block, layout.n);
  const Index keys = layout.globals + last_key - first_key;
  std::fill_n(tile, (end - begin) * keys, 0.0f);
  for (Index i = begin; i < end; ++i) {
    float* target = tile + (i - begin) * keys;
    std::copy_n(scores + i * layout.row, layout.globals, target);
    const Index from = std::max<Index>(i - layout.reach, 0);
    const Index to = std::min(i + layout.reach + 1, layout.n);
    std::copy(chunks.band_of(i) + from, chunks.band_of(i) + to,
              target + layout.globals + from - first_key);
  }
  float* values = gathered + layout.globals * d;
  for (Index j = first_key; j < last_key; ++j, values += d) {
    // Contents of masked rows are undefined, and 0 · NaN is NaN.
    if (rows.keys[j] == KeyKind::masked) {
      std::fill_n(values, d, 0.0f);
    } else {
      std::copy_n(head.value + j * d, d, values);
    }
  }
  const GemmShape shape = {
      .m = end - begin, .n = d, .k = keys, .lda = keys, .ldb = d, .ldc = head.out_stride};
  gemm(shape, tile, gathered, head.out + begin * head.out_stride);
}

void attend_windows(const Chunks& chunks) {
  const auto& [rows, head, layout, scores, tile, gathered] = chunks;
  if (layout.n == 0) return;
  score_globals(chunks);
  score_band(chunks);
  for (Index i = 0; i < layout.n; ++i) {
    const float logsumexp = softmax_in_place(scores + i * layout.row, layout.row);
    if (head.logsumexp != nullptr) head.logsumexp[i] = logsumexp;
  }
  gather_globals(chunks, head.value);
  for (Index begin = 0; begin < layout.n; begin += layout.block) weigh_block(chunks, begin);
}

}  // namespace

std::optional<std::string> why_not_chunks(const AttentionSpec& spec) {
  if (spec.causal) return "overlapping blocks cannot be causal";
  for (std::size_t head = 0; head < spec.heads.size(); ++head) {
    const HeadPattern& pattern = spec.heads[head];
    if (pattern.dilation != 1) {
      return fmt::format("overlapping blocks need dilation 1, head {} has {}", head,
                         pattern.dilation);
    }
    if (pattern.block != 1) {
      return fmt::format(
          "overlapping blocks need windows that move with the query, head {} has "
          "blocks of {} keys",
          head, pattern.block);
    }
    if (pattern.reach_left != pattern.reach_right) {
      return fmt::format(
          "overlapping blocks need a symmetric window, head {} reaches {} to the left and {} to "
          "the "
          "right",
          head, pattern.reach_left, pattern.reach_right);
    }
  }
  for (std::size_t index = 0; index < spec.rows->documents.size(); ++index) {
    const AttentionDocument& document = spec.rows->documents[index];
    if (document.query_count != document.key_count || document.query_offset != 0) {
      return fmt::format(
          "overlapping blocks need as many queries as keys, from position 0 on; document {} has {} "
          "queries at {} and {} keys",
          index, document.query_count, document.query_offset, document.key_count);
    }
  }
  return std::nullopt;
}

void attention_chunks(const AttentionSpec& spec, const AttentionArguments& in) {
  const Index heads = static_cast<Index>(spec.heads.size());
  for (const AttentionDocument& document : spec.rows->documents) {
    const DocumentRows rows(spec, document);
    Index floats = 0;
    for (const HeadPattern& pattern : spec.heads) {
      floats = std::max(floats, Layout(rows, pattern, spec.head_size).floats());
    }
    Workspace workspace(in.threads, heads, floats);
    parallel_for(workspace.workers(), heads, [&](Index head) {
      const HeadRows head_rows(spec, in, document, head);
      const Layout layout(rows, spec.heads[head], spec.head_size);
      float* scores = workspace.mine();
      float* tile = scores + layout.scores;
      attend_windows({rows, head_rows, layout, scores, tile, tile + layout.tile});
      attend_outside_windows(rows, head_rows, scores);
    });
  }
}

}  // namespace longformer::kernels
