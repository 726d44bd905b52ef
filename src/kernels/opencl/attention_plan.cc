#include "kernels/opencl/attention_plan.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace longformer::kernels::opencl {
namespace {

/// Numbers of rows, and their sums with reaches, fit into 32 bits.
constexpr Index kMostRows = Index{1} << 29;

std::int32_t narrow(Index value) { return static_cast<std::int32_t>(value); }

/// Powers of two and the numbers halfway between them: few builds serve all head sizes.
Index padded_head(Index head_size) {
  Index power = 16;
  while (power < head_size) power *= 2;
  const Index between = power / 4 * 3;
  return power > 32 && head_size <= between ? between : power;
}

/// Keys of a document in a residue class of the dilation.
Index keys_in_class(Index keys, Index residue, Index dilation) {
  return residue < keys ? (keys - residue + dilation - 1) / dilation : 0;
}

}  // namespace

std::string Tiles::options(const KernelForm& form) const {
  return fmt::format(
      "-DLANES={} -DTILE={} -DVEC={} -DDIMS={} -DRELATIVE={} -DBACKWARD={} -DHALF={}", lanes, tile,
      vector, dims, int{form.relative}, int{form.backward}, int{form.half});
}

Tiles tiles_for(const DeviceFacts& facts, Index head_size, Index rows) {
  Tiles tiles;
  tiles.dims = padded_head(head_size);
  const bool wide = !facts.is_gpu && facts.floats >= 8;
  tiles.vector = !wide ? 4 : facts.floats >= 16 ? 16 : 8;
  // Rows that a work item holds are registers of a GPU, and the stack of a thread elsewhere.
  constexpr Index kNumbers = 16384;
  tiles.lanes = std::clamp<Index>(kNumbers / tiles.dims, 8, 128);
  tiles.lanes = std::min(tiles.lanes, static_cast<Index>(facts.work_group));
  const auto bytes = [&](Index keys) { return keys * (rows * tiles.dims + 8) * Index{4}; };
  const auto room = static_cast<Index>(facts.local_memory);
  tiles.tile = 32;
  while (tiles.tile > 4 && bytes(tiles.tile) > room) tiles.tile /= 2;
  require(bytes(tiles.tile) <= room,
          "opencl: {}: expected {} bytes of local memory for heads of {}, found {}", facts.name,
          bytes(tiles.tile), head_size, room);
  tiles.vector = std::min(tiles.vector, tiles.tile);
  return tiles;
}

AttentionPlan::AttentionPlan(const AttentionSpec& spec_in, const AttentionInputs& in,
                             const Tiles& tiles_in)
    : spec(spec_in), tiles(tiles_in) {
  const Index queries = in.query.dimension(1), keys = in.key.dimension(1);
  require(std::max(queries, keys) < kMostRows, "opencl: expected fewer than {} rows, found {}",
          kMostRows, std::max(queries, keys));
  sizes.head_size = narrow(spec.head_size);
  sizes.heads = narrow(std::ssize(spec.heads));
  sizes.queries = narrow(queries);
  sizes.keys = narrow(keys);
  sizes.causal = spec.causal ? 1 : 0;
  sizes.bias_reach = spec.distance_bias ? narrow(in.distance_bias->dimension(1) / 2) : -1;
  sizes.distances = spec.relative_positions ? narrow(in.relative->keys.dimension(1)) : 0;
  sizes.documents = narrow(std::ssize(spec.rows->documents));
  sizes.scale = 1 / std::sqrt(static_cast<float>(spec.head_size));
  sizes.log_weight = spec.log_weight;
  for (const HeadPattern& head : spec.heads) {
    const Index block = std::min(head.block, kMostRows);
    const Index most = kMostRows / block;
    heads.push_back({narrow(std::min(head.reach_left, most)),
                     narrow(std::min(head.reach_right, most)),
                     narrow(std::min(head.dilation, kMostRows)), narrow(block)});
  }
  rows.assign(at(queries), {0, 0});
  kinds.assign(at(keys), 0);
  for (const Index key : spec.rows->global_keys) global_keys.push_back(narrow(key));
  for (const AttentionDocument& document : spec.rows->documents) take(document);
  listed_begins.push_back(narrow(std::ssize(listed)));
}

