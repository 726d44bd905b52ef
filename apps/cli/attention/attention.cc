// longformer attention: what the heads of a model attend to, as numbers or a page.
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <memory>
#include <optional>

#include "attention/document_reports.h"
#include "attention/language_model.h"
#include "attention/reports.h"
#include "attention/sources.h"
#include "document_stream.h"
#include "encode_whole.h"
#include "longformer/error.h"
#include "longformer/generation.h"
#include "longformer/language_model.h"
#include "longformer/model.h"
#include "longformer/text.h"
#include "option_flags.h"
#include "output.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

constexpr std::int64_t kTopK = 5;
constexpr std::int64_t kPageTopK = 8;
constexpr double kPageThreshold = 0.001;
/// The function of longformer_cpp.plot that draws maps.
constexpr std::string_view kPictures = "heat_map";

constexpr std::array kAttentionFormats =
    std::to_array<NamedFormat<AttentionFormat>>({{".tsv", "text", AttentionFormat::text},
                                                 {".txt", "text", AttentionFormat::text},
                                                 {".jsonl", "json", AttentionFormat::json},
                                                 {".ndjson", "json", AttentionFormat::json},
                                                 {".json", "json", AttentionFormat::json},
                                                 {".npz", "npz", AttentionFormat::npz},
                                                 {".html", "html", AttentionFormat::html}});

struct AttentionFlags {
  ModelFlags model;
  InputOptions inputs;
  std::string layer, head;
  std::optional<double> threshold;
  std::int64_t top_k = 0;
  std::optional<GlobalAttention> global_attention;
  bool truncate = false;
  /// A text about the document, or that the model shall write one.
  std::string summary;
  bool summarize = false;
  std::string output, format;

  bool shows_sources() const { return summarize || !summary.empty(); }

  /// Throws UsageError for a name of the output that says nothing.
  AttentionFormat chosen_format() const {
    for (const auto& known : kAttentionFormats) {
      if (!format.empty() && format == known.name) return known.format;
    }
    if (model.json) return AttentionFormat::json;
    if (format.empty() && !shows_sources() && is_picture(suffix_of(output))) {
      throw UsageError("--output", picture_advice(kPictures));
    }
    const auto* known = format.empty() ? format_of_output(output, kAttentionFormats) : nullptr;
    return known != nullptr ? known->format : AttentionFormat::text;
  }

  /// A page is there to choose from; elsewhere one map is what fits.
  Choice choice(const std::string& text) const {
    if (text.empty() && chosen_format() == AttentionFormat::html) return {Choice::Kind::all, 0};
    if (text.empty() || text == "mean") return {Choice::Kind::mean, 0};
    if (text == "all") return {Choice::Kind::all, 0};
    Choice number{Choice::Kind::one, 0};
    number.number = whole_number(text).value_or(0);
    return number;
  }

  ReportOptions report_options() const {
    ReportOptions options;
    options.format = chosen_format();
    options.is_table = options.format == AttentionFormat::text && suffix_of(output) == ".tsv";
    const bool page = options.format == AttentionFormat::html;
    options.limits.threshold = threshold.value_or(page ? kPageThreshold : 0);
    options.limits.top_k = top_k;
    if (top_k == 0 && page) options.limits.top_k = kPageTopK;
    if (top_k == 0 && !page && !threshold) options.limits.top_k = kTopK;
    const std::filesystem::path folder(model.model);
    options.model = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
    return options;
  }

  void check() const {
    const AttentionFormat form = chosen_format();
    const bool lists = form == AttentionFormat::text || form == AttentionFormat::json ||
                       form == AttentionFormat::html;
    if (shows_sources() && !lists) {
      throw UsageError("--summary and --summarize: expected text, JSON or a page");
    }
    if (summarize && !summary.empty()) {
      throw UsageError("--summary and --summarize: expected one of them");
    }
    if (model.json && form != AttentionFormat::json) {
      throw UsageError("--json and --format ask for different forms");
    }
    const bool sparse = form == AttentionFormat::text || form == AttentionFormat::json;
    const bool limited = top_k > 0 || threshold.has_value();
    if (limited && !sparse && form != AttentionFormat::html) {
      throw UsageError("--top-k and --threshold are for text, JSON and pages");
    }
    if (form == AttentionFormat::html && top_k > PageLimits::kMostKeys) {
      throw UsageError("--top-k", fmt::format("expected at most {} for a page, found {}",
                                              PageLimits::kMostKeys, top_k));
    }
  }
};

