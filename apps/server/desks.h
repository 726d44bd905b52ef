// Threads that serve requests: each one from its JSON to its answer.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace longformer::server {

/// Work for a time without requests.
struct Rest {
  std::chrono::milliseconds after{5'000};
  std::function<void()> work = {};
};

/// A request that waits for its model has a thread, so there are as many as requests under way, and
/// few of them compute. The one that was idle last takes the next work: its team of OpenMP exists.
class Desks {
 public:
  /// `rest` is done once after each time of work, when all threads have been idle for so long.
  explicit Desks(std::size_t most, Rest rest = {}) : most_(most), rest_(std::move(rest)) {}
  /// Waits until all work is done.
  ~Desks();
  Desks(const Desks&) = delete;
  Desks& operator=(const Desks&) = delete;

  /// Calls `work` on one of the threads. Its exceptions must not leave it.
  void post(std::function<void()> work);
  /// Work that no thread has begun.
  std::int64_t waiting() const;

 private:
  struct Desk {
    std::function<void()> work;
    std::condition_variable changed;
  };
  void serve(Desk& own, std::function<void()> first);
  void wait(Desk& own, std::unique_lock<std::mutex>& lock);

  const std::size_t most_;
  const Rest rest_;
  mutable std::mutex mutex_;
  std::deque<std::function<void()>> waiting_;
  /// The last one was idle last.
  std::vector<Desk*> idle_;
  std::vector<std::thread> threads_;
  bool ends_ = false;
};

}  // namespace longformer::server
