#include "kernels/cpu/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <thread>

#include "kernels/cpu/cpu_count.h"

namespace loci::cpu {
namespace {

TEST(ThreadPool, RunsEveryWorkerOnce) {
  for (const int size : {1, 2, 3, 8}) {
    ThreadPool pool(size);
    EXPECT_EQ(pool.size(), size);
    for (int count = 1; count <= size + 1; ++count) {  // more than there are: clamped
      std::vector<int> calls(static_cast<size_t>(size), 0);
      pool.run(count, [&](ThreadPool::Worker& worker) {
        EXPECT_EQ(worker.count, std::min(count, size));
        ++calls[static_cast<size_t>(worker.index)];
      });
      for (int i = 0; i < size; ++i) EXPECT_EQ(calls[static_cast<size_t>(i)], i < count ? 1 : 0);
    }
  }
}

TEST(ThreadPool, CallerIsWorkerZero) {
  ThreadPool pool(2);
  std::thread::id id;
  pool.run(2, [&](ThreadPool::Worker& worker) {
    if (worker.index == 0) id = std::this_thread::get_id();
  });
  EXPECT_EQ(id, std::this_thread::get_id());
}

TEST(ThreadPool, PartsCoverEveryItemOnce) {
  for (const int count : {1, 2, 3, 7, 16}) {
    for (const int64_t n : {0, 1, 5, 16, 1001}) {
      int64_t next = 0;
      for (int i = 0; i < count; ++i) {
        const ThreadPool::Worker worker = {nullptr, i, count};
        const auto [begin, end] = worker.part(n);
        EXPECT_EQ(begin, next);
        EXPECT_LE(end - begin, n / count + 1);
        next = end;
      }
      EXPECT_EQ(next, n);
    }
  }
}

// Plain (not atomic) memory handed from thread to thread across barriers: a lost ordering is a data race that the
// thread sanitizer reports, and a wrong sum without it.
TEST(ThreadPool, BarriersOrderMemory) {
  ThreadPool pool(4);
  constexpr int kRounds = 200;
  std::vector<int64_t> values(4, 0), sums(4, 0);
  for (int count : {2, 3, 4}) {
    std::fill(values.begin(), values.end(), 0);
    pool.run(count, [&](ThreadPool::Worker& worker) {
      const size_t me = static_cast<size_t>(worker.index);
      for (int round = 1; round <= kRounds; ++round) {
        values[me] = round * (worker.index + 1);
        worker.barrier();
        sums[me] = std::accumulate(values.begin(), values.begin() + worker.count, int64_t{0});
        worker.barrier();
        ASSERT_EQ(sums[me], static_cast<int64_t>(round) * worker.count * (worker.count + 1) / 2);
      }
    });
  }
}

TEST(ThreadPool, ManyShortJobsWithChangingCounts) {
  ThreadPool pool(4);
  int64_t total = 0;  // written by the caller between jobs, by worker 0 inside
  std::vector<int64_t> per_worker(4, 0);
  for (int i = 0; i < 3000; ++i) {
    const int count = 1 + i % 4;
    pool.run(count, [&](ThreadPool::Worker& worker) { per_worker[static_cast<size_t>(worker.index)] += 1; });
    total += count;
  }
  EXPECT_EQ(std::accumulate(per_worker.begin(), per_worker.end(), int64_t{0}), total);
}

TEST(ThreadPool, WakesAfterSleeping) {
  ThreadPool pool(3);
  for (int i = 0; i < 20; ++i) {
    std::atomic<int> calls{0};
    pool.run(3, [&](ThreadPool::Worker&) { ++calls; });
    EXPECT_EQ(calls, 3);
    std::this_thread::sleep_for(std::chrono::microseconds(i % 2 == 0 ? 1000 : 60));  // beyond and near the spin time
  }
}

TEST(ThreadPool, SlowWorkerIsWaitedFor) {
  ThreadPool pool(2);
  int value = 0;
  pool.run(2, [&](ThreadPool::Worker& worker) {
    if (worker.index == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      value = 42;
    }
  });
  EXPECT_EQ(value, 42);
}

// More threads than CPUs: everyone may sleep at every barrier.
TEST(ThreadPool, SleepingAtBarriersLosesNoWakeUp) {
  for (const int spin_us : {0, 1, 100}) {
    ThreadPool pool(6, spin_us);
    std::vector<int> passed(6, 0);
    for (int job = 0; job < 20; ++job) {
      pool.run(2 + job % 5, [&](ThreadPool::Worker& worker) {
        for (int round = 0; round < 20; ++round) {
          worker.barrier();
          ++passed[static_cast<size_t>(worker.index)];
        }
      });
    }
    EXPECT_EQ(passed[0], 400) << "spin " << spin_us;
    EXPECT_EQ(passed[5], 80) << "spin " << spin_us;
  }
}

TEST(ThreadPool, StartsAndStops) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(1 + i % 5);
    if (i % 2 == 0) pool.run(pool.size(), [](ThreadPool::Worker&) {});
  }
}

