// Slots: a few rows that stand for all rows of a document, by windows of neighbouring ones
// (Linformer, arXiv 2006.04768 §4; docs/spec/low-rank-and-kernels.md#e2).
//
// n rows of all documents of a batch, S slots of all documents, D columns, s rows of a window.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.h"

namespace longformer::kernels {

/// Which rows the slots stand for. The last window of a document may be cut.
struct SlotWindows {
  /// First row of each document, and the number of rows at the end; the same for slots.
  std::vector<Index> starts, slot_starts;
  Index window = 1;
  /// One byte for each row, 0 = masked; empty when nothing is masked.
  std::vector<std::uint8_t> mask = {};

  SlotWindows(std::span<const Index> document_starts, Index rows_of_window,
              std::span<const std::uint8_t> row_mask);

  Index slots() const { return slot_starts.back(); }
  /// One byte for each slot, 0 where all its rows are masked; empty when there is none such.
  std::vector<std::uint8_t> slot_mask() const;
};

/// Way to reduce the rows of a window that are not masked.
enum class SlotKind {
  mean,
  largest,    ///< number by number; the first of several
  depthwise,  ///< by weights [D, s]
  gathered,   ///< [S, D·s]: all of them, a feature's s numbers together, masked ones as zeros
};

/// From x [n, D] to slots [S, D] of the same dtype.
void fill_slots(const SlotWindows& windows, SlotKind kind, const Tensor& x, const Tensor& weights,
                Tensor& slots, int threads);

/// Adds to dx [n, D] fp32, and with depthwise weights to theirs [D, s] fp32 unless null.
void fill_slots_backward(const SlotWindows& windows, SlotKind kind, const Tensor& x,
                         const Tensor& weights, const Tensor& gradient, Tensor& dx,
                         Tensor* weight_gradient);

}  // namespace longformer::kernels
