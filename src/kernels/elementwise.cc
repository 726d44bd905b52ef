#include "kernels/elementwise.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <vector>

#include "core/fork.h"
#include "kernels/simd_dispatch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

// These follow foreach_target.h, which includes this file once for each instruction set.
#include "kernels/simd_activation_inl.h"
#include "kernels/simd_float_inl.h"

HWY_BEFORE_NAMESPACE();
namespace longformer::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Calls body(at, vector of a[at…]) for whole vectors; what is left over goes through a padded
/// copy. The body gives what is to be written to b[at…].
template <typename T, typename Body>
HWY_INLINE void Map(const T* a, T* b, Index count, const Body& body) {
  const Index lanes = LaneCount();
  Index at = 0;
  for (; at + lanes <= count; at += lanes) {
    StoreFloats(body(LoadFloats(a + at), LoadFloats(b + at)), b + at);
  }
  if (at == count) return;
  HWY_ALIGN T rest_a[HWY_MAX_BYTES / sizeof(float)] = {};
  HWY_ALIGN T rest_b[HWY_MAX_BYTES / sizeof(float)] = {};
  for (Index i = at; i < count; ++i) {
    rest_a[i - at] = a[i];
    rest_b[i - at] = b[i];
  }
  StoreFloats(body(LoadFloats(rest_a), LoadFloats(rest_b)), rest_b);
  for (Index i = at; i < count; ++i) b[i] = rest_b[i - at];
}

template <Activation kActivation, typename T>
void ActivateAll(const T* x, T* y, Index count) {
  Map(x, y, count, [](FloatVector value, FloatVector) { return ValueOf<kActivation>(value); });
}

template <Activation kActivation, typename T>
void ActivationBackwardAll(const T* x, T* gradient, Index count) {
  Map(x, gradient, count, [](FloatVector value, FloatVector slope) {
    return hn::Mul(slope, SlopeOf<kActivation>(value));
  });
}

template <typename T>
void ActivateTyped(Activation activation, const void* x, void* y, Index count) {
  WithActivation(activation, [&](auto kind) {
    ActivateAll<kind()>(static_cast<const T*>(x), static_cast<T*>(y), count);
  });
}

template <typename T>
void ActivationBackwardTyped(Activation activation, const void* x, void* gradient, Index count) {
  WithActivation(activation, [&](auto kind) {
    ActivationBackwardAll<kind()>(static_cast<const T*>(x), static_cast<T*>(gradient), count);
  });
}

void Activate(Activation activation, const void* x, void* y, Index count, DType dtype) {
  if (dtype == DType::bf16) return ActivateTyped<BFloat16>(activation, x, y, count);
  ActivateTyped<float>(activation, x, y, count);
}

void ActivationBackward(Activation activation, const void* x, void* gradient, Index count,
                        DType dtype) {
  if (dtype == DType::bf16) {
    return ActivationBackwardTyped<BFloat16>(activation, x, gradient, count);
  }
  ActivationBackwardTyped<float>(activation, x, gradient, count);
}

/// Up to one vector of each part of a row, padded with zeros.
template <typename T>
struct PaddedParts {
  HWY_ALIGN T a[HWY_MAX_BYTES / sizeof(float)] = {};
  HWY_ALIGN T b[HWY_MAX_BYTES / sizeof(float)] = {};

  PaddedParts(const T* from_a, const T* from_b, Index count) {
    std::copy_n(from_a, count, a);
    std::copy_n(from_b, count, b);
  }
};

/// value(a) is the activation of the vector that begins there.
template <typename T, typename Value>
void GateRows(const GatedRows& g, T* y, const Value& value) {
  const Index lanes = LaneCount();
  const T* a = static_cast<const T*>(g.x);
  for (Index row = 0; row < g.rows; ++row, a += g.stride, y += g.columns) {
    const T* b = a + g.other;
    Index c = 0;
    for (; c + lanes <= g.columns; c += lanes) {
      StoreFloats(hn::Mul(value(a + c), LoadFloats(b + c)), y + c);
    }
    if (c == g.columns) continue;
    PaddedParts<T> rest(a + c, b + c, g.columns - c);
    StoreFloats(hn::Mul(value(rest.a), LoadFloats(rest.b)), rest.b);
    std::copy_n(rest.b, g.columns - c, y + c);
  }
}

