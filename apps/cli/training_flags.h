// The options that all verbs that train share, named as those of the Hugging Face Trainer.
#pragma once

#include "flags.h"
#include "longformer/training.h"

namespace longformer::cli {

/// Adds them to a verb. What `options` holds before are the defaults of the verb, which --help
/// tells. `options` must live as long as the verb.
void add_training(CLI::App& verb, TrainingOptions& options);

/// check() as wrong usage: names the option as it is written on the command line. Throws
/// UsageError.
void check_training(TrainingOptions options, bool has_validation = false);

}  // namespace longformer::cli
