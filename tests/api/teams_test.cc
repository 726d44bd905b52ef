// The team that a product is cut for is the team that runs it, whatever OpenMP is told around it.
//
// Reruns: tsan
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include "core/random.h"
#include "core/shared_cores.h"
#include "core/threads.h"
#include "fixtures.h"
#include "kernels/gemm.h"
#include "kernels/packed_linear.h"
#include "longformer/error.h"
#include "longformer/report.h"
#include "longformer/tasks.h"

namespace {

/// While it is set, parallel regions of libraries have one thread, against all promises.
std::atomic<bool> regions_break = false;

}  // namespace

/// Stands before the OpenMP runtime's own, for oneDNN too.
extern "C" void GOMP_parallel(void (*work)(void*), void* data, unsigned threads, unsigned flags) {
  using Region = void (*)(void (*)(void*), void*, unsigned, unsigned);
  static const auto own = reinterpret_cast<Region>(dlsym(RTLD_NEXT, "GOMP_parallel"));
  own(work, data, regions_break ? 1 : threads, flags);
}

namespace longformer::teams_test {
namespace {

/// Settings that the owner of a thread may have made.
struct OpenMpSettings {
  int dynamic = 0, levels = 1, threads = 2;

  void apply() const {
    omp_set_dynamic(dynamic);
    omp_set_max_active_levels(levels);
    omp_set_num_threads(threads);
  }
  static OpenMpSettings now() {
    return {omp_get_dynamic(), omp_get_max_active_levels(), omp_get_max_threads()};
  }
  bool operator==(const OpenMpSettings&) const = default;
};

const std::vector<OpenMpSettings>& all_settings() {
  static const std::vector<OpenMpSettings> settings = {{0, 1, 2}, {1, 1, 2},  {0, 0, 2},
                                                       {1, 0, 1}, {1, 3, 64}, {0, 2, 1}};
  return settings;
}

/// Settings of this thread for the life of the object.
class WithSettings {
 public:
  explicit WithSettings(const OpenMpSettings& settings) : before_(OpenMpSettings::now()) {
    settings.apply();
  }
  ~WithSettings() { before_.apply(); }
  WithSettings(const WithSettings&) = delete;
  WithSettings& operator=(const WithSettings&) = delete;

 private:
  OpenMpSettings before_;
};

constexpr Index kRows = 96, kIn = 64, kOut = 192;

const Tensor& left() {
  static const Tensor tensor = random_normal_tensor({kRows, kIn}, 1.0f, 1);
  return tensor;
}

const Tensor& right() {
  static const Tensor tensor = random_normal_tensor({kOut, kIn}, 1.0f, 2);
  return tensor;
}

/// left() · right()ᵀ by the ways in which a model multiplies, one behind the other.
std::vector<float> products(DType dtype) {
  std::vector<float> all;
  const auto add = [&all](const Tensor& c) {
    const std::vector<float> values = c.to_floats();
    all.insert(all.end(), values.begin(), values.end());
  };
  const Tensor a = left().to(dtype), b = right().to(dtype);
  Tensor c({kRows, kOut}, DType::f32);
  const kernels::GemmShape shape = {.m = kRows, .n = kOut, .k = kIn, .transpose_b = true};
  if (dtype == DType::bf16) {
    kernels::gemm(shape, a.data<BFloat16>(), b.data<BFloat16>(), c.data<float>());
  } else {
    kernels::gemm(shape, a.data<float>(), b.data<float>(), c.data<float>());
  }
  add(c);
  const kernels::PackedLinear dense(std::span(&right(), 1), {}, {.dtype = dtype});
  for (const bool all_threads : {false, true}) {
    Tensor y({kRows, kOut}, dtype);
    dense.run(dense.kernel(kRows, dtype, all_threads), a.raw(), y.raw());
    add(y);
  }
  return all;
}

void expect_same(const std::vector<float>& found, const std::vector<float>& wanted, DType dtype) {
  ASSERT_EQ(found.size(), wanted.size());
  const float tolerance = dtype == DType::bf16 ? 0.2f : 1e-4f;
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], wanted[i], tolerance) << i;
}

class Teams : public testing::TestWithParam<DType> {
 protected:
  Teams() {
    const ThreadLimit limit(1);
    wanted_ = products(GetParam());
  }
  void check() const { expect_same(products(GetParam()), wanted_, GetParam()); }

 private:
  std::vector<float> wanted_;
};

INSTANTIATE_TEST_SUITE_P(Types, Teams, testing::Values(DType::f32, DType::bf16));

TEST_P(Teams, SettingsOfTheCallerChangeNothingAndStay) {
  for (const OpenMpSettings& settings : all_settings()) {
    const WithSettings with(settings);
    for (const int threads : {1, 2, 4, 7}) {
      const ThreadLimit limit(threads);
      EXPECT_EQ(free_threads(), threads);
      EXPECT_EQ(OpenMpSettings::now(), settings) << "they are the caller's between products";
      check();
      std::atomic<int> largest = 0;
      parallel_for(threads, 500, [&](Index) {
        if (thread_number() > largest) largest = thread_number();
      });
      EXPECT_LT(largest, threads);
    }
    check();
    EXPECT_EQ(OpenMpSettings::now(), settings);
  }
}

