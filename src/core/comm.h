// The processes that train one model together. One rank is the ordinary case.
#pragma once

#include <span>

#include "core/tensor.h"

namespace longformer {

/// Collective operations. This class is a single rank; a transport overrides it.
class Comm {
 public:
  Comm() = default;
  virtual ~Comm() = default;
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  virtual int rank() const { return 0; }
  virtual int ranks() const { return 1; }
  /// Replaces every number by its sum over all ranks, added in the order of the ranks, so that all
  /// of them hold the same bits.
  virtual void sum(std::span<double> /*values*/) const {}
  /// Sums the elements of a fp32 tensor.
  virtual void sum(Tensor& /*values*/) const {}
};

}  // namespace longformer
