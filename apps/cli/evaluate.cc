// longformer evaluate: how well a model does on a data set with labels.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "document_stream.h"
#include "evaluation_report.h"
#include "generation_flags.h"
#include "language_model_flags.h"
#include "longformer/embedding.h"
#include "longformer/error.h"
#include "longformer/evaluation.h"
#include "longformer/reranking.h"
#include "longformer/search.h"
#include "option_flags.h"
#include "output.h"
#include "progress.h"
#include "record_file.h"
#include "results.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

constexpr const char* kEmbedding = "embedding";
constexpr const char* kRetrieval = "retrieval";
constexpr const char* kRetrievalGroup = "Retrieval";

/// Bytes of the whole work for the progress line, which measures by them.
constexpr std::int64_t kWhole = std::int64_t{1} << 20;

struct EvaluateFlags {
  ModelFlags model;
  std::string data, predictions, official_predictions, selected, score;
  EvaluateOptions options;
  LanguageModelEvaluationFlags characters;
  /// Its data hold the options of retrieval alone.
  RetrievalEvaluation retrieval;
  std::string reranker;

  /// The options of all readers of data.
  DataOptions data_options() const {
    DataOptions data = options.data;
    data.retrieval = retrieval.data.retrieval;
    return data;
  }
};

void run_characters(const EvaluateFlags& flags, const std::string& folder, Messages& messages) {
  if (!flags.options.task.empty()) {
    throw UsageError(fmt::format(
        "--task {}: expected a model with this head, found the language model {}, which has none",
        flags.options.task, in_quotes(folder)));
  }
  LanguageModelEvaluation options = flags.characters.options();
  options.data.files = {flags.data};
  options.data.encoding = flags.options.data.encoding;
  options.data.encoding.note = encoding_note(messages);
  const LanguageModel model = LanguageModel::load(folder, flags.model.load_options(messages));
  // A file that cannot be written is refused before the work.
  std::optional<RecordFile> losses;
  if (options.losses) losses.emplace(flags.characters.losses());
  ProgressLine progress(messages, 0, kWhole);
  options.progress = progress.unit(0, kWhole);
  const LanguageModelScore score = model.evaluate(options);
  if (losses) {
    for (const SymbolLoss& one : score.losses) {
      losses->add(JsonLine().add("bytes", one.bytes).add("loss", one.loss).object());
    }
    losses->finish();
  }
  write_report(flags.model, language_model_score_text(score, with_form(flags.model).json));
}

void report(const EvaluateFlags& flags, const Evaluation& result, const std::string& json,
            Messages& messages) {
  tell(notes_of(result), messages);
  write_report(flags.model, with_form(flags.model).json ? json + "\n" : table_of(result));
}

/// Compares predictions without a model; MODEL is the data then.
void run_score(const EvaluateFlags& flags, Messages& messages) {
  DataOptions data = flags.data_options();
  data.encoding.note = encoding_note(messages);
  const Evaluation result =
      score(flags.score, flags.model.model, {.task = flags.options.task, .data = data});
  report(flags, result, to_json(result, ReadBy::file), messages);
}

/// A file that takes what the library hands over; none for an empty name.
std::function<void(std::string_view)> sink_of(const std::string& file,
                                              std::optional<Output>& output) {
  if (file.empty()) return {};
  output.emplace(file);
  return [&output](std::string_view part) { output->write(part); };
}

std::function<void(std::string_view)> sink_of(const std::string& file,
                                              std::optional<RecordFile>& output) {
  if (file.empty()) return {};
  output.emplace(file);
  return [&output](std::string_view object) { output->add(object); };
}

/// Throws UsageError for a name that promises another form than that of the task's authors.
void check_official(const std::string& file, const std::string& task) {
  constexpr std::array<std::string_view, 6> kForms = {".json", ".jsonl", ".ndjson",
                                                      ".csv",  ".tsv",   ".conll"};
  const std::string suffix = suffix_of(file);
  const PublishedForm form = published_form(task);
  const bool is_right = std::ranges::find(form.endings, suffix) != form.endings.end();
  if (is_right || std::ranges::find(kForms, suffix) == kForms.end()) return;
  throw UsageError("--official-predictions",
                   fmt::format("expected a name for {}, found {}", form.name, in_quotes(file)));
}

