// Ranks that are threads of one process.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <span>
#include <stdexcept>
#include <vector>

#include "longformer/ranks.h"

namespace longformer {

/// Threads that add in turns. Who leaves makes the others throw.
class RankThreads {
 public:
  explicit RankThreads(int count)
      : parts_(static_cast<std::size_t>(count)), rows_(static_cast<std::size_t>(count)) {}

  class Member : public Ranks {
   public:
    Member(RankThreads& all, int rank) : all_(all), rank_(rank) {}
    ~Member() override { all_.leave(); }
    int rank() const override { return rank_; }
    int count() const override { return static_cast<int>(all_.parts_.size()); }
    void sum(std::span<double> values) const override { add(values); }
    void sum(std::span<float> values) const override { add(values); }
    void max(std::span<float> values) const override {
      merge(values, [](double a, double b) { return std::max(a, b); });
    }
    void exchange(const RankNeighbours& rows) const override {
      all_.rows_.at(static_cast<std::size_t>(rank_)) = rows;
      all_.meet();
      if (rank_ > 0) receive(rows.from_before, all_.rows_.at(before()).to_behind);
      if (rank_ + 1 < count()) receive(rows.from_behind, all_.rows_.at(before() + 2).to_before);
      all_.meet();
    }

   private:
    std::size_t before() const { return static_cast<std::size_t>(rank_) - 1; }
    static void receive(std::span<std::byte> to, std::span<const std::byte> from) {
      if (to.size() != from.size()) throw std::runtime_error("rows of another size");
      std::copy(from.begin(), from.end(), to.begin());
    }
    template <typename Number>
    void add(std::span<Number> values) const {
      merge(values, [](double a, double b) { return a + b; });
    }
    template <typename Number, typename Merge>
    void merge(std::span<Number> values, const Merge& merge) const {
      all_.parts_[static_cast<std::size_t>(rank_)].assign(values.begin(), values.end());
      all_.meet();
      for (std::size_t i = 0; i < values.size(); ++i) {
        double merged = all_.parts_[0].at(i);
        for (std::size_t rank = 1; rank < all_.parts_.size(); ++rank) {
          merged = merge(merged, all_.parts_[rank].at(i));
        }
        values[i] = static_cast<Number>(merged);
      }
      all_.meet();
    }

    RankThreads& all_;
    int rank_;
  };

 private:
  void meet() {
    std::unique_lock lock(mutex_);
    const int turn = turn_;
    if (++waiting_ == static_cast<int>(parts_.size())) {
      waiting_ = 0;
      ++turn_;
      changed_.notify_all();
      return;
    }
    changed_.wait(lock, [&] { return turn_ != turn || has_left_; });
    if (turn_ == turn) throw std::runtime_error("connection closed");
  }
  void leave() {
    const std::scoped_lock lock(mutex_);
    has_left_ = true;
    changed_.notify_all();
  }

  std::vector<std::vector<double>> parts_;
  std::vector<RankNeighbours> rows_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  int turn_ = 0;
  bool has_left_ = false;
};

}  // namespace longformer
