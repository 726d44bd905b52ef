#include "kernels/attention/sorted_chunks.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <span>

#include "core/threads.h"
#include "kernels/gemm.h"
#include "kernels/softmax_weight.h"

namespace longformer::kernels {
namespace {

constexpr float kUnseen = -std::numeric_limits<float>::infinity();

using Floats = std::vector<float>;

/// One head of one document.
struct HeadOfDocument {
  const SortedChunks& spec;
  const ChunkedDocument& document;
  Index head;

  const std::int32_t* order(Index round) const {
    const Index first = document.by_head() ? head * document.rounds : 0;
    return document.order.data() + (first + round) * document.places;
  }
  Index chunks() const { return document.rounds * document.places / document.chunk; }
};

/// The queries of a chunk and the keys that they may see: numbers within the document.
struct Tile {
  std::vector<Index> queries, keys;
  Floats query, key, value, scores;
};

const std::int32_t* chunk_begin(const HeadOfDocument& head, Index chunk) {
  const Index of_round = head.document.places / head.document.chunk;
  return head.order(chunk / of_round) + chunk % of_round * head.document.chunk;
}

/// False where there is no query.
bool fill_numbers(const HeadOfDocument& head, Index chunk, Tile& tile) {
  const ChunkedDocument& document = head.document;
  const Index first = document.rows.query_offset, all = head.chunks();
  tile.queries.clear();
  tile.keys.clear();
  const std::int32_t* own = chunk_begin(head, chunk);
  for (Index i = 0; i < document.chunk; ++i) {
    if (own[i] >= first) tile.queries.push_back(own[i] - first);
  }
  if (tile.queries.empty()) return false;
  for (Index step = -document.before; step <= document.after; ++step) {
    // Farther than around the circle is the chunk itself, as in transformers.
    const Index from = std::abs(step) > all ? chunk : (chunk + step + all) % all;
    const std::int32_t* places = chunk_begin(head, from);
    for (Index i = 0; i < document.chunk; ++i) {
      if (places[i] >= 0) tile.keys.push_back(places[i]);
    }
  }
  return true;
}

void copy_floats(const Tensor& x, Index row, Index d, float* to) {
  if (x.dtype() == DType::f32) {
    std::copy_n(x.data<float>() + row * d, d, to);
  } else {
    const BFloat16* from = x.data<BFloat16>() + row * d;
    for (Index c = 0; c < d; ++c) to[c] = static_cast<float>(from[c]);
  }
}

void write_floats(const float* from, Index first, Index count, Tensor& x) {
  if (x.dtype() == DType::f32) {
    std::copy_n(from, count, x.data<float>() + first);
  } else {
    BFloat16* to = x.data<BFloat16>() + first;
    for (Index c = 0; c < count; ++c) to[c] = BFloat16(from[c]);
  }
}

/// Rows of x [H, rows, d], the first of which is row `first` of the head.
void gather(const Tensor& x, Index first, Index d, std::span<const Index> rows, Floats& to) {
  to.resize(rows.size() * static_cast<std::size_t>(d));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    copy_floats(x, first + rows[i], d, to.data() + static_cast<Index>(i) * d);
  }
}

/// Rows of the gradients or results of heads [n, H·d].
void gather_tokens(const Tensor& x, const HeadOfDocument& head, std::span<const Index> rows,
                   Floats& to) {
  const Index d = head.spec.head_size;
  to.resize(rows.size() * static_cast<std::size_t>(d));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Index row = head.document.rows.query_begin + rows[i];
    copy_floats(x, row * head.spec.heads + head.head, d, to.data() + static_cast<Index>(i) * d);
  }
}

struct Inputs {
  const Tensor &query, &key, &value;
};

Index first_query(const HeadOfDocument& head, const Tensor& query) {
  return head.head * query.dimension(1) + head.document.rows.query_begin;
}
Index first_key(const HeadOfDocument& head, const Tensor& key) {
  return head.head * key.dimension(1) + head.document.rows.key_begin;
}

