#include "desks.h"

namespace longformer::server {

Desks::~Desks() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    for (Desk* desk : idle_) desk->changed.notify_one();
  }
  for (std::thread& thread : threads_) thread.join();
}

void Desks::post(std::function<void()> work) {
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

void Desks::serve(Desk& own, std::function<void()> first) {
  first();
  first = nullptr;
  std::unique_lock lock(mutex_);
  while (true) {
    if (!waiting_.empty()) {
      own.work = std::move(waiting_.front());
      waiting_.pop_front();
    } else {
      idle_.push_back(&own);
      wait(own, lock);
      if (own.work == nullptr) return;
    }
    const auto work = std::exchange(own.work, nullptr);
    lock.unlock();
    work();
    lock.lock();
  }
}

void Desks::wait(Desk& own, std::unique_lock<std::mutex>& lock) {
  const auto is_called = [&] { return own.work != nullptr || ends_; };
  if (rest_.work && !own.changed.wait_for(lock, rest_.after, is_called)) {
    // The one that was busy last.
    if (idle_.size() == threads_.size() && idle_.back() == &own) {
      lock.unlock();
      rest_.work();
      lock.lock();
    }
  }
  own.changed.wait(lock, is_called);
}

}  // namespace longformer::server
