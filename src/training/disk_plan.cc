#include "training/disk_plan.h"

#include <algorithm>
#include <system_error>

namespace longformer::training {
namespace {

/// Multiples of `every` in (from, to], and `to` itself.
std::int64_t multiples_and_end(std::int64_t from, std::int64_t to, std::int64_t every) {
  if (from >= to) return 0;
  return to / every - from / every + (to % every == 0 ? 0 : 1);
}

}  // namespace

std::int64_t checkpoints_left(const TrainingOptions& options, std::span<const Phase> phases,
                              const TrainerState& state, int ranks) {
  if (options.save_strategy == "no") return 0;
  std::int64_t total = 0;
  for (const Phase& phase : phases) total += phase.steps;
  if (options.save_strategy == "steps") {
    return multiples_and_end(state.step, total, options.save_steps);
  }
  std::int64_t count = 0;
  for (auto i = static_cast<std::size_t>(state.phase); i < phases.size(); ++i) {
    const std::int64_t in_step = phases[i].accumulation * ranks;
    const std::int64_t epoch = (phases[i].micro_batches_per_epoch + in_step - 1) / in_step;
    const std::int64_t done = i == static_cast<std::size_t>(state.phase) ? state.phase_step : 0;
    const bool is_last = i + 1 == phases.size();
    count += is_last ? multiples_and_end(done, phases[i].steps, epoch)
                     : std::max<std::int64_t>(0, phases[i].steps / epoch - done / epoch);
  }
  return count;
}

std::int64_t peak_disk_bytes(const DiskNeed& need) {
  std::int64_t while_written = need.written, at_end = need.written;
  if (need.limit > 0) {
    const std::int64_t more = need.limit + (need.keeps_best ? 1 : 0) - need.before;
    while_written = std::min(need.written, std::max<std::int64_t>(1, more + 1));
    at_end = std::min(need.written, std::max<std::int64_t>(0, more));
  }
  return std::max(while_written * need.checkpoint_bytes,
                  at_end * need.checkpoint_bytes + need.model_bytes);
}

std::optional<std::int64_t> free_disk_bytes(const std::filesystem::path& folder) {
  std::error_code failure;
  const std::filesystem::space_info space = std::filesystem::space(folder, failure);
  // Some file systems do not tell.
  if (failure || space.capacity == 0) return std::nullopt;
  return static_cast<std::int64_t>(space.available);
}

}  // namespace longformer::training