class AttentionRun {
 public:
  AttentionRun(const AttentionFlags& flags, Messages& messages)
      : flags_(flags),
        messages_(messages),
        report_options_(flags.report_options()),
        folder_(flags.model.token_model_folder()),
        documents_(flags.inputs, messages),
        tokenizer_(Tokenizer::load(tokenizer_folder(folder_, flags.model.adapter))),
        model_(Model::load(folder_, flags.model.load_options(messages))) {
    layers_ = chosen(flags_.choice(flags_.layer), model_.info().layers, "layer");
    heads_ = chosen(flags_.choice(flags_.head), model_.info().heads, "head");
  }

  void run() {
    report_documents(documents_, report_options_, flags_.output,
                     [this](const Document& document, AttentionReport& report) {
                       return show(document, report);
                     });
  }

 private:
  /// 1 for global tokens. Without a rule those of the model's head; a document alone is no question
  /// and no choice, so there heads that ask for these get none.
  std::vector<std::int32_t> global_tokens(const Encoding& encoding, const std::string& text) const {
    if (flags_.global_attention) return flags_.global_attention->mask(model_, encoding, text);
    const std::string& head = model_.info().head;
    const bool of_pairs = head == "question-answering" || head == "multiple-choice";
    if (of_pairs) return std::vector<std::int32_t>(encoding.ids.size(), 0);
    return model_.default_global_attention_mask(encoding.ids);
  }

  std::int64_t show(const Document& document, AttentionReport& report) {
    const Encoding encoding =
        encode_whole(document, document.text, {model_, tokenizer_, flags_.truncate, messages_});
    AttentionDocument shown{.source = document,
                            .encoding = encoding,
                            .tokens = {},
                            .global_positions = {},
                            .layers = layers_,
                            .heads = heads_};
    for (const std::int32_t id : encoding.ids) shown.tokens.push_back(tokenizer_.token(id));
    const std::vector<std::int32_t> global_mask = global_tokens(encoding, document.text);
    for (std::size_t i = 0; i < global_mask.size(); ++i) {
      if (global_mask[i] == 1) shown.global_positions.push_back(static_cast<std::int64_t>(i));
    }
    DocumentInput input;
    input.ids = encoding.ids;
    input.token_type_ids = encoding.type_ids;
    input.global_attention_mask = global_mask;
    report.begin(shown);
    attention_maps(model_, input, flags_.choice(flags_.layer), flags_.choice(flags_.head),
                   [&report](const AttentionMap& map) { report.add(map); });
    report.end();
    return static_cast<std::int64_t>(encoding.ids.size());
  }

  const AttentionFlags& flags_;
  Messages& messages_;
  ReportOptions report_options_;
  std::string folder_;
  DocumentStream documents_;
  Tokenizer tokenizer_;
  Model model_;
  std::vector<std::optional<std::int64_t>> layers_, heads_;
};

/// Attention of a text to its document.
class SourcesRun {
 public:
  SourcesRun(const AttentionFlags& flags, Messages& messages)
      : flags_(flags),
        report_options_(flags.report_options()),
        documents_(flags.inputs, messages),
        generator_(TextGenerator::load(flags.model.folder(), flags.model.load_options(messages))) {
    options_.truncate = flags.truncate;
    for (const auto& [choice, numbers] : {std::pair{flags.choice(flags.layer), &options_.layers},
                                          std::pair{flags.choice(flags.head), &options_.heads}}) {
      if (choice.kind == Choice::Kind::one) numbers->push_back(choice.number);
    }
    options_.global_attention = flags.global_attention;
    // The default of summarize and of training.
    if (!options_.global_attention) options_.global_attention = generator_.summary_globals();
  }

  void run() {
    std::optional<Output> chosen;
    Output& output = flags_.output.empty() ? chosen.emplace() : chosen.emplace(flags_.output);
    if (report_options_.format == AttentionFormat::json) documents_.write_failures(output);
    bool any = false;
    documents_.one_by_one([&](const Document& document) {
      return worked([&]() -> std::int64_t {
        if (any && report_options_.format == AttentionFormat::html) {
          throw Error("expected one document for a page, found another");
        }
        const std::string text = flags_.summarize ? written(document.text) : flags_.summary;
        const auto weights = generator_.source_attention(document.text, text, options_);
        const bool lists = report_options_.format == AttentionFormat::text;
        if (!any && lists) output.write(kSourceColumns);
        print_sources(output, document, by_sentences(document.text, text, weights),
                      report_options_);
        any = true;
        output.flush();
        return 0;
      });
    });
    if (any || report_options_.format == AttentionFormat::json) output.finish();
  }

