#include "core/turns.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <memory>
#include <utility>

#include "core/fork.h"
#include "longformer/report.h"

namespace longformer {
namespace {

using Seconds = std::chrono::duration<double>;

/// So many turns are lent at a time, each to work of at most so much of its rest.
constexpr std::size_t kDeepest = 3;
constexpr double kMuchShorter = 0.25;
/// Late is who waits longer than so many times its own work and so many seconds; late ones get this
/// share of the time.
constexpr double kPatience = 4, kLeastPatience = 1, kLateShare = 0.25;
/// Seconds after which what was given to late ones counts half.
constexpr double kMemory = 60;
/// A long pass begins when it gets this share of the cores. It goes on with those that are free,
/// and gets the others when nobody wants them.
constexpr double kNearlyAll = 0.75;
/// Short passes share the cores when there are so many tokens for each: fewer are one batch on all
/// cores, which reads the weights once.
constexpr std::int64_t kLaneTokens = 64;
/// Weight of the latest call in the number of passes that come together.
constexpr double kLatest = 0.2;
/// A call goes before one that has so much more work, unless that came this many times as much
/// earlier: among calls of about one length the first comes first.
constexpr double kWorkOfWait = 100;
/// How often a wait lets itself be interrupted.
constexpr std::chrono::milliseconds kPause(50);

double& waited_by_this_thread() {
  thread_local double seconds = 0;
  return seconds;
}

}  // namespace

struct Turns::State {
  using Place = Waiter::Place;

  explicit State(Order its_order) : order(its_order) {}

  /// Its place in the order: the smallest one comes first.
  auto place_of(const Waiter* waiter) const {
    const double work = order == Order::arrival ? 0 : kWorkOfWait * waiter->claim_.rest;
    return std::pair(waiter->claim_.since + Seconds(work), waiter->number_);
  }

  /// The next one: who lent a turn goes on, but for much shorter work.
  Waiter* next() const {
    if (order == Order::arrival) return shortest();
    if (!lent.empty()) {
      Waiter* shorter = before(*lent.back());
      return shorter != nullptr ? shorter : lent.back();
    }
    if (Waiter* late = earliest_late(); late != nullptr && owes_late()) return late;
    return shortest();
  }

  /// Whoever goes before the rest of a computation that lends its turn; null for none.
  Waiter* before(const Waiter& lender) const {
    Waiter* first = shortest();
    if (first == nullptr || first->claim_.rest >= kMuchShorter * lender.remaining_) return nullptr;
    return is_late(lender) && owes_late() ? nullptr : first;
  }

  Waiter* shortest() const {
    const auto found = std::ranges::min_element(
        waiting, {}, [this](const Waiter* waiter) { return place_of(waiter); });
    return found == waiting.end() ? nullptr : *found;
  }

  static bool is_late(const Waiter& waiter) {
    const Seconds waited = Clock::now() - waiter.claim_.since;
    return waited.count() > kPatience * waiter.claim_.whole + kLeastPatience;
  }

  Waiter* earliest_late() const {
    Waiter* earliest = nullptr;
    for (Waiter* one : waiting) {
      if (!is_late(*one)) continue;
      if (earliest == nullptr || one->claim_.since < earliest->claim_.since) earliest = one;
    }
    return earliest;
  }

  bool some_are_late() const {
    const auto late = [](const Waiter* waiter) { return is_late(*waiter); };
    return std::any_of(waiting.begin(), waiting.end(), late) ||
           std::any_of(lent.begin(), lent.end(), late);
  }

  bool owes_late() const { return late_seconds < kLateShare * seconds; }

  /// Cores for a waiter that is the next one; 0: too few are free.
  int threads_for(const Waiter& waiter) const {
    const auto [most, tokens] = waiter.width_;
    if (tokens == 0 || order == Order::arrival) return running.empty() ? most : 0;
    const int left = free(), possible = std::min(most, left);
    if (possible <= 0) return 0;
    if (tokens <= kShortTokens) return std::min(possible, share_of(left));
    return waiter.place_ == Place::lent || possible >= kNearlyAll * most ? possible : 0;
  }

  int free() const {
    int free = cores;
    for (const Waiter* other : running) free -= other->width_.tokens == 0 ? cores : other->threads_;
    return std::max(free, 0);
  }

  /// A long pass gets cores that nobody wants.
  void widen(Waiter& waiter) const {
    if (!waiting.empty() || waiter.width_.tokens <= kShortTokens) return;
    set_threads(waiter, std::min(waiter.width_.most, waiter.threads_ + free()));
  }

  void set_threads(Waiter& waiter, int threads) const {
    waiter.threads_ = threads;
    waiter.share_ = static_cast<double>(threads) / cores;
  }

