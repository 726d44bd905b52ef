#include "training_flags.h"

#include <algorithm>

#include "longformer/error.h"
#include "usage.h"

namespace longformer::cli {

void check_training(TrainingOptions options, bool has_validation) {
  choose_eval_strategy(options, has_validation);
  try {
    check(options);
  } catch (const Error& error) {
    throw UsageError(flag_of(error.option()), error.reason());
  }
}

}  // namespace longformer::cli
