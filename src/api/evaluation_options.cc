// The options of evaluations, described.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/option_fields.h"
#include "engine/frame/table.h"
#include "engine/run/reading_fields.h"
#include "longformer/evaluation.h"

namespace longformer {
namespace {

OptionField evaluated_task(std::string& task) {
  std::vector<std::string> names = engine::evaluation_names();
  const std::string of_heads = fmt::format("{}", fmt::join(names, ", "));
  names.emplace_back("retrieval");
  return {.name = "task",
          .value = &task,
          .help = "what to evaluate; an error if the model has no head for it: " + of_heads +
                  "; or retrieval: search in a corpus (the task of the head)",
          .choices = names};
}

}  // namespace

OptionFields fields(EvaluateOptions& options) {
  OptionFields all = fields(options.data);
  append(all, {{.name = "skip_invalid",
                .value = &options.data.skip_invalid,
                .help = "leave out examples that are broken or too long, and count them"},
               evaluated_task(options.task),
               merge_field(options.merge),
               {.name = "threshold",
                .value = &options.threshold,
                .help = "multi-label: probability above which a class is predicted ({})",
                .type = "P",
                .most = 1},
               {.name = "max_answer_tokens",
                .value = &options.max_answer_tokens,
                .help = "longest answer ({})",
                .least = 1},
               {.name = "no_answer_threshold",
                .value = &options.no_answer_threshold,
                .help = "predict no answer when its logit is so much larger ({})",
                .type = "X",
                .least = -std::numeric_limits<double>::infinity()}});
  append(all, task_fields(options.data, OptionUse::evaluation));
  all.push_back({.name = "seed",
                 .value = &options.masking.seed,
                 .help = "masked LM: chooses the tokens; texts: what is drawn ({})"});
  append(all, fields(options.masking));
  append(
      all,
      {{.name = "stemmer", .value = &options.rouge_stems, .help = "texts: compare stems of words"},
       {.name = "intervals",
        .value = &options.rouge_intervals,
        .help = "texts: with the 95 % interval of each mean (1,000 samples)"},
       {.name = "max_source_length",
        .value = &options.generation.max_source_tokens,
        .help =
            "longest document in tokens with the special ones; --truncate and --stride take this "
            "length for the model's; where no texts are written, --max-length is another name "
            "(the model's)",
        .least = 1}});
  append(all, reading_fields(options));
  return all;
}

}  // namespace longformer
