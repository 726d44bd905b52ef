// Reruns: tsan
#include "core/turns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
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
  void add(Turns::Claim claim, std::function<void(Turn&)> work) { add(claim, {}, std::move(work)); }
  void add(Turns::Claim claim, Turns::Width width, std::function<void(Turn&)> work) {
    const std::size_t before = turns_.waiting();
    const auto began = std::make_shared<std::atomic<bool>>(false);
    threads_.emplace_back([this, claim, width, began, work = std::move(work)] {
      Turns::Waiter waiter(claim, width);
      Turn turn(turns_, waiter);
      *began = true;
      work(turn);
    });
    while (turns_.waiting() == before && !*began) std::this_thread::yield();
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
      // Each has much less left than the one below.
      compute(0.1 * std::pow(0.25, level));
      turn.reached(1, 2);
    }
    --depth;
  };
  {
    Turn turn(turns, 1, {.rest = 1, .whole = 1});
    nested(turn, 0);
  }
  while (turns.waiting() > 0 || depth > 0) std::this_thread::yield();
  callers.join();
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
      Turns::Waiter waiter({.rest = rest, .whole = rest}, {}, which);
      const Turn turn(turns, waiter);
      ++(turn.is_mine() ? own : done);
    });
  };
  std::vector<std::thread> threads;
  Turns::Waiter mine({}, {}, &kind);
  {
    const Turn turn(turns, mine);
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

/// Threads of the turns of so many passes that wait together, each of so many tokens. They compute
/// until all have begun.
std::vector<int> widths_of(int cores, int passes, std::int64_t tokens) {
  Turns turns;
  std::vector<int> widths(static_cast<std::size_t>(passes));
  std::latch all(passes);
  Callers callers(turns);
  {
    const Turn turn(turns, cores);
    for (int& width : widths) {
      callers.add({}, {.most = cores, .tokens = tokens}, [&](Turn& own) {
        width = own.threads();
        all.arrive_and_wait();
      });
    }
  }
  callers.join();
  return widths;
}

TEST(Turns, OfShortPassesAreSideBySide) {
  EXPECT_EQ(widths_of(2, 2, 200), std::vector({1, 1}));
  EXPECT_EQ(widths_of(4, 2, 200), std::vector({2, 2}));
  EXPECT_EQ(widths_of(16, 5, 200), std::vector({2, 2, 4, 4, 4}));
  EXPECT_EQ(widths_of(16, 1, 200), std::vector({16}));
}

TEST(Turns, OfFewTokensHaveAllCores) {
  Turns turns;
  std::atomic<int> computing = 0;
  Callers callers(turns);
  {
    const Turn turn(turns, 4);
    for (int i = 0; i < 3; ++i) {
      callers.add({}, {.most = 4, .tokens = 10}, [&](Turn& own) {
        EXPECT_EQ(own.threads(), 4);
        EXPECT_EQ(++computing, 1);
        compute(0.005);
        --computing;
      });
    }
  }
}

TEST(Turns, OfALongPassBeginWithNearlyAllCores) {
  Turns turns;
  std::latch second_ends(1), third_ends(1), long_began(1);
  std::atomic<int> ended = 0;
  Callers callers(turns);
  {
    const Turn turn(turns, 8);
    // Four of two threads each; one ends at once.
    for (int i = 0; i < 4; ++i) {
      callers.add({}, {.most = 8, .tokens = 200}, [&, i](Turn& own) {
        EXPECT_EQ(own.threads(), 2);
        if (i == 1) second_ends.wait();
        if (i == 2) third_ends.wait();
        if (i == 3) long_began.wait();
        ++ended;
      });
    }
    callers.add({.rest = 1, .whole = 1}, {.most = 8, .tokens = 4096}, [&](Turn& own) {
      EXPECT_EQ(own.threads(), 6);
      EXPECT_EQ(ended, 3);
      long_began.count_down();
    });
  }
  compute(0.02);
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(turns.waiting(), 1u);
  second_ends.count_down();
  compute(0.02);
  // Two threads are still taken twice: that is too many.
  EXPECT_EQ(turns.waiting(), 1u);
  third_ends.count_down();
}

TEST(Turns, GoOnWithTheCoresThatAreFree) {
  Turns turns;
  std::latch lent(1), resumed(1);
  std::atomic<int> ended = 0;
  Callers callers(turns);
  std::thread book([&] {
    Turns::Waiter waiter({.rest = 100, .whole = 100}, {.most = 8, .tokens = 4096});
    Turn turn(turns, waiter);
    EXPECT_EQ(turn.threads(), 8);
    lent.count_down();
    while (turns.waiting() < 2) std::this_thread::yield();
    turn.reached(1, 1000);
    EXPECT_EQ(turn.threads(), 4);
    EXPECT_EQ(free_threads(), 4);
    turn.reached(2, 1000);
    EXPECT_EQ(turn.threads(), 4);
    resumed.count_down();
    while (ended < 2 || turn.threads() < 8) turn.reached(3, 1000);
    EXPECT_EQ(free_threads(), 8);
  });
  lent.wait();
  for (int i = 0; i < 2; ++i) {
    callers.add({}, {.most = 2, .tokens = 400}, [&](Turn& own) {
      EXPECT_EQ(own.threads(), 2);
      resumed.wait();
      ++ended;
    });
  }
  book.join();
}

TEST(Turns, GoOnShortestFirstWhereSeveralAreLent) {
  Turns turns;
  std::string order;
  std::mutex mutex;
  const auto note = [&](char name) {
    const std::lock_guard lock(mutex);
    order += name;
  };
  std::latch book_began(1), short_began(1), book_lends(1), gate(1);
  std::atomic<bool> short_lent = false;
  Callers callers(turns);
  std::thread book([&] {
    Turns::Waiter waiter({.rest = 100, .whole = 100}, {.most = 4, .tokens = 4096});
    Turn turn(turns, waiter);
    book_began.count_down();
    while (turns.waiting() < 1) std::this_thread::yield();
    turn.reached(1, 1000);
    book_lends.wait();
    turn.reached(2, 1000);
    // The short one goes on beside it.
    const auto short_ended = [&] {
      const std::lock_guard lock(mutex);
      return order.find('s') != std::string::npos;
    };
    for (int i = 0; i < 400 && !short_ended(); ++i) {
      compute(0.005);
      turn.reached(3, 1000);
    }
    note('B');
  });
  book_began.wait();
  // The short pass has one core and lends it first, then the book lends the others.
  std::thread shorter([&] {
    Turns::Waiter waiter({}, {.most = 1, .tokens = 400});
    Turn turn(turns, waiter);
    short_began.count_down();
    compute(0.05);
    while (turns.waiting() < 1) std::this_thread::yield();
    short_lent = true;
    turn.reached(1, 2);
    note('s');
  });
  short_began.wait();
  callers.add({}, {.most = 1, .tokens = 10}, [&](Turn&) { gate.wait(); });
  while (!short_lent || turns.waiting() > 0) std::this_thread::yield();
  callers.add({}, {}, [&](Turn&) { note('t'); });
  book_lends.count_down();
  gate.count_down();
  shorter.join();
  book.join();
  callers.join();
  EXPECT_EQ(order, "tsB");
}

TEST(Turns, AloneAreBesideNobody) {
  Turns turns;
  std::atomic<int> computing = 0;
  Callers callers(turns);
  {
    const Turn turn(turns, 4);
    for (int i = 0; i < 4; ++i) {
      const std::int64_t tokens = i % 2 == 0 ? 0 : 300;
      callers.add({.rest = double(i), .whole = 1}, {.most = 1, .tokens = tokens}, [&](Turn&) {
        EXPECT_EQ(++computing, 1);
        compute(0.005);
        --computing;
      });
    }
  }
}

TEST(Turns, ByArrivalLetNobodyGoFirst) {
  Turns turns(Turns::Order::arrival);
  std::string order;
  Callers callers(turns);
  {
    Turn turn(turns, 2, {.rest = 100, .whole = 100});
    const auto note = [&](char name) { return [&order, name](Turn&) { order += name; }; };
    callers.add({.rest = 3, .whole = 3}, {.most = 2, .tokens = 300}, note('a'));
    callers.add({.rest = 1, .whole = 1}, {.most = 2, .tokens = 100}, note('b'));
    callers.add({.rest = 2, .whole = 2}, note('c'));
    turn.reached(1, 100);
    EXPECT_EQ(order, "");
  }
  callers.join();
  EXPECT_EQ(order, "abc");
}

}  // namespace
}  // namespace longformer::turns_test
