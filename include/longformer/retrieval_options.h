// How a corpus with queries and judgements of relevance is read.
#pragma once

#include <string>

namespace longformer {

struct RetrievalOptions {
  /// Whose judgements: those in qrels/SPLIT.tsv, or qrels/SPLIT.txt.
  std::string split = "test";
  /// Whether a document may be an answer to the query of its own id. Where it is the same text, as
  /// in ArguAna and Quora, that is no answer; so BEIR leaves it out of every ranking.
  bool keep_identical_ids = false;
};

}  // namespace longformer
