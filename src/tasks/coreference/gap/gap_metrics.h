// How well pronouns are resolved, as the scorer of GAP counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tasks/coreference/gap/gap_data.h"

namespace longformer::tasks {

/// Counts two decisions for each example; an example without an answer is missed twice.
class GapCounter {
 public:
  void add(const GapExample& example, const std::optional<GapAnswer>& found);

  /// f1, precision and recall of all, then (masculine_, feminine_) of each; bias, feminine_f1 by
  /// masculine_f1, 1 where both are alike. It is 0 where one of them is, and the scorer of GAP
  /// writes "-": the names of metrics are the same for all counts.
  std::vector<std::pair<std::string, double>> scores() const;

 private:
  struct Counts {
    std::int64_t right = 0, false_positives = 0, missed = 0;
    void add(bool gold, const std::optional<bool>& found);
    double precision() const;
    double recall() const;
    double f1() const;
  };

  Counts masculine_, feminine_;
};

}  // namespace longformer::tasks
