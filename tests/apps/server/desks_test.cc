// Threads of requests, and what they do when nobody asks.
//
// Reruns: tsan
#include "desks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace longformer::server::desks_test {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPause{40};

/// Waits until the number is as large.
bool reaches(const std::atomic<int>& number, int expected) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (number < expected && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  return number >= expected;
}

TEST(Desks, RestOnceAfterEachTimeOfWork) {
  std::atomic<int> done = 0, rests = 0;
  Desks desks(4, {.after = kPause, .work = [&] { ++rests; }});
  for (int time = 1; time <= 3; ++time) {
    for (int i = 0; i < 8; ++i) desks.post([&] { ++done; });
    ASSERT_TRUE(reaches(done, 8 * time));
    ASSERT_TRUE(reaches(rests, time));
    std::this_thread::sleep_for(3 * kPause);
    EXPECT_EQ(rests, time);
  }
}

TEST(Desks, DoNotRestWhileOneWorks) {
  std::atomic<int> done = 0, rests = 0;
  std::atomic<bool> ends = false;
  Desks desks(4, {.after = kPause, .work = [&] { ++rests; }});
  desks.post([&] {
    while (!ends) std::this_thread::sleep_for(milliseconds(1));
  });
  for (int i = 0; i < 3; ++i) desks.post([&] { ++done; });
  ASSERT_TRUE(reaches(done, 3));
  std::this_thread::sleep_for(4 * kPause);
  EXPECT_EQ(rests, 0);
  ends = true;
  EXPECT_TRUE(reaches(rests, 1));
}

TEST(Desks, WorkThatComesDuringARestIsDone) {
  std::atomic<int> done = 0, rests = 0;
  Desks desks(1, {.after = milliseconds(1), .work = [&] {
                    ++rests;
                    std::this_thread::sleep_for(milliseconds(5));
                  }});
  for (int i = 1; i <= 20; ++i) {
    desks.post([&] { ++done; });
    ASSERT_TRUE(reaches(done, i));
    ASSERT_TRUE(reaches(rests, i));
  }
}

TEST(Desks, RestThoughTheirStateIsAskedFor) {
  std::atomic<int> done = 0, rests = 0;
  Desks desks(2, {.after = kPause, .work = [&] { ++rests; }});
  desks.post([&] { ++done; });
  for (int i = 0; i < 100 && rests == 0; ++i) {
    desks.post([&] { ++done; }, true);
    std::this_thread::sleep_for(kPause / 8);
  }
  EXPECT_EQ(rests, 1);
  const int before = done;
  desks.post([&] { ++done; }, true);
  ASSERT_TRUE(reaches(done, before + 1));
  std::this_thread::sleep_for(3 * kPause);
  EXPECT_EQ(rests, 1);
}

}  // namespace
}  // namespace longformer::server::desks_test
