// The words between the ranks of a training.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/collective.h"
#include "formats/folder_lock.h"
#include "longformer/ranks.h"
#include "training/parameters.h"

namespace longformer::training {

/// A rank that does not answer any more ends the training with a checkpoint.
using longformer::RankLost;

/// One rank among all. Every function but the first three is called by all ranks in the same order,
/// and throws RankLost. A single rank says nothing.
class Team {
 public:
  /// None: a single rank. `ranks` must outlive it.
  explicit Team(const Ranks* ranks) : ranks_(ranks) {}

  int rank() const { return ranks_ == nullptr ? 0 : ranks_->rank(); }
  int size() const { return ranks_ == nullptr ? 1 : ranks_->count(); }
  /// Whether this rank writes files and decides.
  bool leads() const { return rank() == 0; }

  /// Replaces every number by its sum over all ranks.
  void sum(std::span<double> values) const;
  /// Gradients that no rank has stay as they are; those that some have are zero in the others.
  void sum_gradients(ParameterSet& parameters) const;
  /// Replaces every number by that of rank 0.
  void follow(std::span<double> values) const;
  /// Throws Error when a rank has another number than rank 0; `what` names it.
  void check_same(std::uint64_t number, std::string_view what) const;

 private:
  const Ranks* ranks_;
};

/// Whether an output folder is this rank's to write into: the others may be on the same disk, where
/// one writes for all. A rank that was killed may hold it for a moment longer than its connections.
bool hold_folder(std::optional<formats::FolderLock>& lock, const std::filesystem::path& folder);

/// A hash of all values.
std::uint64_t hash_of(const ParameterSet& parameters);

}  // namespace longformer::training
