// A part of a data set that is kept out of its training to evaluate on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/frame/task.h"

namespace longformer::engine {

/// How a data set is split. Either a share of the examples is taken, or the part of one fold.
struct SplitPlan {
  /// The file, for messages.
  std::string path;
  std::uint64_t seed = 0;
  double share = 0;
  /// Parts in all, and the one that is taken, from 1.
  Index folds = 0, fold = 0;
  /// Names of the strata where each must be in every part: those of the classes of a data set with
  /// one class for each example; else empty.
  std::vector<std::string> classes = {};
};

/// The examples to evaluate on, ascending. Examples that share a key stay together. Each stratum is
/// split alike: of n examples, ceil(share·n) are taken, those of the strata by largest remainders,
/// as scikit-learn's train_test_split(stratify) does it; the sizes of folds differ by at most one
/// example, in all and in each stratum, where no examples share a key, as those of StratifiedKFold.
/// Throws Error where examples or those of a class are too few.
std::vector<Index> validation_part(std::span<const SplitRecord> records, const SplitPlan& plan);

/// Examples of each stratum among those of `chosen`, by the strata's numbers.
std::vector<Index> stratum_counts(std::span<const SplitRecord> records,
                                  std::span<const Index> chosen, std::size_t strata);

/// A key of examples that belong together: equal texts of one kind.
std::uint64_t split_key(std::string_view kind, std::string_view text);
/// The keys of an id, if there is one, and of a text.
std::vector<std::uint64_t> split_keys(const Origin& origin, std::string_view text);

/// A record for each example, whose keys `keys_of` gives.
template <typename Example, typename KeysOf>
std::vector<SplitRecord> split_records(const std::vector<Example>& examples,
                                       const KeysOf& keys_of) {
  std::vector<SplitRecord> records;
  for (const Example& one : examples) {
    records.push_back({.origin = one.origin, .keys = keys_of(one)});
  }
  return records;
}

/// Takes the examples of a set of a task out of it, for DataSet::split_off: `data` is the member
/// that holds them.
template <typename Set, typename Data>
std::unique_ptr<Set> split_off(Set& set, Data Set::*data, std::span<const Index> chosen) {
  auto all = std::exchange((set.*data).examples, {});
  auto part = std::make_unique<Set>(set);
  std::size_t next = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool is_taken = next < chosen.size() && chosen[next] == static_cast<Index>(i);
    if (is_taken) ++next;
    ((is_taken ? *part : set).*data).examples.push_back(std::move(all[i]));
  }
  for (Set* one : {&set, part.get()}) {
    Data& of = one->*data;
    of.report.examples = static_cast<std::int64_t>(of.examples.size());
  }
  DataReport& report = ((*part).*data).report;
  report = {.examples = report.examples};
  return part;
}

}  // namespace longformer::engine