template <typename T, typename Value, typename Slope>
void GateRowsBackward(const GatedRows& g, const T* gradient, T* parts, const Value& value,
                      const Slope& slope) {
  const Index lanes = LaneCount();
  const T* a = static_cast<const T*>(g.x);
  const auto send = [&](const T* from_a, const T* from_b, FloatVector dy, T* to_a, T* to_b) {
    const auto b = LoadFloats(from_b);
    const auto to_value = hn::Mul(dy, value(from_a));
    StoreFloats(hn::Mul(hn::Mul(dy, b), slope(from_a)), to_a);
    StoreFloats(to_value, to_b);
  };
  for (Index row = 0; row < g.rows; ++row) {
    const T* b = a + g.other;
    T* to_b = parts + g.other;
    Index c = 0;
    for (; c + lanes <= g.columns; c += lanes) {
      send(a + c, b + c, LoadFloats(gradient + c), parts + c, to_b + c);
    }
    if (c < g.columns) {
      const Index count = g.columns - c;
      PaddedParts<T> rest(a + c, b + c, count), to(gradient + c, gradient + c, count);
      send(rest.a, rest.b, LoadFloats(to.a), rest.a, rest.b);
      std::copy_n(rest.a, count, parts + c);
      std::copy_n(rest.b, count, to_b + c);
    }
    a += g.stride;
    gradient += g.columns;
    parts += g.stride;
  }
}

template <typename T>
void GateTyped(const GatedRows& gated, void* y) {
  WithActivation(gated.activation, [&](auto kind) {
    constexpr Activation kActivation = kind();
    GateRows(gated, static_cast<T*>(y),
             [](const T* a) { return ValueOf<kActivation>(LoadFloats(a)); });
  });
}

template <typename T>
void GateBackwardTyped(const GatedRows& gated, const void* gradient, void* parts) {
  WithActivation(gated.activation, [&](auto kind) {
    constexpr Activation kActivation = kind();
    GateRowsBackward(
        gated, static_cast<const T*>(gradient), static_cast<T*>(parts),
        [](const T* a) { return ValueOf<kActivation>(LoadFloats(a)); },
        [](const T* a) { return SlopeOf<kActivation>(LoadFloats(a)); });
  });
}

void Gate(const GatedRows& gated, void* y, DType dtype) {
  if (dtype == DType::bf16) return GateTyped<BFloat16>(gated, y);
  GateTyped<float>(gated, y);
}

void GateBackward(const GatedRows& gated, const void* gradient, void* parts, DType dtype) {
  if (dtype == DType::bf16) return GateBackwardTyped<BFloat16>(gated, gradient, parts);
  GateBackwardTyped<float>(gated, gradient, parts);
}

template <typename T>
void AddBiasTyped(const BiasRows& b, T* x) {
  const Index lanes = LaneCount();
  for (Index row = 0; row < b.rows; ++row, x += b.stride) {
    Index c = 0;
    for (; c + lanes <= b.columns; c += lanes) {
      StoreFloats(hn::Add(LoadFloats(x + c), LoadFloats(b.bias + c)), x + c);
    }
    for (; c < b.columns; ++c) x[c] = T(static_cast<float>(x[c]) + b.bias[c]);
  }
}

void AddBias(const BiasRows& bias, void* x, DType dtype) {
  if (dtype == DType::bf16) return AddBiasTyped(bias, static_cast<BFloat16*>(x));
  AddBiasTyped(bias, static_cast<float*>(x));
}

/// Rows of a column that are summed up in fp32, which holds so many numbers of bf16 with next to no
/// rounding.
template <typename T>
constexpr Index kNarrowRows = sizeof(T) == 2 ? 16 : 1;

/// Sums run in double: many cancel, such as those of a softmax over the rows.
template <typename T>
void AddColumnSumsTyped(const ColumnSums& s, float* sums) {
  constexpr Index kColumns = 64;
  for (Index first = 0; first < s.columns; first += kColumns) {
    const Index count = std::min(kColumns, s.columns - first);
    double totals[kColumns] = {};
    const T* x = static_cast<const T*>(s.x) + first;
    for (Index row = 0; row < s.rows; row += kNarrowRows<T>, x += kNarrowRows<T> * s.stride) {
      const Index rows = std::min(kNarrowRows<T>, s.rows - row);
      float narrow[kColumns] = {};
      Index c = 0;
      for (; c + LaneCount() <= count; c += LaneCount()) {
        auto sum = hn::Zero(kFloat);
        for (Index i = 0; i < rows; ++i) sum = hn::Add(sum, LoadFloats(x + i * s.stride + c));
        hn::StoreU(sum, kFloat, narrow + c);
      }
      for (; c < count; ++c) {
        for (Index i = 0; i < rows; ++i) narrow[c] += static_cast<float>(x[i * s.stride + c]);
      }
      for (c = 0; c < count; ++c) totals[c] += static_cast<double>(narrow[c]);
    }
    for (Index c = 0; c < count; ++c) {
      sums[first + c] = static_cast<float>(static_cast<double>(sums[first + c]) + totals[c]);
    }
  }
}

