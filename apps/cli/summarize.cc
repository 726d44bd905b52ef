// longformer summarize: a short text about each document.
#include <memory>

#include "generation_flags.h"
#include "verbs.h"

namespace longformer::cli {

void add_summarize(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<WritingFlags>();
  CLI::App& verb = add_verb(
      program,
      {.name = "summarize",
       .description = "Write summaries of documents.",
       .details = "MODEL has a decoder (LED, BART, Pegasus and kin) and was fine-tuned for it. The "
                  "first token of a "
                  "document has global attention unless --global-attention says otherwise; the "
                  "folder says how texts are searched for, and options here come before it. "
                  "Without a length from either, a summary has at most 512 tokens.",
       .examples =
           "longformer summarize MODEL report.txt\n"
           "longformer summarize MODEL articles.jsonl --text-field text --num-beams 4 --json\n"
           "longformer summarize MODEL book.txt --max-new-tokens 200"});
  add_model(verb, flags->model);
  add_inputs(verb, flags->inputs);
  add_generation_options(verb, flags->request.options);
  add_writing(verb, *flags);
  add_results(verb, flags->model);
  add_compute(verb, flags->model);
  verb.callback([flags, &action] {
    action = [flags](Messages& messages) { write_texts(*flags, true, messages); };
  });
}

}  // namespace longformer::cli
