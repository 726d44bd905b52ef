// Reruns: tsan
#include "core/turns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "longformer/report.h"

namespace longformer::turns_test {
namespace {

using namespace std::chrono_literals;

/// Threads that ask for a turn in a known order, while one of the test has it.
class Callers {
 public:
  explicit Callers(Turns& turns) : turns_(turns) {}
  ~Callers() { join(); }

  /// Asks with the claim, and calls `work` in its turn.
  void add(Turns::Claim claim, std::function<void(Turn&)> work) {
    const std::size_t before = turns_.waiting();
    threads_.emplace_back([this, claim, work = std::move(work)] {
      Turn turn(turns_, 1, claim);
      work(turn);
    });
    while (turns_.waiting() == before) std::this_thread::yield();
  }

  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  Turns& turns_;
  std::vector<std::thread> threads_;
};

/// Work that takes a while, in seconds.
void compute(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

TEST(Turns, GoToTheShortestFirst) {
  Turns turns;
  std::string order;
  Callers callers(turns);
  {
    const Turn turn(turns, 1);
    const auto note = [&](char name) { return [&order, name](Turn&) { order += name; }; };
    callers.add({.rest = 3, .whole = 3}, note('c'));
    callers.add({.rest = 1, .whole = 1}, note('a'));
    callers.add({.rest = 2, .whole = 2}, note('b'));
    callers.add({.rest = 3, .whole = 3}, note('d'));
    callers.add({.rest = 1, .whole = 1}, note('A'));
    EXPECT_EQ(turns.waiting(), 5u);
    EXPECT_DOUBLE_EQ(turns.backlog(), 10);
  }
  callers.join();
  EXPECT_EQ(order, "aAbcd");
  EXPECT_EQ(turns.backlog(), 0);
}

TEST(Turns, AreLentToMuchShorterWorkAlone) {
  Turns turns;
  std::string order;
  Callers callers(turns);
  {
    Turn turn(turns, 1, {.rest = 1, .whole = 1});
    compute(0.02);
    callers.add({.rest = 0.001, .whole = 0.001}, [&](Turn&) { order += 's'; });
    callers.add({.rest = 0.03, .whole = 0.03}, [&](Turn&) { order += 'l'; });
    // 0.02 s for half of it: 0.02 s are left.
    turn.reached(1, 2);
    order += '1';
    EXPECT_TRUE(turn.seconds() >= 0.02 && turn.seconds() < 0.2);
    turn.reached(1, 2);
    order += '2';
  }
  callers.join();
  EXPECT_EQ(order, "s12l");
}

TEST(Turns, AreLentThreeTimesAtOnce) {
  Turns turns;
  std::atomic<int> depth = 0, deepest = 0;
  Callers callers(turns);
  std::function<void(Turn&, int)> nested = [&](Turn& turn, int level) {
    deepest = std::max<int>(deepest, ++depth);
    if (level < 6) {
      callers.add({.rest = 0, .whole = 0},
                  [&nested, level](Turn& inner) { nested(inner, level + 1); });
      compute(0.001);
      turn.reached(1, 2);
    }
    --depth;
  };
  {
    Turn turn(turns, 1, {.rest = 1, .whole = 1});
    nested(turn, 0);
  }
  EXPECT_EQ(deepest, 4);
}

TEST(Turns, GiveLateOnesAQuarterOfTheTime) {
  Turns turns;
  Callers callers(turns);
  const auto long_ago = Turns::Clock::now() - 100s;
  std::atomic<bool> late_ended = false;
  std::atomic<int> shorter = 0;
  {
    const Turn turn(turns, 1);
    callers.add({.rest = 5, .whole = 5, .since = long_ago}, [&](Turn& late) {
      for (int i = 0; i < 5; ++i) {
        compute(0.02);
        late.reached(i + 1, 5);
      }
      late_ended = true;
    });
    // Two callers with short work that never ends.
    for (int i = 0; i < 2; ++i) {
      callers.add({.rest = 0.001, .whole = 0.001}, [&](Turn& turn) {
        while (!late_ended) {
          compute(0.01);
          ++shorter;
          turn.pass([] {});
        }
      });
    }
  }
  callers.join();
  // 0.1 s by the late one, so about 0.3 s in steps of 0.01 s by the others.
  EXPECT_TRUE(shorter >= 10 && shorter <= 80) << shorter;
}

TEST(Turns, EndAWaitThatIsInterrupted) {
  class Stop {};
  Turns turns;
  {
    const Turn turn(turns, 1);
    std::thread other([&] {
      const Interruption interruption([] { throw Stop(); });
      EXPECT_THROW(Turn(turns, 1), Stop);
    });
    other.join();
    EXPECT_EQ(turns.waiting(), 0u);
  }
  // Also a computation that lent its turn, and then its place is free.
  Callers callers(turns);
  std::atomic<bool> ended = false;
  std::latch lent(1);
  std::thread other([&] {
    const Interruption interruption([] { throw Stop(); });
    const auto computes = [&] {
      Turn turn(turns, 1, {.rest = 10, .whole = 10});
      callers.add({.rest = 0, .whole = 0}, [&](Turn&) {
        lent.count_down();
        while (!ended) compute(0.001);
      });
      compute(0.05);
      turn.reached(1, 1000);
    };
    EXPECT_THROW(computes(), Stop);
    ended = true;
  });
  lent.wait();
  other.join();
  callers.join();
  const Turn turn(turns, 1);
  EXPECT_TRUE(turn.is_mine());
}

TEST(Turns, TakeThoseOfTheirKindAlong) {
  Turns turns;
  const int kind = 0, another = 0;
  std::atomic<int> done = 0, own = 0;
  const auto ask = [&](const void* which, double rest) {
    return std::thread([&turns, &done, &own, which, rest] {
      Turns::Waiter waiter({.rest = rest, .whole = rest}, which);
      const Turn turn(turns, 1, waiter);
      ++(turn.is_mine() ? own : done);
    });
  };
  std::vector<std::thread> threads;
  Turns::Waiter mine({}, &kind);
  {
    const Turn turn(turns, 1, mine);
    threads.push_back(ask(&kind, 2));
    threads.push_back(ask(&kind, 1));
    threads.push_back(ask(&another, 1));
    while (turns.waiting() < 3) std::this_thread::yield();
    int offered = 0;
    auto taken = turns.take(mine, [&](const Turns::Waiter&) { return ++offered == 1; });
    EXPECT_EQ(offered, 2) << "waiters of one kind are offered";
    ASSERT_EQ(taken.size(), 1u);
    EXPECT_EQ(turns.waiting(), 2u);
    turns.put_back(taken);
    EXPECT_EQ(turns.waiting(), 3u);
    taken = turns.take(mine, [](const Turns::Waiter&) { return true; });
    ASSERT_EQ(taken.size(), 2u);
    turns.finish(taken);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, 2);
  EXPECT_EQ(own, 1);
}

}  // namespace
}  // namespace longformer::turns_test
