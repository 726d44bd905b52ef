#include <string>

#include "core/option_fields.h"
#include "engine/run/reading_fields.h"
#include "longformer/tasks.h"
#include "tasks/engine_names.h"
#include "tasks/multi_hop/multi_hop.h"

namespace longformer::tasks {
namespace {

const std::string kGroup = "Questions over paragraphs (multihop)";

OptionField evidence_field(std::int64_t& paragraphs) {
  return {.name = "evidence_paragraphs",
          .value = &paragraphs,
          .help =
              "paragraphs that the evidence is of, all sentences above 0 and always the best "
              "one; 0: every sentence above 0 ({})",
          .group = kGroup};
}

}  // namespace

OptionFields multi_hop_fields(MultiHopOptions& options, OptionUse use) {
  const OptionField evidence = evidence_field(options.evidence_paragraphs);
  if (use == OptionUse::training) {
    return {{.name = "loss_weights",
             .value = OptionField::Numbers(options.loss_weights),
             .help = "weights of the losses of answer spans, types of answer, paragraphs and "
                     "sentences ({})",
             .group = kGroup,
             .type = "A,T,P,S"},
            evidence,
            {.name = "edges",
             .value = &options.edges,
             .help = "tokens of a Longformer see each other along edges too, those of equal names "
                     "(names), of titles with their sentences and mentions (titles), or both",
             .group = kGroup,
             .type = "KINDS"}};
  }
  return {
      evidence,
      {.name = "keep_paragraphs",
       .value = &options.keep_paragraphs,
       .help = "--write-selected: most paragraphs of a question ({})",
       .group = kGroup,
       .least = 2},
      {.name = "paragraph_threshold",
       .value = &options.paragraph_threshold,
       .help = "--write-selected: paragraphs whose logit is above it, never fewer than two ({})",
       .group = kGroup,
       .type = "X",
       .least = -std::numeric_limits<double>::infinity()}};
}

}  // namespace longformer::tasks

namespace longformer {

OptionFields fields(MultiHopAnswerOptions& options) {
  OptionFields all = {
      {.name = "max_answer_tokens",
       .value = &options.max_answer_tokens,
       .help = "length of an answer ({})",
       .type = "N",
       .least = 1,
       .most = 1 << 16},
      tasks::evidence_field(options.evidence_paragraphs),
  };
  append(all, reading_fields(options));
  all.push_back(max_length_field(options.max_length));
  return all;
}

}  // namespace longformer
