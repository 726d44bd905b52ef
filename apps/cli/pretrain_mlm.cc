// longformer pretrain-mlm: trains a masked-language model on plain text.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "longformer/finetuning.h"
#include "option_flags.h"
#include "training_flags.h"
#include "training_report.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

struct PretrainFlags {
  ModelFlags model;
  MaskedLmTraining options;
};

void run(const PretrainFlags& flags, Messages& messages) {
  const std::string folder = flags.model.encoder_folder();
  TrainingReport report(messages);
  if (flags.options.training.eval_strategy == "no" && !flags.options.validation_file.empty()) {
    messages.note("the validation file is not read: --eval-strategy is no");
  }
  MaskedLmTraining options = flags.options;
  options.data.encoding.note = encoding_note(messages);
  const TrainingResult result = train_masked_lm(folder, options, report.callbacks());
  report.finish(result, flags.options.training.output_dir, flags.model.json);
}

}  // namespace

void add_pretrain_mlm(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<PretrainFlags>();
  CLI::App& verb = add_verb(
      program,
      {.name = "pretrain-mlm",
       .description = "Train a masked-language model on plain text.",
       .details =
           "MODEL is a converted BERT or RoBERTa, a folder of another head or none, which gets a "
           "masked-LM head, or a folder with config.json and tokenizer alone, whose weights are "
           "drawn. Text is packed into rows of full length; 15 % of the tokens are to be guessed, "
           "others in each epoch. At the end query, key and value are copied into the projections "
           "of global tokens.",
       .examples =
           "longformer pretrain-mlm long/ corpus.txt --output-dir trained --max-steps 2000\n"
           "longformer pretrain-mlm long/ a.txt b.txt --format lines --validation-file "
           "held-out.txt --output-dir trained\n"
           "longformer pretrain-mlm long/ corpus.txt --only-positions-from 512 --output-dir extra\n"
           "longformer pretrain-mlm long/ corpus.txt --output-dir trained "
           "--resume-from-checkpoint last"});
  add_model(verb, flags->model);
  verb.add_option("FILE", flags->options.train_files, "plain text to train on")
      ->required()
      ->type_name("");
  add_fields(verb, fields(flags->options));
  refuse_device(verb, "training");
  verb.get_option("--output-dir")->required();
  add_json(verb, flags->model);
  verb.callback([flags, &action] {
    check_training(flags->options.training, !flags->options.validation_file.empty());
    action = [flags](Messages& messages) { run(*flags, messages); };
  });
}

}  // namespace longformer::cli
