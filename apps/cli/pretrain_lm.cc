// longformer pretrain-lm: trains the autoregressive character Longformer on plain text.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "language_model_flags.h"
#include "longformer/checkpoint.h"
#include "longformer/language_model.h"
#include "option_flags.h"
#include "training_flags.h"
#include "training_report.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

struct LanguageModelFlags {
  std::vector<std::string> files;
  ModelFlags model;
  LanguageModelTraining options;

  /// Beside a config file, what stands in the place of MODEL is a file of text as well.
  LanguageModelTraining all() const {
    LanguageModelTraining all = options;
    all.data.files = files;
    if (options.config_file.empty()) {
      all.model_folder = model.model;
    } else if (!model.model.empty()) {
      all.data.files.insert(all.data.files.begin(), model.model);
    }
    if (all.data.files.empty()) throw UsageError("expected MODEL DATA, or --config FILE DATA");
    if (all.model_folder.empty() && std::filesystem::is_directory(all.data.files.front())) {
      throw UsageError("--config", "expected DATA alone beside it, found a model too");
    }
    return all;
  }

  /// Throws UsageError for values that do not go together.
  void check_values() const { all(); }
};

void run(const LanguageModelFlags& flags, Messages& messages) {
  LanguageModelTraining options = flags.all();
  options.data.encoding.note = encoding_note(messages);
  if (!options.model_folder.empty()) options.model_folder = find_model(options.model_folder);
  const bool tokens = LanguageModel::reads_tokens(
      options.model_folder.empty() ? options.config_file : options.model_folder + "/config.json");
  if (options.training.eval_strategy == "no" && !options.validation_file.empty()) {
    messages.note("the validation file is not read: --eval-strategy is no");
  }
  TrainingReport report(messages, tokens ? TrainingReport::Loss::nats : TrainingReport::Loss::bits);
  const TrainingResult result = train_language_model(options, report.callbacks());
  report.finish(result, options.training.output_dir, flags.model.json);
}

}  // namespace

void add_pretrain_lm(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<LanguageModelFlags>();
  CLI::App& verb = add_verb(
      program,
      {.name = "pretrain-lm",
       .description = "Train a language model of characters or tokens on plain text.",
       .details =
           "With attention \"window\" the autoregressive Longformer (causal windows, dilated "
           "heads), with \"dense\" all of the past, with \"recurrent\" Transformer-XL, with "
           "\"compressive\" the Compressive "
           "Transformer, with \"performer\" the Performer, with \"sparse\" the Sparse Transformer, "
           "with \"adaptive\" spans that heads learn, with \"binary_partition\" the "
           "BP-Transformer. "
           "Positions are relative, or added to the "
           "embeddings, infused or absent. MODEL is a folder that this verb wrote; "
           "--config begins a new model, whose vocabulary is all bytes, the 27 characters of "
           "text8, or the tokens of a tokenizer. Without --validation-file the first 90 % of DATA, "
           "all files behind each other, are for training, 5 % for validation, 5 % for testing. "
           "--phases trains in stages, in which windows or memories, and segments, grow. A model "
           "with memories reads as many streams of the text as a batch has rows.",
       .examples =
           "longformer pretrain-lm --config examples/language-models/tiny.json enwik8 --length 256 "
           "--max-steps 300 --learning-rate 1e-3 --output-dir tiny\n"
           "longformer pretrain-lm --config examples/language-models/small.json enwik8 --phases "
           "examples/language-models/small-phases.json --eval-strategy steps --save-total-limit 2 "
           "--output-dir small\n"
           "longformer pretrain-lm --config examples/language-models/tiny-compressive.json enwik8 "
           "--max-steps 300 --learning-rate 1e-3 --output-dir compressive\n"
           "longformer pretrain-lm --config examples/language-models/tiny-sparse.json enwik8 "
           "--length 1024 --max-steps 300 --learning-rate 2e-3 --output-dir sparse\n"
           "longformer pretrain-lm --config examples/language-models/tiny-adaptive.json enwik8 "
           "--length 512 --optim adagrad --learning-rate 0.07 --adagrad-clip 0.03 --max-grad-norm "
           "0 "
           "--weight-decay 0 --max-steps 600 --output-dir adaptive\n"
           "longformer pretrain-lm --config "
           "examples/language-models/tiny-binary-partition.json enwik8 --length 1024 --max-steps "
           "300 --learning-rate 2e-3 --output-dir tree\n"
           "longformer pretrain-lm tiny enwik8 --max-steps 100 --output-dir more\n"
           "longformer pretrain-lm --config examples/language-models/tiny.json novels/*.txt "
           "--validation-file unread.txt --output-dir novelist\n"
           "longformer pretrain-lm --config examples/language-models/words.json --tokenizer gpt2 "
           "novels.txt --max-steps 1000 --output-dir words\n"
           "longformer pretrain-lm --config examples/language-models/letters.json enwiki.xml "
           "--clean-up --max-steps 1000 --output-dir letters"});
  verb.add_option("MODEL", flags->model.model, "folder of a model to go on from")->type_name("");
  verb.add_option("DATA", flags->files, "files of text to train on")->type_name("");
  add_fields(verb, fields(flags->options));
  refuse_device(verb, "training");
  verb.get_option("--output-dir")->required();
  CLI::Option* phases = verb.get_option("--phases");
  for (const char* name : {"--length", "--learning-rate", "--max-steps", "--num-train-epochs",
                           "--warmup-steps", "--warmup-ratio"}) {
    phases->excludes(verb.get_option(name));
  }
  add_json(verb, flags->model);
  verb.callback([flags, &action] {
    flags->check_values();
    check_training(flags->options.training, !flags->options.validation_file.empty());
    action = [flags](Messages& messages) { run(*flags, messages); };
  });
}

}  // namespace longformer::cli
