// Classes of documents and of pairs of texts, and numbers (regression).
#pragma once

#include <span>
#include <vector>

#include "engine/frame/collation.h"
#include "engine/reading/document.h"
#include "longformer/options.h"
#include "longformer/tasks.h"
#include "tasks/classification/classification_data.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

const Task& classification();

/// A class is that of every row of a document.
std::vector<Example> collate(Collator& rows, const ClassificationExample& example);

/// Throws Error for options that name a problem type, which tasks other than this one do not have.
void check_problem_type(const DataOptions& options, const Task& task);

/// Throws Error for training examples that are all of one class; other data pass.
void check_classes(const DataSet& examples);

/// The logits of a document from those of its segments, class by class.
std::vector<float> merged_logits(std::span<const std::vector<float>> segments, SegmentMerge merge);

/// The result of a document with its outputs; without scores where it has an error.
longformer::Classification classification_of(const ModelInfo& info, const Document& document,
                                             const ClassifyOptions& options);

}  // namespace longformer::tasks
