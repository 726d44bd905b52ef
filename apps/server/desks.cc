#include "desks.h"

#include <algorithm>
#include <iterator>

namespace longformer::server {

Desks::~Desks() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    for (Desk* desk : idle_) desk->changed.notify_one();
  }
  for (std::thread& thread : threads_) thread.join();
}

void Desks::post(std::function<void()> call, bool is_light) {
  Work work = {.call = std::move(call), .is_light = is_light};
  const std::lock_guard lock(mutex_);
  if (!idle_.empty()) {
    Desk* desk = idle_.back();
    idle_.pop_back();
    desk->work = std::move(work);
    desk->changed.notify_one();
  } else if (threads_.size() < most_) {
    threads_.emplace_back([this, work = std::move(work)]() mutable {
      Desk own;
      serve(own, std::move(work));
    });
  } else {
    waiting_.push_back(std::move(work));
  }
}

std::int64_t Desks::waiting() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(waiting_.size());
}

/// The work counts as done when its captures have ended.
void Desks::complete(Work work) {
  work.call();
  work.call = nullptr;
  if (work.is_light) return;
  const std::lock_guard lock(mutex_);
  busy_until_ = std::chrono::steady_clock::now();
}

void Desks::serve(Desk& own, Work first) {
  complete(std::move(first));
  std::unique_lock lock(mutex_);
  while (true) {
    if (!waiting_.empty()) {
      own.work = std::move(waiting_.front());
      waiting_.pop_front();
    } else {
      idle_.push_back(&own);
      wait(own, lock);
      if (own.work.call == nullptr) return;
    }
    Work work = std::exchange(own.work, {});
    lock.unlock();
    complete(std::move(work));
    lock.lock();
  }
}

void Desks::wait(Desk& own, std::unique_lock<std::mutex>& lock) {
  const auto is_called = [&] { return own.work.call != nullptr || ends_; };
  const bool may_rest = rest_.work && busy_until_;
  if (may_rest && !own.changed.wait_until(lock, *busy_until_ + rest_.after, is_called)) {
    // Only the thread that became idle last does the rest, and is then the last to get work.
    if (busy_until_ && idle_.size() == threads_.size() && idle_.back() == &own) {
      busy_until_.reset();
      std::rotate(idle_.begin(), std::prev(idle_.end()), idle_.end());
      lock.unlock();
      rest_.work();
      lock.lock();
    }
  }
  own.changed.wait(lock, is_called);
}

}  // namespace longformer::server
