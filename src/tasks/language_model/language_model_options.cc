// The options of language models, described.
#include <string>

#include "core/option_fields.h"
#include "longformer/language_model.h"

namespace longformer {
namespace {

OptionField clean_up_field(LanguageModelText& data) {
  return {.name = "clean_up",
          .value = &data.clean_up,
          .help =
              "the file is a Wikipedia dump: turn its pages into lower-case letters and spaces "
              "by the rules of text8"};
}

OptionFields memory_fields(LanguageModelMemory& memory) {
  return {
      {.name = "segment_length",
       .value = &memory.segment_length,
       .help = "memories: characters of a segment (the model's)",
       .least = 1},
      {.name = "memory_length",
       .value = &memory.memory_length,
       .help = "rows that are kept of the segments before (the model's)"},
      {.name = "compressed_memory_length",
       .value = &memory.compressed_memory_length,
       .help = "compressed rows that are kept of older ones (the model's)"},
      {.name = "clamp_length",
       .value = &memory.clamp_length,
       .help = "farther rows are as far as this; 0: none is (the model's)"},
      {.name = "same_length",
       .value = &memory.same_length,
       .help = "every character sees as many rows (the model's)"},
  };
}

}  // namespace

OptionFields fields(GenerateOptions& options) {
  return {{.name = "characters",
           .value = &options.characters,
           .help = "how many characters, or tokens, to draw ({})",
           .type = "N",
           .least = 1},
          {.name = "temperature",
           .value = &options.temperature,
           .help = "divides the logits; 0 takes the most likely one each time ({})"},
          {.name = "top_k",
           .value = &options.top_k,
           .help = "draw among the N most likely ones; 0 among all ({})",
           .type = "N"},
          {.name = "seed", .value = &options.seed, .help = "of the draws ({})", .type = "N"}};
}

OptionFields fields(LanguageModelTraining& options) {
  OptionFields all = {
      {.name = "config",
       .value = &options.config_file,
       .help = "config.json of a new model, whose weights are drawn",
       .type = "FILE"},
      {.name = "tokenizer",
       .value = &options.tokenizer_folder,
       .help = "folder with the tokenizer of a new model that reads tokens (that of --config)",
       .type = "FOLDER"},
      {.name = "validation_file",
       .value = &options.validation_file,
       .help =
           "held-out text: all of it is for validation, and all of DATA for training; evaluated "
           "every --eval-steps steps and with memories or consecutive segments after each "
           "epoch, unless --eval-strategy says otherwise",
       .type = "FILE"},
      clean_up_field(options.data),
      encoding_field(options.data.encoding),
      {.name = "phases",
       .value = &options.phases_file,
       .help = "JSON list of phases with length, windows, learning_rate, batch and steps each, in "
               "place of the options that say one of these for all",
       .type = "FILE"},
      {.name = "length",
       .value = &options.length,
       .help = "characters of a segment (2048; what the config says of a model with memories)",
       .least = 1},
      {.name = "segments",
       .value = &options.segments,
       .help = "segments begin anywhere, or the text is cut into them ({})",
       .choices = {"random", "consecutive"}},
      {.name = "eval_characters",
       .value = &options.eval_characters,
       .help = "characters of the validation text that an evaluation scores; 0 takes all ({})"},
      {.name = "attention_shares",
       .value = &options.attention_shares,
       .help = "memories: evaluations log where attention goes (cm, em, seq by age, for each layer "
               "too)"},
  };
  append(all, without(fields(options.training), {"group_by_length"}));
  return all;
}

OptionFields fields(LanguageModelEvaluation& options) {
  OptionFields all = {
      clean_up_field(options.data),
      with_names({.name = "part", .help = "score the first 90 %, the next 5 or the last 5 ({})"},
                 options.part,
                 {{"all", TextPart::all},
                  {"train", TextPart::train},
                  {"validation", TextPart::validation},
                  {"test", TextPart::test}}),
      {.name = "window_characters",
       .value = &options.window,
       .help = "overlapping windows of so many characters (32256; a model that sees everything: "
               "as many as the texts that trained it)",
       .least = 1},
      {.name = "step_characters",
       .value = &options.step,
       .help = "characters that are scored at the end of each window (512; such a model: half of "
               "the window)",
       .least = 1},
      {.name = "streaming",
       .value = &options.streaming,
       .help = "one pass that keeps the keys of each layer instead of overlapping windows"},
      {.name = "characters",
       .value = &options.characters,
       .help = "score only the first so many (all)",
       .least = 1},
  };
  append(all, memory_fields(options.memory));
  all.push_back({.name = "attention_shares",
                 .value = &options.attention_shares,
                 .help = "memories: also tell where attention goes, by kind and age of the rows"});
  for (OptionField& field : all) field.group = "Language models";
  return all;
}

}  // namespace longformer