void AddColumnSums(const ColumnSums& columns, DType dtype, float* sums) {
  if (dtype == DType::bf16) return AddColumnSumsTyped<BFloat16>(columns, sums);
  AddColumnSumsTyped<float>(columns, sums);
}

/// BFloat16(x) of each.
void Narrow(const float* from, BFloat16* to, Index count) {
  const Index lanes = LaneCount();
  Index i = 0;
  for (; i + lanes <= count; i += lanes) StoreFloats(LoadFloats(from + i), to + i);
  for (; i < count; ++i) to[i] = BFloat16(from[i]);
}

/// Elements of a table that has one for each number of bf16.
HWY_INLINE FloatVector LookUp(const float* table, const BFloat16* x) {
  const auto bits = hn::LoadU(HalfWord(), reinterpret_cast<const std::uint16_t*>(x));
  const hn::RebindToSigned<Word> index;
  return hn::GatherIndex(kFloat, table, hn::BitCast(index, hn::PromoteTo(Word(), bits)));
}

void LookUpAll(const float* table, const BFloat16* x, BFloat16* y, Index count) {
  const Index lanes = LaneCount();
  Index i = 0;
  for (; i + lanes <= count; i += lanes) StoreFloats(LookUp(table, x + i), y + i);
  for (; i < count; ++i) y[i] = BFloat16(table[x[i].bits]);
}

void GateByTable(const GatedRows& gated, const float* values, BFloat16* y) {
  GateRows(gated, y, [values](const BFloat16* a) { return LookUp(values, a); });
}

void GateBackwardByTables(const GatedRows& gated, const float* values, const float* slopes,
                          const BFloat16* gradient, BFloat16* parts) {
  GateRowsBackward(
      gated, gradient, parts, [values](const BFloat16* a) { return LookUp(values, a); },
      [slopes](const BFloat16* a) { return LookUp(slopes, a); });
}

/// gradient ·= table(x)
void MultiplyByTable(const float* table, const BFloat16* x, BFloat16* gradient, Index count) {
  const Index lanes = LaneCount();
  Index i = 0;
  for (; i + lanes <= count; i += lanes) {
    StoreFloats(hn::Mul(LoadFloats(gradient + i), LookUp(table, x + i)), gradient + i);
  }
  for (; i < count; ++i) {
    gradient[i] = BFloat16(static_cast<float>(gradient[i]) * table[x[i].bits]);
  }
}

void AddAll(const void* from, void* to, Index count, DType dtype) {
  const auto sum = [](FloatVector a, FloatVector b) { return hn::Add(a, b); };
  if (dtype == DType::bf16) {
    return Map(static_cast<const BFloat16*>(from), static_cast<BFloat16*>(to), count, sum);
  }
  Map(static_cast<const float*>(from), static_cast<float*>(to), count, sum);
}

void ScaleAll(float factor, void* x, Index count, DType dtype) {
  const auto scaled = [factor](FloatVector a, FloatVector) {
    return hn::Mul(a, hn::Set(kFloat, factor));
  };
  if (dtype == DType::bf16) {
    auto* values = static_cast<BFloat16*>(x);
    return Map(values, values, count, scaled);
  }
  auto* values = static_cast<float*>(x);
  Map(values, values, count, scaled);
}

/// Every 65,536 elements are a row of the mask, so that a few 32-bit operations, which the compiler
/// vectorises, give one element.
template <typename T>
void DropTyped(const Dropout& dropout, std::uint64_t first, T* x, Index count) {
  constexpr std::uint64_t kColumns = Dropout::kColumns;
  const std::uint32_t threshold = dropout.threshold();
  const float kept = dropout.kept_factor();
  for (Index i = 0; i < count;) {
    const std::uint64_t index = first + static_cast<std::uint64_t>(i);
    const DropoutRow row = dropout.row(index / kColumns);
    const auto column = static_cast<std::uint32_t>(index % kColumns);
    const Index end = std::min(count, i + static_cast<Index>(kColumns - column));
    for (std::uint32_t c = column; i < end; ++i, ++c) {
      x[i] = T(row.bits(c) < threshold ? 0.0f : static_cast<float>(x[i]) * kept);
    }
  }
}

void Drop(const Dropout& dropout, std::uint64_t first, void* x, Index count, DType dtype) {
  if (dtype == DType::bf16) return DropTyped(dropout, first, static_cast<BFloat16*>(x), count);
  DropTyped(dropout, first, static_cast<float*>(x), count);
}

}  // namespace HWY_NAMESPACE
}  // namespace longformer::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace longformer::kernels {

