#include "kernels/features/feature_products.h"

#include "kernels/elementwise.h"

namespace longformer::kernels {
namespace {

bool follows(Index stride, Index columns) { return stride == 0 || stride == columns; }

bool has_tight_rows(const GemmShape& s) {
  return follows(s.lda, s.transpose_a ? s.m : s.k) && follows(s.ldb, s.transpose_b ? s.k : s.n) &&
         follows(s.ldc, s.n);
}

}  // namespace

Factor FeatureProducts::factor(const float* values, Index count,
                               std::vector<BFloat16>& memory) const {
  if (!is_narrow_) return {values};
  memory.resize(static_cast<std::size_t>(count));
  narrow_all(values, memory.data(), count);
  return {values, memory.data()};
}

void FeatureProducts::multiply(const GemmShape& shape, const Factor& a, const Factor& b, float* c) {
  if (a.narrow == nullptr || b.narrow == nullptr || !has_tight_rows(shape)) {
    return gemm(shape, a.wide, b.wide, c);
  }
  const auto key =
      std::tuple(shape.m, shape.n, shape.k, shape.transpose_a, shape.transpose_b, shape.beta != 0);
  auto found = prepared_.find(key);
  if (found == prepared_.end()) {
    GemmShape tight = shape;
    tight.lda = tight.ldb = tight.ldc = 0;
    found = prepared_.emplace(key, PreparedProduct(tight)).first;
  }
  found->second.run(a.narrow, b.narrow, c);
}

}  // namespace longformer::kernels
