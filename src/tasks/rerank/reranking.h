// Training and evaluating cross-encoders: a head of one class for pairs of a query and a text
// (sentence-transformers' CrossEncoder).
#pragma once

#include <optional>

#include "engine/frame/task.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

/// The row of the table. Its head is that of classification.
const Task& reranking();

/// Loss of a training.
enum class RerankLoss {
  /// Binary cross-entropy of the logit of each text and its relevance, from 0 to 1
  /// (BinaryCrossEntropyLoss).
  pointwise,
  /// Cross-entropy of the logits of a relevant text and all irrelevant ones of its query, of which
  /// the first is right.
  listwise,
};

/// Options of rerank tasks, which are kept in DataOptions::further.
struct RerankTaskOptions {
  /// Absent: listwise for lists of positives and negatives, else pointwise.
  std::optional<RerankLoss> loss = {};
  /// Irrelevant texts that are added to queries without any; 0: none.
  Index hard_negatives = 0;
};

RerankTaskOptions rerank_task_options(const DataOptions& options);
OptionFields rerank_fields(DataOptions& options, OptionUse use);

}  // namespace longformer::tasks
