#include "training_flags.h"

#include <algorithm>

#include "longformer/error.h"

namespace longformer::cli {

void check_training(TrainingOptions options, bool has_validation) {
  choose_eval_strategy(options, has_validation);
  try {
    check(options);
  } catch (const Error& error) {
    std::string message = error.what();
    const auto colon =
        message.begin() + static_cast<std::ptrdiff_t>(std::min(message.find(':'), message.size()));
    std::replace(message.begin(), colon, '_', '-');
    throw UsageError("--" + message);
  }
}

}  // namespace longformer::cli
