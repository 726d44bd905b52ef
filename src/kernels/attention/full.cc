// All nq·nk scores of a head in memory: attention without any use of its pattern, the yardstick of
// time and memory for the others.
#include <unistd.h>

#include <algorithm>

#include "core/error.h"
#include "core/threads.h"
#include "kernels/attention/backends.h"
#include "kernels/gemm.h"

namespace longformer::kernels {
namespace {

/// Queries of one task.
constexpr Index kQueriesAtOnce = 64;

struct FullHead {
  const DocumentRows& rows;
  const HeadRows& head;
  const HeadPattern& pattern;
  /// [nq, nk]
  float* scores;
  /// [nk, d], the masked rows zeroed.
  const float* values;
};

void attend_block(const FullHead& full, Index begin, std::span<std::uint8_t> visible) {
  const auto& [rows, head, pattern, all_scores, values] = full;
  const Index d = head.head_size;
  const Index nk = rows.key_count;
  const Index count = std::min(kQueriesAtOnce, rows.query_count - begin);
  float* scores = all_scores + begin * nk;
  const GemmShape products = {.m = count,
                              .n = nk,
                              .k = d,
                              .transpose_b = true,
                              .lda = d,
                              .ldb = d,
                              .ldc = nk,
                              .alpha = head.scale};
  gemm(products, head.query + begin * d, head.key, scores);
  for (Index i = 0; i < count; ++i) {
    float* row = scores + i * nk;
    mark_visible(rows, pattern, begin + i, visible);
    for (Index j = 0; j < nk; ++j) row[j] = visible[j] != 0 ? row[j] : kMaskedScore;
    const float logsumexp = softmax_in_place(row, nk);
    if (head.logsumexp != nullptr) head.logsumexp[begin + i] = logsumexp;
  }
  const GemmShape sums = {.m = count, .n = d, .k = nk, .lda = nk, .ldb = d, .ldc = head.out_stride};
  gemm(sums, scores, values, head.out + begin * head.out_stride);
}

/// Contents of masked rows are undefined, and 0 · NaN is NaN.
void copy_unmasked(const DocumentRows& rows, const HeadRows& head, float* values) {
  const Index d = head.head_size;
  for (Index j = 0; j < rows.key_count; ++j) {
    const bool masked = rows.keys[j] == KeyKind::masked;
    for (Index c = 0; c < d; ++c) values[j * d + c] = masked ? 0.0f : head.value[j * d + c];
  }
}

void require_memory(Index floats) {
  const auto needed = static_cast<std::uint64_t>(floats) * sizeof(float);
  const auto present = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                       static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  require(
      needed < present,
      "attention: the full backend needs {} bytes for the scores of a head, this machine has {}",
      needed, present);
}

}  // namespace

void attention_full(const AttentionSpec& spec, const AttentionArguments& in) {
  for (const AttentionDocument& document : spec.rows->documents) {
    const DocumentRows rows(spec, document);
    const Index nk = rows.key_count;
    const Index blocks = nk == 0 ? 0 : (rows.query_count + kQueriesAtOnce - 1) / kQueriesAtOnce;
    require_memory(rows.query_count * nk);
    Tensor scores({std::max<Index>(rows.query_count, 1), nk}, DType::f32);
    Tensor values({nk, spec.head_size}, DType::f32);
    const int workers = static_cast<int>(std::clamp<Index>(blocks, 1, std::max(in.threads, 1)));
    std::vector<std::uint8_t> visible(static_cast<std::size_t>(workers * nk));
    for (std::size_t head = 0; head < spec.heads.size(); ++head) {
      const HeadRows head_rows(spec, in, document, static_cast<Index>(head));
      copy_unmasked(rows, head_rows, values.data<float>());
      const FullHead full = {rows, head_rows, spec.heads[head], scores.data<float>(),
                             values.data<float>()};
      parallel_for(workers, blocks, [&](Index block) {
        const Index worker = workers == 1 ? 0 : thread_number();
        const std::span<std::uint8_t> all(visible);
        attend_block(
            full, block * kQueriesAtOnce,
            all.subspan(static_cast<std::size_t>(worker * nk), static_cast<std::size_t>(nk)));
      });
      attend_outside_windows(rows, head_rows, scores.data<float>());
    }
  }
}

}  // namespace longformer::kernels
