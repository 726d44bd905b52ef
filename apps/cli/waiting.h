// Inputs that one thread has read and another has not yet answered.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace longformer::cli {

/// First in, first out; each with the number of bytes that it was read from.
template <typename Item>
class Waiting {
 public:
  struct Entry {
    Item item;
    std::int64_t bytes = 0;
  };

  void push(Item item, std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    entries_.push_back({std::move(item), bytes});
  }

  /// The next one; absent when none waits.
  std::optional<Entry> pop() {
    return pop_if([](const Item&) { return true; });
  }

  /// The next one; absent when none waits, or it is not what is wanted.
  template <typename Wanted>
  std::optional<Entry> pop_if(const Wanted& is_wanted) {
    const std::lock_guard lock(mutex_);
    if (entries_.empty() || !is_wanted(entries_.front().item)) return std::nullopt;
    Entry entry = std::move(entries_.front());
    entries_.pop_front();
    return entry;
  }

 private:
  std::mutex mutex_;
  std::deque<Entry> entries_;
};

}  // namespace longformer::cli
