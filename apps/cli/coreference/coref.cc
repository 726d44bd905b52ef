// longformer coref: who is who in documents.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>

#include "coreference/forms.h"
#include "document_stream.h"
#include "longformer/tasks.h"
#include "option_flags.h"
#include "progress.h"
#include "results.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

struct CorefFlags {
  ModelFlags model;
  InputOptions inputs;
  std::string output, format;
  ResolveOptions options;

  /// By --format or --json, else by the ending of the file, else lines. Throws UsageError.
  CoreferenceFormat form() const {
    constexpr std::array kFormats = std::to_array<NamedFormat<CoreferenceFormat>>(
        {{".jsonl", "json", CoreferenceFormat::json},
         {".ndjson", "json", CoreferenceFormat::json},
         {".json", "json", CoreferenceFormat::json},
         {".conll", "conll", CoreferenceFormat::conll},
         {".txt", "marked", CoreferenceFormat::marked},
         {".html", "html", CoreferenceFormat::html},
         {".csv", "csv", CoreferenceFormat::table},
         {".tsv", "tsv", CoreferenceFormat::table}});
    if (const std::string suffix = suffix_of(output);
        model.json && (suffix == ".csv" || suffix == ".tsv")) {
      throw UsageError("--json", "expected a name that ends in .jsonl or .json beside it, found " +
                                     in_quotes(output));
    }
    if (model.json && !format.empty() && format != "json") {
      throw UsageError("--json and --format: expected one of them");
    }
    if (!model.json && format == "text") return CoreferenceFormat::text;
    for (const auto& known : kFormats) {
      if (known.name == (model.json ? "json" : format)) return known.format;
    }
    const auto* known = format_of_output(output, kFormats);
    return known != nullptr ? known->format : CoreferenceFormat::text;
  }
};

class CorefRun {
 public:
  CorefRun(const CorefFlags& flags, Messages& messages)
      : flags_(flags),
        form_(flags.form()),
        documents_(flags.inputs, messages),
        resolver_(CoreferenceResolver::load(flags.model.encoder_folder(),
                                            flags.model.load_options(messages))) {
    if (form_ == CoreferenceFormat::table) {
      table_.emplace(flags.output);
      table_->set_columns(columns_of_documents({"cluster", "begin", "end", "text"}));
      documents_.write_failures([this](const Document& document, const std::string& reason) {
        table_->add(document.json().add("error", reason).object());
      });
      return;
    }
    flags.output.empty() ? output_.emplace() : output_.emplace(flags.output);
    if (form_ == CoreferenceFormat::json) documents_.write_failures(*output_);
  }

  void run() {
    bool any = false;
    documents_.one_by_one([&](const Document& document) -> WorkedDocument {
      if (any && form_ == CoreferenceFormat::html) {
        return {.error = "expected one document for a page, found another"};
      }
      ResolveOptions options = flags_.options;
      options.progress = documents_.report();
      const CoreferenceOutcome found = resolver_.resolve(document.text, options);
      if (!found.error.empty()) return {.error = advised(found.error, found.remedies)};
      say(document, found);
      any = true;
      return {.tokens = found.tokens};
    });
    if (table_) return table_->finish();
    if (any || form_ == CoreferenceFormat::json) output_->finish();
  }

 private:
  void say(const Document& document, const CoreferenceOutcome& found) {
    documents_.note_length(document, found.tokens, 0, found.segments);
    if (table_) return add_rows(document, found);
    write_coreference(*output_, {document, found, flags_.model.model}, form_);
    output_->flush();
  }

  /// A row for each mention.
  void add_rows(const Document& document, const CoreferenceOutcome& found) {
    std::int64_t cluster = 0;
    for (const std::vector<Mention>& mentions : found.clusters) {
      ++cluster;
      for (const Mention& mention : mentions) {
        JsonLine row = document.json();
        row.add("cluster", cluster).add("begin", mention.span.begin).add("end", mention.span.end);
        table_->add(row.add("text", mention.text).object());
      }
    }
  }

  const CorefFlags& flags_;
  CoreferenceFormat form_;
  DocumentStream documents_;
  CoreferenceResolver resolver_;
  /// One of the two.
  std::optional<Output> output_;
  std::optional<RecordFile> table_;
};

}  // namespace

void add_coref(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<CorefFlags>();
  CLI::App& verb = add_verb(
      program,
      {.name = "coref",
       .description = "Find which mentions of a document mean the same: who is who.",
       .details = "The model needs a coreference head (finetune --task coreference, or a folder of "
                  "fastcoref). Prints file, number of the cluster, first and last character + 1, "
                  "and text of each mention, tab-separated, in the order of the document. Of any "
                  "length: segments are read one by one, mentions are linked over the whole "
                  "document.",
       .examples = "longformer coref MODEL --text \"Ada met Tom. She gave him her book.\" --format "
                   "marked\n"
                   "longformer coref MODEL novel.txt -o novel.html\n"
                   "longformer coref MODEL articles.jsonl --text-field text --json\n"
                   "longformer coref MODEL story.txt --no-singletons -o story.conll"});
  add_model(verb, flags->model);
  add_inputs(verb, flags->inputs);
  add_output(
      verb, flags->output,
      "write to a file; the form follows from .csv, .tsv, .jsonl, .json, .conll, .txt (marked) "
      "or .html");
  add_choice(verb, "--format", flags->format, {"text", "json", "conll", "marked", "html"},
             "text (lines of mentions), json, conll (CoNLL-2012), marked (the text with brackets "
             "around mentions) or html (a page: a click lights a chain)");
  add_fields(verb, fields(flags->options));
  add_json(verb, flags->model);
  add_compute(verb, flags->model);
  verb.callback([flags, &action] {
    static_cast<void>(flags->form());
    action = [flags](Messages& messages) { CorefRun(*flags, messages).run(); };
  });
}

}  // namespace longformer::cli