/// The rows of a tile and their scores, −∞ where a key is not seen.
void score_tile(const HeadOfDocument& head, const Inputs& in, Tile& tile) {
  const SortedChunks& spec = head.spec;
  const Index d = spec.head_size, rows = std::ssize(tile.queries), keys = std::ssize(tile.keys);
  gather(in.query, first_query(head, in.query), d, tile.queries, tile.query);
  gather(in.key, first_key(head, in.key), d, tile.keys, tile.key);
  gather(in.value, first_key(head, in.value), d, tile.keys, tile.value);
  tile.scores.resize(static_cast<std::size_t>(rows * keys));
  gemm({.m = rows, .n = keys, .k = d, .transpose_b = true, .alpha = spec.scale, .beta = 0},
       tile.query.data(), tile.key.data(), tile.scores.data());
  for (Index i = 0; i < rows; ++i) {
    const Index own = tile.queries[at(i)] + head.document.rows.query_offset;
    float* row = tile.scores.data() + i * keys;
    for (Index j = 0; j < keys; ++j) {
      const Index key = tile.keys[at(j)];
      const bool hidden = (spec.causal && key > own) || (!spec.sees_itself && key == own) ||
                          !head.document.is_visible(key);
      row[j] = hidden ? kUnseen : row[j];
    }
  }
}

/// Multiplies a row of probabilities, or of their gradients, with its dropout.
void drop_row(const HeadOfDocument& head, Index chunk, Index query, std::span<float> row) {
  const Dropout& dropout = head.spec.dropout;
  const Index of_round = head.document.places / head.document.chunk;
  const Index round = chunk / of_round;
  const auto number = static_cast<std::uint64_t>(
      ((head.document.rows.query_begin + query) * head.spec.heads + head.head) *
          head.document.rounds +
      round);
  const DropoutRow bits = dropout.row(number);
  for (std::size_t j = 0; j < row.size(); ++j) {
    const bool is_dropped = bits.bits(static_cast<std::uint32_t>(j)) < dropout.threshold();
    row[j] = is_dropped ? 0.0f : row[j] * dropout.kept_factor();
  }
}

/// Sums over what the queries of a head have seen so far.
struct Sums {
  explicit Sums(const HeadOfDocument& head)
      : highest(at(head.document.rows.query_count), kUnseen),
        denominator(highest.size()),
        out(highest.size() * at(head.spec.head_size)) {}
  Floats highest, denominator, out;
};

void add_tile(const HeadOfDocument& head, Index chunk, Tile& tile, Floats& product, Sums& sums) {
  const Index d = head.spec.head_size, rows = std::ssize(tile.queries),
              keys = std::ssize(tile.keys);
  Floats rescale(at(rows), 1.0f);
  for (Index i = 0; i < rows; ++i) {
    const Index query = tile.queries[at(i)];
    float* row = tile.scores.data() + i * keys;
    float top = kUnseen;
    // In this order a NaN becomes the maximum and shows in the result.
    for (Index j = 0; j < keys; ++j) top = top >= row[j] ? top : row[j];
    const float before = sums.highest[at(query)];
    const float raised = before >= top ? before : top;
    if (raised == kUnseen) {
      std::fill_n(row, keys, 0.0f);
      continue;
    }
    float sum = 0;
    for (Index j = 0; j < keys; ++j) {
      row[j] = softmax_weight(row[j] - raised);
      sum += row[j];
    }
    rescale[at(i)] = before == kUnseen ? 0.0f : softmax_weight(before - raised);
    sums.denominator[at(query)] = sums.denominator[at(query)] * rescale[at(i)] + sum;
    sums.highest[at(query)] = raised;
    if (head.spec.dropout.active()) drop_row(head, chunk, query, {row, at(keys)});
  }
  product.resize(at(rows * d));
  gemm({.m = rows, .n = d, .k = keys, .beta = 0}, tile.scores.data(), tile.value.data(),
       product.data());
  for (Index i = 0; i < rows; ++i) {
    float* to = sums.out.data() + tile.queries[at(i)] * d;
    for (Index c = 0; c < d; ++c) to[c] = to[c] * rescale[at(i)] + product[at(i * d + c)];
  }
}

