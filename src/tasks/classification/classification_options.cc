#include "core/option_fields.h"
#include "engine/run/reading_fields.h"
#include "longformer/tasks.h"

namespace longformer {

OptionFields fields(ClassifyOptions& options) {
  using Function = std::optional<ScoreFunction>;
  OptionFields all = {with_names(
      {.name = "function_to_apply",
       .help = "softmax, sigmoid or none; else what the problem type of the model asks for"},
      options.function,
      {{"softmax", Function(ScoreFunction::softmax)},
       {"sigmoid", Function(ScoreFunction::sigmoid)},
       {"none", Function(ScoreFunction::none)}})};
  append(all, reading_fields(options));
  all.push_back(max_length_field(options.max_length));
  all.push_back(merge_field(options.merge));
  return all;
}

}  // namespace longformer