void run_retrieval(const EvaluateFlags& flags, Messages& messages) {
  RetrievalEvaluation options = flags.retrieval;
  options.data = flags.data_options();
  options.data.encoding.note = encoding_note(messages);
  options.too_long = flags.options.too_long;
  options.top_k = flags.options.generation.options.top_k.value_or(options.top_k);
  const Embedder embedder =
      Embedder::load(flags.model.encoder_folder(), flags.model.load_options(messages));
  std::optional<Reranker> reranker;
  if (!flags.reranker.empty()) {
    ModelFlags model = flags.model;
    model.model = flags.reranker;
    model.adapter.clear();
    reranker.emplace(Reranker::load(model.encoder_folder(), model.load_options(messages)));
    options.reranker = &*reranker;
  }
  std::optional<RecordFile> predictions;
  std::optional<Output> official;
  options.predictions = sink_of(flags.predictions, predictions);
  options.official_predictions = sink_of(flags.official_predictions, official);
  ProgressLine progress(messages, 0, kWhole);
  options.progress = progress.unit(0, kWhole);
  const Evaluation result = evaluate_retrieval(embedder, flags.data, options);
  if (predictions) predictions->finish();
  if (official) official->finish();
  report(flags, result, to_json(result), messages);
}

void run(const EvaluateFlags& flags, Messages& messages) {
  if (!flags.score.empty()) return run_score(flags, messages);
  if (flags.options.task == kRetrieval) return run_retrieval(flags, messages);
  const std::string folder = flags.model.folder();
  if (LanguageModel::is_one(folder)) return run_characters(flags, folder, messages);
  LoadOptions load = flags.model.load_options(messages);
  load.task = flags.options.task;
  const Model model = Model::load(folder, load);
  if (const std::string option = flags.characters.given(); !option.empty()) {
    throw Error(fmt::format("{}: expected a language model with {}, found another one",
                            in_quotes(folder), option));
  }
  const std::vector<std::string> tasks = tasks_of_head(model.info().head);
  const std::string task = tasks.empty() ? "none" : tasks.front();
  const std::string& asked = flags.options.task;
  const bool is_asked = asked.empty() || std::ranges::find(tasks, asked) != tasks.end();
  // Any encoder makes vectors.
  const bool makes_vectors = asked == kEmbedding;
  if (!makes_vectors && (task == "none" || !is_asked)) {
    throw Error(fmt::format("{}: expected a head for {}, found {}", in_quotes(folder),
                            asked.empty() ? "a task" : asked,
                            task == "none" ? "none" : model.info().head));
  }
  const Tokenizer tokenizer = Tokenizer::load(tokenizer_folder(folder, flags.model.adapter))
                                  .with_rows(model.info().vocabulary_size);
  EvaluateOptions options = flags.options;
  options.generation.seed = options.masking.seed;
  options.data.encoding.note = encoding_note(messages);
  check_official(flags.official_predictions, task);
  std::optional<RecordFile> predictions;
  std::optional<Output> official, selected;
  // The head names its own task.
  if (asked == task) options.task.clear();
  options.predictions = sink_of(flags.predictions, predictions);
  options.official_predictions = sink_of(flags.official_predictions, official);
  options.selected = sink_of(flags.selected, selected);
  std::optional<Embedder> embedder;
  if (makes_vectors) {
    embedder.emplace(Embedder::of(model, folder, flags.model.load_options(messages).adapter));
    options.embedder = &*embedder;
  }
  std::optional<TextGenerator> generator;
  if (task == "seq2seq") {
    generator.emplace(TextGenerator::of(model, folder, flags.model.load_options(messages).note));
    options.generator = &*generator;
  }
  ProgressLine progress(messages, 0, kWhole);
  options.progress = progress.unit(0, kWhole);
  const Evaluation result = evaluate(model, tokenizer, flags.data, options);
  if (predictions) predictions->finish();
  if (official) official->finish();
  if (selected) selected->finish();
  report(flags, result, to_json(result), messages);
}

