#include "kernels/attention/tasks.h"

#include <algorithm>

namespace longformer::kernels {

AttentionTasks::AttentionTasks(const AttentionSpec& spec) : spec_(spec) {
  if (spec.rows->global_keys.empty()) return;
  in_windows_ = spec.rows->key_mask;
  in_windows_.resize(static_cast<std::size_t>(spec.rows->key_count()), 1);
  for (const Index row : spec.rows->global_keys) in_windows_[row] = 0;
}

std::span<const Index> AttentionTasks::globals_of(const AttentionDocument& document) const {
  const auto& rows = spec_.rows->global_keys;
  const auto begin = std::lower_bound(rows.begin(), rows.end(), document.key_begin);
  return {begin, std::lower_bound(begin, rows.end(), document.key_begin + document.key_count)};
}

bool AttentionTasks::sees_everything(const AttentionDocument& document, Index position) const {
  if (spec_.global_queries != GlobalQueries::see_everything || in_windows_.empty()) return false;
  if (position < 0 || position >= document.key_count) return false;
  const Index row = document.key_begin + position;
  return in_windows_[row] == 0 && !masked(row);
}

void AttentionTasks::add(const AttentionDocument& document, Index head, Range queries, Index most,
                         Index unit, std::vector<Task>& tasks) const {
  const auto split = [&](Task task, Index stride, Index count) {
    if (count <= 0) return;
    const Index step = round_up(divide_up(count, divide_up(count, most)), unit);
    const Index first = task.first;
    for (Index done = 0; done < count; done += step) {
      task.first = first + done * stride;
      task.count = std::min(step, count - done);
      tasks.push_back(task);
    }
  };
  const Index dilation = spec_.heads[head].dilation;
  for (Index first = queries.begin; first < std::min(queries.begin + dilation, queries.end);
       ++first) {
    const Index position = document.query_offset + first;
    const Index residue = position - floor_divide(position, dilation) * dilation;
    split({&document, head, residue, first, 0, false}, dilation,
          divide_up(queries.end - first, dilation));
  }
  if (spec_.global_queries == GlobalQueries::see_everything && document.query_count > 0) {
    const auto count = static_cast<Index>(globals_of(document).size());
    const Index first = count * queries.begin / document.query_count;
    split({&document, head, 0, first, 0, true}, 1,
          count * queries.end / document.query_count - first);
  }
}

void AttentionTasks::collect(const Task& task, std::vector<Lane>& lanes,
                             std::vector<Index>& blind) const {
  const AttentionDocument& document = *task.document;
  const bool self = spec_.rows->self_attention;
  lanes.clear();
  blind.clear();
  if (task.sees_everything) {
    for (const Index key_row : globals_of(document).subspan(task.first, task.count)) {
      const Index position = key_row - document.key_begin;
      const Index query = position - document.query_offset;
      if (query < 0 || query >= document.query_count) continue;
      lanes.push_back({document.query_begin + query, position, {}, {}});
    }
    return;
  }
  const Index dilation = spec_.heads[task.head].dilation;
  for (Index i = 0; i < task.count; ++i) {
    const Index query = task.first + i * dilation;
    const Index row = document.query_begin + query;
    const Index position = document.query_offset + query;
    if (self && masked(row)) {
      blind.push_back(row);
    } else if (!sees_everything(document, position)) {
      lanes.push_back({row, position, {}, {}});
    }
  }
}

KeySequence AttentionTasks::keys_of(const Task& task, std::span<Lane> lanes) const {
  const AttentionDocument& document = *task.document;
  HeadPattern pattern = {kUnlimitedReach, kUnlimitedReach};
  const std::vector<std::uint8_t>* kept = &spec_.rows->key_mask;
  KeySequence keys;
  if (!task.sees_everything) {
    pattern = spec_.heads[task.head];
    keys.globals = globals_of(document);
    if (!in_windows_.empty()) kept = &in_windows_;
  }
  keys.kept = kept->empty() ? nullptr : kept->data();
  const Index in_class =
      divide_up(std::max<Index>(document.key_count - task.residue, 0), pattern.dilation);
  Range window = {in_class, 0};
  for (Lane& lane : lanes) {
    Range seen = pattern.window(lane.position);
    if (spec_.causal) seen.end = floor_divide(lane.position, pattern.dilation) + 1;
    lane.window.begin = std::clamp<Index>(seen.begin, 0, in_class);
    lane.window.end = std::clamp<Index>(seen.end, lane.window.begin, in_class);
    if (lane.window.begin == lane.window.end) continue;
    window.begin = std::min(window.begin, lane.window.begin);
    window.end = std::max(window.end, lane.window.end);
  }
  if (window.begin >= window.end) window = {};
  keys.first_row = document.key_begin + task.residue + window.begin * pattern.dilation;
  keys.first_number = window.begin;
  keys.stride = pattern.dilation;
  keys.count = keys.global_count() + window.end - window.begin;
  const Index first_place = keys.global_count() - window.begin;
  for (Lane& lane : lanes) {
    lane.window.begin += first_place;
    lane.window.end += first_place;
    const Index end_row = document.key_begin + lane.position + 1;
    lane.globals.end = spec_.causal
                           ? std::lower_bound(keys.globals.begin(), keys.globals.end(), end_row) -
                                 keys.globals.begin()
                           : keys.global_count();
  }
  return keys;
}

}  // namespace longformer::kernels