void forward_head(const HeadOfDocument& head, const SortedChunksArguments& in) {
  const Index d = head.spec.head_size;
  const AttentionDocument& rows = head.document.rows;
  Sums sums(head);
  Tile tile;
  Floats product;
  for (Index chunk = 0; chunk < head.chunks(); ++chunk) {
    if (!fill_numbers(head, chunk, tile)) continue;
    score_tile(head, {in.query, in.key, in.value}, tile);
    add_tile(head, chunk, tile, product, sums);
  }
  float* logsumexp = in.logsumexp.data<float>() + first_query(head, in.query);
  for (Index i = 0; i < rows.query_count; ++i) {
    float* out = sums.out.data() + i * d;
    const float denominator = sums.denominator[at(i)];
    if (sums.highest[at(i)] == kUnseen) {
      copy_floats(in.value, first_key(head, in.value) + rows.query_offset + i, d, out);
      logsumexp[i] = kUnseen;
    } else {
      for (Index c = 0; c < d; ++c) out[c] /= denominator;
      logsumexp[i] = sums.highest[at(i)] + std::log(denominator);
    }
    const Index token = (rows.query_begin + i) * head.spec.heads + head.head;
    write_floats(out, token * d, d, in.out);
  }
}

/// Gradients of a head in fp32, by row of the document.
struct ChunkGradients {
  ChunkGradients(const HeadOfDocument& head, Index d)
      : query(at(head.document.rows.query_count * d)),
        key(at(head.document.rows.key_count * d)),
        value(key.size()) {}
  Floats query, key, value;
};

void scatter(std::span<const Index> rows, Index d, const Floats& from, Floats& to) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    float* row = to.data() + rows[i] * d;
    for (Index c = 0; c < d; ++c) row[c] += from[i * at(d) + at(c)];
  }
}

struct BackwardTile {
  Tile tile;
  Floats out, gradient, passed, product;
};

/// From scores to probabilities as they were used, and from the gradients of those to that of the
/// scores.
void row_backward(const HeadOfDocument& head, Index chunk, Index i, float logsumexp,
                  BackwardTile& b) {
  const Index d = head.spec.head_size, keys = std::ssize(b.tile.keys);
  float* row = b.tile.scores.data() + i * keys;
  float* passed = b.passed.data() + i * keys;
  if (logsumexp == kUnseen) {
    std::fill_n(row, keys, 0.0f);
    std::fill_n(passed, keys, 0.0f);
    return;
  }
  float mean = 0;
  for (Index c = 0; c < d; ++c) mean += b.out[at(i * d + c)] * b.gradient[at(i * d + c)];
  for (Index j = 0; j < keys; ++j) {
    // Rounding may leave it above 0.
    const float exponent = row[j] - logsumexp;
    row[j] = exponent > 0 ? std::exp(exponent) : softmax_weight(exponent);
  }
  if (!head.spec.dropout.active()) {
    for (Index j = 0; j < keys; ++j) passed[j] = row[j] * (passed[j] - mean) * head.spec.scale;
    return;
  }
  drop_row(head, chunk, b.tile.queries[at(i)], {passed, at(keys)});
  for (Index j = 0; j < keys; ++j) passed[j] = row[j] * (passed[j] - mean) * head.spec.scale;
  drop_row(head, chunk, b.tile.queries[at(i)], {row, at(keys)});
}