CpuIds affinity() { return usable_cpu_ids(); }

TEST(ThreadPool, BindsEveryThreadAndFreesTheCaller) {
  const CpuIds before = affinity();
  const CpuIds one = {before.back()};
  {
    ThreadPool pool(3, {PoolMode{.cpus = {before, one, one}}, PoolMode{.cpus = {one, before, one}}});
    for (const size_t mode : {0, 1, 0}) {
      pool.set_mode(mode);
      for (const int count : {1, 2, 3}) {
        std::vector<CpuIds> seen(3);
        pool.run(count, [&](ThreadPool::Worker& worker) { seen[static_cast<size_t>(worker.index)] = affinity(); });
        for (int i = 0; i < count; ++i) {
          const auto index = static_cast<size_t>(i);
          EXPECT_EQ(seen[index], pool.modes()[mode].cpus[index]) << "mode " << mode << ", thread " << i;
        }
      }
    }
    pool.set_mode(1);
    pool.run(1, [](ThreadPool::Worker&) {});
    EXPECT_EQ(affinity(), one);
    // Another thread that calls is bound, and the first one free again.
    std::thread([&] {
      pool.run(2, [](ThreadPool::Worker&) {});
      EXPECT_EQ(affinity(), one);
    }).join();
    EXPECT_EQ(affinity(), before);
    pool.run(1, [](ThreadPool::Worker&) {});
    EXPECT_EQ(affinity(), one);
  }
  EXPECT_EQ(affinity(), before);
}

TEST(ThreadPool, LowPriorityIsOfEveryThread) {
  const int before = sched_getscheduler(0);
  {
    ThreadPool pool(3, {PoolMode{.cpus = {}, .priority = -1}, PoolMode{}});
    for (const size_t mode : {0, 1}) {
      pool.set_mode(mode);
      std::vector<int> policy(3, -1);
      pool.run(3,
               [&](ThreadPool::Worker& worker) { policy[static_cast<size_t>(worker.index)] = sched_getscheduler(0); });
      EXPECT_EQ(policy, std::vector<int>(3, mode == 0 ? SCHED_BATCH : before));
    }
    pool.set_mode(0);
    pool.run(1, [](ThreadPool::Worker&) {});
  }
  EXPECT_EQ(sched_getscheduler(0), before);
}

TEST(ThreadPool, RunsWithoutSpinning) {
  ThreadPool pool(3, {PoolMode{.cpus = {}, .spin_us = 0}});
  std::atomic<int> n{0};
  for (int i = 0; i < 50; ++i) {
    pool.run(3, [&](ThreadPool::Worker& worker) {
      ++n;
      worker.barrier();
      EXPECT_EQ(n.load(), 3 * (i + 1));
      worker.barrier();
    });
  }
}

}  // namespace
}  // namespace loci::cpu
