#include "http_exchange.h"

#include <exception>
#include <utility>

namespace longformer::server {

void Gate::post(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  if (is_open_) pass(std::move(call));
}

void Gate::close() {
  const std::lock_guard lock(mutex_);
  is_open_ = false;
}

}  // namespace longformer::server