TEST_P(Teams, SettingsThatChangeBehindACompiledProduct) {
  const DType dtype = GetParam();
  const Tensor x = left().to(dtype);
  const kernels::PackedLinear dense(std::span(&right(), 1), {}, {.dtype = dtype});
  const auto run = [&](const kernels::PackedLinear::Kernel& kernel) {
    Tensor y({kRows, kOut}, dtype);
    dense.run(kernel, x.raw(), y.raw());
    return y.to_floats();
  };
  const ThreadLimit limit(4);
  const auto& kernel = dense.kernel(kRows, dtype, true);
  const std::vector<float> wanted = run(kernel);
  for (const OpenMpSettings& settings : all_settings()) {
    const WithSettings with(settings);
    EXPECT_EQ(run(kernel), wanted);
  }
}

TEST_P(Teams, InsideAParallelRegionOfTheCaller) {
  for (const int callers : {1, 3}) {
    for (const int levels : {1, 2}) {
      const WithSettings with({0, levels, 2});
      std::atomic<int> wrong = 0;
#pragma omp parallel num_threads(callers)
      {
        const ThreadLimit limit(4);
        std::vector<int> workers;
        parallel_for(4, 20, [&](Index) {
          if (callers > 1) workers.push_back(thread_number());
        });
        const bool alone = callers == 1 || (free_threads() == 1 && workers == std::vector(20, 0));
        if (!alone) ++wrong;
        check();
      }
      EXPECT_EQ(wrong, 0);
    }
  }
}

TEST_P(Teams, SeveralThreadsOfTheCallerAtOnce) {
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([this, i] {
      all_settings()[static_cast<std::size_t>(i)].apply();
      for (const int threads : {4, 2, 7}) {
        const ThreadLimit limit(threads);
        check();
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST_P(Teams, AProductOfFewerThreadsThanPromisedIsAnError) {
  // The proof is once for each thread and size: this is a new thread.
  std::thread([this] {
    const ThreadLimit limit(5);
    EXPECT_EQ(free_threads(), 5) << "threads are counted once";
    regions_break = true;
    try {
      products(GetParam());
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("threads: a matrix product of 5 threads gives nan"),
                std::string::npos)
          << error.what();
    }
    regions_break = false;
    check();
  }).join();
}

TEST(ThreadNumber, IsOfTheInnermostLoop) {
  const ThreadLimit limit(3);
  std::atomic<int> wrong = 0;
  parallel_for(3, 30, [&](Index) {
    const int outer = thread_number();
    parallel_for(3, 2, [&](Index) {
      if (thread_number() != 0) ++wrong;
    });
    if (thread_number() != outer) ++wrong;
  });
  // A loop of one index leaves its threads to the loops inside.
  parallel_for(3, 1, [&](Index) {
    parallel_for(3, 30, [&](Index) {
      if (thread_number() != omp_get_thread_num()) ++wrong;
    });
  });
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadLimit, TheInnermostCounts) {
  const ThreadLimit outer(2);
  {
    const ThreadLimit wider(4);
    EXPECT_EQ(free_threads(), 4) << "a callback may load a model with more threads";
  }
  const ThreadLimit narrower(1);
  EXPECT_EQ(free_threads(), 1);
  std::thread([] {
    const WithSettings with({0, 1, 3});
    EXPECT_EQ(free_threads(), 3) << "without a limit it is what OpenMP gives";
  }).join();
}

/// Loops of about a millisecond, as a short text has them.
void compute_shortly() {
  parallel_for(4, 64, [](Index) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
    while (std::chrono::steady_clock::now() < end) continue;
  });
}

TEST(ShortWork, HasOneThreadWhileTheCoresAreCrowded) {
  if (!std::filesystem::exists("/proc/thread-self/schedstat")) GTEST_SKIP() << "no schedstat";
  std::thread([] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    const ThreadLimit limit(4);
    SharedCores cores;
    bool is_alone = false;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!is_alone && std::chrono::steady_clock::now() < end) {
      const ShortWork work(cores);
      is_alone = free_threads() == 1;
      compute_shortly();
    }
    EXPECT_TRUE(is_alone) << "four threads on one core wait for it three quarters of the time";
    EXPECT_EQ(free_threads(), 4) << "other work keeps its threads";
  }).join();
}

TEST(Interruption, ReachesALoopInsideARegionOfOneThreadOfTheCaller) {
  class Stop {};
  bool stopped = false;
#pragma omp parallel num_threads(1)
  {
    const Interruption interruption([] { throw Stop(); });
    try {
      parallel_for(2, 100,
                   [](Index) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
    } catch (const Stop&) {
      stopped = true;
    }
  }
  EXPECT_TRUE(stopped);
}

std::string fixture(const std::string& name) { return (fixtures_folder() / name).string(); }

TEST(Model, AnswersInsideAParallelRegionOfTheCaller) {
  const Classifier classifier =
      Classifier::load(fixture("tiny_longformer_classifier"), {.threads = 4});
  const std::vector<std::string> texts = {"the of and to in a is was he for it with as his on be"};
  const auto scores = [&] {
    const Classification found = classifier.classify(texts).at(0);
    return found.logits;
  };
  const std::vector<float> wanted = scores();
  std::array<std::vector<float>, 3> found;
#pragma omp parallel num_threads(3)
  found[static_cast<std::size_t>(omp_get_thread_num())] = scores();
  for (const auto& own : found) expect_same(own, wanted, DType::f32);
}

}  // namespace
}  // namespace longformer::teams_test
