#include "core/option_fields.h"
#include "engine/run/reading_fields.h"
#include "longformer/generation.h"

namespace longformer {
namespace {

OptionFields too_long_fields(GenerationRequest& request) {
  OptionField truncate = truncate_field(request.too_long);
  truncate.help = "of long documents read the first tokens that fit";
  return {
      truncate,
      {.name = "extend",
       .value = &request.extend,
       .help = "read long documents whole, with the positions repeated",
       .excludes = {"truncate"}},
      {.name = "refuse",
       .value = flag_of(request.too_long, TooLong::refuse),
       .help = "make a long document an error (it is read in overlapping segments, and the text "
               "is about all of them)",
       .excludes = {"truncate", "extend"}}};
}

}  // namespace

OptionFields fields(GenerationRequest& request) {
  OptionFields all = {{.name = "seed",
                       .value = &request.seed,
                       .help = "another seed draws another text ({})",
                       .type = "N"},
                      global_attention_field(request.global_attention)};
  append(all, too_long_fields(request));
  append(all, {{.name = "max_source_length",
                .value = &request.max_source_tokens,
                .help = "longest document in tokens with special ones (the model's)",
                .type = "N",
                .least = 1},
               {.name = "stride",
                .value = &request.stride,
                .help = "least overlap of segments in tokens (1024, or a quarter of a short one)",
                .type = "N"},
               {.name = "together",
                .value = &request.together,
                .help = "most documents that are written at a time ({})",
                .type = "N",
                .least = 1,
                .most = 1024}});
  return all;
}

}  // namespace longformer
