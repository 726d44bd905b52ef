#include "engine/frame/split.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "core/hash.h"
#include "core/random.h"
#include "core/words.h"
#include "engine/frame/epoch_order.h"

namespace longformer::engine {
namespace {

constexpr std::uint64_t kSplitDraw = 0x73706c6974;  // apart from the orders of epochs

/// Examples that stay together.
struct SplitGroup {
  std::vector<Index> examples;
  std::int32_t stratum = kNoStratum;

  Index size() const { return std::ssize(examples); }
};

/// The stratum that most of the examples have.
std::int32_t usual_stratum(std::span<const SplitRecord> records, const SplitGroup& group) {
  std::map<std::int32_t, Index> counts;
  for (const Index i : group.examples) ++counts[records[at(i)].stratum];
  const auto most = std::ranges::max_element(
      counts, [](const auto& a, const auto& b) { return a.second < b.second; });
  return most->first;
}

/// The first example of those that share a key with this one, directly or through others.
std::size_t root_of(std::vector<std::size_t>& parents, std::size_t i) {
  while (parents[i] != i) i = parents[i] = parents[parents[i]];
  return i;
}

std::vector<SplitGroup> groups_of(std::span<const SplitRecord> records) {
  std::vector<std::size_t> parents(records.size());
  std::iota(parents.begin(), parents.end(), std::size_t{0});
  std::unordered_map<std::uint64_t, std::size_t> first;
  for (std::size_t i = 0; i < records.size(); ++i) {
    for (const std::uint64_t key : records[i].keys) {
      const auto [known, is_new] = first.try_emplace(key, i);
      if (is_new) continue;
      const std::size_t a = root_of(parents, known->second), b = root_of(parents, i);
      parents[std::max(a, b)] = std::min(a, b);
    }
  }
  std::vector<SplitGroup> groups;
  std::unordered_map<std::size_t, std::size_t> numbers;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const auto [place, is_new] = numbers.try_emplace(root_of(parents, i), groups.size());
    if (is_new) groups.emplace_back();
    groups[place->second].examples.push_back(static_cast<Index>(i));
  }
  for (SplitGroup& group : groups) group.stratum = usual_stratum(records, group);
  return groups;
}

/// Groups by their strata, each in an order that the seed draws.
using Strata = std::map<std::int32_t, std::vector<const SplitGroup*>>;

Strata strata_of(std::span<const SplitGroup> groups, std::uint64_t seed) {
  Strata strata;
  for (const Index i : shuffled(std::ssize(groups), random_bits(seed, kSplitDraw))) {
    strata[groups[at(i)].stratum].push_back(&groups[at(i)]);
  }
  return strata;
}

Index examples_in(std::span<const SplitGroup* const> groups) {
  Index sum = 0;
  for (const SplitGroup* group : groups) sum += group->size();
  return sum;
}

/// Throws Error where a class cannot be in both parts.
void check_strata(const Strata& strata, const SplitPlan& plan) {
  if (plan.classes.empty()) return;
  for (const auto& [stratum, groups] : strata) {
    require(groups.size() >= 2,
            "{}: expected two examples or more of each class to split, found {} of \"{}\"{}",
            plan.path, examples_in(groups), plan.classes.at(static_cast<std::size_t>(stratum)),
            examples_in(groups) > 1 ? ", which belong together (equal ids or texts)" : "");
  }
}

/// How many of each stratum's examples are taken.
std::map<std::int32_t, Index> shares_of(const Strata& strata, Index examples,
                                        const SplitPlan& plan) {
  // 0.1 · 30 is a little more than 3 in binary numbers.
  const double exact = plan.share * static_cast<double>(examples);
  const auto wanted = static_cast<Index>(std::ceil(exact - 1e-9));
  require(wanted >= 1 && wanted < examples, OptionName("validation_split"),
          "expected a share that leaves examples in both parts of {}, found {} of {}", plan.path,
          plan.share, counted(examples, "example"));
  require(plan.classes.empty() || wanted >= std::ssize(strata), OptionName("validation_split"),
          "expected a share of at least {}, as many as {} has classes, found {}",
          counted(std::ssize(strata), "example"), plan.path, wanted);
  std::map<std::int32_t, Index> shares;
  std::vector<std::pair<double, std::int32_t>> remainders;
  Index left = wanted;
  for (const auto& [stratum, groups] : strata) {
    const double part = static_cast<double>(wanted) * static_cast<double>(examples_in(groups)) /
                        static_cast<double>(examples);
    shares[stratum] = static_cast<Index>(std::floor(part + 1e-9));
    left -= shares[stratum];
    remainders.emplace_back(static_cast<double>(shares[stratum]) - part, stratum);
  }
  std::ranges::sort(remainders);
  for (Index i = 0; i < left; ++i) ++shares[remainders[at(i) % remainders.size()].second];
  return shares;
}

std::vector<Index> taken_by_share(const Strata& strata, Index examples, const SplitPlan& plan) {
  std::vector<Index> taken;
  const auto shares = shares_of(strata, examples, plan);
  for (const auto& [stratum, groups] : strata) {
    const Index wanted = shares.at(stratum);
    Index count = 0;
    std::size_t left = groups.size();
    for (const SplitGroup* group : groups) {
      // A class that must be in both parts keeps a group.
      if (!plan.classes.empty() && left == 1) break;
      const Index with = count + group->size();
      if (with > wanted && with - wanted >= wanted - count) continue;
      taken.insert(taken.end(), group->examples.begin(), group->examples.end());
      count = with;
      --left;
    }
  }
  return taken;
}

std::vector<Index> taken_by_fold(const Strata& strata, const SplitPlan& plan) {
  const auto folds = static_cast<std::size_t>(plan.folds);
  std::vector<Index> sizes(folds, 0), taken;
  for (const auto& [stratum, drawn] : strata) {
    std::vector<Index> in_stratum(folds, 0);
    std::vector<const SplitGroup*> groups = drawn;
    std::ranges::stable_sort(
        groups, [](const SplitGroup* a, const SplitGroup* b) { return a->size() > b->size(); });
    for (const SplitGroup* group : groups) {
      std::size_t best = 0;
      for (std::size_t fold = 1; fold < folds; ++fold) {
        const bool is_less =
            std::pair(in_stratum[fold], sizes[fold]) < std::pair(in_stratum[best], sizes[best]);
        if (is_less) best = fold;
      }
      in_stratum[best] += group->size();
      sizes[best] += group->size();
      if (static_cast<Index>(best) + 1 != plan.fold) continue;
      taken.insert(taken.end(), group->examples.begin(), group->examples.end());
    }
  }
  return taken;
}

}  // namespace

