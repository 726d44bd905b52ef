// How a call of fused attention, forward or backward, is divided: tasks of queries, and the keys
// that these queries see in one sequence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/spec.h"

namespace longformer::kernels {

inline Index round_up(Index value, Index unit) { return divide_up(value, unit) * unit; }

/// Some queries of one head and document: those in one residue class of the dilation, or global
/// queries that see everything.
struct Task {
  const AttentionDocument* document;
  Index head;
  Index residue;
  /// Queries first, first + dilation, … of the document, or numbers into the list of global ones.
  Index first;
  Index count;
  bool sees_everything;
};

/// The keys of a task, each at a place: first the global ones, then those of its windows in the
/// order in which windows count them.
struct KeySequence {
  std::span<const Index> globals;
  Index count = 0;
  /// First key of the windows: its row, and its number in the residue class.
  Index first_row = 0;
  Index first_number = 0;
  Index stride = 1;
  /// Per key row, 0 = left out of the windows; may be null.
  const std::uint8_t* kept = nullptr;

  Index global_count() const { return static_cast<Index>(globals.size()); }
  Index row(Index place) const {
    return place < global_count() ? globals[place] : first_row + (place - global_count()) * stride;
  }
  /// Number of a key of the windows in the residue class.
  Index number(Index place) const { return first_number + place - global_count(); }
  bool keeps(Index place) const {
    return kept == nullptr || place < global_count() || kept[row(place)] != 0;
  }
};

/// A query and what it sees.
struct Lane {
  Index row;
  Index position;
  Range globals;
  Range window;
};

class AttentionTasks {
 public:
  explicit AttentionTasks(const AttentionSpec& spec);

  /// Tasks of at most `most` queries, all but the last a multiple of `unit`, for the queries
  /// begin … end − 1 of the document and, in the same proportion, its global ones.
  void add(const AttentionDocument& document, Index head, Range queries, Index most, Index unit,
           std::vector<Task>& tasks) const;

  /// The queries of the task, without what they see; those that see nothing go to `blind`, as rows.
  void collect(const Task& task, std::vector<Lane>& lanes, std::vector<Index>& blind) const;
  /// The keys of the task; sets the ranges of the lanes.
  KeySequence keys_of(const Task& task, std::span<Lane> lanes) const;

  std::span<const Index> globals_of(const AttentionDocument& document) const;

  /// Numbers whose differences are distances: those of rows in the residue class of the dilation,
  /// or their places.
  Index query_number(const Lane& lane, Index dilation) const {
    const auto& places = spec_.rows->places;
    return places ? places->query_number(lane.row) : floor_divide(lane.position, dilation);
  }
  Index key_number(const KeySequence& keys, Index place) const {
    const auto& places = spec_.rows->places;
    return places ? places->key_number(keys.row(place)) : keys.number(place);
  }

 private:
  bool sees_everything(const AttentionDocument& document, Index position) const;
  bool masked(Index key_row) const {
    return !spec_.rows->key_mask.empty() && spec_.rows->key_mask[key_row] == 0;
  }

  const AttentionSpec& spec_;
  /// Keys of the windows: neither masked nor global. Empty when all are.
  std::vector<std::uint8_t> in_windows_;
};

}  // namespace longformer::kernels
