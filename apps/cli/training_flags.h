// The check that all verbs that train share.
#pragma once

#include "flags.h"
#include "longformer/training.h"

namespace longformer::cli {

/// check() as wrong usage: names the option as it is written on the command line. Throws
/// UsageError.
void check_training(TrainingOptions options, bool has_validation = false);

}  // namespace longformer::cli
