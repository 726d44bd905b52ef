// longformer generate: texts for documents, and text that a character language model draws.
#include <memory>
#include <string>

#include "generation_flags.h"
#include "longformer/error.h"
#include "longformer/language_model.h"
#include "output.h"
#include "results.h"
#include "stop_signals.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

struct GenerateFlags {
  WritingFlags writing;
  std::string prompt;
  std::int64_t characters = GenerateOptions().characters;
};

/// Options that a language model knows. Throws UsageError for others.
GenerateOptions character_options(const GenerateFlags& flags) {
  GenerateOptions result;
  result.characters = flags.characters;
  result.seed = flags.writing.request.seed;
  const GenerationOptions& given = flags.writing.request.options;
  result.temperature = given.temperature.value_or(result.temperature);
  result.top_k = given.top_k.value_or(result.top_k);
  for_each_generation_option(
      [](const std::string& name, const char*, const auto& option) {
        if (option && name != "temperature" && name != "top_k") {
          throw UsageError(name +
                           ": not for a character language model, which knows --prompt, "
                           "--characters, --temperature, --top-k and --seed");
        }
      },
      given);
  if (result.temperature < 0) throw UsageError("--temperature", "expected at least 0");
  if (result.top_k < 0) throw UsageError("--top-k", "expected at least 0");
  return result;
}

void draw_characters(const GenerateFlags& flags, const std::string& folder, Messages& messages) {
  const ModelFlags& model_flags = flags.writing.model;
  const GenerateOptions options = character_options(flags);
  const LanguageModel model = LanguageModel::load(folder, model_flags.load_options(messages));
  const StopSignals signals;
  Results results(model_flags, {"prompt", "text"});
  std::string text;
  model.generate(flags.prompt, options, [&](std::string_view next) {
    text += next;
    if (!results.has_rows()) {
      results.output().write(next);
      results.flush();
    }
    return signals.received() == 0;
  });
  if (signals.received() != 0) messages.interrupted(signals.received());
  if (results.has_rows()) {
    results.add(JsonLine().add("prompt", flags.prompt).add("text", text));
  } else if (results.output().is_terminal()) {
    results.output().write("\n");
  }
  results.finish();
}

void run(const GenerateFlags& flags, Messages& messages) {
  const std::string folder = flags.writing.model.folder();
  if (LanguageModel::is_one(folder)) return draw_characters(flags, folder, messages);
  if (!flags.prompt.empty()) {
    throw UsageError("--prompt",
                     "is for folders of pretrain-lm, which convert --to longformer-lm makes of a "
                     "Transformer-XL or a Reformer; a document is a file or --text");
  }
  write_texts(flags.writing, false, messages);
}

}  // namespace

void add_generate(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<GenerateFlags>();
  CLI::App& verb = add_verb(
      program,
      {.name = "generate",
       .description = "Write a text for each document, or draw text from a language model.",
       .details = "MODEL has a decoder (LED, BART, Pegasus and kin): options are those of "
                  "generate() of transformers, and "
                  "come before those of the folder. Or it is a folder that pretrain-lm wrote, "
                  "which takes no documents: characters come out as they are drawn, without the "
                  "prompt.",
       .examples = "longformer generate LED document.txt --num-beams 4 --max-new-tokens 100\n"
                   "longformer generate LED questions.jsonl --do-sample --top-p 0.9 "
                   "--json\n"
                   "longformer generate tiny --prompt \"The fox \" -n 500\n"
                   "longformer generate tiny -n 1000 --temperature 0.7 --top-k 20 --seed 3 "
                   "> text.txt"});
  WritingFlags& writing = flags->writing;
  add_model(verb, writing.model);
  add_inputs(verb, writing.inputs);
  verb.add_option("--prompt", flags->prompt,
                  "text before the first character of a language model (a line break)")
      ->type_name("TEXT");
  add_number(verb, "-n,--characters", flags->characters, {.least = 1},
             "how many characters, or tokens, to draw from one (200)");
  add_generation_options(verb, writing.request.options);
  add_writing(verb, writing);
  add_results(verb, writing.model);
  add_compute(verb, writing.model);
  refuse_device(verb, "a decoder");
  verb.callback(
      [flags, &action] { action = [flags](Messages& messages) { run(*flags, messages); }; });
}

}  // namespace longformer::cli
