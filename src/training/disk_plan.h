// How much room a training needs on the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>

#include "longformer/training.h"
#include "training/checkpoints.h"
#include "training/phase.h"

namespace longformer::training {

/// Checkpoints that will be written from a state on to the end, those that only a better evaluation
/// brings not counted.
std::int64_t checkpoints_left(const TrainingOptions& options, std::span<const Phase> phases,
                              const TrainerState& state, int ranks);

struct DiskNeed {
  std::int64_t model_bytes = 0;
  std::int64_t checkpoint_bytes = 0;
  /// Checkpoints that will be written, and those that are there before.
  std::int64_t written = 0;
  std::int64_t before = 0;
  /// So many are kept; 0: all.
  std::int64_t limit = 0;
  /// One more is kept: the best one.
  bool keeps_best = false;
};

/// The most bytes at any moment beside what is there before: an old checkpoint goes when the next
/// one is whole, and the model is written behind the last one.
std::int64_t peak_disk_bytes(const DiskNeed& need);

/// Bytes that the file system of a folder has left for this user; absent when unknown.
std::optional<std::int64_t> free_disk_bytes(const std::filesystem::path& folder);

}  // namespace longformer::training
