// Threads that serve requests: each one from its JSON to its answer.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace longformer::server {

/// A request that waits for its model has a thread, so there are as many as requests under way, and
/// few of them compute. The one that was idle last takes the next work: its team of OpenMP exists.
class Desks {
 public:
  explicit Desks(std::size_t most) : most_(most) {}
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

  const std::size_t most_;
  mutable std::mutex mutex_;
  std::deque<std::function<void()>> waiting_;
  /// The last one was idle last.
  std::vector<Desk*> idle_;
  std::vector<std::thread> threads_;
  bool ends_ = false;
};

}  // namespace longformer::server
