#include "core/option_fields.h"
#include "engine/run/reading_fields.h"
#include "longformer/tasks.h"

namespace longformer {

OptionFields fields(AnswerOptions& options) {
  constexpr double kMostAnswers = 1 << 16;
  OptionFields all = {{.name = "top_k",
                       .value = &options.top_k,
                       .help = "answers to a question, best first; they do not overlap ({})",
                       .type = "N",
                       .least = 1,
                       .most = kMostAnswers},
                      {.name = "max_answer_tokens",
                       .value = &options.max_answer_tokens,
                       .help = "length of an answer ({})",
                       .type = "N",
                       .least = 1,
                       .most = kMostAnswers}};
  append(all, reading_fields(options));
  all.push_back(max_length_field(options.max_length));
  return all;
}

}  // namespace longformer