void add_data(CLI::App& verb, EvaluateFlags& flags) {
  verb.get_option("MODEL")->required(false);
  verb.add_option("DATA", flags.data, "file or folder of examples with labels")->type_name("");
}

/// Paragraphs that a first stage leaves to a second one.
void add_selection(CLI::App& verb, EvaluateFlags& flags) {
  constexpr const char* kGroup = "Questions over paragraphs (multihop)";
  CLI::Option* selected =
      verb.add_option("--write-selected", flags.selected,
                      "file for DATA with the best paragraphs alone, for a second stage")
          ->type_name("FILE")
          ->group(kGroup);
  for (const char* name : {"--keep-paragraphs", "--paragraph-threshold"}) {
    verb.get_option(name)->needs(selected);
  }
}

void add_scoring(CLI::App& verb, EvaluateFlags& flags) {
  EvaluateOptions& options = flags.options;
  add_fields(verb, fields(options));
  add_selection(verb, flags);
  add_generation_options(verb, options.generation.options);
  verb.get_option("--top-k")->description(
      "retrieval: documents per query (1000); texts: draw among so many of the likeliest tokens");
  verb.add_option("--predictions", flags.predictions,
                  "file for the right answer and the prediction of each example; .jsonl (also "
                  "without an ending), .json, .csv or .tsv")
      ->type_name("FILE");
  verb.add_option("--official-predictions", flags.official_predictions,
                  "file of predictions in the form that the authors of the task published")
      ->type_name("FILE");
  verb.add_option(
          "--score", flags.score,
          "compare such a file with DATA, without a model; give --task if DATA do not show it")
      ->type_name("FILE");
}

void check_retrieval(const CLI::App& verb, const EvaluateFlags& flags) {
  const bool may_be_told_by_data = flags.options.task.empty() && !flags.score.empty();
  if (flags.options.task != kRetrieval && !may_be_told_by_data) {
    for (const CLI::Option* option : verb.get_options()) {
      if (option->get_group() != kRetrievalGroup || option->count() == 0) continue;
      throw UsageError(fmt::format("{} needs --task retrieval", option->get_name()));
    }
  }
  if (flags.options.task != kRetrieval) return;
  if (flags.options.too_long == TooLong::split || flags.options.global_attention) {
    throw UsageError(
        "retrieval reads long documents as passages: leave out --stride and --global-attention");
  }
  if (flags.options.generation.options.top_k.value_or(1) < 1) {
    throw UsageError("--top-k", "expected at least 1 document per query");
  }
}

/// Throws UsageError for an option that a search in a corpus would not heed.
void check_heeded(const CLI::App& verb) {
  constexpr std::array<std::string_view, 15> kHeeded = {
      "--task",         "--truncate", "--top-k",   "--predictions", "--official-predictions",
      "--score",        "--encoding", "--json",    "--output",      "--adapter",
      "--skip-invalid", "--dtype",    "--threads", "--quiet",       "--help"};
  for (const CLI::Option* option : verb.get_options()) {
    const std::string name = option->get_name();
    const bool is_heeded = !option->nonpositional() || option->get_group() == kRetrievalGroup ||
                           std::find(kHeeded.begin(), kHeeded.end(), name) != kHeeded.end();
    if (option->count() > 0 && !is_heeded) {
      throw UsageError(name, "expected without --task retrieval, which has no use for it");
    }
  }
}

