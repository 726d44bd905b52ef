// Sines and cosines of distances (docs/spec/language-models.md#d2).
#pragma once

#include "core/tensor.h"

namespace longformer::kernels {

/// Writes rows first … first + rows − 1 of the table [count, D] fp32, whose row i is that of the
/// distance (begin + i)·step: sines of distance·10000^(−2t/D) for t < D/2, then their cosines. D is
/// even.
void fill_sinusoids(Tensor& table, Index first, Index rows, Index begin = 0, Index step = 1);

/// The table [count, D] fp32 of positions from 0 on, whose frequencies are 10000^(−t/(D/2 − 1)):
/// the last one is 1/10000. Frequencies and angles are rounded to fp32, as PegasusX has them. D is
/// even and at least 4.
void fill_rounded_sinusoids(Tensor& table);

}  // namespace longformer::kernels
