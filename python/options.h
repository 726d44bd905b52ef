// The options that verbs of data and training share, under the names of their flags.
#pragma once

#include "keywords.h"
#include "longformer/dataset.h"
#include "longformer/masking_options.h"
#include "longformer/training.h"

namespace longformer {

/// How data are read.
void take_data(Keywords& keywords, DataOptions& data);
/// `no_singletons`, or `singletons` that is False: clusters of one mention are left out.
void take_singletons(Keywords& keywords, bool& without);
/// Options of one task alone: coreference, questions over paragraphs, TriviaQA.
void take_tasks(Keywords& keywords, DataOptions& data);
/// Options of training alone, with vectors of texts.
void take_training_tasks(Keywords& keywords, DataOptions& data);
void take_masking(Keywords& keywords, MaskingOptions& masking);
/// All of TrainingOptions.
void take_training(Keywords& keywords, TrainingOptions& options);

}  // namespace longformer
