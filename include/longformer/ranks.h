// The processes that train one model together.
#pragma once

#include <span>

namespace longformer {

/// One of several processes, each with its model and all of the data. A step reads
/// `per_device_train_batch_size` × `gradient_accumulation_steps` examples in each of them, and
/// moves all models alike, by the sum of their gradients. Who implements it sends the numbers
/// through a library of his: MPI, gloo.
class Ranks {
 public:
  Ranks() = default;
  virtual ~Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  /// From 0; rank 0 writes checkpoints and the model.
  virtual int rank() const = 0;
  virtual int count() const = 0;
  /// Replaces every number by its sum over all ranks, so that all of them hold the same bits. All
  /// ranks call with as many numbers in the same order. Any exception of a std::exception means
  /// that a rank does not answer any more; its words are told.
  virtual void sum(std::span<double> values) const = 0;
  virtual void sum(std::span<float> values) const = 0;
};

}  // namespace longformer
