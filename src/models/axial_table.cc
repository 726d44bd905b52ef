#include "models/axial_table.h"

#include <string>
#include <vector>

#include "core/error.h"
#include "ops/axial_positions.h"
#include "ops/residual.h"

namespace longformer::models {
namespace {

/// A parameter as a matrix, with its gradient.
Tensor as_matrix(const Tensor& parameter, Index rows, Index columns) {
  Tensor matrix = parameter.reshaped({rows, columns});
  matrix.set_gradient(parameter.gradient());
  return matrix;
}

}  // namespace

AxialTable::AxialTable(const ReformerConfig& reformer, const LayerSource& source) {
  const std::string name = "embeddings.position_embeddings.weights.";
  const auto& [rows, columns] = reformer.axial_shape;
  const auto& [first, second] = reformer.axial_sizes;
  const Init init = Init::normal(reformer.axial_norm_std);
  rows_ = as_matrix(source.weights.get_fp32(name + "0", {rows, 1, first}, init), rows, first);
  columns_ =
      as_matrix(source.weights.get_fp32(name + "1", {1, columns, second}, init), columns, second);
}

void AxialTable::check_trained(Index length) const {
  const Index all = rows_.rows() * columns_.rows();
  require(length == all || !wants_gradient(rows_),
          "training: expected texts of {} tokens, as axial_pos_shape is {} × {} and every "
          "position is to be trained, found {} (an adapter, which leaves positions as they are, "
          "learns from any; so does a model with axial_pos_embds false)",
          all, rows_.rows(), columns_.rows(), length);
}

Tensor AxialTable::added(const ops::Context& context, const Tensor& x, const Batch& batch) const {
  for (Index i = 0; i < batch.documents() && context.tape != nullptr; ++i) {
    check_trained(batch.starts[at(i + 1)] - batch.starts[at(i)]);
  }
  const std::vector<Index> places(batch.positions.begin(), batch.positions.end());
  return ops::add(context, ops::axial_positions(context, rows_, columns_, places), x);
}

}  // namespace longformer::models