  /// The cores of each of the short passes that wait or are expected: a power of two, so that few
  /// sizes of products are compiled.
  int share_of(int free) const {
    const int lanes = lanes_of({&waiting});
    const int expected = std::max(1, static_cast<int>(std::lround(together)));
    const int share = std::min(free / lanes, cores / expected);
    if (share >= free) return free;
    return static_cast<int>(std::bit_floor(static_cast<unsigned>(std::max(1, share))));
  }

  /// How many short passes among these are worth cores of their own.
  static int lanes_of(std::initializer_list<const std::vector<Waiter*>*> groups) {
    std::int64_t passes = 0, tokens = 0;
    for (const std::vector<Waiter*>* group : groups) {
      for (const Waiter* waiter : *group) {
        if (waiter->width_.tokens == 0 || waiter->width_.tokens > kShortTokens) continue;
        ++passes;
        tokens += waiter->width_.tokens;
      }
    }
    return static_cast<int>(
        std::clamp<std::int64_t>(tokens / kLaneTokens, 1, std::max<std::int64_t>(passes, 1)));
  }

  void arrive(Waiter& waiter) {
    cores = std::max(cores, waiter.width_.most);
    waiting.push_back(&waiter);
    together += kLatest * (lanes_of({&waiting, &running}) - together);
  }

  void begin(Waiter& waiter, int threads) {
    running.push_back(&waiter);
    waiter.place_ = Place::running;
    set_threads(waiter, threads);
    waiter.begin_ = Clock::now();
  }

  /// A running one computed until now.
  void account(Waiter& waiter) {
    const Clock::time_point now = Clock::now();
    const double work = waiter.share_ * Seconds(now - waiter.begin_).count();
    waiter.computed_ += work;
    waiter.begin_ = now;
    const bool by_late = is_late(waiter);
    if (waiting.empty() && lent.empty()) seconds = late_seconds = 0;
    if (!by_late && !some_are_late()) return;
    if (seconds > kMemory) {
      seconds /= 2;
      late_seconds /= 2;
    }
    seconds += work;
    if (by_late) late_seconds += work;
  }

  /// The turn of a running one ends, for good or for a while.
  void end(Waiter& waiter) {
    account(waiter);
    remove(running, waiter);
  }

  /// Gives free cores to the next ones.
  void pass_on() {
    while (Waiter* waiter = next()) {
      const int threads = threads_for(*waiter);
      if (threads == 0) return;
      remove(waiter->place_ == Place::lent ? lent : waiting, *waiter);
      begin(*waiter, threads);
      waiter->changed_.notify_one();
    }
  }

  /// The one with least left goes on first.
  void lend(Waiter& waiter) {
    const auto shorter = std::ranges::find_if(
        lent, [&](const Waiter* other) { return other->remaining_ < waiter.remaining_; });
    lent.insert(shorter, &waiter);
  }

  static void remove(std::vector<Waiter*>& from, const Waiter& waiter) {
    std::erase(from, &waiter);
  }

