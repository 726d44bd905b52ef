#include "kernels/features/feature_attention.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "core/threads.h"
#include "kernels/features/feature_head.h"
#include "kernels/gemm.h"

namespace longformer::kernels {
namespace {

/// Rows of the tensors.
struct Block {
  Index begin = 0, end = 0;
  Index size() const { return end - begin; }
};

/// A head of a document.
struct Task {
  Index document = 0, head = 0;
};

/// Memory of one thread, handed out piece by piece.
class Buffers {
 public:
  explicit Buffers(Index floats) : memory_(at(floats)), next_(memory_.data()) {}
  float* take(Index floats) { return std::exchange(next_, next_ + floats); }

 private:
  std::vector<float> memory_;
  float* next_;
};

/// Calls body for the blocks of some rows, in order.
template <typename Body>
void for_blocks(Block rows, const Body& body) {
  for (Index begin = rows.begin; begin < rows.end; begin += kFeatureBlock) {
    body(Block{begin, std::min(begin + kFeatureBlock, rows.end)});
  }
}

/// Common part of the passes: where the rows of a task are, and sums over its keys.
class Reader {
 public:
  Reader(const FeatureAttentionSpec& spec, const Tensor& key, const Tensor& value)
      : spec_(spec),
        key_(key),
        value_(value),
        head_(spec.map),
        buffers_(4 * kFeatureBlock * width() + kFeatureBlock * head_.stride() + head_.stride()) {
    for (float*& rows : rows_) rows = buffers_.take(kFeatureBlock * width());
    key_features_ = buffers_.take(kFeatureBlock * head_.stride());
    counts_ = buffers_.take(head_.stride());
  }

  FeatureHead& head() { return head_; }
  Index width() const { return spec_.map.head_size; }
  float* key_features() const { return key_features_; }
  const float* counts() const { return counts_; }
  Block rows() const { return rows_of_task_; }
  Task task() const { return task_; }

  void start(Task task, const Tensor& directions) {
    task_ = task;
    const AttentionDocument& document = spec_.rows->documents[at(task.document)];
    rows_of_task_ = {document.query_begin, document.query_begin + document.query_count};
    if (directions.empty()) return head_.start(nullptr);
    const Index own = directions.shape().size() == 3 ? task.head : 0;
    head_.start(directions.data<float>() + own * spec_.map.directions * width());
  }

  /// Rows of the head of [H, n, d] as fp32; at each place those that were read last stay.
  HeadBlock read(const Tensor& x, Block block, Index place) const {
    const Index first = (task_.head * x.dimension(1) + block.begin) * width();
    const Index count = block.size() * width();
    HeadBlock rows = {.rows = block.size()};
    if (!spec_.rows->key_mask.empty()) rows.mask = spec_.rows->key_mask.data() + block.begin;
    if (x.dtype() == DType::f32) {
      rows.values = x.data<float>() + first;
    } else {
      const BFloat16* from = x.data<BFloat16>() + first;
      std::transform(from, from + count, rows_[at(place)],
                     [](BFloat16 value) { return static_cast<float>(value); });
      rows.values = rows_[at(place)];
    }
    return rows;
  }
  HeadBlock keys(Block block) const { return read(key_, block, 0); }
  HeadBlock values(Block block) const { return read(value_, block, 1); }
  HeadBlock queries(const Tensor& query, Block block) const { return read(query, block, 2); }

  /// Adds the keys of a block to the sums, from their features where these are made already.
  void add_features(Block block, const FeatureSums& sums) {
    head_.add(values(block), key_features_, counts_, sums);
  }
  void make_features(Block block, const FeatureSums& sums, std::vector<float>* before = nullptr) {
    head_.key_features(keys(block), sums, key_features_, counts_, before);
  }
  void add(Block block, const FeatureSums& sums) {
    make_features(block, sums);
    add_features(block, sums);
  }
  /// Sums over all keys of the task.
  void add_all(const FeatureSums& sums) {
    head_.clear(sums);
    if (spec_.map.has_floor()) {
      for_blocks(rows_of_task_, [&](Block block) { head_.look_at(keys(block), sums); });
    }
    for_blocks(rows_of_task_, [&](Block block) { add(block, sums); });
  }