void AttentionPlan::take(const AttentionDocument& document) {
  const DocumentRows own(spec, document);
  listed_begins.push_back(narrow(std::ssize(listed)));
  for (Index i = 0; i < own.query_count; ++i) {
    const Index row = document.query_begin + i;
    const QueryKind kind = own.queries[at(i)];
    rows[at(row)] = {narrow(document.query_offset + i), static_cast<std::int32_t>(kind)};
    if (kind == QueryKind::everything) listed.push_back(narrow(row));
  }
  for (Index j = 0; j < own.key_count; ++j) {
    kinds[at(document.key_begin + j)] = static_cast<std::uint8_t>(own.keys[at(j)]);
  }
  const auto first = std::ranges::lower_bound(global_keys, narrow(document.key_begin));
  const Index begin = first - global_keys.begin();
  globals_of.push_back({narrow(begin), narrow(begin + std::ssize(own.globals))});
}

Task AttentionPlan::task_of(Index number, Index head) const {
  const AttentionDocument& document = spec.rows->documents[at(number)];
  Task task;
  task.head = narrow(head);
  task.key_begin = narrow(document.key_begin);
  task.key_count = narrow(document.key_count);
  task.query_begin = narrow(document.query_begin);
  task.query_count = narrow(document.query_count);
  task.query_offset = narrow(document.query_offset);
  return task;
}

/// The group of windowed queries from number `begin` on among those that start at query `start` of
/// the document and are a dilation apart.
Task AttentionPlan::window_task(Task task, Index start, Index begin) const {
  const HeadPattern& pattern = spec.heads[at(task.head)];
  const Index step = std::min(pattern.dilation, kMostRows);
  const Index of_class = divide_up(task.query_count - start, step);
  const Index count = std::min(tiles.lanes, of_class - begin);
  const Index position = task.query_offset + start + begin * step;
  const Index last = position + (count - 1) * step;
  const Index residue = position - floor_divide(position, step) * step;
  Index to = std::min(pattern.window(last).end, keys_in_class(task.key_count, residue, step));
  if (spec.causal) to = std::min(to, floor_divide(last, step) + 1);
  const Index from = std::max<Index>(pattern.window(position).begin, 0);
  task.first = narrow(task.query_begin + start + begin * step);
  task.step = narrow(step);
  task.count = narrow(count);
  task.residue = narrow(residue);
  task.from = narrow(std::min(from, kMostRows));
  task.to = narrow(std::max(to, Index{task.from}));
  return task;
}

std::vector<Task> AttentionPlan::query_tasks() const {
  std::vector<Task> tasks;
  for (Index head = 0; head < sizes.heads; ++head) {
    const Index step = spec.heads[at(head)].dilation;
    for (Index number = 0; number < sizes.documents; ++number) {
      Task task = task_of(number, head);
      task.list_from = globals_of[at(number)][0];
      task.list_to = globals_of[at(number)][1];
      for (Index start = 0; start < std::min<Index>(step, task.query_count); ++start) {
        const Index of_class = divide_up(task.query_count - start, step);
        for (Index begin = 0; begin < of_class; begin += tiles.lanes) {
          tasks.push_back(window_task(task, start, begin));
        }
      }
      task.list_from = task.list_to = 0;
      task.to = task.key_count;
      const Index end = listed_begins[at(number + 1)];
      for (Index begin = listed_begins[at(number)]; begin < end; begin += tiles.lanes) {
        task.first = narrow(begin);
        task.count = narrow(std::min(tiles.lanes, end - begin));
        tasks.push_back(task);
      }
    }
  }
  return tasks;
}

/// The group of keys from number `begin` on in a residue class of the dilation.
Task AttentionPlan::key_task(Task task, Index residue, Index begin) const {
  const HeadPattern& pattern = spec.heads[at(task.head)];
  const Index step = std::min(pattern.dilation, kMostRows), block = pattern.block;
  const Index of_class = keys_in_class(task.key_count, residue, step);
  const Index count = std::min(tiles.lanes, of_class - begin);
  // Queries of the class, from the first one of the document on.
  const Index offset = task.query_offset;
  const Index start = residue - offset - floor_divide(residue - offset, step) * step;
  const Index first_number = floor_divide(offset + start, step);
  const Index queries = keys_in_class(task.query_count, start, step);
  const Index most = kMostRows / block;
  const Index right = std::min(pattern.reach_right, most);
  const Index left = std::min(pattern.reach_left, most);
  Index first = (floor_divide(begin, block) - right) * block;
  if (spec.causal) first = std::max(first, begin);
  const Index end = (floor_divide(begin + count - 1, block) + left + 1) * block;
  task.first = narrow(task.key_begin + residue + begin * step);
  task.step = narrow(step);
  task.count = narrow(count);
  task.residue = narrow(start);
  task.from = narrow(std::clamp<Index>(first - first_number, 0, queries));
  task.to = narrow(std::clamp<Index>(end - first_number, task.from, queries));
  return task;
}