 private:
  std::string written(const std::string& document) const {
    GenerationRequest request;
    request.global_attention = options_.global_attention;
    request.too_long = flags_.truncate ? TooLong::truncate : TooLong::refuse;
    const WrittenDocument result = generator_.generate(std::span(&document, 1), request)[0];
    if (!result.error.empty()) throw Error(result.error, result.remedies);
    return result.texts.at(0).text;
  }

  const AttentionFlags& flags_;
  ReportOptions report_options_;
  DocumentStream documents_;
  TextGenerator generator_;
  SourceAttentionOptions options_;
};

/// A number from 0, all or mean.
void add_index(CLI::App& verb, const std::string& name, std::string& value,
               const std::string& description) {
  const auto check = [](const std::string& text) -> std::string {
    if (text == "all" || text == "mean" || whole_number(text).value_or(-1) >= 0) return "";
    return "expected a number from 0, all or mean, found " + in_quotes(text);
  };
  verb.add_option(name, value, description)->check(CLI::Validator(check, ""))->type_name("N");
}

void add_threshold(CLI::App& verb, std::optional<double>& threshold) {
  verb.add_option("--threshold", threshold, "leave out smaller probabilities (0; 0.001 in a page)")
      ->check(number_up_to(1))
      ->type_name("P");
}

}  // namespace

void add_attention(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<AttentionFlags>();
  CLI::App& verb = add_verb(
      program,
      {.name = "attention",
       .description = "Show what each token attends to: numbers, or a page to explore.",
       .details = "With --summary or --summarize, what each sentence of a text about the document "
                  "looks at in it. Text and JSON list the strongest pairs of tokens. A page "
                  "(.html) and arrays as transformers lays them out (.npz) take one document. "
                  "longformer_cpp.plot.heat_map of the Python package draws the arrays.",
       .examples =
           "longformer attention MODEL report.txt --layer 3 --head 5\n"
           "longformer attention MODEL report.txt -o report.html\n"
           "longformer attention MODEL report.txt --layer all --head all -o attentions.npz\n"
           "longformer attention LED report.txt --summarize -o sources.html"});
  add_model(verb, flags->model);
  add_inputs(verb, flags->inputs);
  add_index(verb, "--layer", flags->layer, "from 0; all; or mean (mean; all in a page)");
  add_index(verb, "--head", flags->head, "from 0; all; or mean (mean; all in a page)");
  add_output(verb, flags->output,
             "write to a file; the form follows from .tsv, .txt, .jsonl, .json, .npz or .html");
  verb.add_option("--format", flags->format, "text, json, npz or html, whatever the file is called")
      ->check(no_picture(kPictures))
      ->check(one_of({"text", "json", "npz", "html"}))
      ->type_name("NAME");
  add_number(verb, "--top-k", flags->top_k, {.least = 1, .most = 1 << 20},
             "pairs per token (5 unless there is a threshold; 8 in a page)");
  add_threshold(verb, flags->threshold);
  refuse_picture(verb, "--cells", kPictures);
  const CLI::Option* summary =
      verb.add_option(
              "--summary", flags->summary,
              "models with a decoder: show what the sentences of this text look at in the document")
          ->type_name("TEXT");
  verb.add_flag("--summarize", flags->summarize, "the same for the text that the model writes");
  add_fields(verb, {global_attention_field(flags->global_attention)});
  verb.add_flag("--truncate", flags->truncate,
                "of a document that is too long for the model, keep the first tokens");
  add_json(verb, flags->model);
  add_compute(verb, flags->model);
  verb.callback([flags, summary, &action] {
    flags->check();
    if (summary->count() > 0 && flags->summary.empty()) {
      throw UsageError("--summary", "expected a text, found an empty one");
    }
    action = [flags](Messages& messages) {
      if (flags->shows_sources()) return SourcesRun(*flags, messages).run();
      if (LanguageModel::is_one(flags->model.folder())) {
        return run_text_attention({.model = flags->model,
                                   .inputs = flags->inputs,
                                   .layer = flags->choice(flags->layer),
                                   .head = flags->choice(flags->head),
                                   .report = flags->report_options(),
                                   .output = flags->output,
                                   .reads_parts = flags->truncate || flags->global_attention},
                                  messages);
      }
      AttentionRun(*flags, messages).run();
    };
  });
}

}  // namespace longformer::cli
