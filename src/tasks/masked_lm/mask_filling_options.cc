#include "engine/run/reading_fields.h"
#include "longformer/tasks.h"

namespace longformer {

OptionFields fields(FillMaskOptions& options) {
  return {{.name = "top_k",
           .value = &options.top_k,
           .help = "tokens per mask ({})",
           .type = "N",
           .least = 1,
           .most = 1 << 20},
          {.name = "truncate",
           .value = &options.truncate,
           .help = "of a document that is too long for the model, keep the first tokens"},
          global_attention_field(options.global_attention),
          max_length_field(options.max_length)};
}

}  // namespace longformer
