#include "kernels/features/feature_attention.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "core/threads.h"
#include "kernels/features/feature_head.h"
#include "kernels/row_copies.h"

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

/// Features of a block, or their gradients.
class FeatureBuffer {
 public:
  explicit FeatureBuffer(FeatureHead& head)
      : wide_(at(kFeatureBlock * head.stride())),
        narrow_(head.products().is_narrow() ? wide_.size() : 0) {}

  FeatureMemory memory() { return {wide_.data(), narrow_.empty() ? nullptr : narrow_.data()}; }
  Factor factor() { return memory().factor(); }

 private:
  std::vector<float> wide_;
  std::vector<BFloat16> narrow_;
};

/// Calls body for the blocks of some rows, in order.
template <typename Body>
void for_blocks(Block rows, Index size, const Body& body) {
  for (Index begin = rows.begin; begin < rows.end; begin += size) {
    body(Block{begin, std::min(begin + size, rows.end)});
  }
}

/// Common part of the passes: where the rows of a task are, and sums over its keys.
class Reader {
 public:
  Reader(const FeatureAttentionSpec& spec, const Tensor& key, const Tensor& value)
      : spec_(spec),
        key_(key),
        value_(value),
        head_(spec.map, key.dtype()),
        key_features_(head_),
        counts_(at(head_.stride())) {
    for (auto& rows : rows_) rows.resize(at(kFeatureBlock * width()));
  }

  FeatureHead& head() { return head_; }
  Index width() const { return spec_.map.head_size; }
  FeatureMemory key_features() { return key_features_.memory(); }
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

  enum : std::size_t { kKeys, kValues, kQueries };

  /// Rows of the head of [H, n, d]; at each place those that were read last stay. Values are in
  /// products alone, so where these are in bf16 they are not widened.
  HeadBlock read(const Tensor& x, Block block, std::size_t place) {
    const Index first = (task_.head * x.dimension(1) + block.begin) * width();
    HeadBlock rows = {.rows = block.size()};
    if (!spec_.rows->key_mask.empty()) rows.mask = spec_.rows->key_mask.data() + block.begin;
    if (x.dtype() == DType::f32) {
      rows.values = x.data<float>() + first;
    } else {
      const BFloat16* from = x.data<BFloat16>() + first;
      if (head_.products().is_narrow()) rows.narrow = from;
      if (rows.narrow != nullptr && place == kValues) return rows;
      const RowsOf<float> to = {rows_[place].data(), block.size(), width(), width()};
      copy_rows(RowsOf<const BFloat16>{from, block.size(), width(), width()}, to);
      rows.values = rows_[place].data();
    }
    return rows;
  }
  HeadBlock keys(Block block) { return read(key_, block, kKeys); }
  HeadBlock values(Block block) { return read(value_, block, kValues); }
  HeadBlock queries(const Tensor& query, Block block) { return read(query, block, kQueries); }

  /// The rows in [n, H·d].
  RowPlace place_of_output(Block block) const {
    const Index columns = spec_.heads * width();
    return {block.begin * columns + task_.head * width(), columns};
  }

  /// Adds the keys of a block to the sums, from their features where these are made already.
  void add_features(Block block, const FeatureSums& sums) {
    head_.add(values(block), key_features(), counts_.data(), sums);
  }
  void make_features(Block block, const FeatureSums& sums, std::vector<float>* before = nullptr) {
    head_.key_features(keys(block), sums, key_features(), counts_.data(), before);
  }
  void add(Block block, const FeatureSums& sums) {
    make_features(block, sums);
    add_features(block, sums);
  }
  /// Sums over all keys of the task.
  void add_all(const FeatureSums& sums) {
    head_.clear(sums);
    if (spec_.map.has_floor()) {
      for_blocks(rows_of_task_, kFeatureBlock,
                 [&](Block block) { head_.look_at(keys(block), sums); });
    }
    for_blocks(rows_of_task_, kFeatureBlock, [&](Block block) { add(block, sums); });
  }

