// The loops behind RowKernels; included like fused_tile_inl.h, behind it.

/// Weights of one row outside of what it sees.
template <class S>
HWY_INLINE void ClearWeights(BFloat16* weights, Index begin, Index end) {
  for (Index c = begin; c < end; c += S::kLanes) S::StoreBf16(S::Set(0.0f), weights + c);
}

/// The scores of one row as one sees them: far below all others where the key is not seen.
template <class S, bool kHidden>
struct VisibleScores {
  const SoftmaxRows& rows;
  const float* scores;
  typename S::V first, last;

  HWY_INLINE typename S::V Inside(Index c) const {
    auto score = S::Load(scores + c);
    if constexpr (kHidden) score = S::Add(score, S::Load(rows.hidden + c));
    return score;
  }
  HWY_INLINE typename S::V Edge(Index c) const {
    return S::KeepInside(Inside(c), S::Load(rows.numbers + c), first, last);
  }
};

/// Largest of the scores begin … end − 1, whole vectors, of which the first and the last may have
/// columns that are not seen.
template <class S, bool kHidden>
HWY_INLINE float HighestScore(const VisibleScores<S, kHidden>& visible, Index begin, Index end) {
  auto highest = S::Max(visible.Edge(begin), visible.Edge(end - S::kLanes));
  auto other = highest;
  Index c = begin + S::kLanes;
  for (; c + 2 * S::kLanes <= end - S::kLanes; c += 2 * S::kLanes) {
    highest = S::Max(highest, visible.Inside(c));
    other = S::Max(other, visible.Inside(c + S::kLanes));
  }
  for (; c < end - S::kLanes; c += S::kLanes) highest = S::Max(highest, visible.Inside(c));
  return S::Highest(S::Max(highest, other));
}

/// Turns the scores of one row into weights.
template <class S>
struct WeightWriter {
  typename S::V scale, shift;
  BFloat16* weights;
  TileDropout dropout;
  std::uint32_t row_start;

  /// Writes what dropout keeps of the weights and returns them.
  HWY_INLINE typename S::V Write(typename S::V score, Index c) const {
    const auto weight = Power<S>(S::MulAdd(score, scale, shift));
    auto kept = weight;
    if (HWY_UNLIKELY(dropout.threshold != 0)) {
      // A mask is the same when its row and its column change places.
      TileDropout here = dropout;
      here.start += c;
      kept = S::Drop(weight, here, row_start, 0);
    }
    S::StoreBf16(kept, weights + c);
    return weight;
  }
};

/// Writes the weights of the columns begin … end − 1 and returns their sum before dropout.
template <class S, bool kHidden>
HWY_INLINE float WriteWeights(const VisibleScores<S, kHidden>& visible, Index query, Index begin,
                              Index end) {
  const SoftmaxRows& rows = visible.rows;
  alignas(64) std::uint32_t twists[S::kLanes];
  WeightWriter<S> writer = {S::Set(rows.scale), S::Set(rows.shift[query]),
                            rows.weights + query * rows.columns, TileDropout(), 0};
  if (rows.dropout.threshold != 0) {
    const DropoutRow& mask = rows.dropout.rows[query];
    for (std::uint32_t& twist : twists) twist = mask.twist;
    writer.dropout = {rows.dropout.columns, twists, rows.dropout.threshold,
                      rows.dropout.kept_factor};
    writer.row_start = mask.start;
  }
  auto sum = writer.Write(visible.Edge(begin), begin);
  auto other = S::Set(0.0f);
  Index c = begin + S::kLanes;
  for (; c + 2 * S::kLanes <= end - S::kLanes; c += 2 * S::kLanes) {
    sum = S::Add(sum, writer.Write(visible.Inside(c), c));
    other = S::Add(other, writer.Write(visible.Inside(c + S::kLanes), c + S::kLanes));
  }
  for (; c < end - S::kLanes; c += S::kLanes) {
    sum = S::Add(sum, writer.Write(visible.Inside(c), c));
  }
  if (begin < end - S::kLanes) other = S::Add(other, writer.Write(visible.Edge(c), c));
  return S::Sum(S::Add(sum, other));
}

