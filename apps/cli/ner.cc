// longformer ner: the entities in documents.
#include <fmt/format.h>

#include <memory>

#include "document_stream.h"
#include "longformer/tasks.h"
#include "option_flags.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

struct NerFlags {
  ModelFlags model;
  InputOptions inputs;
  TagOptions options;
};

class NerRun {
 public:
  NerRun(const NerFlags& flags, Messages& messages)
      : flags_(flags),
        documents_(flags.inputs, flags.model, messages,
                   {"begin", "end", "label", "score", "text", "token"}),
        tagger_(Tagger::load(flags.model.encoder_folder(), flags.model.load_options(messages))) {}

  void run() {
    documents_.stream<TagOutcome>(
        [this](const Tagger::Source& next, const Tagger::Sink& sink) {
          tagger_.tag(next, sink, flags_.options);
        },
        [this](const Document& document, const TagOutcome& outcome) {
          say(document, outcome);
          return outcome.tokens;
        });
    documents_.results().finish();
  }

 private:
  void say(const Document& document, const TagOutcome& outcome) {
    documents_.note_length(document, outcome.tokens, outcome.truncated, outcome.segments);
    if (documents_.results().has_rows()) {
      const std::string result = to_json(outcome, flags_.options.aggregation == Aggregation::none);
      return documents_.results().add_list(document.json().add_members(result), "entities");
    }
    for (const Entity& entity : outcome.entities) {
      documents_.output().write(fmt::format(
          "{}\t{}\t{}\t{}\t{:.4f}\t{}\n", document.field(), entity.span.begin, entity.span.end,
          on_one_line(entity.label), entity.score, on_one_line(entity.text)));
    }
  }

  const NerFlags& flags_;
  DocumentStream documents_;
  Tagger tagger_;
};

}  // namespace

void add_ner(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<NerFlags>();
  CLI::App& verb = add_verb(
      program,
      {.name = "ner",
       .description = "Find the entities in documents.",
       .details = "The model needs a token-classification head. Prints file, first and last "
                  "character + 1, label, score and text of each entity, tab-separated. Of a "
                  "document read in segments a token takes the label from the segment in which it "
                  "has most context.",
       .examples =
           "longformer ner MODEL --text \"Ada Lovelace lived in London.\"\n"
           "longformer ner MODEL novel.txt --stride 512 --aggregation first\n"
           "longformer ner MODEL articles.csv.gz --text-field body --id-field key -o names.csv"});
  add_model(verb, flags->model);
  add_inputs(verb, flags->inputs);
  add_fields(verb, fields(flags->options));
  add_results(verb, flags->model);
  add_compute(verb, flags->model);
  add_device(verb, flags->model);
  verb.callback([flags, &action] {
    action = [flags](Messages& messages) { NerRun(*flags, messages).run(); };
  });
}

}  // namespace longformer::cli
