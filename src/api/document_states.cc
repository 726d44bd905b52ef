#include "api/document_states.h"

#include <vector>

#include "ops/embedding.h"

namespace longformer {

Tensor states_of(const Model::Implementation& model, std::span<const tasks::TokenRow> rows,
                 std::int64_t batch_tokens) {
  const ops::Context context = model.context();
  std::vector<Tensor> parts;
  models::BatchBuilder builder(model.config);
  const auto run = [&] {
    if (builder.rows() == 0) return;
    parts.push_back(model.encoder.forward(context, builder.finish()));
  };
  for (const tasks::TokenRow& row : rows) {
    if (builder.rows() + std::ssize(row.ids) > batch_tokens) run();
    builder.add({.ids = row.ids,
                 .types = row.types,
                 .globals = row.global_positions ? std::span<const Index>(*row.global_positions)
                                                 : std::span<const Index>()},
                "document");
  }
  run();
  return parts.size() == 1 ? parts[0] : ops::joined_rows(context, parts);
}

}  // namespace longformer
