// The examples of a validation set during a training: read once, and run once for each evaluation.
// The pass that gives the loss also gives what the metrics compare.
#pragma once

#include <any>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "engine/frame/head.h"

namespace longformer::engine {

/// Results of collating a record that its evaluations need.
struct ReadRecord {
  /// A Reading, or what the task reads instead, without the rows, which the examples have; empty
  /// for a record that could not be read.
  std::any reading = {};
  /// Its examples in the training set; none where nothing can be learned of it.
  Index first = 0, end = 0;

  bool has_examples() const { return first < end; }
};

using UseStates = std::function<void(const ops::Context&, const Head&, const Tensor& hidden)>;

/// Results of a pass over a training set. Records must be asked for in order, and must have
/// examples.
class MeasuredPass {
 public:
  virtual ~MeasuredPass() = default;
  virtual const ReadRecord& record(std::size_t number) const = 0;

  /// Logits of each row of the record: [outputs], or [n, outputs] of a head that speaks for every
  /// token. Throws Error unless they are finite.
  virtual std::vector<std::vector<float>> logits(std::size_t record) = 0;
  /// The vectors of all its rows behind each other, of a head that makes vectors. Throws Error
  /// unless they are finite.
  virtual std::vector<std::vector<float>> vectors(std::size_t record) = 0;
  /// Gives `use` the states of its rows behind each other.
  virtual void with_states(std::size_t record, const UseStates& use) = 0;
};

}  // namespace longformer::engine
