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
      {.name = "answer_matching",
       .value = named_choice(options.matching, {{"words", AnswerMatching::words},
                                                {"substring", AnswerMatching::substring}}),
       .help = "where an answer stands: runs of whole words that the metric takes as right, or, as "
               "the authors have it, the same characters anywhere ({})",
       .group = group,
       .type = "words|substring",
       .choices = {"words", "substring"}},
      {.name = "max_question_tokens",
       .value = &options.max_question_tokens,
       .help = "what is read of a question ({})",
       .group = group,
       .least = 1},
  };
  if (use == OptionUse::training) {
    all.push_back({.name = "answer_loss",
                   .value = named_choice(options.loss,
                                         {{"or", AnswerLoss::any}, {"first", AnswerLoss::first}}),
                   .help = "of a document: −log of the probability of all right spans together, or "
                           "that of the first one in it ({})",
                   .group = group,
                   .type = "or|first",
                   .choices = {"or", "first"}});
  }
  return all;
}

}  // namespace longformer::tasks
