#include "tasks/coreference/gap/gap_metrics.h"

namespace longformer::tasks {
namespace {

double share(std::int64_t part, std::int64_t rest) {
  const std::int64_t all = part + rest;
  return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 0;
}

}  // namespace

void GapCounter::Counts::add(bool gold, const std::optional<bool>& found) {
  if (!found || (gold && !*found)) {
    ++missed;
  } else if (*found) {
    ++(gold ? right : false_positives);
  }
}

double GapCounter::Counts::precision() const { return share(right, false_positives); }
double GapCounter::Counts::recall() const { return share(right, missed); }
double GapCounter::Counts::f1() const {
  const double sum = precision() + recall();
  return sum > 0 ? 2 * precision() * recall() / sum : 0;
}

void GapCounter::add(const GapExample& example, const std::optional<GapAnswer>& found) {
  Counts& counts = example.is_feminine ? feminine_ : masculine_;
  counts.add(example.right.a, found ? std::optional(found->a) : std::nullopt);
  counts.add(example.right.b, found ? std::optional(found->b) : std::nullopt);
}

std::vector<std::pair<std::string, double>> GapCounter::scores() const {
  const Counts all = {masculine_.right + feminine_.right,
                      masculine_.false_positives + feminine_.false_positives,
                      masculine_.missed + feminine_.missed};
  std::vector<std::pair<std::string, double>> scores;
  const auto append = [&](const std::string& prefix, const Counts& counts) {
    scores.emplace_back(prefix + "f1", counts.f1());
    scores.emplace_back(prefix + "precision", counts.precision());
    scores.emplace_back(prefix + "recall", counts.recall());
  };
  append("", all);
  append("masculine_", masculine_);
  append("feminine_", feminine_);
  const double masculine = masculine_.f1();
  scores.emplace_back("bias", masculine > 0 ? feminine_.f1() / masculine : 0);
  return scores;
}

}  // namespace longformer::tasks
