#include <string>

#include "core/option_fields.h"
#include "longformer/search.h"
#include "tasks/embedding/embedding_options.h"
#include "tasks/search/search_options.h"

namespace longformer {

OptionFields fields(RetrievalEvaluation& options) {
  OptionFields all = {
      {.name = "split",
       .value = &options.data.retrieval.split,
       .help = "judgements of qrels/NAME.tsv ({})",
       .type = "NAME"},
      {.name = "keep_identical_ids",
       .value = &options.data.retrieval.keep_identical_ids,
       .help = "keep hits with the id of their query, which are else left out as BEIR does"},
      tasks::search_mode_field(options.mode),
      {.name = "index",
       .value = &options.index,
       .help = "keep passages and vectors of the corpus in this file; documents that are in it are "
               "not read again",
       .type = "FILE"},
      {.name = "passage_tokens",
       .value = &options.passage_tokens,
       .help = "longest passage; a document has the score of its best one (that of the index file; "
               "what the model takes, with context 128)",
       .type = "N",
       .least = 1,
       .most = 1 << 24},
      tasks::passage_context_field(options.context),
      tasks::language_field(options.language),
      tasks::passage_prompt_field(options.passage_prompt),
      tasks::vectors_field(options.vectors),
      {.name = "query_prompt",
       .value = &options.query_prompt,
       .help = "put this text before every query; else the prompt 'query' of the folder",
       .type = "TEXT"},
      tasks::rerank_depth_field(options.rerank_depth)};
  for (OptionField& field : all) field.group = "Retrieval";
  return all;
}

}  // namespace longformer
