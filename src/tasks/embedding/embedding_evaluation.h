// How near vectors are that should be near each other.
#pragma once

#include <string>
#include <vector>

#include "engine/frame/evaluation_run.h"
#include "tasks/embedding/embedding_data.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

/// The names of what evaluate_embeddings() finds of such data: of scored pairs the correlations of
/// cosine and score ("spearman", "pearson"); of anchors and questions how often the right text is
/// the nearest among all texts that are no anchors ("recall_at_1", "recall_at_10", "mrr_at_10"),
/// and with negatives in how many triplets the positive is nearer ("triplet_accuracy"); of given
/// vectors the mean cosine with them ("teacher_cosine").
std::vector<std::string> embedding_metric_names(const EmbeddingData& data);

/// Compares. Throws Error for an example that cannot be read, unless such are skipped.
void evaluate_embeddings(const EmbeddingData& data, EvaluationRun& run);

}  // namespace longformer::tasks
