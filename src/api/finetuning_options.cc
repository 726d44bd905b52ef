// The options of trainings for a task and of masked LMs, described.
#include <string>
#include <string_view>
#include <vector>

#include "core/option_fields.h"
#include "engine/frame/table.h"
#include "engine/run/reading_fields.h"
#include "longformer/finetuning.h"

namespace longformer {
namespace {

OptionFields writing_fields(FinetuneOptions& options) {
  const std::string group = "Texts (seq2seq)";
  return {
      {.name = "max_source_length",
       .value = &options.max_source_tokens,
       .help = "longest document in tokens; longer ones need --truncate (the model's)",
       .least = 1},
      {.name = "max_target_length",
       .value = &options.max_target_tokens,
       .help = "longest text to learn in tokens; longer ones are cut (the model's)",
       .group = group,
       .least = 2},
      {.name = "predict_with_generate",
       .value = &options.predict_with_generate,
       .help = "an evaluation writes texts and gives ROUGE, not the loss alone",
       .group = group},
      {.name = "generation_max_length",
       .value = &options.generation.max_length,
       .help = "most tokens of a text in an evaluation (the folder's)",
       .group = group,
       .least = 2},
      {.name = "generation_num_beams",
       .value = &options.generation.num_beams,
       .help = "beams in an evaluation (the folder's)",
       .group = group,
       .least = 1,
       .most = 64},
  };
}

OptionField training_task(std::string& task) {
  const std::vector<std::string> names = engine::training_verbs();
  return {.name = "task",
          .value = &task,
          .help = "what to train for: " + engine::verb_names() + " (that of the model's head)",
          .choices = names};
}

OptionField random_blocks_field(std::string& random_blocks) {
  return {.name = "random_blocks",
          .value = &random_blocks,
          .help =
              "BigBird: blocks that tokens see besides those around them, drawn as transformers "
              "draws them, or none (those of the folder, else seeded)",
          .choices = {"seeded", "none"}};
}

}  // namespace

OptionFields fields(FinetuneOptions& options) {
  OptionFields all = {
      {.name = "validation_file",
       .value = &options.validation_path,
       .help = "examples to evaluate on, at the end of each epoch unless --eval-strategy says "
               "otherwise (none)",
       .type = "FILE"},
      {.name = "validation_split",
       .value = &options.validation_split,
       .help = "share of DATA to evaluate on in place of a validation file, as 0.1: drawn by the "
               "seed, each class alike, examples of equal ids or texts together (none)",
       .type = "P",
       .most = 1,
       .is_above_least = true,
       .is_below_most = true,
       .excludes = {"validation_file"}},
      {.name = "folds",
       .value = &options.folds,
       .help = "cross-validation: so many trainings, each evaluated on another part of DATA, in "
               "folders fold-1, fold-2, …, and a table of their metrics (none)",
       .least = 2,
       .most = 1000,
       .excludes = {"validation_file", "validation_split"}},
      {.name = "fold",
       .value = &options.fold,
       .help = "with --folds: train the fold of this number alone, into --output-dir (all)",
       .least = 1,
       .most = 1000},
      {.name = "class_weights",
       .value = &options.class_weights,
       .help = "classify and ner: weights of the classes in the loss: balanced, "
               "label=weight,label=weight or a JSON object (all 1)",
       .type = "WEIGHTS"},
      training_task(options.task),
      {.name = "new_head",
       .value = &options.new_head,
       .help =
           "classify and ner: a new random head with the labels of DATA, in place of that of the "
           "model"},
  };
  append(all, fields(options.data));
  append(all,
         {{.name = "skip_invalid",
           .value = &options.data.skip_invalid,
           .help = "leave out examples that are broken, and count them"},
          {.name = "head_learning_rate",
           .value = &options.head_learning_rate,
           .help = "learning rate of the head (that of the encoder); with --learning-rate 0 the "
                   "encoder is frozen",
           .type = "X"},
          {.name = "shared_global_projections",
           .value = &options.shared_global_projections,
           .help = "global tokens use query, key and value of all others instead of their own"},
          random_blocks_field(options.random_blocks),
          {.name = "label_all_tokens",
           .value = &options.label_all_pieces,
           .help = "ner: label every token of a word, not its first one alone"},
          {.name = "threshold",
           .value = &options.threshold,
           .help = "multi-label: probability above which a class is predicted ({})",
           .type = "P",
           .most = 1}});
  append(all, task_fields(options.data, OptionUse::training));
  all.push_back({.name = "mini_batch_size",
                 .value = &options.mini_batch_size,
                 .help = "examples of a batch that are in memory at a time; the result is the "
                         "same, a step takes a third longer (all)",
                 .group = "Vectors of texts (embedding)",
                 .least = 1});
  append(all, writing_fields(options));
  append(all, fields(options.training));
  append(all, reading_fields(options));
  all.push_back(max_length_field(options.max_length));
  return all;
}

OptionFields fields(MaskedLmTraining& options) {
  OptionFields all = {
      {.name = "validation_file",
       .value = &options.validation_file,
       .help = "held-out text: loss, bits per token and perplexity, at the end of each epoch "
               "unless --eval-strategy says otherwise (none)",
       .type = "FILE"},
  };
  append(all, text_fields(options.data));
  all.push_back({.name = "skip_invalid",
                 .value = &options.data.skip_invalid,
                 .help = "leave out records that are broken, and count them"});
  append(all, fields(options.masking));
  append(all, {{.name = "only_positions_from",
                .value = &options.only_positions_from,
                .help = "train only the rows of positions from this one on; freeze all else",
                .least = 1},
               {.name = "keep_globals",
                .value = &options.copy_globals,
                .help = "do not copy query, key and value into the global projections",
                .is_contrary = true},
               random_blocks_field(options.random_blocks)});
  append(all, without(fields(options.training), {"group_by_length"}));
  return all;
}

}  // namespace longformer
