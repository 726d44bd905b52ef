#include "core/turns.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/fork.h"
#include "longformer/report.h"

namespace longformer {
namespace {

using Seconds = std::chrono::duration<double>;

/// So many turns are lent at a time; each computation is at most so much of the one below it, so
/// their memory is at most 4/3 of the first one's.
constexpr std::size_t kDeepest = 3;
constexpr double kMuchShorter = 0.25;
/// Late is who waits longer than so many times its own work and so many seconds; late ones get this
/// share of the time.
constexpr double kPatience = 4, kLeastPatience = 1, kLateShare = 0.25;
/// Seconds after which what was given to late ones counts half.
constexpr double kMemory = 60;
/// How often a wait lets itself be interrupted.
constexpr std::chrono::milliseconds kPause(50);

double& waited_by_this_thread() {
  thread_local double seconds = 0;
  return seconds;
}

}  // namespace

struct Turns::State {
  using Place = Waiter::Place;

  /// The next one: who lent a turn goes on, but for much shorter work.
  Waiter* next() const {
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
    const auto found = std::min_element(waiting.begin(), waiting.end(), goes_before);
    return found == waiting.end() ? nullptr : *found;
  }

  static bool goes_before(const Waiter* a, const Waiter* b) {
    return std::pair(a->claim_.rest, a->number_) < std::pair(b->claim_.rest, b->number_);
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

  void begin(Waiter& waiter) {
    running = &waiter;
    waiter.place_ = Place::running;
    waiter.begin_ = Clock::now();
  }

  /// The running one computed until now.
  void account() {
    const Clock::time_point now = Clock::now();
    const double lasted = Seconds(now - running->begin_).count();
    running->computed_ += lasted;
    running->begin_ = now;
    const bool by_late = is_late(*running);
    if (waiting.empty() && lent.empty()) seconds = late_seconds = 0;
    if (!by_late && !some_are_late()) return;
    if (seconds > kMemory) {
      seconds /= 2;
      late_seconds /= 2;
    }
    seconds += lasted;
    if (by_late) late_seconds += lasted;
  }

  /// The turn of the running one ends, for good or for a while.
  void end() {
    account();
    running = nullptr;
  }

  /// Gives a free turn to the next one.
  void pass_on() {
    if (running != nullptr) return;
    Waiter* waiter = next();
    if (waiter == nullptr) return;
    remove(waiter->place_ == Place::lent ? lent : waiting, *waiter);
    begin(*waiter);
    waiter->changed_.notify_one();
  }

  static void remove(std::vector<Waiter*>& from, const Waiter& waiter) {
    std::erase(from, &waiter);
  }

  std::uint64_t forks = fork_count();
  std::mutex mutex;
  std::vector<Waiter*> waiting;
  /// The one that computes, and those that lent their turn, the last one behind the others.
  Waiter* running = nullptr;
  std::vector<Waiter*> lent;
  std::uint64_t last = 0;
  /// Computed since somebody is late: by all, and by the late ones.
  double seconds = 0, late_seconds = 0;
};

double Turns::Waiter::seconds() const { return computed_ + Seconds(Clock::now() - begin_).count(); }

Turns::Turns() : current_(std::make_unique<State>().release()) {}

Turns::~Turns() { const std::unique_ptr<State> last(current_.load()); }

Turns::State& Turns::state() const {
  State* state = current_;
  if (state->forks == fork_count()) return *state;
  // The former one stays as it is: a lost thread may have been in the middle of it.
  auto fresh = std::make_unique<State>();
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
  state.waiting.push_back(&waiter);
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
  if (waiter.place_ == Place::running) state.end();
  State::remove(state.waiting, waiter);
  State::remove(state.lent, waiter);
  waiter.place_ = Place::outside;
  state.pass_on();
}

void Turns::unlock(Waiter& waiter) {
  State& state = *waiter.queue_;
  if (state.forks != fork_count()) return;
  const std::lock_guard lock(state.mutex);
  if (waiter.place_ != Waiter::Place::running) return;
  state.end();
  waiter.place_ = Waiter::Place::outside;
  state.pass_on();
}

void Turns::reached(Waiter& running, std::int64_t done, std::int64_t parts) {
  State& state = *running.queue_;
  if (state.forks != fork_count()) return;
  std::unique_lock lock(state.mutex);
  if (running.place_ != Waiter::Place::running || state.lent.size() >= kDeepest) return;
  state.account();
  running.remaining_ = running.seconds() * static_cast<double>(parts - done) /
                       static_cast<double>(std::max<std::int64_t>(done, 1));
  if (state.before(running) == nullptr) return;
  state.end();
  running.place_ = Waiter::Place::lent;
  state.lent.push_back(&running);
  ++lent_;
  state.pass_on();
  wait(state, lock, running);
}

std::vector<Turns::Waiter*> Turns::take(const Waiter& running,
                                        const std::function<bool(const Waiter&)>& fits) {
  State& state = *running.queue_;
  const std::lock_guard lock(state.mutex);
  std::vector<Waiter*> order = state.waiting, taken;
  std::sort(order.begin(), order.end(), State::goes_before);
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
  if (state.running != nullptr) add_rest(*state.running, state.running->seconds());
  return seconds;
}

}  // namespace longformer