/// DATA stands alone after --score; otherwise MODEL comes first.
void check(const CLI::App& verb, const EvaluateFlags& flags) {
  check_retrieval(verb, flags);
  check_record_file("--predictions", flags.predictions);
  check_record_file("--losses", flags.characters.losses());
  if (flags.options.task == kRetrieval)
    check_official(flags.official_predictions, flags.options.task);
  if (const std::string suffix = suffix_of(flags.selected); !suffix.empty() && suffix != ".json") {
    throw UsageError("--write-selected", fmt::format("expected a name that ends in .json, found {}",
                                                     in_quotes(flags.selected)));
  }
  const auto refuse_without = [](const char* argument, bool is_there) {
    if (is_there) return;
    throw UsageError(fmt::format("{} is required; see 'longformer evaluate --help'", argument));
  };
  refuse_without(flags.score.empty() ? "MODEL" : "DATA", !flags.model.model.empty());
  refuse_without("DATA", !flags.score.empty() || !flags.data.empty());
  if (flags.score.empty()) return;
  if (!flags.data.empty()) {
    throw UsageError("--score compares a file of predictions with DATA: leave out MODEL");
  }
  if (!flags.predictions.empty() || !flags.official_predictions.empty() ||
      !flags.selected.empty()) {
    throw UsageError("--score reads predictions: leave out what would write some");
  }
}

}  // namespace

void add_evaluate(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<EvaluateFlags>();
  CLI::App& verb = add_verb(
      program,
      {.name = "evaluate",
       .description = "Measure how well a model does on a data set.",
       .details = "The head of the model says what is measured: accuracy and F1 of classes, "
                  "correlation of numbers, F1 of entities, exact match and F1 of answers, accuracy "
                  "of choices, ROUGE of texts that a decoder writes, the perplexity of masked "
                  "tokens on plain text, or the bits per character of a language model. "
                  "--task retrieval searches in the corpus of a folder of BEIR (corpus.jsonl, "
                  "queries.jsonl, qrels/test.tsv) as 'longformer search' does: nDCG, MRR, MAP and "
                  "recall of trec_eval.",
       .examples =
           "longformer evaluate MODEL reviews.jsonl --truncate\n"
           "longformer evaluate MODEL aclImdb/test --stride 512 --json\n"
           "longformer evaluate MODEL dev-v2.0.json --stride 128 --predictions said.jsonl\n"
           "longformer evaluate MODEL test.conll\n"
           "longformer evaluate LED test.jsonl --truncate --num-beams 4 --max-length 256 "
           "--predictions said.jsonl\n"
           "longformer evaluate MODEL qa/wikipedia-dev.json --truncate "
           "--official-predictions said.json\n"
           "longformer evaluate MODEL test.conll --official-predictions said.conll\n"
           "longformer evaluate --score said.conll test.conll\n"
           "longformer evaluate MODEL hotpot_dev_distractor_v1.json "
           "--official-predictions said.json\n"
           "longformer evaluate STAGE1 hotpot_train_v1.1.json --write-selected short.json\n"
           "longformer evaluate MODEL scifact --task retrieval --index scifact.index\n"
           "longformer evaluate MODEL scifact --task retrieval --rerank RERANKER --top-k 100\n"
           "longformer evaluate --score run.trec scifact --task retrieval\n"
           "longformer evaluate MODEL novel.txt --mask-every 7\n"
           "longformer evaluate CHARACTER-MODEL enwik8 --part test --streaming"});
  add_model(verb, flags->model);
  add_data(verb, *flags);
  add_scoring(verb, *flags);
  add_fields(verb, fields(flags->retrieval));
  verb.add_option("--rerank", flags->reranker,
                  "a third stage: this cross-encoder scores the best passages again")
      ->type_name("MODEL")
      ->group(kRetrievalGroup);
  verb.get_option("--rerank-depth")->needs(verb.get_option("--rerank"));
  flags->characters.add(verb);
  add_results(verb, flags->model);
  add_compute(verb, flags->model);
  add_device(verb, flags->model);
  verb.callback([flags, &verb, &action] {
    check(verb, *flags);
    static_cast<void>(form_of(flags->model));
    if (flags->options.task == kRetrieval) check_heeded(verb);
    static_cast<void>(flags->characters.options());
    action = [flags](Messages& messages) { run(*flags, messages); };
  });
}

}  // namespace longformer::cli
