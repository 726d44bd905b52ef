// The loops behind the backward members of TileKernels; included like fused_tile_inl.h,
// which it includes.
#include "kernels/attention/fused_tile_inl.h"

/// c += a · b for kRows rows and the columns of S.
template <class S, std::size_t... I>
HWY_INLINE void AddBlock(const TileProduct& p, const float* a, const float* b, float* c,
                         std::index_sequence<I...>) {
  constexpr Index kColumns = S::kColumns;
  typename S::V sum[] = {(static_cast<void>(I), S::Set(0.0f))...};
  for (Index step = 0; step < p.steps; ++step, a += p.a_step, b += p.b_step) {
    ((sum[I] = S::Product(S::Broadcast(a + Index{I / kColumns} * p.a_row),
                          S::Load(b + Index{I % kColumns} * S::kLanes), sum[I])),
     ...);
  }
  ((sum[I] = S::Add(sum[I],
                    S::Load(c + Index{I / kColumns} * p.c_row + Index{I % kColumns} * S::kLanes))),
   ...);
  (S::Store(sum[I], c + Index{I / kColumns} * p.c_row + Index{I % kColumns} * S::kLanes), ...);
}

/// For 32 registers and rows of 64 numbers: blocks of four rows and all of their columns load
/// least: 2 % of a backward pass.
template <class S>
struct FourColumns : S {
  static constexpr int kRows = 4;
  static constexpr int kColumns = 4;
};

template <class S>
HWY_INLINE void AddWideProduct(const TileProduct& p) {
  using Wide = FourColumns<S>;
  for (Index row = 0; row < p.rows; row += Wide::kRows) {
    for (Index column = 0; column < p.columns; column += kLanesOf<Wide>) {
      AddBlock<Wide>(p, p.a + row * p.a_row, p.b + column, p.c + row * p.c_row + column,
                     Block<Wide>());
    }
  }
}

template <class S>
HWY_NOINLINE void AddProduct(const TileProduct& p) {
  if constexpr (S::kLanes == 16) {
    if (p.columns % kLanesOf<FourColumns<S>> == 0) return AddWideProduct<S>(p);
  }
  constexpr Index kWidth = kLanesOf<S>;
  for (Index row = 0; row < p.rows; row += S::kRows) {
    const float* a = p.a + row * p.a_row;
    float* c = p.c + row * p.c_row;
    Index column = 0;
    for (; column + kWidth <= p.columns; column += kWidth) {
      AddBlock<S>(p, a, p.b + column, c + column, Block<S>());
    }
    for (; column < p.columns; column += S::kLanes) {
      AddBlock<OneColumn<S>>(p, a, p.b + column, c + column, Block<OneColumn<S>>());
    }
  }
}

template <class S>
void Transpose(const float* stage, float* to, Index units) {
  TransposeUnits<S>(stage, to, units);
}

/// kRows products of rows of `keys` with the lanes of `queries`.
template <class S, std::size_t... I>
HWY_INLINE void Products(const float* keys, Index stride, const float* queries, Index units,
                         typename S::V (&sum)[sizeof...(I)], std::index_sequence<I...>) {
  constexpr Index kColumns = S::kColumns;
  ((sum[I] = S::Set(0.0f)), ...);
  for (Index unit = 0; unit < units; ++unit, ++keys, queries += S::kTileLanes) {
    ((sum[I] = S::Product(S::Broadcast(keys + Index{I / kColumns} * stride),
                          S::Load(queries + Index{I % kColumns} * S::kLanes), sum[I])),
     ...);
  }
}

/// 2^x, as exact as what it is stored as.
template <class S>
HWY_INLINE typename S::V Power(typename S::V x) {
  if constexpr (S::kPack == 1) {
    return Exp2<S>(x);
  } else {
    return S::NarrowPower(x);
  }
}

/// Probabilities of kRows keys from `row` on, into work.block.
template <class S, std::size_t... I>
HWY_INLINE void Probabilities(const GradientWork& work, Index row, bool edge,
                              std::index_sequence<I...> all) {
  constexpr Index kColumns = S::kColumns;
  constexpr Index kTile = S::kTileLanes;
  typename S::V score[sizeof...(I)];
  Products<S>(work.keys + row * work.row_units, work.row_units, work.queries, work.units, score,
              all);
  if (work.added != nullptr) {
    const float* added = work.added + row * kTile;
    ((score[I] = S::Add(score[I], S::Load(added + Index{I} * S::kLanes))), ...);
  }
  const auto scale = S::Set(work.scale);
  ((score[I] = Power<S>(
        S::MulAdd(score[I], scale, S::Load(work.exponent + Index{I % kColumns} * S::kLanes)))),
   ...);
  if (edge) {
    ((score[I] = S::ZeroOutside(score[I], S::Set(static_cast<float>(row + Index{I / kColumns})),
                                S::Load(work.first + Index{I % kColumns} * S::kLanes),
                                S::Load(work.last + Index{I % kColumns} * S::kLanes))),
     ...);
  }
  (S::Store(score[I], work.block + Index{I} * S::kLanes), ...);
}

