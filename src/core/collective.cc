#include "core/collective.h"

#include <exception>
#include <span>
#include <string>

#include "core/error.h"
#include "core/hash.h"

namespace longformer {

void Ranks::max(std::span<float>) const {
  fail("ranks: expected max() and exchange(), which one document over ranks needs, found none");
}

void Ranks::exchange(const RankNeighbours&) const { max({}); }

template <typename Send>
void CheckedRanks::send(std::size_t bytes, Send&& send) const {
  try {
    send();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw RankLost(fmt::format("rank {} of {}: expected an answer of the others, found: {}", rank(),
                               count(), error.what()));
  }
  bytes_sent_ += static_cast<std::int64_t>(bytes);
}

void CheckedRanks::sum(std::span<double> values) const {
  send(values.size_bytes(), [&] { ranks_.sum(values); });
}

void CheckedRanks::sum(std::span<float> values) const {
  send(values.size_bytes(), [&] { ranks_.sum(values); });
}

void CheckedRanks::max(std::span<float> values) const {
  send(values.size_bytes(), [&] { ranks_.max(values); });
}

void CheckedRanks::exchange(const RankNeighbours& rows) const {
  send(rows.to_before.size() + rows.to_behind.size(), [&] { ranks_.exchange(rows); });
}

void exchange_rows(const Ranks& ranks, Tensor& x, const SharedRows& rows) {
  const std::size_t row = x.bytes() / static_cast<std::size_t>(x.rows());
  const auto bytes = [&](RowSpan span) {
    auto* first = static_cast<std::byte*>(x.raw()) + static_cast<std::size_t>(span.begin) * row;
    return std::span(first, static_cast<std::size_t>(span.count) * row);
  };
  ranks.exchange({.to_before = bytes(rows.to_before),
                  .to_behind = bytes(rows.to_behind),
                  .from_before = bytes(rows.from_before),
                  .from_behind = bytes(rows.from_behind)});
}

Tensor gathered_rows(const Ranks& ranks, const Tensor& rows, Index begin, Index count) {
  Tensor all = Tensor::zeros({count, rows.columns()}, DType::f32);
  Tensor mine = all.slice_rows(begin, rows.rows());
  rows.copy_to({mine.data<float>(), static_cast<std::size_t>(mine.size())});
  sum_over(ranks, all);
  return all;
}

void sum_over(const Ranks& ranks, Tensor& values) {
  ranks.sum(std::span(values.data<float>(), static_cast<std::size_t>(values.size())));
}

std::uint64_t hash_of(const Tensor& values, std::uint64_t before) {
  return fnv1a({static_cast<const char*>(values.raw()), values.bytes()}, before);
}

}  // namespace longformer
