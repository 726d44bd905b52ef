// longformer finetune: trains a model for a task on examples with labels.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "document_stream.h"
#include "evaluation_report.h"
#include "longformer/finetuning.h"
#include "option_flags.h"
#include "output.h"
#include "training_flags.h"
#include "training_report.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

struct FinetuneFlags {
  ModelFlags model;
  FinetuneOptions options;
};

/// Text of --help.
constexpr const char* kDetails =
    "Classification (one label, several, or numbers), labels of words, answers in documents "
    "(with several right ones the loss is −log of their probability together; trivia: TriviaQA, "
    "whose answers have no places), multiple choice, candidates that are read together (WikiHop), "
    "which mentions of a document mean the same (coreference: CoNLL-2012, or JSON lines of words "
    "and clusters), questions over paragraphs with supporting sentences (multihop: HotpotQA, "
    "2WikiMultiHopQA), vectors of texts or passages (embedding: {\"anchor\", \"positive\", "
    "\"negative\"}, scored pairs, {\"text\", \"passages\"}, or a teacher's vectors), and with a "
    "model that has a decoder (LED, BART, Pegasus and kin) texts about documents: the fields "
    "\"text\", \"document\" or \"article\" and "
    "\"summary\", "
    "\"target\", \"highlights\" or \"abstract\". A folder without a head for the task gets one. "
    "Labels "
    "are those of the folder when its head fits, else, or with --new-head, those of the data. What "
    "it writes loads in "
    "transformers.";

constexpr const char* kExamples =
    "longformer finetune MODEL train.jsonl --task classify --truncate --output-dir tuned\n"
    "longformer finetune MODEL aclImdb/train --task classify --stride 512 "
    "--validation-file aclImdb/test --load-best-model-at-end "
    "--output-dir tuned\n"
    "longformer finetune MODEL reviews.csv --task classify --truncate --max-length 1024 "
    "--validation-split 0.1 --class-weights balanced --early-stopping-patience 2 "
    "--output-dir tuned\n"
    "longformer finetune MODEL reviews.csv --task classify --truncate --folds 5 "
    "--output-dir folds\n"
    "longformer finetune MODEL train.conll --task ner --output-dir tuned\n"
    "longformer finetune CLASSIFIER other.csv --new-head --output-dir tuned\n"
    "longformer finetune MODEL train-v2.0.json --task qa --stride 128 --output-dir tuned\n"
    "longformer finetune MODEL qa/wikipedia-train.json --task trivia --truncate "
    "--learning-rate 3e-5 --warmup-steps 1000 --gradient-accumulation-steps 32 "
    "--num-train-epochs 5 --output-dir tuned\n"
    "longformer finetune MODEL wikihop/train.json --task candidates --stride 0 --learning-rate "
    "3e-5 --weight-decay 0.01 --adam-beta2 0.98 --warmup-steps 200 "
    "--gradient-accumulation-steps 32 --output-dir tuned\n"
    "longformer finetune MODEL train.conll --task coreference --gradient-accumulation-steps "
    "1 "
    "--learning-rate 1e-4 --head-learning-rate 5e-4 --output-dir tuned\n"
    "longformer finetune MODEL hotpot_train_v1.1.json --task multihop --skip-invalid "
    "--output-dir tuned\n"
    "longformer finetune LED train.jsonl --task seq2seq --truncate --max-source-length 8192 "
    "--max-target-length 512 --gradient-checkpointing --validation-file dev.jsonl "
    "--predict-with-generate --output-dir tuned\n"
    "longformer finetune MODEL pairs.jsonl --task embedding --per-device-train-batch-size 64 "
    "--mini-batch-size 8 --gradient-accumulation-steps 1 --output-dir tuned\n"
    "longformer finetune LONGFORMER books.jsonl --task embedding --teacher MINILM "
    "--passage-tokens 128 --output-dir tuned\n"
    "longformer finetune MODEL train.jsonl --output-dir tuned --resume-from-checkpoint "
    "last";

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", names[i]);
  }
  if (names.size() > kMost) text += fmt::format(", … ({} in all)", names.size());
  return text;
}

