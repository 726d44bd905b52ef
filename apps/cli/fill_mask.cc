// longformer fill-mask: the most likely tokens where a text has a mask.
#include <fmt/format.h>

#include <memory>

#include "document_stream.h"
#include "longformer/tasks.h"
#include "option_flags.h"
#include "output.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

struct FillMaskFlags {
  ModelFlags model;
  InputOptions inputs;
  FillMaskOptions options;
};

class FillMaskRun {
 public:
  FillMaskRun(const FillMaskFlags& flags, Messages& messages)
      : flags_(flags),
        messages_(messages),
        documents_(flags.inputs, flags.model, messages,
                   {"mask", "position", "rank", "token", "text", "probability"}),
        filler_(
            MaskFiller::load(flags.model.encoder_folder(), flags.model.load_options(messages))) {
    check_room(filler_.tokenizer(), flags.options.max_length);
  }

  void run() {
    documents_.one_by_one([this](const Document& document) -> WorkedDocument {
      try {
        const FilledText filled = filler_.fill(document.text, flags_.options);
        say(document, filled);
        return {.tokens = filled.tokens};
      } catch (const Error& error) {
        return {.error = advised(error)};
      }
    });
    documents_.results().finish();
  }

 private:
  void say(const Document& document, const FilledText& filled) {
    if (filled.truncated > 0) {
      messages_.note(fmt::format("{}: {} tokens, kept the first {}", document.label(),
                                 filled.tokens + filled.truncated, filled.tokens));
    }
    if (documents_.results().is_table()) return add_rows(document, filled);
    if (documents_.results().has_rows()) {
      return documents_.results().add(document.json().add_members(to_json(filled)));
    }
    Output& output = documents_.output();
    output.write(filled.text + (filled.text.ends_with('\n') ? "" : "\n"));
    for (std::size_t i = 0; i < filled.masks.size(); ++i) {
      output.write(fmt::format("  mask {} (token {})\n", i + 1, filled.masks[i].position));
      for (const MaskCandidate& candidate : filled.masks[i].candidates) {
        output.write(fmt::format("    {:.4f}  {}\n", candidate.probability, candidate.text));
      }
    }
  }

  /// A row for each candidate.
  void add_rows(const Document& document, const FilledText& filled) {
    for (std::size_t i = 0; i < filled.masks.size(); ++i) {
      std::int64_t rank = 0;
      for (const MaskCandidate& one : filled.masks[i].candidates) {
        JsonLine row = document.json();
        row.add("mask", static_cast<std::int64_t>(i + 1)).add("position", filled.masks[i].position);
        row.add("rank", ++rank).add("token", one.token).add("text", one.text);
        documents_.results().add(row.add("probability", one.probability));
      }
    }
  }

  const FillMaskFlags& flags_;
  Messages& messages_;
  DocumentStream documents_;
  MaskFiller filler_;
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
  add_fields(verb, fields(flags->options));
  add_results(verb, flags->model);
  add_compute(verb, flags->model);
  verb.callback([flags, &action] {
    action = [flags](Messages& messages) { FillMaskRun(*flags, messages).run(); };
  });
}

}  // namespace longformer::cli
