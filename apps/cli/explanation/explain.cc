#include "explanation/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "document_stream.h"
#include "explanation/page.h"
#include "option_flags.h"
#include "output.h"
#include "usage.h"

namespace longformer::cli {
namespace {

constexpr const char* kExplanations = "Explanations";

/// Whether a page is asked for. Throws UsageError for an ending that is no form of explanations.
bool is_page(const ModelFlags& model) {
  constexpr std::array<std::string_view, 7> kKnown = {".tsv",    ".csv",  ".txt", ".jsonl",
                                                      ".ndjson", ".json", ""};
  const std::string suffix = suffix_of(model.output);
  if (suffix != ".html") {
    if (std::ranges::find(kKnown, suffix) != kKnown.end()) return false;
    throw UsageError("--output",
                     "expected a name that ends in .csv, .tsv, .txt, .jsonl, .json or .html beside "
                     "--explain, found " +
                         in_quotes(model.output));
  }
  if (model.json) {
    throw UsageError("--output",
                     "expected .json or .jsonl beside --json, found " + in_quotes(model.output));
  }
  return true;
}

/// The parts that speak most for or against the class.
std::vector<AttributedSpan> strongest_parts(const Explanation& explanation, std::int64_t top) {
  const bool occludes = explanation.method == ExplainMethod::occlusion;
  std::vector<AttributedSpan> parts = occludes ? explanation.sentences : explanation.words;
  std::stable_sort(parts.begin(), parts.end(),
                   [](const AttributedSpan& a, const AttributedSpan& b) {
                     return std::abs(a.value) > std::abs(b.value);
                   });
  if (top > 0) parts.resize(std::min(parts.size(), static_cast<std::size_t>(top)));
  return parts;
}

class ExplainingRun {
 public:
  ExplainingRun(const ExplainRun& run, Messages& messages)
      : run_(run),
        is_page_(is_page(run.model)),
        options_(run.flags.options),
        messages_(messages),
        documents_(run.inputs, is_page_ ? ModelFlags() : run.model, messages,
                   {"label", "score", "value", "begin", "end", "text"}),
        explainer_(Explainer::load(run.model.encoder_folder(), run.model.load_options(messages))) {
    options_.method = explain_method(run.flags.method);
    options_.reading = run.reading;
    if (is_page_) page_.emplace(run.model.output);
  }

  void run() {
    documents_.one_by_one([&](const Document& document) {
      return worked([&] {
        if (any_ && is_page_) throw Error("expected one document for a page, found another");
        ExplainOptions options = options_;
        options.progress = documents_.report();
        const Explanation found = explained(document.text, options);
        say(document, found);
        any_ = true;
        return found.classification.tokens;
      });
    });
    // Without its one document there is no page, and no text: the file is left as it was.
    if (is_page_) {
      if (any_) page_->finish();
    } else if (any_ || documents_.results().has_rows()) {
      documents_.results().finish();
    }
  }

 private:
  /// An option that cannot be is no fault of the document.
  Explanation explained(const std::string& text, const ExplainOptions& options) const {
    try {
      return explainer_.explain(text, options);
    } catch (const Error& error) {
      if (error.option().empty()) throw;
      throw UsageError(flag_of(error.option()), error.reason());
    }
  }

  void say(const Document& document, const Explanation& found) {
    const Classification& classes = found.classification;
    documents_.note_length(document, classes.tokens, classes.truncated, classes.segments);
    if (!found.is_complete) {
      messages_.note(fmt::format(
          "{}: integrated gradients: expected values that add up to {:.4f}, found {:.4f}; take "
          "more --steps than {}, or another --baseline",
          document.label(), found.logit - found.baseline_logit, found.sum, found.steps));
    }
    Results& results = documents_.results();
    if (is_page_) {
      page_->write(explanation_page({document, found, run_.model.model}));
    } else if (results.form() == ResultForm::rows) {
      results.add(document.json()
                      .add_members(to_json(classes, run_.top_k))
                      .add_json("explanation", to_json(found, document.text)));
    } else {
      write_parts(document, found);
    }
  }

  /// A row of a table, or a line of text, for each part.
  void write_parts(const Document& document, const Explanation& found) {
    Results& results = documents_.results();
    if (!results.is_table() && !any_) {
      results.output().write("document\tlabel\tscore\tvalue\tbegin\tend\ttext\n");
    }
    const std::vector<std::size_t> starts = character_starts(document.text);
    for (const auto& [span, value] : strongest_parts(found, run_.flags.top)) {
      const std::size_t begin = starts[static_cast<std::size_t>(span.begin)];
      const std::size_t end = starts[static_cast<std::size_t>(span.end)];
      const std::string text = document.text.substr(begin, end - begin);
      if (results.is_table()) {
        JsonLine row = document.json();
        row.add("label", found.label).add("score", found.score).add("value", value);
        row.add("begin", span.begin).add("end", span.end).add("text", text);
        results.add(row);
      } else {
        results.output().write(fmt::format("{}\t{}\t{:.4f}\t{:.6g}\t{}\t{}\t{}\n", document.field(),
                                           on_one_line(found.label), found.score, value, span.begin,
                                           span.end, on_one_line(text)));
      }
    }
  }

  const ExplainRun& run_;
  bool is_page_;
  ExplainOptions options_;
  Messages& messages_;
  DocumentStream documents_;
  Explainer explainer_;
  std::optional<Output> page_;
  /// Whether a document was explained.
  bool any_ = false;
};

}  // namespace

void add_explain(CLI::App& verb, ExplainFlags& flags) {
  const std::vector<CLI::Option*> before = verb.get_options();
  CLI::Option* explain =
      add_choice(verb, "--explain", flags.method, {"gradient", "integrated", "occlusion"},
                 "say what speaks for the class: gradient × input, integrated gradients, or "
                 "occlusion of sentences");
  add_number(verb, "--explain-top", flags.top, {.least = 0, .most = 1 << 30},
             "text and tables: words of each document, or sentences of occlusion, strongest first; "
             "0 prints "
             "all (20)");
  add_fields(verb, explain_fields(flags.options));
  for (CLI::Option* option : verb.get_options()) {
    if (std::ranges::find(before, option) != before.end()) continue;
    option->group(kExplanations);
    if (option != explain) option->needs(explain);
  }
}

void run_explain(const ExplainRun& run, Messages& messages) { ExplainingRun(run, messages).run(); }

}  // namespace longformer::cli