HWY_EXPORT(Activate);
HWY_EXPORT(ActivationBackward);
HWY_EXPORT(Gate);
HWY_EXPORT(GateBackward);
HWY_EXPORT(GateByTable);
HWY_EXPORT(GateBackwardByTables);
HWY_EXPORT(AddBias);
HWY_EXPORT(AddColumnSums);
HWY_EXPORT(AddAll);
HWY_EXPORT(ScaleAll);
HWY_EXPORT(Narrow);
HWY_EXPORT(LookUpAll);
HWY_EXPORT(MultiplyByTable);
HWY_EXPORT(Drop);

namespace {

/// An activation, or its slope, at every number of bf16. They are few, and looking them up takes a
/// fraction of the time of an exponential and a division each, with the same bits.
struct NarrowActivation {
  static constexpr Index kNumbers = Index{1} << 16;
  /// The table pays from so many numbers on.
  static constexpr Index kWorthwhile = Index{1} << 12;

  std::vector<float> values, slopes;

  explicit NarrowActivation(Activation activation)
      : values(at(kNumbers)), slopes(at(kNumbers), 1.0f) {
    for (Index i = 0; i < kNumbers; ++i) {
      BFloat16 x;
      x.bits = static_cast<std::uint16_t>(i);
      values[at(i)] = static_cast<float>(x);
    }
    HWY_DYNAMIC_DISPATCH(ActivationBackward)
    (activation, values.data(), slopes.data(), kNumbers, DType::f32);
    HWY_DYNAMIC_DISPATCH(Activate)
    (activation, values.data(), values.data(), kNumbers, DType::f32);
  }
};

const NarrowActivation& narrow(Activation activation) {
  static std::mutex mutex;
  static std::map<Activation, NarrowActivation> tables;
  const ForkSafeLock lock(mutex);
  return tables.try_emplace(activation, activation).first->second;
}

}  // namespace

void activate(Activation activation, const void* x, void* y, Index count, DType dtype) {
  limit_simd_targets();
  if (dtype == DType::bf16 && count >= NarrowActivation::kWorthwhile) {
    HWY_DYNAMIC_DISPATCH(LookUpAll)
    (narrow(activation).values.data(), static_cast<const BFloat16*>(x), static_cast<BFloat16*>(y),
     count);
    return;
  }
  HWY_DYNAMIC_DISPATCH(Activate)(activation, x, y, count, dtype);
}

void activation_backward(Activation activation, const void* x, void* gradient, Index count,
                         DType dtype) {
  limit_simd_targets();
  if (dtype == DType::bf16 && count >= NarrowActivation::kWorthwhile) {
    HWY_DYNAMIC_DISPATCH(MultiplyByTable)
    (narrow(activation).slopes.data(), static_cast<const BFloat16*>(x),
     static_cast<BFloat16*>(gradient), count);
    return;
  }
  HWY_DYNAMIC_DISPATCH(ActivationBackward)(activation, x, gradient, count, dtype);
}

void gate(const GatedRows& gated, void* y, DType dtype) {
  limit_simd_targets();
  if (dtype == DType::bf16 && gated.rows * gated.columns >= NarrowActivation::kWorthwhile) {
    HWY_DYNAMIC_DISPATCH(GateByTable)
    (gated, narrow(gated.activation).values.data(), static_cast<BFloat16*>(y));
    return;
  }
  HWY_DYNAMIC_DISPATCH(Gate)(gated, y, dtype);
}

void gate_backward(const GatedRows& gated, const void* gradient, void* parts, DType dtype) {
  limit_simd_targets();
  if (dtype == DType::bf16 && gated.rows * gated.columns >= NarrowActivation::kWorthwhile) {
    const NarrowActivation& table = narrow(gated.activation);
    HWY_DYNAMIC_DISPATCH(GateBackwardByTables)
    (gated, table.values.data(), table.slopes.data(), static_cast<const BFloat16*>(gradient),
     static_cast<BFloat16*>(parts));
    return;
  }
  HWY_DYNAMIC_DISPATCH(GateBackward)(gated, gradient, parts, dtype);
}

void narrow_all(const float* from, BFloat16* to, Index count) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(Narrow)(from, to, count);
}

void add_bias(const BiasRows& bias, void* x, DType dtype) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(AddBias)(bias, x, dtype);
}

void add_column_sums(const ColumnSums& columns, DType dtype, float* sums) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(AddColumnSums)(columns, dtype, sums);
}

void add(const void* from, void* to, Index count, DType dtype) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(AddAll)(from, to, count, dtype);
}

void scale(float factor, void* x, Index count, DType dtype) {
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(ScaleAll)(factor, x, count, dtype);
}

void drop(const Dropout& dropout, std::uint64_t first, void* x, Index count, DType dtype) {
  if (!dropout.active()) return;
  limit_simd_targets();
  HWY_DYNAMIC_DISPATCH(Drop)(dropout, first, x, count, dtype);
}

}  // namespace longformer::kernels
#endif
