// A few rows that stand for all rows of a document (Linformer, arXiv 2006.04768;
// docs/spec/low-rank-and-kernels.md#e).
//
// n rows of all documents of a batch, D columns, k slots of a document, N most rows of one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/slots.h"
#include "ops/context.h"

namespace longformer::ops {

/// x [n, D] with masked rows (byte 0) as zeros.
Tensor without_masked(const Context& context, const Tensor& x, std::span<const std::uint8_t> mask);

/// The products of every document's rows with its first columns of the first k rows of the
/// projection: from x [n, D] and E [≥ k, N] to [documents·k, D], or of every head's with its own
/// from x [H, n, d] and E [H, k, N] to [H, documents·k, d]. No document is longer than N.
Tensor project_rows(const Context& context, const Tensor& x, std::span<const Index> starts,
                    const Tensor& projection, Index k);

/// x [H, n, d] + bias [H·d] fp32.
Tensor add_head_bias(const Context& context, const Tensor& x, const Tensor& bias);

/// See kernels::fill_slots; weights [D, s] fp32 for depthwise slots, else empty.
Tensor window_slots(const Context& context, const Tensor& x, const kernels::SlotWindows& windows,
                    kernels::SlotKind kind, const Tensor& weights = {});

}  // namespace longformer::ops
