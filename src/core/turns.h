// The order of computations: the call that has least left to do comes first.
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

#include "core/shared_cores.h"
#include "core/threads.h"

namespace longformer {

/// A lock for computations. It goes to the shortest of those who wait (shortest remaining work
/// first, ties by arrival). A long computation lends it between its parts to much shorter ones, so
/// a sentence never waits for a book. Nobody starves: a call that waits longer than four times its
/// own work and a second is late, and late ones together get a quarter of the time.
class Turns {
  struct State;

 public:
  Turns();
  ~Turns();
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  using Clock = std::chrono::steady_clock;

  /// The work of a call, in seconds. One that does not know it has none.
  struct Claim {
    double rest = 0;   ///< Not yet computed, this turn included.
    double whole = 0;  ///< From begin to end.
    Clock::time_point since = Clock::now();
  };

  /// A thread that waits for its turn, or for another that does its work meanwhile.
  class Waiter {
   public:
    /// Waiters of one kind may be computed together; null: alone.
    explicit Waiter(Claim claim, const void* kind = nullptr) : claim_(claim), kind_(kind) {}
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

    const void* kind() const { return kind_; }
    /// Computed in its turn; for the thread whose turn it is.
    double seconds() const;

   private:
    friend class Turns;
    enum class Place { outside, waiting, running, lent, taken, done };

    Claim claim_;
    const void* kind_;
    Place place_ = Place::outside;
    /// The queue that it waits in.
    Turns::State* queue_ = nullptr;
    std::uint64_t number_ = 0;
    /// Nobody wants the result any more.
    bool abandoned_ = false;
    /// Seconds of its turn so far, and what was left when it was lent.
    double computed_ = 0, remaining_ = 0;
    Clock::time_point begin_;
    /// Each has its own: after a fork nobody touches that of a thread that is lost.
    std::condition_variable changed_;
  };

  /// Waits for the turn: true. False: another thread has done the work. Throws what an Interruption
  /// of this thread throws.
  bool lock(Waiter& waiter);
  /// Does nothing for one whose turn it is not.
  void unlock(Waiter& waiter);

  /// `done` of `parts` equal parts are computed; much shorter work goes first now. Throws as lock.
  void reached(Waiter& running, std::int64_t done, std::int64_t parts);

  /// Waiters that `running` computes in its turn, in their order; each is done or put back later.
  std::vector<Waiter*> take(const Waiter& running, const std::function<bool(const Waiter&)>& fits);
  void finish(std::span<Waiter* const> taken);
  void put_back(std::span<Waiter* const> taken);

  /// How many wait, and the seconds that they and the running ones have left.
  std::size_t waiting() const;
  double backlog() const { return seconds_before(std::numeric_limits<double>::infinity()); }
  /// Seconds that the calling thread has waited for turns, in all its life.
  static double seconds_waited();
  /// The seconds that go before a call of so many, if it came now.
  double seconds_before(double rest) const;

  /// How often a turn was lent.
  std::int64_t lent() const { return lent_; }

  /// Belongs to whom it is given to.
  SharedCores& cores() { return cores_; }

 private:
  State& state() const;
  static void wait(State& state, std::unique_lock<std::mutex>& lock, Waiter& waiter);
  static void leave(State& state, std::unique_lock<std::mutex>& lock, Waiter& waiter);

  /// A new process does not touch the locks that a fork copied: it begins with a state of its own.
  mutable std::atomic<State*> current_;
  std::atomic<std::int64_t> lent_ = 0;
  SharedCores cores_;
};

/// While it lives, its thread computes, on no more threads than it may use.
class Turn {
 public:
  Turn(Turns& turns, int threads, Turns::Claim claim = {})
      : turns_(turns), own_(claim), waiter_(own_), is_mine_(turns.lock(own_)), limit_(threads) {}
  /// The waiter outlives it.
  Turn(Turns& turns, int threads, Turns::Waiter& waiter)
      : turns_(turns), own_({}), waiter_(waiter), is_mine_(turns.lock(waiter)), limit_(threads) {}
  ~Turn() {
    work_.reset();
    turns_.unlock(waiter_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// False: another thread has done the work.
  bool is_mine() const { return is_mine_; }
  /// Spent computing, without the time in which it was lent.
  double seconds() const { return waiter_.seconds(); }

  /// Says what is computed in this turn. Few tokens leave cores to processes that want them.
  void computes(std::int64_t tokens) {
    if (tokens <= kFewTokens && !work_) work_.emplace(turns_.cores());
  }

  /// See Turns::reached.
  void reached(std::int64_t done, std::int64_t parts) { turns_.reached(waiter_, done, parts); }

  /// Lets those who wait go first, and calls `meanwhile` in their time.
  template <typename Meanwhile>
  void pass(Meanwhile&& meanwhile) {
    turns_.unlock(waiter_);
    meanwhile();
    turns_.lock(waiter_);
  }

 private:
  /// Longer work is fast on cores that others want too: its threads seldom wait for each other.
  static constexpr std::int64_t kFewTokens = 512;

  Turns& turns_;
  Turns::Waiter own_;
  Turns::Waiter& waiter_;
  bool is_mine_;
  ThreadLimit limit_;
  std::optional<ShortWork> work_;
};

}  // namespace longformer