/// Reports the data, and the part of it that will be lost.
void tell_data(const std::string& name, const FinetuneData& data, Messages& messages) {
  messages.note(fmt::format("{}: {}, {}, {}", name, counted(data.examples, "example"),
                            counted(data.rows, "row"), counted(data.tokens, "token")));
  tell(notes_of(data), messages);
}

void tell(const FinetuneData& data, Messages& messages) {
  tell_data(data.task, data, messages);
  if (!data.labels.empty()) messages.note("labels: " + listed(data.labels));
  if (!data.drawn.empty()) messages.note("new weights: " + listed(data.drawn));
  if (!data.added_tokens.empty()) messages.note("new tokens: " + listed(data.added_tokens));
}

/// The metrics of each fold, their mean and their standard deviation.
std::string table_of(const CrossValidation& result) {
  std::string text = fmt::format("{:<9}", "fold");
  for (const MetricSpread& one : result.metrics) {
    text += fmt::format(" {:>{}}", one.name, std::max<std::size_t>(10, one.name.size()));
  }
  const auto row = [&](const std::string& name, const auto& value_of) {
    text += fmt::format("\n{:<9}", name);
    for (const MetricSpread& one : result.metrics) {
      text += fmt::format(" {:>{}.4f}", value_of(one), std::max<std::size_t>(10, one.name.size()));
    }
  };
  for (std::size_t i = 0; i < result.folds.size(); ++i) {
    row(std::to_string(i + 1), [&](const MetricSpread& one) {
      const auto& metrics = result.folds[i].metrics;
      return std::ranges::find(metrics, one.name, &std::pair<std::string, double>::first)->second;
    });
  }
  row("mean", [](const MetricSpread& one) { return one.mean; });
  row("deviation", [](const MetricSpread& one) { return one.deviation; });
  return text + "\n";
}

void run_folds(const std::string& folder, const FinetuneOptions& options,
               const FinetuneCallbacks& training, TrainingReport& report, Messages& messages,
               bool json) {
  const CrossValidationCallbacks callbacks = {
      .training = training, .fold = [&](std::int64_t fold) {
        messages.note(fmt::format("fold {} of {}", fold, options.folds));
      }};
  const CrossValidation result = cross_validate(folder, options, callbacks);
  for (std::size_t i = 0; i < result.folds.size(); ++i) {
    messages.note(fmt::format("epochs of fold {}", i + 1));
    report.show_epochs(result.folds[i]);
  }
  if (result.interrupted) {
    report.interrupted(fmt::format("in fold {}", result.folds.size() + 1));
    return;
  }
  Output output;
  output.write(json ? to_json(result) + "\n" : table_of(result));
  output.finish();
}

void run(const FinetuneFlags& flags, Messages& messages) {
  const std::string folder = flags.model.token_model_folder();
  TrainingReport report(messages);
  FinetuneOptions options = flags.options;
  options.data.encoding.note = encoding_note(messages);
  const FinetuneCallbacks callbacks = {
      .training = report.callbacks(),
      .data = [&messages](const FinetuneData& data) { tell(data, messages); },
      .validation =
          [&messages](const FinetuneData& data) { tell_data("validation", data, messages); }};
  if (options.training.eval_strategy == "no" && !options.validation_path.empty()) {
    messages.note("the validation file is not read: --eval-strategy is no");
  }
  if (options.folds > 0 && options.fold == 0) {
    run_folds(folder, options, callbacks, report, messages, flags.model.json);
    return;
  }
  const TrainingResult result = finetune(folder, options, callbacks);
  report.finish(result, options.training.output_dir, flags.model.json);
}

}  // namespace

void add_finetune(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<FinetuneFlags>();
  CLI::App& verb =
      add_verb(program, {.name = "finetune",
                         .description = "Train a model for a task on examples with labels.",
                         .details = kDetails,
                         .examples = kExamples});
  add_model(verb, flags->model);
  verb.add_option("DATA", flags->options.train_path, "file or folder of examples with labels")
      ->required()
      ->type_name("");
  add_fields(verb, fields(flags->options));
  refuse_device(verb, "training");
  verb.get_option("--output-dir")->required();
  add_json(verb, flags->model);
  verb.callback([flags, &action] {
    check_training(flags->options.training, flags->options.has_validation());
    action = [flags](Messages& messages) { run(*flags, messages); };
  });
}

}  // namespace longformer::cli
