#include "engine/run/document_states.h"

#include <vector>

#include "core/error.h"
#include "ops/embedding.h"

namespace longformer {

Tensor states_of(const Model::Implementation& model, std::span<const engine::TokenRow> rows,
                 const StateOptions& options) {
  std::vector<ops::RowRange> tokens;
  Index total = 0, done = 0;
  for (const engine::TokenRow& row : rows) {
    tokens.push_back({0, std::ssize(row.ids)});
    total += std::ssize(row.ids);
  }
  Pending pending(total);
  const Tensor states({total, model.config.last_size()}, model.dtype);
  for (std::size_t next = 0; next < rows.size();) {
    Wave wave(Wanted::states, options.batch_tokens, &pending);
    for (; next < rows.size(); ++next) {
      const bool fits = wave.add(
          {.row = rows[next],
           .ranges = {&tokens[next], 1},
           .states = states.slice_rows(done + wave.tokens(), tokens[next].end),
           .mask = options.masks.empty() ? std::span<const std::int32_t>() : options.masks[next]});
      if (!fits) break;
    }
    for (const RowResult& result : model.runner.run(wave)) {
      require(result.error.empty(), "{}", result.error);
    }
    done += wave.tokens();
    if (options.progress) options.progress({0, 1, done, total});
  }
  return states;
}

}  // namespace longformer
