// The entry points of the backends that compute in fp32, and the view of one document that they
// share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/distance_bias.h"
#include "kernels/softmax_weight.h"

namespace longformer::kernels {

/// Inputs common to a forward and a backward pass.
struct AttentionInputs {
  const Tensor& query;
  const Tensor& key;
  const Tensor& value;
  const Tensor& out;
  const Tensor* logsumexp = nullptr;
  const RelativePositions* relative = nullptr;
  const Tensor* distance_bias = nullptr;
  const DistanceKeys* distance_keys = nullptr;
};
/// Throws Error unless shapes and dtypes agree with the spec.
void check_inputs(const AttentionSpec& spec, const AttentionInputs& in);

/// Like attention(), for a checked spec and fp32 tensors of the right shapes.
void attention_loop(const AttentionSpec& spec, const AttentionArguments& in);
void attention_chunks(const AttentionSpec& spec, const AttentionArguments& in);
void attention_full(const AttentionSpec& spec, const AttentionArguments& in);

/// Why overlapping blocks cannot run the spec; nothing when they can.
std::optional<std::string> why_not_chunks(const AttentionSpec& spec);

inline constexpr float kMaskedScore = -std::numeric_limits<float>::infinity();

enum class KeyKind : std::uint8_t { masked, ordinary, global };
enum class QueryKind : std::uint8_t { nothing, windowed, everything };

/// Rows of one document. Keys are counted from the first key of the document, queries from its
/// first query.
struct DocumentRows {
  DocumentRows(const AttentionSpec& spec, const AttentionDocument& document);

  Index query_count = 0;
  Index key_count = 0;
  Index query_offset = 0;
  bool causal = false;
  std::vector<KeyKind> keys;
  std::vector<QueryKind> queries;
  /// Positions of the global keys, ascending.
  std::vector<Index> globals;

  /// Number of leading keys that a query may see at all.
  Index keys_before(Index query) const {
    return causal ? std::clamp<Index>(query_offset + query + 1, 0, key_count) : key_count;
  }
};

/// The offsets s of a window in dilation steps, first to last, at which some query of the document
/// may meet a key; none when first > last.
struct OffsetRange {
  Index first = 0;
  Index last = -1;

  Index count() const { return std::max<Index>(last - first + 1, 0); }
};
OffsetRange offsets_of(const HeadPattern& pattern, const DocumentRows& rows);
/// The offsets at which one query meets a key.
OffsetRange offsets_at(const HeadPattern& pattern, const DocumentRows& rows, Index query);

/// The queries of the document that meet a key at one offset of the window: begin to end − 1.
struct QueryRange {
  Index begin = 0;
  Index end = 0;
};
QueryRange queries_at(Index offset, Index dilation, const DocumentRows& rows);

/// Marks the keys that a query with a window sees; one byte per key of the document.
void mark_visible(const DocumentRows& rows, const HeadPattern& pattern, Index query,
                  std::span<std::uint8_t> visible);

/// One head of one document: rows of head_size floats, except that those of out are out_stride
/// apart.
struct HeadRows {
  HeadRows(const AttentionSpec& spec, const AttentionArguments& in,
           const AttentionDocument& document, Index head);

  Index head_size;
  float scale;
  const float* query;
  const float* key;
  const float* value;
  float* out;
  Index out_stride;
  /// Null when it is not wanted.
  float* logsumexp;
  HeadBiases biases;
};

/// Writes the rows of the queries that see nothing or everything; their windows are not looked at.
/// `scores` has room for one score per key.
void attend_outside_windows(const DocumentRows& rows, const HeadRows& head, float* scores);

/// Turns scores into probabilities in place, −∞ into 0, and gives the logarithm of the denominator
/// (−∞ when nothing is visible).
float softmax_in_place(float* scores, Index count);

inline float dot(const float* a, const float* b, Index count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/// fp32 working memory, one part for each worker of a parallel_for over `tasks` tasks.
class Workspace {
 public:
  Workspace(int threads, Index tasks, Index floats_per_worker);

  int workers() const { return workers_; }
  /// The part of the calling worker; uninitialised.
  float* mine();

 private:
  int workers_;
  Tensor storage_;
};

}  // namespace longformer::kernels
