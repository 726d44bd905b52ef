// longformer compare: how far two encoders are from each other, layer by layer.
#include <fmt/format.h>

#include <memory>

#include "comparison_report.h"
#include "inputs.h"
#include "longformer/analysis.h"
#include "longformer/error.h"
#include "progress.h"
#include "results.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

struct CompareFlags {
  ModelFlags first;
  std::string second;
  InputOptions inputs;
  std::int64_t max_length = 0;
};

void run(const CompareFlags& flags, Messages& messages) {
  ModelFlags second = flags.first;
  second.model = flags.second;
  Inputs inputs(flags.inputs, messages);
  const ComparisonReport report = {.first = flags.first.encoder_folder(),
                                   .second = second.encoder_folder(),
                                   .max_length = flags.max_length};
  const ModelFlags form = with_form(flags.first);
  write_report(flags.first, report.text(inputs, form, messages), "layers");
}

}  // namespace

void add_compare(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<CompareFlags>();
  CLI::App& verb = add_verb(
      program,
      {.name = "compare",
       .description =
           "Tell how far the hidden states of two encoders are from each other, layer by "
           "layer.",
       .details =
           "Both have the same vocabulary and sizes: a model and what was converted, trained "
           "or rounded from it. The error is the Frobenius norm of the difference by that of "
           "the first model's states, and in the second column that of a layer by itself, when it "
           "reads what the first model's layer reads; the cosine is that of the mean vectors of a "
           "text, as "
           "embed has them. An adapter is that of SECOND.",
       .examples = "longformer compare all-MiniLM-L6-v2 minilm-performer texts.txt --lines\n"
                   "longformer compare roberta-base roberta-linformer book.txt --json"});
  verb.add_option("FIRST", flags->first.model, "folder of a model, or org/name of the Hub")
      ->required()
      ->type_name("");
  verb.add_option("SECOND", flags->second, "the model to compare with it")
      ->required()
      ->type_name("");
  add_inputs(verb, flags->inputs);
  add_number(verb, "--max-length", flags->max_length, {.least = 1, .most = 1 << 24},
             "tokens of a text, which is cut behind them (as many as both models read)");
  add_results(verb, flags->first);
  add_compute(verb, flags->first);
  verb.callback(
      [flags, &action] { action = [flags](Messages& messages) { run(*flags, messages); }; });
}

}  // namespace longformer::cli
