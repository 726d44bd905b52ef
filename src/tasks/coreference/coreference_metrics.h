// How well clusters of mentions agree with what is right, as the reference scorer 8.01 counts
// (Pradhan et al. 2014; LEA: Moosavi and Strube 2016).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "longformer/document.h"

namespace longformer::tasks {

struct CoreferenceScore {
  double precision = 0, recall = 0;
  double f1() const;
};

struct CoreferenceScores {
  /// Mentions with exactly the right words.
  CoreferenceScore mentions;
  CoreferenceScore muc, b_cubed, ceaf_e, lea;
  /// Mean of the F1 of MUC, B³ and CEAF-φ4.
  double conll_f1() const;
};

class CoreferenceCounter {
 public:
  /// Compares the clusters of one document. A span that is in the response twice counts where it is
  /// first. Clusters of one count in all but MUC; unless `without_singletons`, which leaves them
  /// out on both sides.
  void add(std::span<const WordCluster> key, std::span<const WordCluster> response,
           bool without_singletons = false);

  /// Over all documents: numerators and denominators are summed. What would be 0 ÷ 0 is 0.
  CoreferenceScores scores() const;

 private:
  struct Ratio {
    double numerator = 0, denominator = 0;
    double value() const { return denominator > 0 ? numerator / denominator : 0; }
  };
  struct Side {
    Ratio mentions, muc, b_cubed, ceaf_e, lea;
  };
  struct Compared;

  static CoreferenceScore score_of(const Ratio& recall, const Ratio& precision);
  static void count(const Compared& own, const Compared& other, Side& side);

  Side recall_, precision_;
};

/// Names and values for a report, the most telling one first.
std::vector<std::pair<std::string, double>> named(const CoreferenceScores& scores);

}  // namespace longformer::tasks