  /// Products of the features of queries with those of the keys up to each, [rows, rows], by which
  /// the denominators grow. Returns whether a query has lost digits.
  bool triangle(const float* query_features, Index rows, const FeatureSums& sums, float* weights,
                float* denominators) const {
    const Index stride = head_.stride();
    gemm({.m = rows, .n = rows, .k = stride, .transpose_b = true}, query_features, key_features_,
         weights);
    bool is_lost = false;
    for (Index row = 0; row < rows; ++row) {
      float* own = weights + row * rows;
      denominators[row] += std::accumulate(own, own + row + 1, 0.0f);
      std::fill(own + row + 1, own + rows, 0.0f);
      is_lost = is_lost || head_.is_lost(row, denominators[row], sums);
    }
    head_.guard(rows, true, sums, denominators);
    return is_lost && rows > 1;
  }

 private:
  const FeatureAttentionSpec& spec_;
  const Tensor &key_, &value_;
  FeatureHead head_;
  Buffers buffers_;
  std::array<float*, 4> rows_ = {};
  float *key_features_, *counts_;
  Task task_;
  Block rows_of_task_;
};

template <typename T>
void write_row(const float* from, float factor, Index count, T* to) {
  for (Index c = 0; c < count; ++c) to[c] = static_cast<T>(from[c] * factor);
}

/// The factor of a masked row, and of a row that sees nothing, is 0.
float inverse(const HeadBlock& queries, Index row, float denominator) {
  return queries.is_masked(row) || denominator == 0 ? 0 : 1 / denominator;
}

class FeatureForwardWorker {
 public:
  FeatureForwardWorker(const FeatureAttentionSpec& spec, const FeatureAttentionArguments& in)
      : spec_(spec),
        in_(in),
        reader_(spec, in.key, in.value),
        head_(reader_.head()),
        buffers_(kFeatureBlock * (head_.stride() + kFeatureBlock + reader_.width() + 1) +
                 head_.sum_size()),
        query_features_(buffers_.take(kFeatureBlock * head_.stride())),
        weights_(buffers_.take(kFeatureBlock * kFeatureBlock)),
        found_(buffers_.take(kFeatureBlock * reader_.width())),
        denominators_(buffers_.take(kFeatureBlock)),
        sums_(buffers_.take(head_.sum_size())) {}

  void run(Task task) {
    reader_.start(task, in_.directions);
    FeatureSums sums(sums_, head_.stride());
    if (in_.sums != nullptr) {
      const Index place = task.document * spec_.heads + task.head;
      sums = {in_.sums->data<float>() + place * head_.sum_size(), head_.stride()};
    } else {
      head_.clear(sums);
    }
    if (spec_.causal) {
      return for_blocks(reader_.rows(), [&](Block block) { see_before(block, sums); });
    }
    reader_.add_all(sums);
    for_blocks(reader_.rows(), [&](Block block) { see_all(block, sums); });
  }

 private:
  /// found = features of the queries · values of the sums.
  void find(Index rows, const FeatureSums& sums) {
    gemm({.m = rows, .n = reader_.width(), .k = head_.features(), .lda = head_.stride()},
         query_features_, sums.values, found_);
  }

  void see_all(Block block, const FeatureSums& sums) {
    const HeadBlock queries = reader_.queries(in_.query, block);
    head_.query_features(queries, sums, query_features_, denominators_);
    head_.guard(block.size(), false, sums, denominators_);
    find(block.size(), sums);
    write(block, queries);
  }

  void see_before(Block block, const FeatureSums& sums) {
    const Index rows = block.size();
    std::vector<float> before;
    reader_.make_features(block, sums, &before);
    const HeadBlock queries = reader_.queries(in_.query, block);
    head_.query_features(queries, sums, query_features_, denominators_);
    if (reader_.triangle(query_features_, rows, sums, weights_, denominators_)) {
      // Fewer later keys raise the maxima, until every row has its own.
      std::copy(before.begin(), before.end(), sums.maxima);
      const Index middle = block.begin + rows / 2;
      see_before({block.begin, middle}, sums);
      return see_before({middle, block.end}, sums);
    }
    find(rows, sums);
    gemm({.m = rows, .n = reader_.width(), .k = rows, .beta = 1}, weights_,
         reader_.values(block).values, found_);
    reader_.add_features(block, sums);
    write(block, queries);
  }

