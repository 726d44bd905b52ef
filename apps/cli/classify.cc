// longformer classify: the classes of documents.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "document_stream.h"
#include "explanation/explain.h"
#include "longformer/tasks.h"
#include "option_flags.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

struct ClassifyFlags {
  ModelFlags model;
  InputOptions inputs;
  std::int64_t top_k = 1;
  ClassifyOptions options;
  ExplainFlags explain;
};

class ClassifyRun {
 public:
  ClassifyRun(const ClassifyFlags& flags, Messages& messages)
      : flags_(flags),
        documents_(flags.inputs, flags.model.json, messages),
        classifier_(
            Classifier::load(flags.model.encoder_folder(), flags.model.load_options(messages))) {}

  void run() {
    const auto classify = [this](const auto& next, const Classifier::Sink& sink) {
      const auto input = [&next]() -> std::optional<ClassifyInput> {
        auto text = next();
        if (!text) return std::nullopt;
        return ClassifyInput{.text = std::move(*text)};
      };
      classifier_.classify(input, sink, flags_.options);
    };
    documents_.stream<ClassifyOutcome>(
        classify, [this](const Document& document, const ClassifyOutcome& outcome) {
          say(document, outcome.classification);
          return outcome.classification.tokens;
        });
  }

 private:
  void say(const Document& document, const Classification& result) {
    documents_.note_length(document, result.tokens, result.truncated, result.segments);
    if (flags_.model.json) {
      documents_.output().write(document.json().add_members(to_json(result, flags_.top_k)).line());
      return;
    }
    std::span<const ClassScore> best = result.scores;
    if (flags_.top_k > 0) {
      best = best.first(std::min(static_cast<std::size_t>(flags_.top_k), best.size()));
    }
    std::string line = document.field();
    for (const ClassScore& one : best) {
      line += fmt::format("\t{}\t{:.4f}", on_one_line(one.label), one.score);
    }
    documents_.output().write(line + '\n');
  }

  const ClassifyFlags& flags_;
  DocumentStream documents_;
  Classifier classifier_;
};

}  // namespace

void add_classify(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<ClassifyFlags>();
  CLI::App& verb = add_verb(
      program,
      {.name = "classify",
       .description = "Say which class documents belong to.",
       .details = "The model needs a sequence-classification head. Scores are probabilities over "
                  "all classes, or of each class by itself for a multi-label model, or the numbers "
                  "of a regression, as the folder says.",
       .examples = "longformer classify MODEL reviews/*.txt\n"
                   "longformer classify MODEL novel.txt --stride 512 --merge max\n"
                   "longformer classify MODEL articles.jsonl --field text --top-k 3 --json\n"
                   "longformer classify MODEL review.txt --explain integrated -o why.html"});
  add_model(verb, flags->model);
  add_inputs(verb, flags->inputs);
  add_number(verb, "--top-k", flags->top_k, {.least = 0, .most = 1 << 20},
             "classes per document, best first; 0 prints all (1)");
  add_fields(verb, fields(flags->options));
  add_explain(verb, flags->explain);
  add_json(verb, flags->model);
  add_compute(verb, flags->model);
  verb.callback([flags, &action] {
    action = [flags](Messages& messages) {
      if (flags->explain.is_wanted()) {
        return run_explain(
            {flags->explain, flags->model, flags->inputs, flags->options, flags->top_k}, messages);
      }
      ClassifyRun(*flags, messages).run();
    };
  });
}

}  // namespace longformer::cli
