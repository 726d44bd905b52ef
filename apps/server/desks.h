// Threads that serve requests: each one from its JSON to its answer.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
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
  /// `rest` is done once after each time of work, so long after its end, when all threads are idle.
  explicit Desks(std::size_t most, Rest rest = {}) : most_(most), rest_(std::move(rest)) {}
  /// Waits until all work is done.
  ~Desks();
  Desks(const Desks&) = delete;
  Desks& operator=(const Desks&) = delete;

  /// Calls `work` on one of the threads. Its exceptions must not leave it. The time for a rest
  /// begins again unless the work is light, as a question for the state of the server.
  void post(std::function<void()> work, bool is_light = false);
  /// Work that no thread has begun.
  std::int64_t waiting() const;

 private:
  struct Work {
    std::function<void()> call = {};
    bool is_light = false;
  };
  struct Desk {
    Work work;
    std::condition_variable changed;
  };
  void serve(Desk& own, Work first);
  void complete(Work work);
  void wait(Desk& own, std::unique_lock<std::mutex>& lock);

  const std::size_t most_;
  const Rest rest_;
  /// The end of the last work that was not light; absent after the rest.
  std::optional<std::chrono::steady_clock::time_point> busy_until_;
  mutable std::mutex mutex_;
  std::deque<Work> waiting_;
  /// The last one was idle last.
  std::vector<Desk*> idle_;
  std::vector<std::thread> threads_;
  bool ends_ = false;
};

}  // namespace longformer::server
