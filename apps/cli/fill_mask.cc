// longformer fill-mask: the most likely tokens where a text has a mask.
#include <fmt/format.h>

#include <memory>

#include "document_stream.h"
#include "longformer/tasks.h"
#include "output.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

struct FillMaskFlags {
  ModelFlags model;
  InputOptions inputs;
  FillMaskOptions options;
  std::string global_attention;
};

class FillMaskRun {
 public:
  FillMaskRun(const FillMaskFlags& flags, Messages& messages)
      : flags_(flags),
        messages_(messages),
        documents_(flags.inputs, flags.model.json, messages),
        filler_(MaskFiller::load(flags.model.encoder_folder(), flags.model.load_options(messages))),
        options_(flags.options) {
    options_.global_attention = global_attention(flags.global_attention);
  }

  void run() {
    documents_.one_by_one([this](const Document& document) -> WorkedDocument {
      try {
        const FilledText filled = filler_.fill(document.text, options_);
        say(document, filled);
        return {.tokens = filled.tokens};
      } catch (const Error& error) {
        return {.error = advised(error)};
      }
    });
  }

 private:
  void say(const Document& document, const FilledText& filled) {
    if (filled.truncated > 0) {
      messages_.note(fmt::format("{}: {} tokens, kept the first {}", document.label(),
                                 filled.tokens + filled.truncated, filled.tokens));
    }
    Output& output = documents_.output();
    if (flags_.model.json) {
      output.write(document.json().add_members(to_json(filled)).line());
      return;
    }
    output.write(filled.text + (filled.text.ends_with('\n') ? "" : "\n"));
    for (std::size_t i = 0; i < filled.masks.size(); ++i) {
      output.write(fmt::format("  mask {} (token {})\n", i + 1, filled.masks[i].position));
      for (const MaskCandidate& candidate : filled.masks[i].candidates) {
        output.write(fmt::format("    {:.4f}  {}\n", candidate.probability, candidate.text));
      }
    }
  }

  const FillMaskFlags& flags_;
  Messages& messages_;
  DocumentStream documents_;
  MaskFiller filler_;
  FillMaskOptions options_;
};

}  // namespace

void add_fill_mask(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<FillMaskFlags>();
  CLI::App& verb = add_verb(
      program, {.name = "fill-mask",
                .description = "Guess the tokens where a text has a mask.",
                .details = "[MASK] and <mask> both "
                           "stand for the mask token of the tokenizer.",
                .examples = "longformer fill-mask MODEL --text \"Paris is the [MASK] of France.\"\n"
                            "longformer fill-mask MODEL sentences.txt --lines --top-k 3 --json"});
  add_model(verb, flags->model);
  add_inputs(verb, flags->inputs);
  add_number(verb, "--top-k", flags->options.top_k, {.least = 1, .most = 1 << 20},
             "tokens per mask (5)");
  verb.add_flag("--truncate", flags->options.truncate,
                "of a document that is too long for the model, keep the first tokens");
  add_global_attention(verb, flags->global_attention);
  add_json(verb, flags->model);
  add_compute(verb, flags->model);
  verb.callback([flags, &action] {
    static_cast<void>(global_attention(flags->global_attention));
    action = [flags](Messages& messages) { FillMaskRun(*flags, messages).run(); };
  });
}

}  // namespace longformer::cli