std::vector<Index> validation_part(std::span<const SplitRecord> records, const SplitPlan& plan) {
  const std::vector<SplitGroup> groups = groups_of(records);
  const char* option = plan.folds > 0 ? "folds" : "validation_split";
  const Index least = plan.folds > 0 ? plan.folds : 2;
  require(std::ssize(groups) >= least, OptionName(option),
          "expected {} or more to split in {}, found {}{}", counted(least, "example"), plan.path,
          groups.size(),
          groups.size() < records.size()
              ? fmt::format(" ({}, of which some belong together: equal ids or texts)",
                            counted(std::ssize(records), "example"))
              : "");
  const Strata strata = strata_of(groups, plan.seed);
  check_strata(strata, plan);
  std::vector<Index> taken = plan.folds > 0 ? taken_by_fold(strata, plan)
                                            : taken_by_share(strata, std::ssize(records), plan);
  require(!taken.empty() && taken.size() < records.size(), OptionName(option),
          "expected examples in both parts of {}, found all {} in one: most belong together (equal "
          "ids or texts)",
          plan.path, records.size());
  std::ranges::sort(taken);
  return taken;
}

std::vector<Index> stratum_counts(std::span<const SplitRecord> records,
                                  std::span<const Index> chosen, std::size_t strata) {
  std::vector<Index> counts(strata, 0);
  for (const Index i : chosen) {
    const std::int32_t stratum = records[at(i)].stratum;
    if (stratum >= 0 && static_cast<std::size_t>(stratum) < strata) ++counts[at(Index{stratum})];
  }
  return counts;
}

std::uint64_t split_key(std::string_view kind, std::string_view text) {
  return fnv1a(text, fnv1a(kind));
}

std::vector<std::uint64_t> split_keys(const Origin& origin, std::string_view text) {
  std::vector<std::uint64_t> keys;
  if (!origin.id.empty()) keys.push_back(split_key("id", origin.id));
  // Documents without text are no copies of each other.
  if (!text.empty()) keys.push_back(split_key("text", text));
  return keys;
}

}  // namespace longformer::engine
