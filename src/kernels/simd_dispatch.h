// Ties Highway's run-time dispatch to cpu_isa().
#pragma once

namespace longformer::kernels {

/// Every function that uses HWY_DYNAMIC_DISPATCH calls this first: the first call keeps Highway
/// from choosing instruction sets above cpu_isa(), further ones cost a load.
void limit_simd_targets();

}  // namespace longformer::kernels
