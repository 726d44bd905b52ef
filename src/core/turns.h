// The order of computations, and the cores of each: the call that has least left to do comes first.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/memory.h"
#include "core/shared_cores.h"
#include "core/threads.h"

namespace longformer {

/// The cores, handed out to computations. They go to the shortest of those who wait (shortest
/// remaining work first; of about one length, the first one). A long computation has nearly all of
/// them, and lends them between its parts to much shorter ones, so a sentence never waits for a
/// book. Short passes that wait together share the cores and run side by side. Nobody starves: a
/// call that waits longer than four times its own work and a second is late, and late ones together
/// get a quarter of the time.
class Turns {
  struct State;

 public:
  /// `arrival` is that of servers with one queue, to compare with: nobody goes first, and nobody
  /// lends.
  enum class Order { shortest, arrival };

  explicit Turns(Order order = Order::shortest);
  ~Turns();
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  using Clock = std::chrono::steady_clock;
  /// A pass of up to so many tokens cannot use many cores well.
  static constexpr std::int64_t kShortTokens = 512;

  /// The work of a call, in seconds of all cores. One that does not know it has none.
  struct Claim {
    double rest = 0;   ///< Not yet computed, this turn included.
    double whole = 0;  ///< From begin to end.
    Clock::time_point since = Clock::now();
  };

  /// Cores that a computation can use.
  struct Width {
    int most = 1;
    /// Tokens of a pass, which may run beside other passes; 0 for what runs alone.
    std::int64_t tokens = 0;
  };

  /// A thread that waits for its turn, or for another that does its work meanwhile.
  class Waiter {
   public:
    /// Waiters of one kind may be computed together; null: each by itself.
    Waiter(Claim claim, Width width, const void* kind = nullptr)
        : claim_(claim), width_(width), kind_(kind) {}
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

    const void* kind() const { return kind_; }
    /// Threads of its turn; for the thread whose turn it is.
    int threads() const { return threads_; }
    /// Computed in its turn, in seconds of all cores; for the thread whose turn it is.
    double seconds() const;

   private:
    friend class Turns;
    enum class Place { outside, waiting, running, lent, taken, done };

    Claim claim_;
    Width width_;
    const void* kind_;
    int threads_ = 1;
    /// The cores that its thread has, of all.
    double share_ = 1;
    Place place_ = Place::outside;
    /// The queue that it waits in.
    Turns::State* queue_ = nullptr;
    std::uint64_t number_ = 0;
    /// Nobody wants the result any more.
    bool abandoned_ = false;
    /// Seconds of all cores in its turn so far, and what was left when it was lent.
    double computed_ = 0, remaining_ = 0;
    Clock::time_point begin_;
    /// Each has its own: after a fork nobody touches that of a thread that is lost.
    std::condition_variable changed_;
  };

  /// Waits for the turn: true. False: another thread has done the work. Throws what an Interruption
  /// of this thread throws.
  bool lock(Waiter& waiter);
  /// Ends the turn of one that has it. Whether anybody else has a turn or waits for one.
  bool unlock(Waiter& waiter);

  /// `done` of `parts` equal parts are computed; much shorter work goes first now, and after it the
  /// turn may have other threads(). Throws as lock.
  void reached(Waiter& running, std::int64_t done, std::int64_t parts);

  /// Waiters that `running` computes in its turn, in their order; each is done or put back later.
  std::vector<Waiter*> take(const Waiter& running, const std::function<bool(const Waiter&)>& fits);
  void finish(std::span<Waiter* const> taken);
  void put_back(std::span<Waiter* const> taken);

  Order order() const { return order_; }
  /// How many wait, and the seconds that they and the running ones have left.
  std::size_t waiting() const;
  double backlog() const { return seconds_before(std::numeric_limits<double>::infinity()); }
  /// Seconds that the calling thread has waited for turns, in all its life.
  static double seconds_waited();
  /// The seconds that go before a call of so many, if it came now.
  double seconds_before(double rest) const;

  /// How often a turn was lent.
  std::int64_t lent() const { return lent_; }

  SharedCores& cores() { return cores_; }
  /// Buffers of the computations: those of one serve the next, whatever model it is of.
  MemoryPool& memory() { return memory_; }

 private:
  State& state() const;
  static void wait(State& state, std::unique_lock<std::mutex>& lock, Waiter& waiter);
  static void leave(State& state, std::unique_lock<std::mutex>& lock, Waiter& waiter);

  /// A new process does not touch the locks that a fork copied: it begins with a state of its own.
  mutable std::atomic<State*> current_;
  Order order_;
  std::atomic<std::int64_t> lent_ = 0;
  SharedCores cores_;
  MemoryPool memory_;
};

/// While it lives, its thread computes, on the threads of the turn.
class Turn {
 public:
  /// A computation that runs alone, on so many threads.
  Turn(Turns& turns, int threads, Turns::Claim claim = {})
      : turns_(turns), own_(claim, {.most = threads}), waiter_(own_) {
    begin();
  }
  /// The waiter outlives it.
  Turn(Turns& turns, Turns::Waiter& waiter) : turns_(turns), own_({}, {}), waiter_(waiter) {
    begin();
  }
  ~Turn() {
    work_.reset();
    // Idle threads of one team make those of the others sleep where they could spin.
    if (turns_.unlock(waiter_)) end_team();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// False: another thread has done the work.
  bool is_mine() const { return is_mine_; }
  int threads() const { return waiter_.threads(); }
  /// Computed, in seconds of all cores, without the time in which it was lent.
  double seconds() const { return waiter_.seconds(); }

  /// Says what is computed in this turn. Few tokens (more are fast on cores that others want too,
  /// as their threads seldom wait for each other) leave cores to processes that want them.
  void computes(std::int64_t tokens) {
    if (tokens <= Turns::kShortTokens && !work_) work_.emplace(turns_.cores());
  }

  /// See Turns::reached.
  void reached(std::int64_t done, std::int64_t parts) {
    const int threads = waiter_.threads();
    turns_.reached(waiter_, done, parts);
    if (waiter_.threads() == threads) return;
    // The limit of short work lies within that of the turn.
    const bool is_short = work_.has_value();
    work_.reset();
    limit_.emplace(waiter_.threads());
    if (is_short) work_.emplace(turns_.cores());
  }

  /// Lets those who wait go first, and calls `meanwhile` in their time.
  template <typename Meanwhile>
  void pass(Meanwhile&& meanwhile) {
    turns_.unlock(waiter_);
    meanwhile();
    turns_.lock(waiter_);
  }

 private:
  void begin() {
    is_mine_ = turns_.lock(waiter_);
    try {
      limit_.emplace(waiter_.threads());
    } catch (...) {
      turns_.unlock(waiter_);
      throw;
    }
  }

  Turns& turns_;
  Turns::Waiter own_;
  Turns::Waiter& waiter_;
  bool is_mine_ = false;
  std::optional<ThreadLimit> limit_;
  std::optional<ShortWork> work_;
};

}  // namespace longformer
