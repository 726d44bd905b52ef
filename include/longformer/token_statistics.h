// How long documents are in tokens: the rows of Table 6 of the Longformer paper, for any texts.
#pragma once

#include <cstdint>
#include <vector>

namespace longformer {

struct TokenStatistics {
  std::int64_t documents = 0, tokens = 0;
  double mean = 0;
  /// Between two lengths they are interpolated, as numpy does it.
  double median = 0, p95 = 0;
  std::int64_t max = 0;
  /// Shares of the documents, from 0 to 1.
  double share_over_512 = 0, share_over_4096 = 0;
};

/// Statistics of the lengths of documents, in any order. Throws Error when there are none.
TokenStatistics token_statistics(std::vector<std::int64_t> lengths);

}  // namespace longformer
