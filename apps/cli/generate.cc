// longformer generate: text that a character language model draws.
#include <memory>
#include <string>

#include "longformer/character_lm.h"
#include "longformer/error.h"
#include "output.h"
#include "stop_signals.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

struct GenerateFlags {
  ModelFlags model;
  std::string prompt;
  std::int64_t seed = static_cast<std::int64_t>(GenerateOptions().seed);
  GenerateOptions options;
};

void run(const GenerateFlags& flags, Messages& messages) {
  const std::string folder = flags.model.folder();
  const CharacterModel model = CharacterModel::load(folder, flags.model.load_options(messages));
  GenerateOptions options = flags.options;
  options.seed = static_cast<std::uint64_t>(flags.seed);
  const StopSignals signals;
  Output output;
  std::string text;
  model.generate(flags.prompt, options, [&](char next) {
    text += next;
    if (!flags.model.json) {
      output.write(std::string_view(&next, 1));
      output.flush();
    }
    return signals.received() == 0;
  });
  if (signals.received() != 0) messages.interrupted(signals.received());
  if (flags.model.json) {
    JsonLine line;
    line.add("prompt", flags.prompt).add("text", text);
    output.write(line.line());
  } else if (output.is_terminal()) {
    output.write("\n");
  }
  output.finish();
}

}  // namespace

void add_generate(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<GenerateFlags>();
  CLI::App& verb = add_verb(
      program,
      {.name = "generate",
       .description = "Draw text from a character language model.",
       .details = "MODEL is a folder that pretrain-lm wrote. Characters come out as they "
                  "are drawn, without the prompt; what each costs does not depend on how "
                  "many came before.",
       .examples = "longformer generate tiny --prompt \"The fox \" -n 500\n"
                   "longformer generate tiny -n 1000 --temperature 0.7 --top-k 20 --seed 3 "
                   "> text.txt"});
  add_model(verb, flags->model);
  verb.add_option("--prompt", flags->prompt, "text before the first character (a line break)")
      ->type_name("TEXT");
  add_number(verb, "-n,--characters", flags->options.characters, {.least = 1},
             "how many characters to draw (200)");
  verb.add_option("--temperature", flags->options.temperature,
                  "divides the logits; 0 takes the most likely character (1)")
      ->check(CLI::Range(0.0, 1e6).description(""))
      ->type_name("X");
  add_number(verb, "--top-k", flags->options.top_k, {},
             "draw from so many of the most likely characters; 0 from all (0)");
  add_number(verb, "--seed", flags->seed, {}, "another seed draws another text (1)");
  add_json(verb, flags->model);
  add_compute(verb, flags->model);
  verb.callback(
      [flags, &action] { action = [flags](Messages& messages) { run(*flags, messages); }; });
}

}  // namespace longformer::cli