  /// Products of the features of queries with those of the keys up to each, [rows, rows], by which
  /// the denominators grow. Returns whether a query has lost digits.
  bool triangle(const Factor& query_features, Index rows, const FeatureSums& sums, float* weights,
                float* denominators) {
    head_.products().multiply({.m = rows, .n = rows, .k = head_.stride(), .transpose_b = true},
                              query_features, key_features_.factor(), weights);
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
  FeatureBuffer key_features_;
  std::vector<float> counts_;
  std::array<std::vector<float>, 3> rows_;
  Task task_;
  Block rows_of_task_;
};

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
        query_features_(head_),
        buffers_(kFeatureBlock * (kFeatureBlock + reader_.width() + 1) + head_.sum_size()),
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
      return for_blocks(reader_.rows(), kCausalBlock,
                        [&](Block block) { see_before(block, sums); });
    }
    reader_.add_all(sums);
    const Factor values = sum_values(sums);
    for_blocks(reader_.rows(), kFeatureBlock, [&](Block block) { see_all(block, sums, values); });
  }

 private:
  Factor sum_values(const FeatureSums& sums) {
    return head_.products().factor(sums.values, head_.features() * reader_.width(), narrow_sums_);
  }

  /// found = features of the queries · values of the sums.
  void find(Index rows, const Factor& values) {
    head_.products().multiply(
        {.m = rows, .n = reader_.width(), .k = head_.features(), .lda = head_.stride()},
        query_features_.factor(), values, found_);
  }

  void see_all(Block block, const FeatureSums& sums, const Factor& values) {
    const HeadBlock queries = reader_.queries(in_.query, block);
    head_.query_features(queries, sums, query_features_.memory(), denominators_);
    head_.guard(block.size(), false, sums, denominators_);
    find(block.size(), values);
    write(block, queries);
  }

  void see_before(Block block, const FeatureSums& sums) {
    const Index rows = block.size();
    std::vector<float> before;
    reader_.make_features(block, sums, &before);
    const HeadBlock queries = reader_.queries(in_.query, block);
    head_.query_features(queries, sums, query_features_.memory(), denominators_);
    if (reader_.triangle(query_features_.factor(), rows, sums, weights_, denominators_)) {
      // Fewer later keys raise the maxima, until every row has its own.
      std::copy(before.begin(), before.end(), sums.maxima);
      const Index middle = block.begin + rows / 2;
      see_before({block.begin, middle}, sums);
      return see_before({middle, block.end}, sums);
    }
    find(rows, sum_values(sums));
    FeatureProducts& products = head_.products();
    products.multiply({.m = rows, .n = reader_.width(), .k = rows, .beta = 1},
                      products.factor(weights_, rows * rows, narrow_weights_),
                      reader_.values(block).factor(), found_);
    reader_.add_features(block, sums);
    write(block, queries);
  }

  void write(Block block, const HeadBlock& queries) {
    const Index width = reader_.width();
    for (Index row = 0; row < block.size(); ++row) {
      denominators_[row] = inverse(queries, row, denominators_[row]);
    }
    write_rows({found_, block.size(), width, width}, in_.out, reader_.place_of_output(block),
               {.each = denominators_});
  }

  const FeatureAttentionSpec& spec_;
  const FeatureAttentionArguments& in_;
  Reader reader_;
  FeatureHead& head_;
  FeatureBuffer query_features_;
  Buffers buffers_;
  float *weights_, *found_, *denominators_, *sums_;
  std::vector<BFloat16> narrow_sums_, narrow_weights_;
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
        products_(head_.products()),
        query_features_(head_),
        gradients_(head_),
        buffers_(kFeatureBlock * (2 * kFeatureBlock + 3 * reader_.width() + 3) +
                 2 * head_.sum_size()),
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
  /// The values of sums as a factor.
  Factor values_of(const FeatureSums& sums, std::vector<BFloat16>& memory) const {
    return products_.factor(sums.values, head_.features() * reader_.width(), memory);
  }
  void everything() {
    reader_.add_all(sums_);
    const Factor values = values_of(sums_, narrow_sums_);
    for_blocks(reader_.rows(), kFeatureBlock, [&](Block block) {
      const HeadBlock queries = reader_.queries(in_.query, block);
      head_.query_features(queries, sums_, query_features_.memory(), denominators_);
      head_.guard(block.size(), false, sums_, denominators_);
      const Factor slopes = make_slopes(block, queries);
      feature_gradients(block.size(), slopes, values);
      query_gradient(block, queries, sums_);
      add_returned(block.size(), slopes);
    });
    const Factor returned = values_of(returned_, narrow_returned_);
    for_blocks(reader_.rows(), kFeatureBlock, [&](Block block) {
      reader_.make_features(block, sums_);
      value_gradient(block, returned);
      feature_gradients(block.size(), reader_.values(block).factor(), returned);
      key_gradient(block);
    });
  }

  void causal() {
    const Index piece = kKeptBlocks * kCausalBlock, size = head_.sum_size();
    const Block rows = reader_.rows();
    std::vector<float> kept;
    head_.clear(sums_);
    for (Index begin = rows.begin; begin < rows.end; begin += piece) {
      kept.insert(kept.end(), sums_.maxima, sums_.maxima + size);
      if (begin + piece >= rows.end) break;
      for_blocks({begin, begin + piece}, kCausalBlock,
                 [&](Block block) { reader_.add(block, sums_); });
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
    for_blocks(rows, kCausalBlock, [&](Block block) { blocks.push_back(block); });
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
    head_.query_features(queries, sums, query_features_.memory(), denominators_);
    if (reader_.triangle(query_features_.factor(), rows, sums, weights_, denominators_)) {
      std::copy(before.begin(), before.end(), sums.maxima);
      const Index middle = block.begin + rows / 2;
      std::vector<float> later(sums.maxima, sums.maxima + head_.sum_size());
      reader_.add({block.begin, middle}, {later.data(), head_.stride()});
      causal_block({middle, block.end}, {later.data(), head_.stride()});
      return causal_block({block.begin, middle}, sums);
    }
    const Factor slopes = make_slopes(block, queries);
    const Factor within = make_weight_gradients(block, slopes);
    head_.rescale_back(returned_, sums.maxima);
    const Index stride = head_.stride(), width = reader_.width();
    feature_gradients(rows, slopes, values_of(sums, narrow_sums_));
    products_.multiply({.m = rows, .n = stride, .k = rows, .beta = 1}, within,
                       reader_.key_features().factor(), gradients_.memory().wide);
    query_gradient(block, queries, sums);

    const Factor returned = values_of(returned_, narrow_returned_);
    products_.multiply({.m = rows, .n = width, .k = rows, .transpose_a = true},
                       products_.factor(weights_, rows * rows, narrow_weights_), slopes,
                       row_gradients_);
    value_gradient(block, returned, 1);
    feature_gradients(rows, reader_.values(block).factor(), returned);
    products_.multiply({.m = rows, .n = stride, .k = rows, .transpose_a = true, .beta = 1}, within,
                       query_features_.factor(), gradients_.memory().wide);
    key_gradient(block);
    add_returned(rows, slopes);
    head_.rescale_back(returned_, maxima.data());
  }

  /// The gradients of the sums that every query has seen, those of values and, in count_slopes_, of
  /// counts.
  Factor make_slopes(Block block, const HeadBlock& queries) {
    const Index width = reader_.width();
    const RowPlace place = reader_.place_of_output(block);
    read_rows(in_.out, place, {out_rows_, block.size(), width, width});
    read_rows(in_.out_gradient, place, {slopes_, block.size(), width, width});
    for (Index row = 0; row < block.size(); ++row) {
      const float factor = inverse(queries, row, denominators_[row]);
      for (Index c = 0; c < width; ++c) slopes_[row * width + c] *= factor;
    }
    multiply_rows(out_rows_, slopes_, block.size(), width, count_slopes_);
    for (Index row = 0; row < block.size(); ++row) count_slopes_[row] = -count_slopes_[row];
    return products_.factor(slopes_, block.size() * width, narrow_slopes_);
  }

  /// Those of the products of features within the block.
  Factor make_weight_gradients(Block block, const Factor& slopes) {
    const Index rows = block.size();
    products_.multiply({.m = rows, .n = rows, .k = reader_.width(), .transpose_b = true}, slopes,
                       reader_.values(block).factor(), weight_gradients_);
    for (Index row = 0; row < rows; ++row) {
      float* own = weight_gradients_ + row * rows;
      for (Index key = 0; key <= row; ++key) own[key] += count_slopes_[row];
      std::fill(own + row + 1, own + rows, 0.0f);
    }
    return products_.factor(weight_gradients_, rows * rows, narrow_weight_gradients_);
  }

  /// gradients = rows · values of sumsᵀ
  void feature_gradients(Index rows, const Factor& of_rows, const Factor& of_sums) {
    products_.multiply({.m = rows,
                        .n = head_.features(),
                        .k = reader_.width(),
                        .transpose_b = true,
                        .ldc = head_.stride()},
                       of_rows, of_sums, gradients_.memory().wide);
  }

  void query_gradient(Block block, const HeadBlock& queries, const FeatureSums& sums) {
    head_.backward(queries, false,
                   {query_features_.memory(), gradients_.memory(), count_slopes_, sums.counts},
                   row_gradients_);
    put(in_.query_gradient, block);
  }

  void key_gradient(Block block) {
    head_.backward(reader_.keys(block), true,
                   {reader_.key_features(), gradients_.memory(), ones_, returned_.counts},
                   row_gradients_);
    put(in_.key_gradient, block);
  }

  /// Beta 1 adds to what the row gradients hold.
  void value_gradient(Block block, const Factor& returned, float beta = 0) {
    products_.multiply({.m = block.size(),
                        .n = reader_.width(),
                        .k = head_.features(),
                        .lda = head_.stride(),
                        .beta = beta},
                       reader_.key_features().factor(), returned, row_gradients_);
    put(in_.value_gradient, block);
  }

  /// Gradients that the queries of a block return to earlier keys.
  void add_returned(Index rows, const Factor& slopes) {
    const FeatureMemory features = query_features_.memory();
    products_.multiply({.m = head_.features(),
                        .n = reader_.width(),
                        .k = rows,
                        .transpose_a = true,
                        .lda = head_.stride(),
                        .beta = 1},
                       features.factor(), slopes, returned_.values);
    head_.add_counts(features, rows, count_slopes_, returned_.counts);
  }

  void put(Tensor& gradient, Block block) {
    const Index width = reader_.width();
    const Index first = (reader_.task().head * gradient.dimension(1) + block.begin) * width;
    write_rows({row_gradients_, block.size(), width, width}, gradient, {first, width});
  }

  const FeatureAttentionSpec& spec_;
  const FeatureAttentionBackwardArguments& in_;
  Reader reader_;
  FeatureHead& head_;
  FeatureProducts& products_;
  FeatureBuffer query_features_, gradients_;
  Buffers buffers_;
  float *weights_, *weight_gradients_, *slopes_, *out_rows_;
  float *row_gradients_, *count_slopes_, *denominators_, *ones_;
  /// The sums hold what the keys give; queries return sums of the same form to them.
  FeatureSums sums_, returned_;
  std::vector<BFloat16> narrow_sums_, narrow_returned_, narrow_slopes_, narrow_weights_;
  std::vector<BFloat16> narrow_weight_gradients_;
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

Index FeatureAttentionSpec::sum_size() const { return FeatureHead(map, DType::f32).sum_size(); }

Tensor empty_feature_sums(const FeatureAttentionSpec& spec, Index documents) {
  const FeatureHead head(spec.map, DType::f32);
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
