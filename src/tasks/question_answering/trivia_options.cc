#include <string>

#include "core/option_fields.h"
#include "tasks/question_answering/trivia_answering.h"

namespace longformer::tasks {

OptionFields trivia_fields(TriviaOptions& options, OptionUse use) {
  const std::string group = "TriviaQA";
  OptionFields all = {
      {.name = "evidence",
       .value = &options.evidence,
       .help = "folder of the documents, with wikipedia and web in it (../evidence of the file)",
       .group = group,
       .type = "FOLDER"},
      with_names({.name = "answer_matching",
                  .help = "where an answer stands: runs of whole words that the metric takes as "
                          "right, or, as the authors have it, the same characters anywhere ({})",
                  .group = group,
                  .type = "words|substring"},
                 options.matching,
                 {{"words", AnswerMatching::words}, {"substring", AnswerMatching::substring}}),
      {.name = "max_question_tokens",
       .value = &options.max_question_tokens,
       .help = "most tokens that are read of a question ({})",
       .group = group,
       .least = 1},
  };
  if (use == OptionUse::training) {
    all.push_back(with_names({.name = "answer_loss",
                              .help = "of a document: −log of the probability of all right spans "
                                      "together, or that of the first one in it ({})",
                              .group = group,
                              .type = "or|first"},
                             options.loss,
                             {{"or", AnswerLoss::any}, {"first", AnswerLoss::first}}));
  }
  return all;
}

}  // namespace longformer::tasks