  void write(Block block, const HeadBlock& queries) {
    const Index width = reader_.width(), columns = spec_.heads * width;
    for (Index row = 0; row < block.size(); ++row) {
      const float factor = inverse(queries, row, denominators_[row]);
      const float* from = found_ + row * width;
      const Index to = (block.begin + row) * columns + reader_.task().head * width;
      if (in_.out.dtype() == DType::f32) {
        write_row(from, factor, width, in_.out.data<float>() + to);
      } else {
        write_row(from, factor, width, in_.out.data<BFloat16>() + to);
      }
    }
  }

  const FeatureAttentionSpec& spec_;
  const FeatureAttentionArguments& in_;
  Reader reader_;
  FeatureHead& head_;
  Buffers buffers_;
  float *query_features_, *weights_, *found_, *denominators_, *sums_;
};

/// Blocks between which the sums are kept; within them they are computed again
/// (docs/spec/low-rank-and-kernels.md#f4).
constexpr Index kKeptBlocks = 64;

class FeatureBackwardWorker {
 public:
  FeatureBackwardWorker(const FeatureAttentionSpec& spec,
                        const FeatureAttentionBackwardArguments& in)
      : spec_(spec),
        in_(in),
        reader_(spec, in.key, in.value),
        head_(reader_.head()),
        buffers_(kFeatureBlock *
                     (2 * head_.stride() + 2 * kFeatureBlock + 3 * reader_.width() + 3) +
                 2 * head_.sum_size()),
        query_features_(buffers_.take(kFeatureBlock * head_.stride())),
        gradients_(buffers_.take(kFeatureBlock * head_.stride())),
        weights_(buffers_.take(kFeatureBlock * kFeatureBlock)),
        weight_gradients_(buffers_.take(kFeatureBlock * kFeatureBlock)),
        slopes_(buffers_.take(kFeatureBlock * reader_.width())),
        out_rows_(buffers_.take(kFeatureBlock * reader_.width())),
        row_gradients_(buffers_.take(kFeatureBlock * reader_.width())),
        count_slopes_(buffers_.take(kFeatureBlock)),
        denominators_(buffers_.take(kFeatureBlock)),
        ones_(buffers_.take(kFeatureBlock)),
        sums_(buffers_.take(head_.sum_size()), head_.stride()),
        returned_(buffers_.take(head_.sum_size()), head_.stride()) {
    std::fill_n(ones_, kFeatureBlock, 1.0f);
  }

  void run(Task task) {
    reader_.start(task, in_.directions);
    head_.clear(returned_);
    // Nothing has come back yet: by any maxima that is nothing.
    std::fill_n(returned_.maxima, head_.stride(), std::numeric_limits<float>::max());
    if (spec_.causal) {
      causal();
    } else {
      everything();
    }
  }

 private:
  void everything() {
    reader_.add_all(sums_);
    for_blocks(reader_.rows(), [&](Block block) {
      const HeadBlock queries = reader_.queries(in_.query, block);
      head_.query_features(queries, sums_, query_features_, denominators_);
      head_.guard(block.size(), false, sums_, denominators_);
      make_slopes(block, queries);
      query_gradient(block, queries, sums_, 0);
      add_returned(block.size());
    });
    for_blocks(reader_.rows(), [&](Block block) {
      reader_.make_features(block, sums_);
      key_gradients(block, 0);
    });
  }

  void causal() {
    const Index piece = kKeptBlocks * kFeatureBlock, size = head_.sum_size();
    const Block rows = reader_.rows();
    std::vector<float> kept;
    head_.clear(sums_);
    for (Index begin = rows.begin; begin < rows.end; begin += piece) {
      kept.insert(kept.end(), sums_.maxima, sums_.maxima + size);
      if (begin + piece >= rows.end) break;
      for_blocks({begin, begin + piece}, [&](Block block) { reader_.add(block, sums_); });
    }
    for (Index number = static_cast<Index>(kept.size()) / size - 1; number >= 0; --number) {
      const Index begin = rows.begin + number * piece;
      std::vector<float> before(kept.end() - size, kept.end());
      kept.resize(kept.size() - at(size));
      causal_piece({begin, std::min(begin + piece, rows.end)}, std::move(before));
    }
  }

