#include "kernels/slots.h"

#include <algorithm>
#include <cmath>

#include "core/threads.h"

namespace longformer::kernels {
namespace {

/// The rows of one slot.
struct Window {
  Index slot, begin, end;
};

template <typename Body>
void for_windows(const SlotWindows& windows, int threads, const Body& body) {
  std::vector<Window> all;
  for (std::size_t document = 0; document + 1 < windows.starts.size(); ++document) {
    Index slot = windows.slot_starts[document];
    for (Index row = windows.starts[document]; row < windows.starts[document + 1];) {
      const Index end = std::min(row + windows.window, windows.starts[document + 1]);
      all.push_back({slot++, row, end});
      row = end;
    }
  }
  parallel_for(threads, std::ssize(all), [&](Index i) { body(all[at(i)]); });
}

/// Rows that count, as places in the window.
std::vector<Index> counted(const SlotWindows& windows, const Window& window) {
  std::vector<Index> places;
  for (Index row = window.begin; row < window.end; ++row) {
    if (windows.mask.empty() || windows.mask[at(row)] != 0) places.push_back(row - window.begin);
  }
  return places;
}

/// The row with the largest number of a column; a NaN is larger than all.
template <typename T>
Index largest_row(const T* x, Index column, Index width, const Window& window,
                  std::span<const Index> places) {
  Index best = window.begin + places[0];
  for (const Index place : places) {
    const auto value = static_cast<float>(x[(window.begin + place) * width + column]);
    const auto most = static_cast<float>(x[best * width + column]);
    if (std::isnan(most)) break;
    if (value > most || std::isnan(value)) best = window.begin + place;
  }
  return best;
}

template <typename T>
void fill(const SlotWindows& windows, SlotKind kind, const Tensor& x, const Tensor& weights,
          Tensor& slots, int threads) {
  const Index width = x.columns(), window_rows = windows.window;
  for_windows(windows, threads, [&](const Window& window) {
    const std::vector<Index> places = counted(windows, window);
    T* to = slots.data<T>() + window.slot * slots.columns();
    std::fill_n(to, slots.columns(), T(0.0f));
    for (Index c = 0; c < width && !places.empty(); ++c) {
      float sum = 0;
      for (const Index place : places) {
        const T value = x.data<T>()[(window.begin + place) * width + c];
        if (kind == SlotKind::gathered) to[c * window_rows + place] = value;
        const float weight =
            kind == SlotKind::depthwise ? weights.data<float>()[c * window_rows + place] : 1.0f;
        sum += weight * static_cast<float>(value);
      }
      if (kind == SlotKind::mean) to[c] = static_cast<T>(sum / static_cast<float>(places.size()));
      if (kind == SlotKind::depthwise) to[c] = static_cast<T>(sum);
      if (kind == SlotKind::largest) {
        to[c] = x.data<T>()[largest_row(x.data<T>(), c, width, window, places) * width + c];
      }
    }
  });
}

template <typename T>
void fill_backward(const SlotWindows& windows, SlotKind kind, const Tensor& x,
                   const Tensor& weights, const Tensor& gradient, Tensor& dx,
                   Tensor* weight_gradient) {
  const Index width = x.columns(), window_rows = windows.window;
  for_windows(windows, 1, [&](const Window& window) {
    const std::vector<Index> places = counted(windows, window);
    const T* from = gradient.data<T>() + window.slot * gradient.columns();
    for (Index c = 0; c < width && !places.empty(); ++c) {
      if (kind == SlotKind::largest) {
        const Index row = largest_row(x.data<T>(), c, width, window, places);
        dx.data<float>()[row * width + c] += static_cast<float>(from[c]);
        continue;
      }
      for (const Index place : places) {
        const Index row = window.begin + place, tap = c * window_rows + place;
        float& to = dx.data<float>()[row * width + c];
        if (kind == SlotKind::gathered) {
          to += static_cast<float>(from[tap]);
        } else if (kind == SlotKind::mean) {
          to += static_cast<float>(from[c]) / static_cast<float>(places.size());
        } else {
          to += static_cast<float>(from[c]) * weights.data<float>()[tap];
          if (weight_gradient == nullptr) continue;
          weight_gradient->data<float>()[tap] +=
              static_cast<float>(from[c]) * static_cast<float>(x.data<T>()[row * width + c]);
        }
      }
    }
  });
}

}  // namespace

SlotWindows::SlotWindows(std::span<const Index> document_starts, Index rows_of_window,
                         std::span<const std::uint8_t> row_mask)
    : starts(document_starts.begin(), document_starts.end()),
      slot_starts({0}),
      window(rows_of_window),
      mask(row_mask.begin(), row_mask.end()) {
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    const Index rows = starts[i + 1] - starts[i];
    slot_starts.push_back(slot_starts.back() + (rows + window - 1) / window);
  }
}

std::vector<std::uint8_t> SlotWindows::slot_mask() const {
  if (mask.empty()) return {};
  std::vector<std::uint8_t> seen(at(slots()), 0);
  for_windows(*this, 1,
              [&](const Window& own) { seen[at(own.slot)] = counted(*this, own).empty() ? 0 : 1; });
  if (std::find(seen.begin(), seen.end(), 0) == seen.end()) return {};
  return seen;
}

void fill_slots(const SlotWindows& windows, SlotKind kind, const Tensor& x, const Tensor& weights,
                Tensor& slots, int threads) {
  if (x.dtype() == DType::bf16) return fill<BFloat16>(windows, kind, x, weights, slots, threads);
  fill<float>(windows, kind, x, weights, slots, threads);
}

void fill_slots_backward(const SlotWindows& windows, SlotKind kind, const Tensor& x,
                         const Tensor& weights, const Tensor& gradient, Tensor& dx,
                         Tensor* weight_gradient) {
  if (x.dtype() == DType::bf16) {
    return fill_backward<BFloat16>(windows, kind, x, weights, gradient, dx, weight_gradient);
  }
  fill_backward<float>(windows, kind, x, weights, gradient, dx, weight_gradient);
}

}  // namespace longformer::kernels
