// Dense layers and matrices that several models of one folder have in common.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "ops/linear.h"

namespace longformer::models {

/// Packed layers by what they are made of, for models that differ by their adapters; any thread.
class SharedLayers {
 public:
  /// The layer of this key; `pack` makes it where there is none yet.
  ops::Linear get(const std::string& key, const std::function<ops::Linear()>& pack) {
    const std::lock_guard lock(mutex_);
    const auto found = layers_.find(key);
    if (found != layers_.end()) return found->second;
    return layers_.emplace(key, pack()).first->second;
  }

  /// The matrix of this key; `read` reads it where there is none yet.
  Tensor matrix(const std::string& key, const std::function<Tensor()>& read) {
    const std::lock_guard lock(mutex_);
    const auto found = matrices_.find(key);
    if (found != matrices_.end()) return found->second;
    return matrices_.emplace(key, read()).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, ops::Linear> layers_;
  std::map<std::string, Tensor> matrices_;
};

}  // namespace longformer::models
