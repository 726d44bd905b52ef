// The loops behind TileKernels. Included once per instruction set, inside a namespace of its own
// and with the compiler set to that instruction set, after a class of vector operations that
// becomes S.
//
// Accumulators are indexed by constants only (index sequences, not loops): otherwise g++ 12 keeps
// them in memory, which costs a factor of two.

template <class S>
inline constexpr Index kLanesOf = S::kColumns* Index{S::kLanes};

template <class S>
using Block = std::make_index_sequence<S::kRows * S::kColumns>;

/// Operations of a tile on one column of its vectors.
template <class S>
struct OneColumn : S {
  static constexpr int kColumns = 1;
};

/// Scores with relative positions, and probabilities with dropout.
template <class S>
struct Training : S {
  static constexpr bool kTraining = true;
};

/// Factor from a score to an exponent of two. Where queries cannot hold it without being rounded
/// again, it is applied to the scores.
template <class S>
HWY_INLINE typename S::V ScoreUnit(const TileWork& work) {
  return S::Set(S::kPack == 1 ? 1.0f : work.scale);
}

/// 2^x for x ≤ 127, 0 below kNegligibleExponent.
template <class S>
HWY_INLINE typename S::V Exp2(typename S::V x) {
  // Adding 1.5·2^23 rounds to an integer and leaves it in the low bits.
  const auto magic = S::Set(12582912.0f);
  const auto shifted = S::Add(x, magic);
  const auto rest = S::Sub(x, S::Sub(shifted, magic));
  // Minimax polynomials of 2^x on [−½, ½]: relative error 7.5e-8, and 7.5e-5 where the result is
  // rounded to bf16.
  typename S::V power;
  if constexpr (S::kPack == 1) {
    power = S::MulAdd(S::Set(1.3276472e-3f), rest, S::Set(9.6755414e-3f));
    power = S::MulAdd(power, rest, S::Set(5.5507133e-2f));
    power = S::MulAdd(power, rest, S::Set(2.4022120e-1f));
    power = S::MulAdd(power, rest, S::Set(6.9314697e-1f));
    power = S::MulAdd(power, rest, S::Set(1.0000001f));
  } else {
    power = S::MulAdd(S::Set(5.5171670e-2f), rest, S::Set(2.4261113e-1f));
    power = S::MulAdd(power, rest, S::Set(6.9326099e-1f));
    power = S::MulAdd(power, rest, S::Set(9.9992807e-1f));
  }
  const auto scaled = S::AddExponent(power, shifted);
  const auto negligible = S::Set(kNegligibleExponent);
  // A NaN is not below. Those of bf16 have no low bits, which the exponent would be added to.
  if constexpr (S::kPack == 1) {
    return S::SelectAbove(negligible, x, S::Set(0.0f), S::KeepNaN(x, scaled));
  } else {
    return S::SelectAbove(negligible, x, S::Set(0.0f), scaled);
  }
}

/// Transposes four vectors within each group of four lanes.
template <class S>
HWY_INLINE void Transpose4(const float* from, float* to, Index stride) {
  const auto v0 = S::Load(from);
  const auto v1 = S::Load(from + stride);
  const auto v2 = S::Load(from + 2 * stride);
  const auto v3 = S::Load(from + 3 * stride);
  const auto even_low = S::InterleaveLower(v0, v2);
  const auto odd_low = S::InterleaveLower(v1, v3);
  const auto even_high = S::InterleaveUpper(v0, v2);
  const auto odd_high = S::InterleaveUpper(v1, v3);
  S::Store(S::InterleaveLower(even_low, odd_low), to);
  S::Store(S::InterleaveUpper(even_low, odd_low), to + stride);
  S::Store(S::InterleaveLower(even_high, odd_high), to + 2 * stride);
  S::Store(S::InterleaveUpper(even_high, odd_high), to + 3 * stride);
}

template <class S>
void TransposeUnits(const float* from, float* to, Index units) {
  constexpr Index kLanes = kLanesOf<S>;
  for (Index unit = 0; unit < units; unit += 4) {
    const Index base = unit * kLanes;
    if constexpr (S::kLanes >= 4) {
      for (Index lane = 0; lane < kLanes; lane += S::kLanes) {
        Transpose4<S>(from + base + lane, to + base + lane, kLanes);
      }
    } else {
      for (Index lane = 0; lane < kLanes; ++lane) {
        for (Index i = 0; i < 4; ++i) {
          to[base + i * kLanes + lane] = from[base + lane % 4 * kLanes + lane / 4 * 4 + i];
        }
      }
    }
  }
}

