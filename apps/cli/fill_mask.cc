// longformer fill-mask: the most likely tokens where a text has a mask.
#include <fmt/format.h>

#include <memory>

#include "advice.h"
#include "inputs.h"
#include "longformer/error.h"
#include "longformer/tasks.h"
#include "output.h"
#include "progress.h"
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
        inputs_(flags.inputs, messages),
        filler_(MaskFiller::load(flags.model.encoder_folder(), flags.model.load_options(messages))),
        options_(flags.options) {
    options_.global_attention = global_attention(flags.global_attention);
  }

  void run() {
    ProgressLine progress(messages_, inputs_.total_documents(), inputs_.total_bytes());
    Document document;
    while (inputs_.next(document)) {
      const ProgressCallback report = progress.unit(1, document.bytes);
      try {
        if (!document.error.empty()) throw Error(document.error);
        const FilledText filled = filler_.fill(document.text, options_);
        tell(document, filled);
        const std::int64_t tokens = filled.tokens;
        if (report) report({1, 1, tokens, tokens});
      } catch (const Error& error) {
        messages_.error(document.label() + ": " + advised(error));
        if (flags_.model.json) {
          output_.write(document.json().add("error", advised(error)).line());
        }
      }
      output_.flush();
    }
  }

 private:
  void tell(const Document& document, const FilledText& filled) {
    if (filled.truncated > 0) {
      messages_.note(fmt::format("{}: {} tokens, kept the first {}", document.label(),
                                 filled.tokens + filled.truncated, filled.tokens));
    }
    if (flags_.model.json) {
      output_.write(json(document, filled).line());
      return;
    }
    output_.write(filled.text + (filled.text.ends_with('\n') ? "" : "\n"));
    for (std::size_t i = 0; i < filled.masks.size(); ++i) {
      output_.write(fmt::format("  mask {} (token {})\n", i + 1, filled.masks[i].position));
      for (const MaskCandidate& candidate : filled.masks[i].candidates) {
        output_.write(fmt::format("    {:.4f}  {}\n", candidate.probability, candidate.text));
      }
    }
  }

  static JsonLine json(const Document& document, const FilledText& filled) {
    std::vector<JsonLine> masks;
    for (const FilledMask& mask : filled.masks) {
      std::vector<JsonLine> rows;
      for (const MaskCandidate& candidate : mask.candidates) {
        JsonLine& row = rows.emplace_back();
        row.add("id", std::int64_t{candidate.id}).add("token", candidate.token);
        row.add("text", candidate.text).add("probability", candidate.probability);
      }
      masks.emplace_back().add("position", mask.position).add_objects("candidates", rows);
    }
    return document.json().add("filled", filled.text).add_objects("masks", masks);
  }

  const FillMaskFlags& flags_;
  Messages& messages_;
  Inputs inputs_;
  MaskFiller filler_;
  FillMaskOptions options_;
  Output output_;
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
