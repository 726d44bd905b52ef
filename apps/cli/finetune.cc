// longformer finetune: trains a model for a task on examples with labels.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>

#include "data_flags.h"
#include "document_stream.h"
#include "evaluation_report.h"
#include "longformer/finetuning.h"
#include "output.h"
#include "training_flags.h"
#include "training_report.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

struct FinetuneFlags {
  ModelFlags model;
  LongDocumentFlags long_documents;
  std::int64_t generation_max_length = 0, generation_num_beams = 0;
  // Documents are long: one at a time needs the least memory.
  FinetuneOptions options = {
      .training = {.per_device_train_batch_size = 1, .gradient_accumulation_steps = 8}};

  FinetuneOptions all() const {
    FinetuneOptions all = long_documents.applied_to(options);
    if (generation_max_length > 0) all.generation.max_length = generation_max_length;
    if (generation_num_beams > 0) all.generation.num_beams = generation_num_beams;
    return all;
  }
};

/// What --help says.
constexpr const char* kDetails =
    "Classification (one label, several, or numbers), labels of words, answers in documents "
    "(with several right ones the loss is −log of their probability together; trivia: TriviaQA, "
    "whose answers have no places), multiple choice, candidates that are read together (WikiHop), "
    "which mentions of a document mean the same (coreference: CoNLL-2012, or JSON lines of words "
    "and clusters), questions over paragraphs with supporting sentences (multihop: HotpotQA, "
    "2WikiMultiHopQA), vectors of texts or passages (embedding: {\"anchor\", \"positive\", "
    "\"negative\"}, scored pairs, {\"text\", \"passages\"}, or a teacher's vectors), and with an "
    "LED "
    "or BART texts about documents: the fields \"text\", \"document\" or \"article\" and "
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

/// What the data said, and what will be lost of it.
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

void run(const FinetuneFlags& flags, Messages& messages) {
  const std::string folder = flags.model.token_model_folder();
  TrainingReport report(messages);
  FinetuneOptions options = flags.all();
  options.data.encoding.note = encoding_note(messages);
  const FinetuneCallbacks callbacks = {
      .training = report.callbacks(),
      .data = [&messages](const FinetuneData& data) { tell(data, messages); },
      .validation =
          [&messages](const FinetuneData& data) { tell_data("validation", data, messages); }};
  if (options.training.eval_strategy == "no" && !options.validation_path.empty()) {
    messages.note("the validation file is not read: --eval-strategy is no");
  }
  const TrainingResult result = finetune(folder, options, callbacks);
  report.finish(result, options.training.output_dir, flags.model.json);
}

/// What models that write texts have beside all others.
void add_sequence_options(CLI::App& verb, FinetuneFlags& flags) {
  constexpr const char* kGroup = "Texts (seq2seq)";
  FinetuneOptions& options = flags.options;
  add_number(verb, "--max-source-length", options.max_source_tokens, {.least = 1},
             "longest document in tokens; longer ones need --truncate (the model's)")
      ->group(kGroup);
  add_number(verb, "--max-target-length", options.max_target_tokens, {.least = 2},
             "longest text to learn in tokens; longer ones are cut (the model's)")
      ->group(kGroup);
  verb.add_flag("--predict-with-generate", options.predict_with_generate,
                "an evaluation writes texts and gives ROUGE, not the loss alone")
      ->group(kGroup);
  add_number(verb, "--generation-max-length", flags.generation_max_length, {.least = 2},
             "most tokens of a text in an evaluation (the folder's)")
      ->group(kGroup);
  add_number(verb, "--generation-num-beams", flags.generation_num_beams, {.least = 1},
             "beams in an evaluation (the folder's)")
      ->group(kGroup);
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
  verb.add_option("--validation-file", flags->options.validation_path,
                  "examples to evaluate on, at the end of each epoch unless --eval-strategy says "
                  "otherwise (none)")
      ->type_name("FILE");
  add_choice(verb, "--task", flags->options.task,
             {"classify", "ner", "qa", "trivia", "choose", "candidates", "coreference", "multihop",
              "seq2seq", "embedding"},
             "what to train for: classify, ner, qa, trivia, choose, candidates, coreference, "
             "multihop, seq2seq or embedding (that of the model's head)");
  verb.add_flag("--new-head", flags->options.new_head,
                "classify and ner: draw the head anew, with the labels of DATA in place of those "
                "of the model");
  add_data_options(verb, flags->options.data);
  verb.add_flag("--skip-invalid", flags->options.data.skip_invalid,
                "leave out examples that are broken, and count them");
  add_long_documents(verb, flags->long_documents, flags->options.batch_tokens);
  verb.add_option("--head-learning-rate", flags->options.head_learning_rate,
                  "learning rate of the head (that of the encoder); with --learning-rate 0 the "
                  "encoder is frozen")
      ->check(number_up_to(std::numeric_limits<double>::infinity()))
      ->type_name("X");
  verb.add_flag("--shared-global-projections", flags->options.shared_global_projections,
                "global tokens use query, key and value of all others instead of their own");
  verb.add_flag("--label-all-tokens", flags->options.label_all_pieces,
                "ner: label every token of a word, not its first one alone");
  verb.add_option("--threshold", flags->options.threshold,
                  "multi-label: probability above which a class is predicted (0.5)")
      ->check(number_up_to(1))
      ->type_name("P");
  add_coreference(verb, flags->options.data.coreference, CoreferenceUse::training);
  add_multi_hop_losses(verb, flags->options.data.multi_hop);
  add_evidence(verb, flags->options.data.multi_hop);
  add_trivia(verb, flags->options.data.trivia, /*for_training=*/true);
  add_embedding_training(verb, flags->options.data.embedding);
  add_number(verb, "--mini-batch-size", flags->options.mini_batch_size, {.least = 1},
             "so many examples of a batch are in memory at a time; the result is the same, a step "
             "takes a third longer (all)")
      ->group("Vectors of texts (embedding)");
  add_sequence_options(verb, *flags);
  add_training(verb, flags->options.training);
  verb.add_flag("--group-by-length", flags->options.training.group_by_length,
                "put documents of similar length into a batch")
      ->group("Training");
  add_json(verb, flags->model);
  verb.callback([flags, &action] {
    static_cast<void>(flags->all());
    check_training(flags->options.training, !flags->options.validation_path.empty());
    action = [flags](Messages& messages) { run(*flags, messages); };
  });
}

}  // namespace longformer::cli