template <class S>
void Start(const TileWork& work) {
  constexpr Index kLanes = kLanesOf<S>;
  TransposeUnits<S>(work.stage, work.tile.queries, work.units);
  if constexpr (S::kPack == 1) {
    const auto scale = S::Set(work.scale);
    for (Index i = 0; i < work.units * kLanes; i += S::kLanes) {
      S::Store(S::Mul(S::Load(work.tile.queries + i), scale), work.tile.queries + i);
    }
  }
  const auto zero = S::Set(0.0f);
  for (Index i = 0; i < work.dims * kLanes; i += S::kLanes) S::Store(zero, work.tile.output + i);
  for (Index lane = 0; lane < kLanes; lane += S::kLanes) {
    S::Store(zero, work.tile.shift + lane);
    S::Store(zero, work.tile.sum + lane);
    S::Store(S::Set(kUnsetLimit), work.tile.limit + lane);
  }
}

/// Results of a tile of keys, per lane. Sums begin at zero in each tile: one running sum over
/// thousands of alike terms would round each of them the same way.
template <class S>
struct LaneState {
  alignas(64) float top[kLanesOf<S>];
  alignas(64) float sum[kLanesOf<S>];
};

/// Adds probabilities to the sum, which counts what is dropped, too, and writes what is kept as
/// AddValues reads it: two rows of keys in one unit of bf16.
template <class S, std::size_t... I>
HWY_INLINE void DropProbabilities(const TileWork& work, Index row,
                                  typename S::V (&score)[sizeof...(I)], float* to,
                                  LaneState<S>& lanes, std::index_sequence<I...>) {
  constexpr int kColumns = S::kColumns;
  (S::Store(S::Add(S::Load(lanes.sum + I % kColumns * S::kLanes), score[I]),
            lanes.sum + I % kColumns * S::kLanes),
   ...);
  if (work.dropout.threshold != 0) {
    const std::uint32_t* columns = work.columns + row;
    ((score[I] =
          S::Drop(score[I], work.dropout, columns[I / kColumns], Index{I % kColumns} * S::kLanes)),
     ...);
  }
  if constexpr (S::kPack == 1) {
    (S::Store(score[I], to + I * S::kLanes), ...);
  } else {
    ((I / kColumns % 2 == 0
          ? S::Store(S::PackPair(score[I], score[(I + kColumns) % sizeof...(I)]),
                     to + (I / kColumns / 2 * kColumns + I % kColumns) * S::kLanes)
          : void()),
     ...);
  }
}