template <class S, bool kHidden>
HWY_INLINE void SoftmaxOfRow(const SoftmaxRows& rows, Index query) {
  const Index first = rows.first[query];
  const Index last = rows.last[query];
  BFloat16* weights = rows.weights + query * rows.columns;
  rows.factor[query] = 1;
  if (first >= last) return ClearWeights<S>(weights, 0, rows.columns);
  const Index begin = first / S::kLanes * S::kLanes;
  const Index end = (last + S::kLanes - 1) / S::kLanes * S::kLanes;
  const VisibleScores<S, kHidden> visible = {rows, rows.scores + query * rows.columns,
                                             S::Set(static_cast<float>(first)),
                                             S::Set(static_cast<float>(last))};
  const float top = rows.scale * HighestScore(visible, begin, end);
  // A row that sees nothing yet takes what comes; a NaN shows in the sum, not in the maximum.
  if (rows.sum[query] == 0) {
    rows.shift[query] = top > kHiddenExponent ? -top : 0.0f;
  } else if (-top < rows.shift[query]) {
    const float change = -top - rows.shift[query];
    rows.factor[query] = change < kNegligibleExponent ? 0.0f : std::exp2(change);
    rows.sum[query] *= rows.factor[query];
    rows.shift[query] = -top;
  }
  ClearWeights<S>(weights, 0, begin);
  rows.sum[query] += WriteWeights(visible, query, begin, end);
  ClearWeights<S>(weights, end, rows.columns);
}

template <class S>
void Softmax(const SoftmaxRows& rows) {
  for (Index query = 0; query < kProductTile; ++query) {
    if (rows.hidden != nullptr) {
      SoftmaxOfRow<S, true>(rows, query);
    } else {
      SoftmaxOfRow<S, false>(rows, query);
    }
  }
}

/// 0 where the query does not see the key of the column.
template <class S>
HWY_INLINE typename S::V VisibleOf(const SoftmaxGradientRows& rows, Index column, Index query,
                                   typename S::V v) {
  return S::ZeroOutside(v, S::Set(static_cast<float>(column)), S::Load(rows.first + query),
                        S::Load(rows.last + query));
}

/// One vector of queries of one key.
template <class S>
HWY_INLINE void SoftmaxGradient(const SoftmaxGradientRows& rows, Index column, Index query,
                                bool edge) {
  const Index at = column * kProductTile + query;
  auto weight = Power<S>(
      S::MulAdd(S::Load(rows.scores + at), S::Set(rows.scale), S::Load(rows.exponent + query)));
  if (edge) weight = VisibleOf<S>(rows, column, query, weight);
  auto change = S::Load(rows.changes + at);
  auto kept = weight;
  if (HWY_UNLIKELY(rows.threshold != 0)) {
    const TileDropout dropout = {rows.starts, rows.twists, rows.threshold, rows.kept_factor};
    change = S::Drop(change, dropout, rows.key_columns[column], query);
    kept = S::Drop(weight, dropout, rows.key_columns[column], query);
  }
  S::StoreBf16(kept, rows.weights + at);
  auto slope =
      S::Mul(S::Mul(weight, S::Set(rows.slope_scale)), S::Sub(change, S::Load(rows.mean + query)));
  // The value of a key that is not seen may be NaN.
  if (edge) slope = VisibleOf<S>(rows, column, query, slope);
  S::StoreBf16(slope, rows.slopes + at);
}

template <class S>
void SoftmaxGradients(const SoftmaxGradientRows& rows) {
  float inner_begin = 0, inner_end = 1e9f;
  for (Index query = 0; query < kProductTile; ++query) {
    inner_begin = std::max(inner_begin, rows.first[query]);
    inner_end = std::min(inner_end, rows.last[query]);
  }
  for (Index column = 0; column < rows.columns; ++column) {
    const auto number = static_cast<float>(column);
    if (rows.kept != nullptr && rows.kept[column] == 0) {
      ClearWeights<S>(rows.weights + column * kProductTile, 0, kProductTile);
      ClearWeights<S>(rows.slopes + column * kProductTile, 0, kProductTile);
      continue;
    }
    const bool edge = number < inner_begin || number >= inner_end;
    for (Index query = 0; query < kProductTile; query += S::kLanes) {
      SoftmaxGradient<S>(rows, column, query, edge);
    }
  }
}

template <class S>
bool WriteRow(const OutputRow& row) {
  const auto factor = S::Set(row.factor);
  const auto zero = S::Set(0.0f);
  auto zeros = zero;
  Index c = 0;
  for (; c + S::kLanes <= row.count; c += S::kLanes) {
    const auto value = S::Mul(factor, S::LoadUnaligned(row.sums + c));
    zeros = S::MulAdd(value, zero, zeros);
    S::StoreBf16(value, row.out + c);
  }
  float rest = 0;
  for (; c < row.count; ++c) {
    const float value = row.factor * row.sums[c];
    rest += value * 0.0f;
    row.out[c] = BFloat16(value);
  }
  return S::Sum(zeros) + rest == 0;
}

template <class S>
RowKernels RowKernelsOf() {
  return {.softmax = Softmax<S>, .write = WriteRow<S>, .softmax_gradient = SoftmaxGradients<S>};
}