  /// `before` are the sums at its begin.
  void causal_piece(Block rows, std::vector<float> before) {
    const Index size = head_.sum_size();
    std::vector<Block> blocks;
    for_blocks(rows, [&](Block block) { blocks.push_back(block); });
    before.reserve(blocks.size() * at(size));
    for (std::size_t i = 0; i + 1 < blocks.size(); ++i) {
      before.insert(before.end(), before.end() - size, before.end());
      reader_.add(blocks[i], {&*(before.end() - size), head_.stride()});
    }
    for (Index i = std::ssize(blocks) - 1; i >= 0; --i) {
      causal_block(blocks[at(i)], {before.data() + i * size, head_.stride()});
    }
  }

  /// `sums` are those before the block; they change.
  void causal_block(Block block, const FeatureSums& sums) {
    const Index rows = block.size();
    std::vector<float> before;
    const std::vector<float> maxima(sums.maxima, sums.maxima + head_.stride());
    reader_.make_features(block, sums, &before);
    const HeadBlock queries = reader_.queries(in_.query, block);
    head_.query_features(queries, sums, query_features_, denominators_);
    if (reader_.triangle(query_features_, rows, sums, weights_, denominators_)) {
      std::copy(before.begin(), before.end(), sums.maxima);
      const Index middle = block.begin + rows / 2;
      std::vector<float> later(sums.maxima, sums.maxima + head_.sum_size());
      reader_.add({block.begin, middle}, {later.data(), head_.stride()});
      causal_block({middle, block.end}, {later.data(), head_.stride()});
      return causal_block({block.begin, middle}, sums);
    }
    make_slopes(block, queries);
    make_weight_gradients(block);
    head_.rescale_back(returned_, sums.maxima);
    query_gradient(block, queries, sums, rows);
    key_gradients(block, rows);
    add_returned(rows);
    head_.rescale_back(returned_, maxima.data());
  }

  /// Makes the gradients of the sums that every query has seen, those of values and of counts.
  void make_slopes(Block block, const HeadBlock& queries) {
    const Index width = reader_.width(), columns = spec_.heads * width;
    const auto read = [&](const Tensor& x, Index row, float* to) {
      const Index from = (block.begin + row) * columns + reader_.task().head * width;
      for (Index c = 0; c < width; ++c) {
        to[c] = x.dtype() == DType::f32 ? x.data<float>()[from + c]
                                        : static_cast<float>(x.data<BFloat16>()[from + c]);
      }
    };
    for (Index row = 0; row < block.size(); ++row) {
      float* slopes = slopes_ + row * width;
      read(in_.out_gradient, row, slopes);
      read(in_.out, row, out_rows_ + row * width);
      const float factor = inverse(queries, row, denominators_[row]);
      for (Index c = 0; c < width; ++c) slopes[c] *= factor;
    }
    multiply_rows(out_rows_, slopes_, block.size(), width, count_slopes_);
    for (Index row = 0; row < block.size(); ++row) count_slopes_[row] = -count_slopes_[row];
  }

  /// Those of the products of features within the block.
  void make_weight_gradients(Block block) {
    const Index rows = block.size();
    gemm({.m = rows, .n = rows, .k = reader_.width(), .transpose_b = true}, slopes_,
         reader_.values(block).values, weight_gradients_);
    for (Index row = 0; row < rows; ++row) {
      float* own = weight_gradients_ + row * rows;
      for (Index key = 0; key <= row; ++key) own[key] += count_slopes_[row];
      std::fill(own + row + 1, own + rows, 0.0f);
    }
  }

  /// Uses the sums and, in addition, the last `own` keys, which are those of the block.
  void query_gradient(Block block, const HeadBlock& queries, const FeatureSums& sums, Index own) {
    const Index rows = block.size(), stride = head_.stride();
    gemm({.m = rows,
          .n = head_.features(),
          .k = reader_.width(),
          .transpose_b = true,
          .ldc = stride},
         slopes_, sums.values, gradients_);
    if (own > 0) {
      gemm({.m = rows, .n = stride, .k = own, .beta = 1}, weight_gradients_, reader_.key_features(),
           gradients_);
    }
    head_.backward(queries, false, {query_features_, gradients_, count_slopes_, sums.counts},
                   row_gradients_);
    put(in_.query_gradient, block);
  }

