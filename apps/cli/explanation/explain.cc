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

constexpr std::array kExplanationFormats =
    std::to_array<NamedFormat<ExplanationFormat>>({{".tsv", "text", ExplanationFormat::text},
                                                   {".txt", "text", ExplanationFormat::text},
                                                   {".jsonl", "json", ExplanationFormat::json},
                                                   {".json", "json", ExplanationFormat::json},
                                                   {".html", "html", ExplanationFormat::html}});

constexpr const char* kExplanations = "Explanations";

/// --json chooses the form, else the ending of the file, else it is lines. Throws UsageError.
ExplanationFormat format_of(const ExplainRun& run) {
  const std::string suffix = suffix_of(run.model.output);
  const auto* known =
      std::ranges::find(kExplanationFormats, suffix, &NamedFormat<ExplanationFormat>::suffix);
  if (known == kExplanationFormats.end() && !suffix.empty()) {
    throw UsageError("--output",
                     "expected a name that ends in .tsv, .txt, .jsonl, .json or .html beside "
                     "--explain, found " +
                         in_quotes(run.model.output));
  }
  const ExplanationFormat named =
      known == kExplanationFormats.end() ? ExplanationFormat::text : known->format;
  if (run.model.json && !suffix.empty() && named != ExplanationFormat::json) {
    throw UsageError(
        "--output", "expected .json or .jsonl beside --json, found " + in_quotes(run.model.output));
  }
  return run.model.json ? ExplanationFormat::json : named;
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
        format_(format_of(run)),
        options_(run.flags.options),
        messages_(messages),
        documents_(run.inputs, messages),
        explainer_(Explainer::load(run.model.encoder_folder(), run.model.load_options(messages))) {
    options_.method = explain_method(run.flags.method);
    options_.reading = run.reading;
    run.model.output.empty() ? output_.emplace() : output_.emplace(run.model.output);
    if (format_ == ExplanationFormat::json) documents_.write_failures(*output_);
  }

  void run() {
    bool any = false;
    documents_.one_by_one([&](const Document& document) {
      return worked([&] {
        if (any && format_ == ExplanationFormat::html) {
          throw Error("expected one document for a page, found another");
        }
        ExplainOptions options = options_;
        options.progress = documents_.report();
        const Explanation found = explained(document.text, options);
        if (!any && format_ == ExplanationFormat::text) {
          output_->write("document\tlabel\tscore\tvalue\tbegin\tend\ttext\n");
        }
        any = true;
        say(document, found);
        return found.classification.tokens;
      });
    });
    // Without its one document there is no page: the file is left as it was.
    if (any || format_ == ExplanationFormat::json) output_->finish();
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
    if (format_ == ExplanationFormat::html) {
      output_->write(explanation_page({document, found, run_.model.model}));
    } else if (format_ == ExplanationFormat::json) {
      output_->write_object(document.json()
                                .add_members(to_json(classes, run_.top_k))
                                .add_json("explanation", to_json(found, document.text))
                                .object());
    } else {
      write_lines(document, found);
    }
    output_->flush();
  }

  void write_lines(const Document& document, const Explanation& found) {
    const std::vector<std::size_t> starts = character_starts(document.text);
    for (const auto& [span, value] : strongest_parts(found, run_.flags.top)) {
      const std::size_t begin = starts[static_cast<std::size_t>(span.begin)];
      const std::size_t end = starts[static_cast<std::size_t>(span.end)];
      output_->write(fmt::format("{}\t{}\t{:.4f}\t{:.6g}\t{}\t{}\t{}\n", document.field(),
                                 on_one_line(found.label), found.score, value, span.begin, span.end,
                                 on_one_line(document.text.substr(begin, end - begin))));
    }
  }

  const ExplainRun& run_;
  ExplanationFormat format_;
  ExplainOptions options_;
  Messages& messages_;
  DocumentStream documents_;
  Explainer explainer_;
  std::optional<Output> output_;
};

}  // namespace

void add_explain(CLI::App& verb, ExplainFlags& flags) {
  const std::vector<CLI::Option*> before = verb.get_options();
  CLI::Option* explain =
      add_choice(verb, "--explain", flags.method, {"gradient", "integrated", "occlusion"},
                 "say what speaks for the class: gradient × input, integrated gradients, or "
                 "occlusion of sentences");
  add_number(verb, "--explain-top", flags.top, {.least = 0, .most = 1 << 30},
             "text: words of each document, or sentences of occlusion, strongest first; 0 prints "
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