void AttentionPlan::add_key_tasks(Index number, std::vector<Task>& tasks) const {
  for (Index head = 0; head < sizes.heads; ++head) {
    Task task = task_of(number, head);
    const Index step = spec.heads[at(head)].dilation;
    task.list_from = listed_begins[at(number)];
    task.list_to = listed_begins[at(number + 1)];
    for (Index residue = 0; residue < std::min<Index>(step, task.key_count); ++residue) {
      const Index of_class = keys_in_class(task.key_count, residue, step);
      for (Index begin = 0; begin < of_class; begin += tiles.lanes) {
        tasks.push_back(key_task(task, residue, begin));
      }
    }
    task.list_from = task.list_to = 0;
    task.to = task.query_count;
    const auto [first, end] = globals_of[at(number)];
    for (Index begin = first; begin < end; begin += tiles.lanes) {
      task.first = narrow(begin);
      task.count = narrow(std::min(tiles.lanes, end - begin));
      tasks.push_back(task);
    }
  }
}

std::vector<std::vector<Task>> AttentionPlan::key_tasks() const {
  std::vector<std::vector<Task>> sets;
  std::vector<std::vector<Range>> taken;
  for (Index number = 0; number < sizes.documents; ++number) {
    const AttentionDocument& document = spec.rows->documents[at(number)];
    const Range keys = {document.key_begin, document.key_begin + document.key_count};
    std::size_t set = 0;
    const auto meets = [keys](Range other) {
      return keys.begin < other.end && other.begin < keys.end;
    };
    while (set < sets.size() && !taken[set].empty() && std::ranges::any_of(taken[set], meets)) {
      ++set;
    }
    if (set == sets.size()) {
      sets.emplace_back();
      taken.emplace_back();
    }
    // Documents mostly follow each other: their keys are one range.
    if (!taken[set].empty() && taken[set].back().end == keys.begin) {
      taken[set].back().end = keys.end;
    } else {
      taken[set].push_back(keys);
    }
    const std::size_t before = sets[set].size();
    add_key_tasks(number, sets[set]);
    for (std::size_t i = before; i < sets[set].size(); ++i) sets[set][i].add = set > 0 ? 1 : 0;
  }
  return sets;
}

/// Steps at which some query of the head may meet a key.
Range AttentionPlan::steps_of(Index head) const {
  if (spec.relative_positions) return {0, sizes.distances};
  const HeadPattern& pattern = spec.heads[at(head)];
  Range steps;
  for (const AttentionDocument& document : spec.rows->documents) {
    const Index last = document.query_offset + document.query_count - 1;
    const Index before = document.key_count - 1 - document.query_offset;
    steps.begin =
        std::min(steps.begin, -floor_divide(std::max<Index>(before, 0), pattern.dilation));
    steps.end = std::max(steps.end, floor_divide(std::max<Index>(last, 0), pattern.dilation) + 1);
  }
  return {std::max(steps.begin, -pattern.most_right()),
          std::min(steps.end, pattern.most_left() + 1)};
}

std::vector<Task> AttentionPlan::step_tasks() const {
  std::vector<Task> tasks;
  Index place = 0;
  for (Index head = 0; head < sizes.heads; ++head) {
    const Range steps = steps_of(head);
    for (Index begin = steps.begin; begin < steps.end; begin += tiles.lanes) {
      Task task;
      task.head = narrow(head);
      task.first = narrow(begin);
      task.count = narrow(std::min(tiles.lanes, steps.end - begin));
      task.list_from = narrow(place);
      place += task.count;
      tasks.push_back(task);
    }
  }
  return tasks;
}

std::vector<Task> AttentionPlan::documents() const {
  std::vector<Task> all;
  for (Index number = 0; number < sizes.documents; ++number) all.push_back(task_of(number, 0));
  return all;
}

}  // namespace longformer::kernels::opencl
