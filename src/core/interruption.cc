#include <utility>

#include "longformer/report.h"

namespace longformer {
namespace {

constexpr std::chrono::milliseconds kPause(100);

/// The one that this thread asks; null where nobody wants to interrupt it.
Interruption*& current() {
  thread_local Interruption* interruption = nullptr;
  return interruption;
}

}  // namespace

Interruption::Interruption(std::function<void()> check)
    : check_(std::move(check)),
      outer_(std::exchange(current(), this)),
      due_(std::chrono::steady_clock::now() + kPause) {}

Interruption::~Interruption() { current() = outer_; }

void Interruption::poll() {
  // No exception may leave a parallel region.
  if (may_throw()) ask();
}

void Interruption::ask() {
  Interruption* one = current();
  if (one == nullptr || std::chrono::steady_clock::now() < one->due_) return;
  one->check_();
  one->due_ = std::chrono::steady_clock::now() + kPause;
}

}  // namespace longformer
