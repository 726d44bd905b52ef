// Rows of the table of gradients for what Linformers, compressed memories and added positions need
// (gradient_test.cc).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "gradient_testing.h"
#include "ops/expansion.h"
#include "ops/positions.h"
#include "ops/row_windows.h"
#include "ops/slots.h"

namespace longformer::ops {

inline constexpr std::array<Index, 4> kSlotStarts = {0, 7, 8, 13};
inline const std::vector<std::uint8_t> kSlotMask = {1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0};

/// Rows of a table added to those of three heads.
inline Row add_table_rows_row() {
  constexpr Index kHeads = 3, kTokens = 5, kTable = 4, kWidth = 2;
  const std::vector<Index> places = {2, 0, 0, 3, 2};
  Row row;
  row.name = "add_table_rows";
  row.shapes = {{kHeads, kTokens, kWidth}, {kHeads, kTable, kWidth}};
  row.activations = 2;
  row.run = [places](const Context& context, const std::vector<Tensor>& in) {
    return add_table_rows(context, in[0], in[1], places);
  };
  row.truth = [places](const Inputs& in) {
    Doubles sum = in[0];
    for (std::size_t i = 0; i < sum.size(); ++i) {
      const std::size_t head = i / (kTokens * kWidth), token = i / kWidth % kTokens;
      sum[i] += in[1][(head * kTable + at(places[token])) * kWidth + i % kWidth];
    }
    return sum;
  };
  return row;
}

inline Row without_masked_row() {
  constexpr Index kWidth = 3;
  Row row;
  row.name = "without_masked";
  row.shapes = {{kSlotStarts.back(), kWidth}};
  row.run = [](const Context& context, const std::vector<Tensor>& in) {
    return without_masked(context, in[0], kSlotMask);
  };
  row.truth = [](const Inputs& in) {
    Doubles rows = in[0];
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] *= kSlotMask[i / kWidth];
    return rows;
  };
  return row;
}

/// Products with a projection, which every head has of its own or all share.
inline Row project_rows_row(bool by_head) {
  constexpr Index kHeads = 2, kWidth = 3, kSlots = 4, kMost = 9;
  const Index rows = kSlotStarts.back(), documents = std::ssize(kSlotStarts) - 1;
  Row row;
  row.name = by_head ? "project_rows_by_head" : "project_rows";
  row.shapes = by_head ? std::vector<Shape>{{kHeads, rows, kWidth}, {kHeads, kSlots, kMost}}
                       : std::vector<Shape>{{rows, kWidth}, {kSlots + 1, kMost}};
  row.run = [](const Context& context, const std::vector<Tensor>& in) {
    return project_rows(context, in[0], kSlotStarts, in[1], kSlots);
  };
  row.truth = [by_head](const Inputs& in) {
    const Index heads = by_head ? kHeads : 1;
    Doubles out(at(heads * documents * kSlots * kWidth));
    for (Index i = 0; i < std::ssize(out); ++i) {
      const Index c = i % kWidth, slot = i / kWidth % kSlots;
      const Index document = i / (kWidth * kSlots) % documents;
      const Index head = i / (kWidth * kSlots * documents);
      for (Index row = kSlotStarts[at(document)]; row < kSlotStarts[at(document + 1)]; ++row) {
        const Index column = row - kSlotStarts[at(document)];
        out[at(i)] += in[1][at((head * kSlots + slot) * kMost + column)] *
                      in[0][at((head * rows + row) * kWidth + c)];
      }
    }
    return out;
  };
  return row;
}

/// Windows of several rows as one row, a feature after the other.
inline Row row_windows_row() {
  constexpr Index kRows = 6, kTaps = 3, kWidth = 4;
  Row row;
  row.name = "row_windows";
  row.shapes = {{kRows, kWidth}};
  row.run = [](const Context& context, const std::vector<Tensor>& in) {
    return row_windows(context, in[0], kTaps, kernels::RowWindow::features);
  };
  row.truth = [](const Inputs& in) {
    Doubles out(in[0].size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t tap = i % kTaps, c = i / kTaps % kWidth, window = i / (kTaps * kWidth);
      out[i] = in[0][(window * kTaps + tap) * kWidth + c];
    }
    return out;
  };
  return row;
}

