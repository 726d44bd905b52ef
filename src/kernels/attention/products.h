// Fused attention in bf16 by matrix products of oneDNN, tile by tile: the form for CPUs whose
// products of tiles (AMX) are several times as fast as their vectors. A tile is kProductTile
// queries against all keys that they see, up to kProductKeys at a time; its scores stay in the
// second-level cache. n 4,096, 12 heads of 64, window 512 on a 2-core Intel Xeon with AMX: see
// docs/benchmarks.md.
#pragma once

#include <optional>
#include <string>

#include "kernels/attention/attention.h"

namespace longformer::kernels {

/// Why products cannot run the spec in this dtype; nothing when they can. Whether they pay is for
/// prefers_products().
std::optional<std::string> why_not_products(const AttentionSpec& spec, DType dtype);

/// Whether this CPU multiplies tiles, so that products are the faster form.
bool prefers_products();

/// Like attention(), for a checked spec that it can run.
void attention_products(const AttentionSpec& spec, const AttentionArguments& in);

}  // namespace longformer::kernels