/// x, or 0 where vector number i of the keys from `row` on is dropped.
template <class S>
HWY_INLINE typename S::V Drop(const GradientWork& work, Index row, std::size_t i, typename S::V x) {
  const Index lane = static_cast<Index>(i) % S::kColumns * S::kLanes;
  return S::Drop(x, work.dropout, work.columns[row + static_cast<Index>(i) / S::kColumns], lane);
}

/// Stores the kept probabilities and the gradients of the scores as rows number `at` and following
/// of the tile.
template <class S, std::size_t... I>
HWY_INLINE void ScoreGradients(const GradientWork& work, Index row, Index at,
                               std::index_sequence<I...> all) {
  constexpr Index kColumns = S::kColumns;
  constexpr Index kTile = S::kTileLanes;
  typename S::V change[sizeof...(I)];
  Products<S>(work.values + row * work.row_units, work.row_units, work.gradients, work.units,
              change, all);
  float* kept = work.kept + at * (kTile / S::kPack);
  float* weights = work.weights + at * (kTile / S::kPack);
  if (work.dropout.threshold != 0) {
    ((change[I] = Drop<S>(work, row, I, change[I])), ...);
    (S::StoreNarrow(Drop<S>(work, row, I, S::Load(work.block + Index{I} * S::kLanes)),
                    kept + Index{I} * S::kLanes / S::kPack),
     ...);
  } else {
    (S::StoreNarrow(S::Load(work.block + Index{I} * S::kLanes),
                    kept + Index{I} * S::kLanes / S::kPack),
     ...);
  }
  ((change[I] = S::Mul(S::Load(work.block + Index{I} * S::kLanes),
                       S::Sub(change[I], S::Load(work.mean + Index{I % kColumns} * S::kLanes)))),
   ...);
  (S::StoreNarrow(change[I], weights + Index{I} * S::kLanes / S::kPack), ...);
  if constexpr (S::kPack == 2) {
    float* pairs = work.weight_pairs + at / 2 * kTile;
    ((I / kColumns % 2 == 0
          ? S::Store(S::PackPair(change[I], change[(I + kColumns) % sizeof...(I)]),
                     pairs + Index{I / kColumns / 2 * kColumns + I % kColumns} * S::kLanes)
          : void()),
     ...);
  }
}

/// Keys begin … end − 1: their probabilities, the gradients of their scores, and what both add to
/// the gradients of values, keys and queries.
template <class S>
void SendBack(const GradientWork& work, Index begin, Index end) {
  constexpr Index kTile = S::kTileLanes;
  QueryTile ranges;
  ranges.first = work.first;
  ranges.last = work.last;
  const Seen seen = SeenBy(ranges, 0, kTile);
  const Index rows = (end - begin + S::kRows - 1) / S::kRows * S::kRows;
  for (Index row = begin; row < begin + rows; row += S::kRows) {
    const bool edge = row < seen.inner_begin || seen.inner_end < row + S::kRows;
    Probabilities<S>(work, row, edge, Block<S>());
    ScoreGradients<S>(work, row, row - begin, Block<S>());
  }
  const float* pairs = S::kPack == 1 ? work.weights : work.weight_pairs;
  AddProduct<S>({.a = work.kept,
                 .a_row = kTile / S::kPack,
                 .a_step = 1,
                 .b = work.gradient_rows,
                 .b_step = work.dims,
                 .c = work.value_gradient + begin * work.dims,
                 .c_row = work.dims,
                 .rows = rows,
                 .columns = work.dims,
                 .steps = kTile / S::kPack});
  AddProduct<S>({.a = work.weights,
                 .a_row = kTile / S::kPack,
                 .a_step = 1,
                 .b = work.query_rows,
                 .b_step = work.dims,
                 .c = work.key_gradient + begin * work.dims,
                 .c_row = work.dims,
                 .rows = rows,
                 .columns = work.dims,
                 .steps = kTile / S::kPack});
  AddProduct<S>({.a = work.key_pairs + begin / S::kPack * work.dims,
                 .a_row = 1,
                 .a_step = work.dims,
                 .b = pairs,
                 .b_step = kTile,
                 .c = work.query_gradient,
                 .c_row = kTile,
                 .rows = work.dims,
                 .columns = kTile,
                 .steps = rows / S::kPack});
}

template <class S>
TileKernels AllKernelsOf() {
  TileKernels kernels = KernelsOf<S>();
  kernels.transpose = Transpose<S>;
  kernels.add = AddProduct<S>;
  kernels.send_back = SendBack<S>;
  return kernels;
}
