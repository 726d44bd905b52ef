// Tensors that several processes hold.
#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>

#include "core/tensor.h"
#include "longformer/ranks.h"

namespace longformer {

/// A rank that does not answer any more: no result of this process can be right.
class RankLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The ranks of a caller: every exception of theirs becomes RankLost, and what is sent is counted.
class CheckedRanks final : public Ranks {
 public:
  /// `ranks` must outlive it.
  explicit CheckedRanks(const Ranks& ranks) : ranks_(ranks) {}

  int rank() const override { return ranks_.rank(); }
  int count() const override { return ranks_.count(); }
  void sum(std::span<double> values) const override;
  void sum(std::span<float> values) const override;
  void max(std::span<float> values) const override;
  void exchange(const RankNeighbours& rows) const override;

  /// Bytes that this rank has given to the others so far, those of a sum once.
  std::int64_t bytes_sent() const { return bytes_sent_; }

 private:
  template <typename Send>
  void send(std::size_t bytes, Send&& send) const;

  const Ranks& ranks_;
  mutable std::atomic<std::int64_t> bytes_sent_ = 0;
};

struct RowSpan {
  Index begin = 0, count = 0;
};
/// Rows of a tensor that the neighbours want, and those that take the place of rows of theirs.
struct SharedRows {
  RowSpan to_before, to_behind, from_before, from_behind;
};
void exchange_rows(const Ranks& ranks, Tensor& x, const SharedRows& rows);

/// The rows of all ranks as one tensor of `count` rows, fp32: those of this one begin with `begin`,
/// and no two ranks have the same.
Tensor gathered_rows(const Ranks& ranks, const Tensor& rows, Index begin, Index count);

/// Replaces every element of a fp32 tensor by its sum over all ranks.
void sum_over(const Ranks& ranks, Tensor& values);

/// A hash of the elements of a tensor; what follows `before` goes on with its hash.
std::uint64_t hash_of(const Tensor& values, std::uint64_t before);

}  // namespace longformer
