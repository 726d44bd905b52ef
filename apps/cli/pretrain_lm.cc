// longformer pretrain-lm: trains the autoregressive character Longformer on plain text.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "attention/shares_picture.h"
#include "language_model_flags.h"
#include "longformer/hub.h"
#include "longformer/language_model.h"
#include "output.h"
#include "training_flags.h"
#include "training_report.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

struct LanguageModelFlags {
  std::vector<std::string> files;
  ModelFlags model;
  LanguageModelTraining options;

  LanguageModelFlags() {
    options.training.learning_rate = 2.5e-4;
    options.training.weight_decay = 0.01;
    options.training.max_grad_norm = 0.25;
    options.training.lr_scheduler_type = "constant";
    options.training.warmup_ratio = 0.1;
  }

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
  if (const auto layers = last_shares(result.evaluations); !layers.empty()) {
    Output picture(options.training.output_dir + "/attention_shares.svg");
    picture.write(shares_picture(PictureFormat::svg, layers, result.evaluations));
    picture.finish();
  }
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
           "Transformer, with \"performer\" the Performer. Positions are relative, or added to the "
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
           "longformer pretrain-lm tiny enwik8 --max-steps 100 --output-dir more\n"
           "longformer pretrain-lm --config examples/language-models/tiny.json novels/*.txt "
           "--validation-file unread.txt --output-dir novelist\n"
           "longformer pretrain-lm --config examples/language-models/words.json --tokenizer gpt2 "
           "novels.txt --max-steps 1000 --output-dir words\n"
           "longformer pretrain-lm --config examples/language-models/letters.json enwiki.xml "
           "--clean-up --max-steps 1000 --output-dir letters"});
  verb.add_option("MODEL", flags->model.model, "folder of a model to go on from")->type_name("");
  verb.add_option("DATA", flags->files, "files of text to train on")->type_name("");
  verb.add_option("--config", flags->options.config_file,
                  "config.json of a new model, whose weights are drawn")
      ->type_name("FILE");
  verb.add_option("--tokenizer", flags->options.tokenizer_folder,
                  "folder with the tokenizer of a new model that reads tokens (that of --config)")
      ->type_name("FOLDER");
  verb.add_option("--validation-file", flags->options.validation_file,
                  "held-out text: all of it is for validation, and all of DATA for training; "
                  "evaluated every --eval-steps steps and with memories or consecutive segments "
                  "after each epoch, unless --eval-strategy says otherwise")
      ->type_name("FILE");
  add_clean_up(verb, flags->options.data);
  add_encoding(verb, flags->options.data.encoding);
  CLI::Option* phases =
      verb.add_option("--phases", flags->options.phases_file,
                      "JSON list of phases with length, windows, learning_rate, batch and steps "
                      "each, in place of the options that say one of these for all")
          ->type_name("FILE");
  add_number(verb, "--length", flags->options.length, {.least = 1},
             "characters of a segment (2048; what the config says of a model with memories)");
  add_choice(verb, "--segments", flags->options.segments, {"random", "consecutive"},
             "segments begin anywhere, or the text is cut into them (random)");
  add_number(verb, "--eval-characters", flags->options.eval_characters, {.least = 0},
             "characters of the validation text that an evaluation scores; 0 takes all (65536)");
  verb.add_flag(
      "--attention-shares", flags->options.attention_shares,
      "memories: evaluations log where attention goes (cm, em, seq by age, for each layer "
      "too), and attention_shares.svg in the output folder shows it");
  add_training(verb, flags->options.training);
  for (const char* name : {"--length", "--learning-rate", "--max-steps", "--num-train-epochs",
                           "--warmup-steps", "--warmup-ratio"}) {
    phases->excludes(verb.get_option(name));
  }
  add_json(verb, flags->model);
  verb.callback([flags, &action] {
    static_cast<void>(flags->all());
    check_training(flags->options.training, !flags->options.validation_file.empty());
    action = [flags](Messages& messages) { run(*flags, messages); };
  });
}

}  // namespace longformer::cli