/// Scores of kRows keys from `row` on, and their probabilities into `to` and added to the sum. When
/// one exceeds the limit of its lane it writes nothing but the maxima into `top` and returns false.
template <class S, bool kEdge, std::size_t... I>
HWY_INLINE bool ScoreBlock(const TileWork& work, Index row, float* to, LaneState<S>& lanes,
                           std::index_sequence<I...>) {
  constexpr int kColumns = S::kColumns;
  using V = typename S::V;
  const QueryTile& tile = work.tile;
  V score[] = {(static_cast<void>(I), S::Set(0.0f))...};
  const Index units = work.units;
  const float* key = work.chunk.keys + row * units;
  const float* query = tile.queries;
  for (Index unit = 0; unit < units; ++unit, ++key, query += S::kTileLanes) {
    ((score[I] = S::Product(S::Broadcast(key + I / kColumns * units),
                            S::Load(query + I % kColumns * S::kLanes), score[I])),
     ...);
  }
  if constexpr (S::kTraining) {
    if (work.added != nullptr) {
      const float* added = work.added + row * S::kTileLanes;
      ((score[I] = S::Add(score[I], S::Load(added + Index{I / kColumns} * S::kTileLanes +
                                            Index{I % kColumns} * S::kLanes))),
       ...);
    }
  }
  if constexpr (kEdge) {
    ((score[I] = S::KeepInside(score[I], S::Set(static_cast<float>(row + Index{I / kColumns})),
                               S::Load(tile.first + I % kColumns * S::kLanes),
                               S::Load(tile.last + I % kColumns * S::kLanes))),
     ...);
  }
  V highest[kColumns];
  ((I < kColumns ? void(highest[I % kColumns] = score[I])
                 : void(highest[I % kColumns] = S::Max(highest[I % kColumns], score[I]))),
   ...);
  bool above = false;
  ((I < kColumns ? void(above |= S::AnyAbove(highest[I % kColumns],
                                             S::Load(tile.limit + I % kColumns * S::kLanes)))
                 : void()),
   ...);
  if (HWY_UNLIKELY(above)) {
    ((I < kColumns ? S::Store(highest[I % kColumns], lanes.top + I % kColumns * S::kLanes)
                   : void()),
     ...);
    return false;
  }
  if constexpr (S::kPack == 1) {
    ((score[I] = Exp2<S>(S::Add(score[I], S::Load(tile.shift + I % kColumns * S::kLanes)))), ...);
  } else {
    const V unit_of_score = ScoreUnit<S>(work);
    ((score[I] = S::NarrowPower(
          S::MulAdd(score[I], unit_of_score, S::Load(tile.shift + I % kColumns * S::kLanes)))),
     ...);
  }
  if constexpr (S::kTraining) {
    DropProbabilities<S>(work, row, score, to, lanes, std::index_sequence<I...>());
    return true;
  }
  V sum[kColumns];
  ((I < kColumns ? void(sum[I % kColumns] = S::Load(lanes.sum + I % kColumns * S::kLanes))
                 : void()),
   ...);
  if constexpr (S::kPack == 1) {
    ((sum[I % kColumns] = S::Add(sum[I % kColumns], score[I])), ...);
    (S::Store(score[I], to + I * S::kLanes), ...);
  } else {
    ((I / kColumns % 2 == 0
          ? void(score[I] = S::PackPair(score[I], score[(I + kColumns) % sizeof...(I)]))
          : void()),
     ...);
    ((I / kColumns % 2 == 0 ? void(sum[I % kColumns] = S::AddPair(sum[I % kColumns], score[I]))
                            : void()),
     ...);
    ((I / kColumns % 2 == 0
          ? S::Store(score[I], to + (I / kColumns / 2 * kColumns + I % kColumns) * S::kLanes)
          : void()),
     ...);
  }
  ((I < kColumns ? S::Store(sum[I % kColumns], lanes.sum + I % kColumns * S::kLanes) : void()),
   ...);
  return true;
}

/// Takes the scores `top` as the new maxima in the lanes where they exceed the limit.
template <class S>
HWY_NOINLINE void RaiseMaxima(const TileWork& work, const float* top) {
  constexpr Index kLanes = kLanesOf<S>;
  const QueryTile& tile = work.tile;
  const auto unit_of_score = ScoreUnit<S>(work);
  // 2^30 leaves room for sums of many terms, so that maxima are raised once or twice in all.
  const auto margin = S::Div(S::Set(30.0f), unit_of_score);
  const auto zero = S::Set(0.0f);
  for (Index lane = 0; lane < kLanes; lane += S::kLanes) {
    const auto limit = S::Load(tile.limit + lane);
    const auto shift = S::Load(tile.shift + lane);
    const auto highest = S::Load(top + lane);
    const auto new_shift = S::Sub(zero, S::Mul(highest, unit_of_score));
    auto factor = Exp2<S>(S::Min(S::Sub(new_shift, shift), zero));
    factor = S::SelectAbove(highest, limit, factor, S::Set(1.0f));
    S::Store(S::SelectAbove(highest, limit, new_shift, shift), tile.shift + lane);
    S::Store(S::SelectAbove(highest, limit, S::Add(highest, margin), limit), tile.limit + lane);
    S::Store(S::Mul(S::Load(tile.sum + lane), factor), tile.sum + lane);
    for (Index dim = 0; dim < work.dims; ++dim) {
      float* output = tile.output + dim * S::kTileLanes + lane;
      S::Store(S::Mul(S::Load(output), factor), output);
    }
  }
}

