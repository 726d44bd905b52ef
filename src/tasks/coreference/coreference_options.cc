#include <string>

#include "core/option_fields.h"
#include "engine/run/reading_fields.h"
#include "longformer/tasks.h"
#include "tasks/coreference/coreference.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {
namespace {

const std::string kGroup = "Coreference";

/// The segments of a training, an evaluation or a call.
template <typename Options>
OptionFields segment_fields(Options& options) {
  return {
      {.name = "segments",
       .value = &options.segments,
       .help = "documents longer than the model: segments that overlap by --stride tokens (128), "
               "whole sentences one behind the other, or cut behind every so many tokens as "
               "fastcoref does it (that of the folder; overlapping)",
       .group = kGroup,
       .choices = {"overlapping", "independent", "continued"}},
      {.name = "max_segment_length",
       .value = &options.max_segment_tokens,
       .help = "longest segment in tokens (that of the folder; the model's)",
       .group = kGroup,
       .least = 8},
  };
}

OptionFields new_head_fields(CoreferenceOptions& options) {
  return {
      {.name = "max_training_tokens",
       .value = &options.max_training_tokens,
       .help = "of longer documents a run of whole sentences is learnt, another one in every epoch "
               "({})",
       .group = kGroup,
       .least = 8},
      {.name = "max_span_width",
       .value = &options.max_span_width,
       .help = "new head: longest mention in words ({})",
       .group = kGroup,
       .least = 1,
       .most = 1000},
      {.name = "top_lambda",
       .value = &options.top_lambda,
       .help = "new head: mentions that are kept for linking, as a share of the tokens (0.3 where "
               "data have clusters of one mention, else 0.4)",
       .group = kGroup,
       .type = "X",
       .most = 10},
      {.name = "head_size",
       .value = &options.head_size,
       .help = "new head: width of its layers (twice the hidden size)",
       .group = kGroup,
       .least = 1,
       .most = 65536},
      {.name = "mention_loss_weight",
       .value = &options.mention_loss,
       .help = "new head: weight of the loss of the mention scores; 0 learns links alone ({})",
       .group = kGroup,
       .type = "X",
       .most = 1000},
  };
}

}  // namespace

OptionFields coreference_fields(CoreferenceOptions& options, OptionUse use) {
  OptionFields all = segment_fields(options);
  if (use == OptionUse::training) {
    append(all, new_head_fields(options));
  } else {
    all.push_back({.name = "no_singletons",
                   .value = &options.without_singletons,
                   .help = "clusters of one mention count on neither side",
                   .group = kGroup});
  }
  return all;
}

}  // namespace longformer::tasks

namespace longformer {

OptionFields fields(ResolveOptions& options) {
  OptionFields all = {{.name = "no_singletons",
                       .value = &options.without_singletons,
                       .help = "leave out clusters of one mention"}};
  append(all, tasks::segment_fields(options));
  append(all, {{.name = "stride",
                .value = &options.stride,
                .help = "least overlap of overlapping segments in tokens (128, or a quarter of a "
                        "short one)"},
               batch_tokens_field(options.batch_tokens)});
  return all;
}

}  // namespace longformer