inline Row expand_row() {
  constexpr Index kRows = 5, kIn = 3, kOut = 7;
  Row row;
  row.name = "expand";
  row.shapes = {{kRows, kIn}, {kIn, kOut}};
  row.run = [](const Context& context, const std::vector<Tensor>& in) {
    return expand(context, in[0], in[1]);
  };
  row.truth = [](const Inputs& in) {
    Doubles out(at(kRows * kOut));
    for (std::size_t i = 0; i < out.size(); ++i) {
      for (std::size_t k = 0; k < kIn; ++k) {
        out[i] += in[0][i / kOut * kIn + k] * in[1][k * kOut + i % kOut];
      }
    }
    return out;
  };
  return row;
}

inline Row add_head_bias_row() {
  constexpr Index kHeads = 3, kTokens = 5, kWidth = 4;
  Row row;
  row.name = "add_head_bias";
  row.shapes = {{kHeads, kTokens, kWidth}, {kHeads * kWidth}};
  row.run = [](const Context& context, const std::vector<Tensor>& in) {
    return add_head_bias(context, in[0], in[1]);
  };
  row.truth = [](const Inputs& in) {
    Doubles sum = in[0];
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] += in[1][i / (kTokens * kWidth) * kWidth + i % kWidth];
    }
    return sum;
  };
  return row;
}

/// Windows of three rows, of which some are masked, the last of a document is cut, and one has no
/// row that counts.
inline Row window_slots_row(const std::string& name, kernels::SlotKind kind) {
  using kernels::SlotKind;
  constexpr Index kWidth = 2, kTaps = 3;
  const kernels::SlotWindows windows(kSlotStarts, kTaps, kSlotMask);
  Row row;
  row.name = "window_slots_" + name;
  row.shapes = {{kSlotStarts.back(), kWidth}};
  if (kind == SlotKind::depthwise) row.shapes.push_back({kWidth, kTaps});
  row.run = [windows, kind](const Context& context, const std::vector<Tensor>& in) {
    return window_slots(context, in[0], windows, kind,
                        kind == SlotKind::depthwise ? in[1] : Tensor());
  };
  row.truth = [windows, kind](const Inputs& in) {
    const Index columns = kind == SlotKind::gathered ? kWidth * kTaps : kWidth;
    Doubles out(at(windows.slots() * columns), 0.0);
    for (Index document = 0; document + 1 < std::ssize(kSlotStarts); ++document) {
      const Index begin = kSlotStarts[at(document)], end = kSlotStarts[at(document + 1)];
      for (Index slot = 0; begin + slot * kTaps < end; ++slot) {
        double* to = out.data() + (windows.slot_starts[at(document)] + slot) * columns;
        for (Index c = 0; c < kWidth; ++c) {
          Doubles values;
          double sum = 0;
          for (Index tap = 0; tap < kTaps; ++tap) {
            const Index row = begin + slot * kTaps + tap;
            if (row >= end || kSlotMask[at(row)] == 0) continue;
            const double value = in[0][at(row * kWidth + c)];
            values.push_back(value);
            sum += kind == SlotKind::depthwise ? value * in[1][at(c * kTaps + tap)] : value;
            if (kind == SlotKind::gathered) to[c * kTaps + tap] = value;
          }
          if (values.empty() || kind == SlotKind::gathered) continue;
          to[c] = kind == SlotKind::largest ? *std::ranges::max_element(values) : sum;
          if (kind == SlotKind::mean) to[c] /= static_cast<double>(values.size());
        }
      }
    }
    return out;
  };
  return row;
}

inline std::vector<Row> slot_rows() {
  using kernels::SlotKind;
  return {add_table_rows_row(),
          without_masked_row(),
          project_rows_row(false),
          project_rows_row(true),
          add_head_bias_row(),
          row_windows_row(),
          expand_row(),
          window_slots_row("mean", SlotKind::mean),
          window_slots_row("largest", SlotKind::largest),
          window_slots_row("depthwise", SlotKind::depthwise),
          window_slots_row("gathered", SlotKind::gathered)};
}

}  // namespace longformer::ops
