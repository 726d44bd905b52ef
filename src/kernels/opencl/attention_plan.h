// Attention as the kernels of attention.cl take it: rows, patterns and groups of work items.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/attention/backends.h"
#include "kernels/opencl/device.h"

namespace longformer::kernels::opencl {

/// The struct of the same name in attention.cl.
struct Task {
  std::int32_t head = 0;
  std::int32_t first = 0, step = 0, count = 0;
  std::int32_t residue = 0;
  std::int32_t from = 0, to = 0;
  std::int32_t list_from = 0, list_to = 0;
  std::int32_t key_begin = 0, key_count = 0;
  std::int32_t query_begin = 0, query_count = 0, query_offset = 0;
  std::int32_t add = 0;
  std::int32_t unused = 0;
};

/// The struct of the same name in attention.cl.
struct Sizes {
  std::int32_t head_size = 0, heads = 0, queries = 0, keys = 0;
  std::int32_t causal = 0, bias_reach = -1, distances = 0, documents = 0;
  float scale = 0, log_weight = 0;
  std::int32_t unused = 0, unused_too = 0;
};

/// Forms of the kernels that a driver compiles one by one.
struct KernelForm {
  bool relative = false, backward = false;
  /// Queries, keys and values are stored in fp16.
  bool half = false;
};

/// Work items of a group, keys of a tile, numbers of a vector, and numbers of a row in local
/// memory: what attention.cl is built for.
struct Tiles {
  Index lanes = 0, tile = 0, vector = 0, dims = 0;

  std::string options(const KernelForm& form) const;
};

/// The largest tiles that the device has room for. `rows` is the number of tiles of rows that a
/// kernel holds at once. Throws Error when a head does not fit.
Tiles tiles_for(const DeviceFacts& facts, Index head_size, Index rows);

/// Data of a spec that all kernels share.
struct AttentionPlan {
  AttentionPlan(const AttentionSpec& spec, const AttentionInputs& in, const Tiles& tiles);

  /// Groups of queries, for the kernels whose work items are queries.
  std::vector<Task> query_tasks() const;
  /// Groups of keys. Those of a set run at once; sets whose documents share keys follow each other.
  std::vector<std::vector<Task>> key_tasks() const;
  /// Groups of dilation steps from keys back to queries: those of relative keys, or all that occur.
  std::vector<Task> step_tasks() const;
  /// Rows of each document.
  std::vector<Task> documents() const;

  const AttentionSpec& spec;
  Tiles tiles;
  Sizes sizes;
  /// Position and kind of each query row.
  std::vector<std::array<std::int32_t, 2>> rows;
  /// Reach to the left and to the right, dilation and block of each head.
  std::vector<std::array<std::int32_t, 4>> heads;
  /// Query rows that see everything, and for each document where they begin.
  std::vector<std::int32_t> listed, listed_begins;
  std::vector<std::int32_t> global_keys;
  /// Places of each document's global keys: first, and one after the last.
  std::vector<std::array<std::int32_t, 2>> globals_of;
  std::vector<std::uint8_t> kinds;

 private:
  void take(const AttentionDocument& document);
  Task task_of(Index document, Index head) const;
  Task window_task(Task task, Index start, Index begin) const;
  Task key_task(Task task, Index residue, Index begin) const;
  void add_key_tasks(Index document, std::vector<Task>& tasks) const;
  Range steps_of(Index head) const;
};

}  // namespace longformer::kernels::opencl
