// How long work reports where it is.
#pragma once

#include <cstdint>
#include <functional>

namespace longformer {

struct Progress {
  std::int64_t documents_done = 0;
  std::int64_t documents_total = 0;
  std::int64_t tokens_done = 0;
  std::int64_t tokens_total = 0;
};

/// Called from the calling thread between units of work; may be empty. Throwing from it stops the
/// work.
using ProgressCallback = std::function<void(const Progress&)>;

}  // namespace longformer
