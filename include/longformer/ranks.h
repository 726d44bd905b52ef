// Processes that compute together: they train one model, or read one document.
#pragma once

#include <cstddef>
#include <span>

namespace longformer {

/// Rows for the ranks before and behind this one, and places for theirs; empty where there is none.
struct RankNeighbours {
  std::span<const std::byte> to_before, to_behind;
  std::span<std::byte> from_before, from_behind;
};

/// One of several processes, each with the same model and data. In a training a step reads
/// `per_device_train_batch_size` × `gradient_accumulation_steps` examples in each of them, and
/// moves all models alike, by the sum of their gradients. In a pass over one document each computes
/// a part of its tokens (LoadOptions::ranks). Who implements it sends the numbers through a library
/// of his: MPI, gloo. All ranks call the same functions with as many numbers in the same order. Any
/// exception of a std::exception means that a rank does not answer any more; its words are told.
class Ranks {
 public:
  Ranks() = default;
  virtual ~Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  /// From 0; rank 0 writes checkpoints and the model, and has the beginning of a document.
  virtual int rank() const = 0;
  virtual int count() const = 0;
  /// Replaces every number by its sum over all ranks, so that all of them hold the same bits.
  virtual void sum(std::span<double> values) const = 0;
  virtual void sum(std::span<float> values) const = 0;

  // For one document over ranks; trainings do without them. Throw Error unless implemented.

  /// Replaces every number by the greatest of all ranks.
  virtual void max(std::span<float> values) const;
  /// Sends to the neighbours and receives what they send. The last rank has nobody behind it.
  virtual void exchange(const RankNeighbours& rows) const;
};

}  // namespace longformer
