// Seconds that threads spend on tokens.
#pragma once

#include <chrono>

namespace longformer::text {

/// Total of the calling thread.
double& seconds_on_tokens();

/// Adds its lifetime to the total of its thread.
class EncodingTime {
 public:
  EncodingTime() = default;
  ~EncodingTime() {
    seconds_on_tokens() +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  EncodingTime(const EncodingTime&) = delete;
  EncodingTime& operator=(const EncodingTime&) = delete;

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace longformer::text