  void key_gradients(Block block, Index own) {
    const Index rows = block.size(), width = reader_.width(), stride = head_.stride();
    const HeadBlock values = reader_.values(block);
    gemm({.m = rows, .n = width, .k = head_.features(), .lda = stride}, reader_.key_features(),
         returned_.values, row_gradients_);
    if (own > 0) {
      gemm({.m = rows, .n = width, .k = own, .transpose_a = true, .beta = 1}, weights_, slopes_,
           row_gradients_);
    }
    put(in_.value_gradient, block);
    gemm({.m = rows, .n = head_.features(), .k = width, .transpose_b = true, .ldc = stride},
         values.values, returned_.values, gradients_);
    if (own > 0) {
      gemm({.m = rows, .n = stride, .k = own, .transpose_a = true, .beta = 1}, weight_gradients_,
           query_features_, gradients_);
    }
    head_.backward(reader_.keys(block), true,
                   {reader_.key_features(), gradients_, ones_, returned_.counts}, row_gradients_);
    put(in_.key_gradient, block);
  }

  /// Gradients that the queries of a block return to earlier keys.
  void add_returned(Index rows) {
    gemm({.m = head_.features(),
          .n = reader_.width(),
          .k = rows,
          .transpose_a = true,
          .lda = head_.stride(),
          .beta = 1},
         query_features_, slopes_, returned_.values);
    for (Index row = 0; row < rows; ++row) {
      const float* features = query_features_ + row * head_.stride();
      for (Index r = 0; r < head_.features(); ++r) {
        returned_.counts[r] += count_slopes_[row] * features[r];
      }
    }
  }

  void put(Tensor& gradient, Block block) {
    const Index width = reader_.width(), count = block.size() * width;
    const Index first = (reader_.task().head * gradient.dimension(1) + block.begin) * width;
    if (gradient.dtype() == DType::f32) {
      std::copy_n(row_gradients_, count, gradient.data<float>() + first);
    } else {
      write_row(row_gradients_, 1.0f, count, gradient.data<BFloat16>() + first);
    }
  }

  const FeatureAttentionSpec& spec_;
  const FeatureAttentionBackwardArguments& in_;
  Reader reader_;
  FeatureHead& head_;
  Buffers buffers_;
  float *query_features_, *gradients_, *weights_, *weight_gradients_, *slopes_, *out_rows_;
  float *row_gradients_, *count_slopes_, *denominators_, *ones_;
  /// The sums hold what the keys give; queries return sums of the same form to them.
  FeatureSums sums_, returned_;
};

/// Runs all heads of all documents, with a worker for each thread.
template <typename Worker, typename Arguments>
void run_heads(const FeatureAttentionSpec& spec, const Arguments& in) {
  const Index tasks = std::ssize(spec.rows->documents) * spec.heads;
  std::vector<std::unique_ptr<Worker>> workers(at(std::max(1, in.threads)));
  parallel_for(in.threads, tasks, [&](Index number) {
    auto& worker = workers[in.threads <= 1 ? 0 : at(thread_number())];
    if (!worker) worker = std::make_unique<Worker>(spec, in);
    worker->run({number / spec.heads, number % spec.heads});
  });
}

}  // namespace

Index FeatureAttentionSpec::sum_size() const { return FeatureHead(map).sum_size(); }

Tensor empty_feature_sums(const FeatureAttentionSpec& spec, Index documents) {
  const FeatureHead head(spec.map);
  const Index count = documents * spec.heads, size = head.sum_size();
  Tensor sums({documents, spec.heads, size}, DType::f32);
  for (Index i = 0; i < count; ++i) head.clear({sums.data<float>() + i * size, head.stride()});
  return sums;
}

void feature_attention(const FeatureAttentionSpec& spec, const FeatureAttentionArguments& in) {
  assert(spec.rows->query_count() == spec.rows->key_count());
  assert(!spec.causal || !spec.map.has_floor());
  assert(in.sums == nullptr || spec.causal);
  run_heads<FeatureForwardWorker>(spec, in);
}

void feature_attention_backward(const FeatureAttentionSpec& spec,
                                const FeatureAttentionBackwardArguments& in) {
  run_heads<FeatureBackwardWorker>(spec, in);
}

double feature_attention_flops(const FeatureAttentionSpec& spec) {
  const auto rows = static_cast<double>(spec.rows->query_count());
  const auto width = static_cast<double>(spec.map.head_size);
  const auto directions = static_cast<double>(spec.map.directions);
  const auto features = static_cast<double>(spec.map.features());
  return rows * static_cast<double>(spec.heads) * 4 * width * (directions + features);
}

}  // namespace longformer::kernels