/// Adds the values of the keys begin … end − 1, weighted by `probabilities`, to kRows dimensions.
template <class S, std::size_t... I>
HWY_INLINE void AddValues(const float* values, const float* probabilities, Index steps,
                          float* output, std::index_sequence<I...>) {
  constexpr int kColumns = S::kColumns;
  constexpr Index kLanes = kLanesOf<S>;
  constexpr Index kStride = S::kTileLanes;
  typename S::V sum[] = {(static_cast<void>(I), S::Set(0.0f))...};
  for (Index step = 0; step < steps; ++step, values += S::kRows, probabilities += kLanes) {
    ((sum[I] = S::Product(S::Broadcast(values + I / kColumns),
                          S::Load(probabilities + I % kColumns * S::kLanes), sum[I])),
     ...);
  }
  ((sum[I] = S::Add(sum[I], S::Load(output + I / kColumns * kStride + I % kColumns * S::kLanes))),
   ...);
  (S::Store(sum[I], output + I / kColumns * kStride + I % kColumns * S::kLanes), ...);
}

/// Moves what the keys begin … end − 1 have scored to the output and its denominator.
template <class S>
void AddAllValues(const TileWork& work, Index begin, Index end, LaneState<S>& lanes) {
  const Index steps = (end - begin + S::kPack - 1) / S::kPack;
  const float* values = work.chunk.values + begin / S::kPack * S::kRows;
  float* output = work.tile.output;
  for (Index dim = 0; dim < work.dims; dim += S::kRows, output += S::kRows * S::kTileLanes) {
    AddValues<S>(values, work.probabilities, steps, output, Block<S>());
    values += work.chunk.panel_stride;
  }
  for (Index lane = 0; lane < kLanesOf<S>; lane += S::kLanes) {
    const auto sum = S::Add(S::Load(work.tile.sum + lane), S::Load(lanes.sum + lane));
    S::Store(sum, work.tile.sum + lane);
    S::Store(S::Set(0.0f), lanes.sum + lane);
  }
}

/// Keys begin … end − 1 are seen by some lane, inner_begin … inner_end − 1 by all.
struct Seen {
  Index begin;
  Index end;
  Index inner_begin;
  Index inner_end;
};

inline Seen SeenBy(const QueryTile& tile, Index first_lane, Index end_lane) {
  Seen seen = {1 << 24, 0, 0, 1 << 24};
  for (Index lane = first_lane; lane < end_lane; ++lane) {
    const Index first = static_cast<Index>(tile.first[lane]);
    const Index last = static_cast<Index>(tile.last[lane]);
    seen.inner_begin = first > seen.inner_begin ? first : seen.inner_begin;
    seen.inner_end = last < seen.inner_end ? last : seen.inner_end;
    if (first >= last) continue;
    seen.begin = first < seen.begin ? first : seen.begin;
    seen.end = last > seen.end ? last : seen.end;
  }
  return seen;
}

template <class S>
HWY_INLINE bool Score(const TileWork& work, const Seen& seen, Index row, float* to,
                      LaneState<S>& lanes) {
  const bool inside = seen.inner_begin <= row && row + S::kRows <= seen.inner_end;
  return inside ? ScoreBlock<S, false>(work, row, to, lanes, Block<S>())
                : ScoreBlock<S, true>(work, row, to, lanes, Block<S>());
}

/// Adds the keys begin … end − 1 to the softmax.
template <class S>
void AttendTile(const TileWork& work, const Seen& seen, Index begin, Index end) {
  constexpr Index kUnitsPerBlock = S::kRows / S::kPack * kLanesOf<S>;
  LaneState<S> lanes;
  for (float& sum : lanes.sum) sum = 0;
  float* to = work.probabilities;
  Index row = begin;
  for (; row < end; row += S::kRows, to += kUnitsPerBlock) {
    if (HWY_LIKELY(Score<S>(work, seen, row, to, lanes))) continue;
    if (begin < row) AddAllValues<S>(work, begin, row, lanes);
    RaiseMaxima<S>(work, lanes.top);
    begin = row;
    to = work.probabilities;
    Score<S>(work, seen, row, to, lanes);
  }
  AddAllValues<S>(work, begin, end, lanes);
}

/// The tiles have equal sizes, so that the last one is not a small rest.
template <class S>
void AttendRange(const TileWork& work, const Seen& seen, Index begin, Index end) {
  const Index tiles = (end - begin + S::kKeyTile - 1) / S::kKeyTile;
  if (tiles <= 0) return;
  const Index blocks = (end - begin + S::kRows - 1) / S::kRows;
  const Index step = (blocks + tiles - 1) / tiles * S::kRows;
  for (; begin < end; begin += step) {
    AttendTile<S>(work, seen, begin, begin + step < end ? begin + step : end);
  }
}

