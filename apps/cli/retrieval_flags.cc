#include "retrieval_flags.h"

#include "flags.h"

namespace longformer::cli {

void RetrievalFlags::add(CLI::App& verb, RetrievalOptions& data) {
  options_ = {
      verb.add_option("--split", data.split, "judgements of qrels/NAME.tsv (test)")
          ->type_name("NAME"),
      verb.add_flag("--keep-identical-ids", data.keep_identical_ids,
                    "keep a hit that has the id of its query, which else is left out as BEIR does"),
      add_choice(verb, "--mode", mode_, {"hybrid", "dense", "lexical"},
                 "rank by words and meaning, by meaning, or by words (hybrid)"),
      verb.add_option("--index", index_,
                      "keep passages and vectors of the corpus in this file; documents that are in "
                      "it are not read again")
          ->type_name("FILE"),
      add_number(verb, "--passage-tokens", passage_tokens_, {.least = 1, .most = 1 << 24},
                 "longest passage; a document has the score of its best one (that of the index "
                 "file; what the model takes, with context 128)"),
      add_context(verb, context_),
      add_language(verb, language_),
      verb.add_option("--passage-prompt", passage_prompt_,
                      "put this text before every passage; else the prompt 'document' of the "
                      "folder")
          ->type_name("TEXT"),
      verb.add_option("--query-prompt", query_prompt_,
                      "put this text before every query; else the prompt 'query' of the folder")
          ->type_name("TEXT")};
  for (CLI::Option* option : options_) option->group("Retrieval");
}

std::string RetrievalFlags::given() const {
  for (const CLI::Option* option : options_) {
    if (option->count() > 0) return option->get_name();
  }
  return "";
}

RetrievalEvaluation RetrievalFlags::options() const {
  RetrievalEvaluation options;
  if (!mode_.empty()) options.mode = search_mode(mode_);
  if (!context_.empty()) options.context = passage_context(context_);
  options.passage_tokens = passage_tokens_;
  if (!language_.empty()) options.language = language_;
  options.passage_prompt = passage_prompt_;
  options.query_prompt = query_prompt_;
  options.index = index_;
  return options;
}

}  // namespace longformer::cli