  std::uint64_t forks = fork_count();
  std::mutex mutex;
  Order order;
  /// The most that anybody can use.
  int cores = 1;
  std::vector<Waiter*> waiting;
  /// Those that compute, and those that lent their turn, longest first.
  std::vector<Waiter*> running, lent;
  std::uint64_t last = 0;
  /// Short passes that lately came together.
  double together = 1;
  /// Computed on all cores since somebody is late: by all, and by the late ones.
  double seconds = 0, late_seconds = 0;
};

double Turns::Waiter::seconds() const {
  return computed_ + share_ * Seconds(Clock::now() - begin_).count();
}

Turns::Turns(Order order) : current_(std::make_unique<State>(order).release()), order_(order) {}

Turns::~Turns() { const std::unique_ptr<State> last(current_.load()); }

Turns::State& Turns::state() const {
  State* state = current_;
  if (state->forks == fork_count()) return *state;
  // The former one stays as it is: a lost thread may have been in the middle of it.
  auto fresh = std::make_unique<State>(order_);
  if (current_.compare_exchange_strong(state, fresh.get())) return *fresh.release();
  return *state;
}

bool Turns::lock(Waiter& waiter) {
  State& state = this->state();
  std::unique_lock lock(state.mutex);
  waiter.queue_ = &state;
  waiter.number_ = ++state.last;
  waiter.place_ = Waiter::Place::waiting;
  waiter.computed_ = 0;
  state.arrive(waiter);
  state.pass_on();
  wait(state, lock, waiter);
  return waiter.place_ == Waiter::Place::running;
}

/// Until it is the waiter's turn, or its work is done.
void Turns::wait(State& state, std::unique_lock<std::mutex>& lock, Waiter& waiter) {
  using Place = Waiter::Place;
  const auto is_over = [&] {
    return waiter.place_ == Place::running || waiter.place_ == Place::done;
  };
  const Clock::time_point begin = Clock::now();
  while (!waiter.changed_.wait_for(lock, kPause, is_over)) {
    lock.unlock();
    try {
      Interruption::poll();
    } catch (...) {
      lock.lock();
      leave(state, lock, waiter);
      throw;
    }
    lock.lock();
  }
  waited_by_this_thread() += Seconds(Clock::now() - begin).count();
}

double Turns::seconds_waited() { return waited_by_this_thread(); }

/// Its thread wants the turn no more. Who computes its work still reads it, so that must end first.
void Turns::leave(State& state, std::unique_lock<std::mutex>& lock, Waiter& waiter) {
  using Place = Waiter::Place;
  waiter.abandoned_ = true;
  waiter.changed_.wait(lock, [&] { return waiter.place_ != Place::taken; });
  if (waiter.place_ == Place::running) state.end(waiter);
  State::remove(state.waiting, waiter);
  State::remove(state.lent, waiter);
  waiter.place_ = Place::outside;
  state.pass_on();
}

bool Turns::unlock(Waiter& waiter) {
  State& state = *waiter.queue_;
  if (state.forks != fork_count()) return false;
  const std::lock_guard lock(state.mutex);
  if (waiter.place_ == Waiter::Place::running) {
    state.end(waiter);
    waiter.place_ = Waiter::Place::outside;
    state.pass_on();
  }
  return !state.waiting.empty() || !state.running.empty() || !state.lent.empty();
}

void Turns::reached(Waiter& running, std::int64_t done, std::int64_t parts) {
  State& state = *running.queue_;
  if (state.forks != fork_count()) return;
  std::unique_lock lock(state.mutex);
  if (running.place_ != Waiter::Place::running || state.lent.size() >= kDeepest) return;
  if (state.order == Order::arrival) return;
  state.account(running);
  running.remaining_ = running.seconds() * static_cast<double>(parts - done) /
                       static_cast<double>(std::max<std::int64_t>(done, 1));
  if (state.before(running) == nullptr) return state.widen(running);
  state.end(running);
  running.place_ = Waiter::Place::lent;
  state.lend(running);
  ++lent_;
  state.pass_on();
  wait(state, lock, running);
}

std::vector<Turns::Waiter*> Turns::take(const Waiter& running,
                                        const std::function<bool(const Waiter&)>& fits) {
  State& state = *running.queue_;
  const std::lock_guard lock(state.mutex);
  std::vector<Waiter*> order = state.waiting, taken;
  std::ranges::sort(order, {}, [&](const Waiter* waiter) { return state.place_of(waiter); });
  for (Waiter* waiter : order) {
    if (waiter->kind_ == nullptr || waiter->kind_ != running.kind_ || waiter->abandoned_) continue;
    if (!fits(*waiter)) continue;
    waiter->place_ = Waiter::Place::taken;
    State::remove(state.waiting, *waiter);
    taken.push_back(waiter);
  }
  return taken;
}

void Turns::finish(std::span<Waiter* const> taken) {
  for (Waiter* waiter : taken) {
    if (waiter->queue_->forks != fork_count()) continue;
    const std::lock_guard lock(waiter->queue_->mutex);
    waiter->place_ = Waiter::Place::done;
    waiter->changed_.notify_one();
  }
}

void Turns::put_back(std::span<Waiter* const> taken) {
  for (Waiter* waiter : taken) {
    State& state = *waiter->queue_;
    if (state.forks != fork_count()) continue;
    const std::lock_guard lock(state.mutex);
    waiter->place_ = Waiter::Place::waiting;
    state.waiting.push_back(waiter);
    state.pass_on();
    waiter->changed_.notify_one();
  }
}

std::size_t Turns::waiting() const {
  State& state = this->state();
  const std::lock_guard lock(state.mutex);
  return state.waiting.size();
}

double Turns::seconds_before(double rest) const {
  State& state = this->state();
  const std::lock_guard lock(state.mutex);
  double seconds = 0;
  for (const Waiter* waiter : state.waiting) {
    if (waiter->claim_.rest <= rest) seconds += waiter->claim_.rest;
  }
  // A longer computation lends its turn soon.
  const auto add_rest = [&](const Waiter& waiter, double computed) {
    const double left = std::max(0.0, waiter.claim_.rest - computed);
    if (kMuchShorter * left <= rest) seconds += left;
  };
  for (const Waiter* waiter : state.lent) add_rest(*waiter, waiter->computed_);
  for (const Waiter* waiter : state.running) add_rest(*waiter, waiter->seconds());
  return seconds;
}

}  // namespace longformer
