#include "engine/run/document_states.h"

#include <vector>

#include "ops/embedding.h"

namespace longformer {

Tensor states_of(const Model::Implementation& model, std::span<const tasks::TokenRow> rows,
                 const StateOptions& options) {
  const ops::Context context = model.context();
  std::vector<Tensor> parts;
  models::BatchBuilder builder(model.config);
  Index total = 0, done = 0;
  for (const tasks::TokenRow& row : rows) total += std::ssize(row.ids);
  const auto run = [&] {
    if (builder.rows() == 0) return;
    parts.push_back(model.encoder.forward(context, builder.finish()));
    done += parts.back().rows();
    if (options.progress) options.progress({0, 1, done, total});
  };
  for (const tasks::TokenRow& row : rows) {
    if (builder.rows() + std::ssize(row.ids) > options.batch_tokens) run();
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
