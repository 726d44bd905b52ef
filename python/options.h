// The options that have more than one name in Python.
#pragma once

#include "keywords.h"
#include "longformer/options.h"
#include "longformer/training.h"

namespace longformer {

/// `no_singletons`, or `singletons` that is False: clusters of one mention are left out.
void take_singletons(Keywords& keywords, bool& without);
/// The options of a list with a training in it. `resume_from_checkpoint` may be True, as in
/// transformers: the last one.
void take_training(Keywords& keywords, OptionFields fields, TrainingOptions& options);

}  // namespace longformer