/// Adds all that is seen. Keys that all lanes see come first: they set all maxima at once.
template <class S>
void AttendSeen(const TileWork& work, const Seen& seen) {
  if (seen.begin >= seen.end) return;
  const Index begin = seen.begin / S::kPack * S::kPack;
  Index middle = begin + (seen.inner_begin - begin + S::kRows - 1) / S::kRows * S::kRows;
  if (middle < begin || middle >= seen.end) middle = begin;
  AttendRange<S>(work, seen, middle, seen.end);
  AttendRange<S>(work, seen, begin, middle);
}

/// Keys that only one column of lanes sees.
template <class S>
void AttendColumn(TileWork work, int column, Seen seen) {
  const Index lane = Index{column} * S::kLanes;
  work.tile.queries += lane;
  work.tile.output += lane;
  work.tile.shift += lane;
  work.tile.limit += lane;
  work.tile.sum += lane;
  work.tile.first += lane;
  work.tile.last += lane;
  AttendSeen<OneColumn<S>>(work, seen);
}

template <class S>
void Attend(const TileWork& work) {
  const Seen all = SeenBy(work.tile, 0, S::kTileLanes);
  if constexpr (S::kColumns != 2) {
    AttendSeen<S>(work, all);
  } else {
    const Seen columns[] = {SeenBy(work.tile, 0, S::kLanes),
                            SeenBy(work.tile, S::kLanes, S::kTileLanes)};
    const int early = columns[0].begin <= columns[1].begin ? 0 : 1;
    const int late = columns[0].end >= columns[1].end ? 0 : 1;
    // Both columns together see the keys from main.begin to main.end − 1, in whole blocks.
    const Index begin = all.begin / S::kPack * S::kPack;
    const Index last_start = columns[1 - early].begin;
    const Index first_end = columns[1 - late].end;
    if (last_start >= first_end) {
      AttendColumn<S>(work, 0, columns[0]);
      AttendColumn<S>(work, 1, columns[1]);
      return;
    }
    Seen main = all;
    main.begin = begin + (last_start - begin) / S::kRows * S::kRows;
    main.end = main.begin + (first_end - main.begin + S::kRows - 1) / S::kRows * S::kRows;
    if (main.end > all.end) main.end = all.end;
    AttendSeen<S>(work, main);
    Seen edge = columns[early];
    edge.begin = begin;
    edge.end = main.begin;
    AttendColumn<S>(work, early, edge);
    edge = columns[late];
    edge.begin = main.end;
    AttendColumn<S>(work, late, edge);
  }
}

/// All columns at once: what one of them saves at the edges is not worth a second copy of the
/// loops.
template <class S>
void AttendTraining(const TileWork& work) {
  AttendSeen<Training<S>>(work, SeenBy(work.tile, 0, S::kTileLanes));
}

template <class S>
void Finish(const TileWork& work) {
  constexpr Index kLanes = kLanesOf<S>;
  // The queries are not needed any more; the packed output takes their place.
  for (Index lane = 0; lane < kLanes; lane += S::kLanes) {
    const auto factor = S::Div(S::Set(1.0f), S::Load(work.tile.sum + lane));
    for (Index unit = 0; unit < work.units; ++unit) {
      const float* output = work.tile.output + unit * S::kPack * kLanes + lane;
      auto value = S::Mul(S::Load(output), factor);
      if constexpr (S::kPack == 2) {
        value = S::PackPairRounded(value, S::Mul(S::Load(output + kLanes), factor));
      }
      S::Store(value, work.tile.queries + unit * kLanes + lane);
    }
  }
  TransposeUnits<S>(work.tile.queries, work.stage, work.units);
}

template <class S>
TileKernels KernelsOf() {
  return {.lanes = kLanesOf<S>,
          .column_lanes = S::kLanes,
          .rows = S::kRows,
          .pack = S::kPack,
          .key_tile = S::kKeyTile,
          .start = Start<S>,
          .attend = Attend<S>,
          .attend_training = AttendTraining<S>,
          .finish = Finish<S>};
}
