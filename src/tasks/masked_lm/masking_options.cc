#include <string>

#include "longformer/options.h"

namespace longformer {

OptionFields fields(MaskingOptions& options) {
  return {
      {.name = "mlm_probability",
       .value = &options.probability,
       .help = "masked LM: share of the tokens to guess ({})",
       .type = "P",
       .most = 1,
       .is_above_least = true},
      {.name = "mask_every",
       .value = &options.every,
       .help = "masked LM: guess every N-th token instead, when evaluating",
       .least = 1},
      {.name = "max_seq_length",
       .value = &options.row_tokens,
       .help = "masked LM: tokens of a row (what the model takes)",
       .least = 1},
      {.name = "separate_documents",
       .value = &options.across_documents,
       .help = "masked LM: no row holds tokens of two documents",
       .is_contrary = true},
  };
}

}  // namespace longformer
