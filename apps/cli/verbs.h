// The verbs of the program: each adds its subcommand, and sets the action when it is chosen.
#pragma once

#include "flags.h"

namespace longformer::cli {

void add_info(CLI::App& program, Action& action);
void add_pull(CLI::App& program, Action& action);
void add_tokenize(CLI::App& program, Action& action);
void add_embed(CLI::App& program, Action& action);
void add_search(CLI::App& program, Action& action);
void add_rerank(CLI::App& program, Action& action);
void add_fill_mask(CLI::App& program, Action& action);
void add_classify(CLI::App& program, Action& action);
void add_ner(CLI::App& program, Action& action);
void add_coref(CLI::App& program, Action& action);
void add_qa(CLI::App& program, Action& action);
void add_choose(CLI::App& program, Action& action);
void add_evaluate(CLI::App& program, Action& action);
void add_finetune(CLI::App& program, Action& action);
void add_pretrain_mlm(CLI::App& program, Action& action);
void add_pretrain_lm(CLI::App& program, Action& action);
void add_summarize(CLI::App& program, Action& action);
void add_generate(CLI::App& program, Action& action);
void add_attention(CLI::App& program, Action& action);
void add_convert(CLI::App& program, Action& action);
void add_compare(CLI::App& program, Action& action);
void add_bench(CLI::App& program, Action& action);
void add_serve(CLI::App& program, Action& action);
/// Completions for shells and the manual page, made from the verbs added before.
void add_completion(CLI::App& program, Action& action);
void add_man(CLI::App& program, Action& action);
/// A verb of bench.
void add_generate_bench(CLI::App& bench, Action& action);
void add_search_bench(CLI::App& bench, Action& action);

}  // namespace longformer::cli
