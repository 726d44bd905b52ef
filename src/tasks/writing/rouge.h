// ROUGE as the Python package rouge_score counts it (docs/spec/tasks.md#c6; C.-Y. Lin, "ROUGE: A
// package for automatic evaluation of summaries", 2004).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longformer::tasks {

struct RougeScore {
  double precision = 0, recall = 0, f = 0;
};

/// rouge1, rouge2, rougeL, rougeLsum.
inline constexpr std::array<std::string_view, 4> kRougeNames = {"rouge1", "rouge2", "rougeL",
                                                                "rougeLsum"};
using RougeScores = std::array<RougeScore, kRougeNames.size()>;

/// Compares a text with what it should be. Sentences of rougeLsum are lines.
RougeScores rouge(const std::string& target, const std::string& prediction, bool stems);

/// Lower-case runs of a–z and 0–9; stems of those of more than three characters where asked for.
std::vector<std::string> rouge_tokens(std::string_view text, bool stems);

/// 2.5th, 50th and 97.5th percentile of a mean.
struct Interval {
  double low = 0, middle = 0, high = 0;
};

/// For each of rouge1 … rougeLsum the interval of the mean F over 1,000 samples of the documents
/// with replacement: the draws of BootstrapAggregator behind numpy.random.seed(seed).
std::array<Interval, kRougeNames.size()> bootstrap(const std::vector<RougeScores>& documents,
                                                   std::uint32_t seed);

}  // namespace longformer::tasks
