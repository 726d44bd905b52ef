#include "engine/frame/counters.h"

namespace longformer::engine {

std::vector<const Counter*> reading_counters(std::initializer_list<const Counter*> own) {
  std::vector<const Counter*> all = {&kSkipped, &kEmpty, &kTruncatedExamples, &kTruncatedTokens,
                                     &kSegmentedExamples};
  all.insert(all.end(), own);
  return all;
}

std::vector<const Counter*> official_counters(std::initializer_list<const Counter*> own) {
  std::vector<const Counter*> all = reading_counters(own);
  all.insert(all.begin() + 1, &kMissing);
  return all;
}

}  // namespace longformer::engine
