#include "core/option_fields.h"
#include "engine/run/reading_fields.h"
#include "longformer/reranking.h"

namespace longformer {

OptionFields fields(RerankOptions& options) {
  OptionFields all = {
      {.name = "top_n",
       .value = &options.top_n,
       .help = "only the N best texts (all)",
       .type = "N",
       .least = 1},
      {.name = "raw_scores",
       .value = &options.raw_scores,
       .help = "scores are logits; else as the folder says, probabilities for most"},
      {.name = "relevant_spans",
       .value = &options.relevant_spans,
       .help = "also the N most relevant passages of each text ({})",
       .type = "N"},
      {.name = "span_threshold",
       .value = &options.span_threshold,
       .help = "passages count from this probability on ({})",
       .type = "P",
       .most = 1}};
  append(all, reading_fields(options));
  all.push_back(max_length_field(options.max_length));
  return all;
}

}  // namespace longformer
