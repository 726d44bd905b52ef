#include "models/position_table.h"

#include "core/error.h"
#include "kernels/sinusoids.h"

namespace longformer::models {

Tensor position_table(const LayerSource& source, PositionRows kind, const std::string& name,
                      LinearShape shape, Index padding) {
  if (kind == PositionRows::learned) return embedding(source, name, shape, padding);
  const Weights& weights = source.weights;
  if (kind == PositionRows::sinusoids && weights.has(name)) {
    Init init = Init::zeros();
    init.is_frozen = true;
    return weights.get(name, {shape.out, shape.in}, init);
  }
  const Shape rows = {shape.out, shape.in};
  if (weights.is_recording()) return {nullptr, nullptr, rows, DType::f32};
  Tensor table(rows, DType::f32);
  if (kind == PositionRows::sinusoids) {
    kernels::fill_sinusoids(table, 0, shape.out);
  } else {
    kernels::fill_rounded_sinusoids(table);
  }
  return table;
}

}  // namespace longformer::models