void tile_backward(const HeadOfDocument& head, Index chunk, const SortedChunksBackwardArguments& in,
                   BackwardTile& b, ChunkGradients& gradients) {
  const Index d = head.spec.head_size;
  Tile& tile = b.tile;
  if (!fill_numbers(head, chunk, tile)) return;
  score_tile(head, {in.query, in.key, in.value}, tile);
  gather_tokens(in.out, head, tile.queries, b.out);
  gather_tokens(in.out_gradient, head, tile.queries, b.gradient);
  const Index rows = std::ssize(tile.queries), keys = std::ssize(tile.keys);
  b.passed.resize(at(rows * keys));
  gemm({.m = rows, .n = keys, .k = d, .transpose_b = true, .beta = 0}, b.gradient.data(),
       tile.value.data(), b.passed.data());
  const float* logsumexp = in.logsumexp.data<float>() + first_query(head, in.query);
  for (Index i = 0; i < rows; ++i) {
    row_backward(head, chunk, i, logsumexp[tile.queries[at(i)]], b);
  }
  b.product.resize(at(rows * d));
  gemm({.m = rows, .n = d, .k = keys, .beta = 0}, b.passed.data(), tile.key.data(),
       b.product.data());
  scatter(tile.queries, d, b.product, gradients.query);
  b.product.resize(at(keys * d));
  gemm({.m = keys, .n = d, .k = rows, .transpose_a = true, .beta = 0}, b.passed.data(),
       tile.query.data(), b.product.data());
  scatter(tile.keys, d, b.product, gradients.key);
  gemm({.m = keys, .n = d, .k = rows, .transpose_a = true, .beta = 0}, tile.scores.data(),
       b.gradient.data(), b.product.data());
  scatter(tile.keys, d, b.product, gradients.value);
}

void backward_head(const HeadOfDocument& head, const SortedChunksBackwardArguments& in) {
  const Index d = head.spec.head_size;
  const AttentionDocument& rows = head.document.rows;
  ChunkGradients gradients(head, d);
  BackwardTile tile;
  for (Index chunk = 0; chunk < head.chunks(); ++chunk) {
    tile_backward(head, chunk, in, tile, gradients);
  }
  const float* logsumexp = in.logsumexp.data<float>() + first_query(head, in.query);
  for (Index i = 0; i < rows.query_count; ++i) {
    if (logsumexp[i] != kUnseen) continue;
    gather_tokens(in.out_gradient, head, std::span(&i, 1), tile.gradient);
    float* to = gradients.value.data() + (rows.query_offset + i) * d;
    for (Index c = 0; c < d; ++c) to[c] += tile.gradient[at(c)];
  }
  const auto write = [&](const Floats& from, Index first, Tensor& to) {
    write_floats(from.data(), first * d, std::ssize(from), to);
  };
  write(gradients.query, first_query(head, in.query), in.query_gradient);
  write(gradients.key, first_key(head, in.key), in.key_gradient);
  write(gradients.value, first_key(head, in.value), in.value_gradient);
}

/// Calls body for every head of every document.
template <typename Body>
void for_heads(const SortedChunks& spec, int threads, Body&& body) {
  const Index documents = std::ssize(spec.documents);
  parallel_for(threads, documents * spec.heads, [&](Index i) {
    const ChunkedDocument& document = spec.documents[at(i / spec.heads)];
    if (document.rows.query_count == 0) return;
    body(HeadOfDocument{spec, document, i % spec.heads});
  });
}

}  // namespace

void sorted_chunks(const SortedChunks& spec, const SortedChunksArguments& in) {
  for_heads(spec, in.threads, [&](const HeadOfDocument& head) { forward_head(head, in); });
}

void sorted_chunks_backward(const SortedChunks& spec, const SortedChunksBackwardArguments& in) {
  for_heads(spec, in.threads, [&](const HeadOfDocument& head) { backward_head(head, in); });
}

double sorted_chunks_flops(const SortedChunks& spec) {
  double pairs = 0;
  for (const ChunkedDocument& document : spec.documents) {
    pairs += static_cast<double>(document.rows.query_count * document.rounds) *
             static_cast<double>(document.chunk * (document.before + 1 + document.after));
  }
  return 4 * pairs * static_cast<double>(spec.heads * spec.head_size);
}

}  // namespace longformer::kernels
