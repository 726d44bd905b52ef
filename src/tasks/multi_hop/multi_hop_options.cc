#include <string>

#include "core/option_fields.h"
#include "tasks/multi_hop/multi_hop.h"

namespace longformer::tasks {

OptionFields multi_hop_fields(MultiHopOptions& options, OptionUse use) {
  const std::string group = "Questions over paragraphs (multihop)";
  const OptionField evidence = {
      .name = "evidence_paragraphs",
      .value = &options.evidence_paragraphs,
      .help =
          "paragraphs that the evidence is of, all sentences above 0 and always the best one; "
          "0: every sentence above 0 ({})",
      .group = group};
  if (use == OptionUse::training) {
    return {{.name = "loss_weights",
             .value = OptionField::Numbers(options.loss_weights),
             .help = "weights of the losses of answer spans, types of answer, paragraphs and "
                     "sentences ({})",
             .group = group,
             .type = "A,T,P,S"},
            evidence};
  }
  return {
      evidence,
      {.name = "keep_paragraphs",
       .value = &options.keep_paragraphs,
       .help = "--write-selected: most paragraphs of a question ({})",
       .group = group,
       .least = 2},
      {.name = "paragraph_threshold",
       .value = &options.paragraph_threshold,
       .help = "--write-selected: paragraphs whose logit is above it, never fewer than two ({})",
       .group = group,
       .type = "X",
       .least = -std::numeric_limits<double>::infinity()}};
}

}  // namespace longformer::tasks
