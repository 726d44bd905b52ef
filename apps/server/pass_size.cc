#include "pass_size.h"

#include <algorithm>

namespace longformer::server {

std::int64_t pass_tokens(const Model& model, std::int64_t most) {
  constexpr std::int64_t kTried = 512, kLeast = 64;
  constexpr double kSeconds = 0.05;
  const double seconds = model.seconds_of(kTried);
  const auto fitting =
      seconds > 0 ? static_cast<std::int64_t>(kTried * kSeconds / seconds) : kTried;
  return std::min(std::max(fitting, kLeast), most);
}

}  // namespace longformer::server
