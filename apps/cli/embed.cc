// longformer embed: documents to vectors.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <variant>

#include "document_stream.h"
#include "longformer/embedding.h"
#include "longformer/error.h"
#include "option_flags.h"
#include "output.h"
#include "output_files.h"
#include "read_ahead.h"
#include "results.h"
#include "resumed_output.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

/// Text of one call of the library: enough for full batches, little enough to hold all vectors when
/// every token has one.
constexpr std::size_t kUnitBytes = std::size_t{1} << 18;
constexpr std::size_t kUnitDocuments = 256;

enum class Format { text, json, npy, table };
constexpr std::array kVectorFormats =
    std::to_array<NamedFormat<Format>>({{".txt", "text", Format::text},
                                        {".jsonl", "json", Format::json},
                                        {".ndjson", "json", Format::json},
                                        {".json", "json", Format::json},
                                        {".npy", "npy", Format::npy},
                                        {".csv", "csv", Format::table},
                                        {".tsv", "tsv", Format::table}});

constexpr const char* kPassages = "passages";

struct EmbedFlags {
  ModelFlags model;
  InputOptions inputs;
  EmbedOptions options;
  Embedder::PassageOptions passages;
  /// A vector per passage, which is no pooling of the library.
  bool has_passages = false;
  /// Other kinds of vectors.
  bool sparse = false, multi = false;
  KindOptions kinds;
  std::string output;
  std::string format;
  /// Goes on with the files of a run that has ended early.
  bool resume = false;

  bool many_rows() const { return multi || has_passages || options.pooling == Pooling::tokens; }

  KindOptions kind_options() const {
    KindOptions all = kinds;
    all.kinds = {.sparse = sparse, .multi = multi};
    all.text = options;
    return all;
  }

  Format chosen_format() const {
    for (const auto& known : kVectorFormats) {
      if (!format.empty() && format == known.name) return known.format;
    }
    const auto* known = format_of_output(output, kVectorFormats);
    const Format by_name = known != nullptr ? known->format : Format::text;
    // Beside an array JSON describes the documents.
    const bool is_own = by_name == Format::npy || by_name == Format::table;
    return model.json && !is_own ? Format::json : by_name;
  }
};

void check_kinds(const EmbedFlags& flags) {
  const bool has_kind = flags.sparse || flags.multi;
  if (!has_kind && flags.kinds.role == TextRole::query) {
    throw UsageError(
        "--as-query is for --sparse or --multi; for other vectors: --prompt-name query");
  }
  if (!flags.sparse && flags.kinds.top_k) throw UsageError("--top-k is for --sparse");
  if (has_kind && (flags.has_passages || flags.options.pooling)) {
    throw UsageError("--pooling is for vectors of texts, not for --sparse or --multi");
  }
  if (has_kind && (flags.options.normalize || flags.options.truncate_dim)) {
    throw UsageError(
        "--normalize and --truncate-dim are for vectors of texts, not for --sparse or --multi");
  }
  if (flags.sparse && flags.chosen_format() == Format::npy) {
    throw UsageError("--sparse writes text or JSON, no NumPy array");
  }
}

void check_resume(const EmbedFlags& flags) {
  if (!flags.resume) return;
  if (flags.output.empty()) {
    throw UsageError("--resume", "expected a file to go on with: add --output vectors.npy");
  }
  const Format format = flags.chosen_format();
  const std::string suffix = suffix_of(flags.output);
  if (format == Format::text || format == Format::table || suffix == ".json" || suffix == ".txt") {
    throw UsageError("--resume", fmt::format("expected an output that can grow, .npy or .jsonl, "
                                             "found {}",
                                             in_quotes(flags.output)));
  }
  const std::string lines = resumed_names(flags.output).lines;
  if (format == Format::npy && (flags.model.json || lines == flags.output)) {
    throw UsageError(
        "--resume",
        fmt::format("the lines of JSON are in '{}' beside the array: {}", lines,
                    flags.model.json ? "leave out --json" : "give the array another name"));
  }
}

/// All that the vectors depend on, and what is read.
RunSettings settings_of(const EmbedFlags& flags, const Embedder& embedder) {
  EmbedFlags copy = flags;
  RunSettings settings = {
      {"model", flags.model.model},
      {"fingerprint",
       fmt::format("{:016x}-{:016x}-{:016x}", embedder.fingerprint(),
                   embedder.tokenizer_fingerprint(), embedder.settings_fingerprint())},
      {"dtype", flags.model.dtype},
      {"int8_skip", fmt::format("{}", fmt::join(flags.model.int8_skip, ","))},
      {"field", flags.inputs.are_tables ? flags.inputs.table.text_field : ""},
      {"id_field", flags.inputs.table.id_field},
      {"delimiter", flags.inputs.table.delimiter},
      {"columns", fmt::format("{}", fmt::join(flags.inputs.table.columns, ","))},
      {"no_quotes", flags.inputs.table.quotes ? "" : "true"},
      {"encoding", flags.inputs.encoding().name},
      {"lines", fmt::format("{}", flags.inputs.lines)},
      {"shard", flags.inputs.shard.text()},
      {"sparse", fmt::format("{}", flags.sparse)},
      {"multi", fmt::format("{}", flags.multi)},
      {"pooling_passages", fmt::format("{}", flags.has_passages)},
  };
  OptionFields options =
      without(fields(copy.options), {"batch_tokens", "prompt", "prompt_name", "max_length"});
  for (OptionField& field : only(fields(copy.passages), {"passage_tokens", "context"})) {
    options.push_back(std::move(field));
  }
  for (OptionField& field : fields(copy.kinds)) options.push_back(std::move(field));
  for (OptionField& field : options) {
    field.help = "{}";
    settings.emplace_back(field.name, help_of(field));
  }
  settings.emplace_back("prompt", embedder.prompt(flags.options));
  settings.emplace_back("max_length", fmt::format("{}", embedder.max_length(flags.options)));
  return settings;
}

void check(const EmbedFlags& flags) {
  check_kinds(flags);
  check_resume(flags);
  if (flags.has_passages && flags.options.too_long != TooLong::refuse) {
    throw UsageError(
        "--pooling passages reads documents of any length: leave out --truncate and --split");
  }
  if (!flags.has_passages && flags.passages.context) {
    throw UsageError("--context is for passages: add --pooling passages");
  }
  if (flags.chosen_format() == Format::table && flags.model.json) {
    throw UsageError("--json", fmt::format("expected a name that ends in .jsonl, .json or .npy "
                                           "beside it, found {}",
                                           in_quotes(flags.output)));
  }
  const bool npy_to_stdout = flags.chosen_format() == Format::npy && flags.output.empty();
  if (npy_to_stdout && flags.model.json) {
    throw UsageError("--json and --format npy both want stdout: name a file with --output");
  }
}

/// Target of vectors, in each of the formats. Keeps the place of documents that failed.
class VectorWriter {
 public:
  VectorWriter(const EmbedFlags& flags, const Embedder& embedder, std::int64_t embedding_size)
      : flags_(flags),
        format_(flags.chosen_format()),
        columns_(static_cast<std::size_t>(embedding_size)),
        ids_(flags.resume ? "" : flags.output) {
    if (format_ == Format::table) {
      table_.emplace(flags.output);
      table_->set_columns(columns_of_table());
      return;
    }
    if (flags.resume) {
      resumed_.emplace(flags.output, format_ == Format::npy ? embedding_size : 0,
                       settings_of(flags, embedder));
      rows_ = resumed_->rows();
      return;
    }
    if (!flags.output.empty()) file_.emplace(flags.output);
    if (format_ != Format::npy) return;
    if (output().is_terminal()) {
      throw UsageError("a NumPy array is no text for a terminal: name a file with --output");
    }
    npy_.emplace(output(), embedding_size);
  }

  /// The files of --resume.
  std::optional<ResumedOutput>& resumed() { return resumed_; }

  void write(const Document& document, const Embedding& embedding) {
    if (format_ == Format::text) {
      write_text(embedding.values);
      return;
    }
    if (format_ == Format::table) return write_table(document, embedding);
    put(embedding.values, [&] { return described(document, embedding); });
    if (npy_) ids_.add(document, embedding.rows);
    rows_ += embedding.rows;
  }

  void write(const Document& document, const SparseEmbedding& embedding,
             const Tokenizer& tokenizer) {
    if (format_ == Format::table) {
      const std::string object = to_json(embedding, tokenizer);
      return table_->add(document.json().add_members(object).object());
    }
    if (format_ == Format::json) {
      put({}, [&] { return document.json().add_members(to_json(embedding, tokenizer)).object(); });
      return;
    }
    std::vector<TokenWeight> weights = embedding.weights;
    std::ranges::stable_sort(weights, std::greater(), &TokenWeight::weight);
    std::vector<std::string> pairs;
    for (const TokenWeight& one : weights) {
      pairs.push_back(fmt::format("{}:{}", tokenizer.token(one.token), one.weight));
    }
    output().write(fmt::format("{}\n", fmt::join(pairs, " ")));
  }

  void write_failed(const Document& document, const std::string& reason) {
    // A file that could not be read may be there when the run is gone on with.
    const bool is_document = document.line > 0 || document.error.empty();
    if (resumed_ && (document.is_repeated || !is_document)) return;
    if (table_) return table_->add(document.json().add("error", reason).object());
    const bool has_row = !flags_.many_rows();
    if (has_row && format_ == Format::text) output().write("\n");
    std::vector<float> row;
    if (has_row && format_ == Format::npy) {
      row.assign(columns_, std::numeric_limits<float>::quiet_NaN());
      if (npy_) ids_.add(document, 1);
      ++rows_;
    }
    put(row, [&] {
      JsonLine json = document.json();
      json.add("error", reason);
      if (resumed_ && !has_row) json.add("rows", std::int64_t{0});
      return json.object();
    });
  }

  void flush() {
    if (resumed_) return resumed_->flush();
    if (format_ != Format::npy && !table_) output().flush();
  }

  void finish() {
    if (resumed_) resumed_->finish();
    if (table_) return table_->finish();
    if (npy_) npy_->finish();
    ids_.finish();
    output().finish();
  }

 private:
  Output& output() { return file_ ? *file_ : stdout_; }
  /// JSON lines that describe an array go to stdout.
  Output& lines() { return npy_ ? stdout_ : output(); }

  std::vector<std::string> columns_of_table() const {
    std::vector<std::string> all = {"tokens", "truncated"};
    if (flags_.sparse) return columns_of_documents({"tokens", "truncated", "sparse"});
    if (flags_.many_rows()) all.insert(all.end(), {"row", "begin", "end"});
    for (std::size_t i = 0; i < columns_; ++i) all.push_back(fmt::format("v{}", i));
    return columns_of_documents(all);
  }

  /// A row for each vector.
  void write_table(const Document& document, const Embedding& embedding) {
    for (std::int64_t i = 0; i < embedding.rows; ++i) {
      JsonLine row = document.json();
      row.add("tokens", embedding.tokens).add("truncated", embedding.truncated);
      const auto place = static_cast<std::size_t>(i);
      if (flags_.many_rows()) {
        const CharacterSpan span = embedding.spans[place];
        row.add("row", i).add("begin", span.begin).add("end", span.end);
      }
      const auto values = std::span(embedding.values).subspan(place * columns_, columns_);
      for (std::size_t v = 0; v < values.size(); ++v) row.add(fmt::format("v{}", v), values[v]);
      table_->add(row.object());
    }
  }

  void write_text(std::span<const float> values) {
    for (std::size_t i = 0; i < values.size(); i += columns_) {
      output().write(fmt::format("{}\n", fmt::join(values.subspan(i, columns_), " ")));
    }
  }

  /// Rows of the array, where there is one, and the JSON object about a document, where it is
  /// asked for.
  template <typename Object>
  void put(std::span<const float> rows, const Object& object) {
    if (resumed_) return resumed_->add(object(), format_ == Format::npy ? rows : decltype(rows)());
    if (npy_ && !rows.empty()) npy_->write_rows(rows);
    if (format_ == Format::json || flags_.model.json) lines().write_object(object());
  }

  std::string described(const Document& document, const Embedding& embedding) const {
    EmbeddingForm form = {.many_rows = flags_.many_rows()};
    if (format_ == Format::npy) form.first_row = rows_;
    return document.json().add_members(to_json(embedding, form)).object();
  }

  const EmbedFlags& flags_;
  Format format_;
  std::size_t columns_;
  Output stdout_;
  std::optional<Output> file_;
  std::optional<NpyWriter> npy_;
  std::optional<RecordFile> table_;
  RowIds ids_;
  std::optional<ResumedOutput> resumed_;
  std::int64_t rows_ = 0;
};

class EmbedRun {
 public:
  EmbedRun(const EmbedFlags& flags, Messages& messages)
      : flags_(flags),
        messages_(messages),
        options_(flags.options),
        documents_(flags.inputs, messages),
        embedder_(Embedder::load(flags.model.encoder_folder(), flags.model.load_options(messages))),
        writer_(flags, embedder_,
                flags.multi ? embedder_.multi_size() : embedder_.embedding_size(options_)) {
    // An option that the model cannot take is no fault of a document.
    static_cast<void>(embedder_.max_length(options_));
    static_cast<void>(embedder_.prompt(options_));
    documents_.advise(kSplitAdvice);
    documents_.write_failures([this](const Document& document, const std::string& reason) {
      writer_.write_failed(document, reason);
    });
    if (flags.resume) leave_out_what_is_done();
  }

  void run() {
    const std::size_t most = flags_.has_passages ? 1 : kUnitDocuments;
    ReadAhead reader([this](Document& document) { return documents_.read(document); },
                     flags_.inputs, {.documents = most, .bytes = kUnitBytes});
    documents_.in_units([&] { return reader.next(); },
                        [this](const TextUnit& unit) { return embedded(unit); },
                        [this](const Document& document, const VectorsOutcome& outcome) {
                          return say(document, outcome.vectors);
                        },
                        [this] { writer_.flush(); });
    writer_.finish();
  }

 private:
  void leave_out_what_is_done() {
    ResumedOutput& resumed = *writer_.resumed();
    if (resumed.documents() > 0) {
      const std::string failed =
          resumed.failed_before() > 0
              ? fmt::format(", {} of them without a vector: their lines say why",
                            resumed.failed_before())
              : "";
      messages_.note(fmt::format("{}: {} done before{}", flags_.output,
                                 counted(resumed.documents(), "document"), failed));
    }
    if (resumed.failed_before() > 0) messages_.failed();
    documents_.leave_out([&resumed](Document& document) { return resumed.is_done(document); });
  }

  std::vector<VectorsOutcome> embedded(const TextUnit& unit) {
    if (unit.texts.empty()) return {};
    try {
      if (flags_.sparse || flags_.multi) {
        std::vector<EmbedInput> inputs;
        for (const std::string& text : unit.texts) inputs.push_back({.text = text});
        return embedder_.vectors_each(inputs, flags_.kind_options(), unit.progress);
      }
      std::vector<VectorsOutcome> found;
      if (flags_.has_passages) {
        found.emplace_back().vectors.dense =
            embedder_.embed_passages(unit.texts[0], flags_.passages, options_, unit.progress);
        return found;
      }
      for (EmbedOutcome& one : embedder_.embed_each(unit.texts, options_, unit.progress)) {
        found.push_back({.error = std::move(one.error), .vectors = {}, .remedies = one.remedies});
        found.back().vectors.dense = std::move(one.embedding);
      }
      return found;
    } catch (const Error& error) {
      if (is_about_passages(error)) throw;
      return std::vector<VectorsOutcome>(
          unit.texts.size(), {.error = error.document() == 0 ? error.reason() : error.what(),
                              .vectors = {},
                              .remedies = error.remedies()});
    }
  }

  /// Gives the tokens of the document.
  std::int64_t say(const Document& document, const TextVectors& vectors) {
    if (flags_.sparse) {
      note_length(document, vectors.sparse.tokens, vectors.sparse.truncated);
      writer_.write(document, vectors.sparse, embedder_.tokenizer());
      return vectors.sparse.tokens;
    }
    const Embedding& embedding = flags_.multi ? vectors.multi : vectors.dense;
    note_length(document, embedding.tokens, embedding.truncated);
    writer_.write(document, embedding);
    return embedding.tokens;
  }

  void note_length(const Document& document, std::int64_t tokens, std::int64_t truncated) {
    const std::int64_t limit = embedder_.max_length(options_);
    if (truncated > 0) {
      documents_.note_length(document, tokens, truncated, 1);
    } else if (options_.too_long == TooLong::split && tokens > limit) {
      messages_.note(fmt::format("{}: {} tokens, read in overlapping segments of {}",
                                 document.label(), tokens, limit));
    }
  }

  const EmbedFlags& flags_;
  Messages& messages_;
  EmbedOptions options_;
  DocumentStream documents_;
  Embedder embedder_;
  VectorWriter writer_;
};

/// The pooling of the library, and passages.
OptionField pooling_field(OptionField field, bool& has_passages) {
  const auto of_library = std::get<OptionField::Text>(field.value);
  const auto read = [of_library, &has_passages](const std::string& text) {
    has_passages = text == kPassages;
    if (!has_passages) of_library.read(text);
  };
  field.value = OptionField::Text{read, of_library.shown};
  field.choices.emplace_back(kPassages);
  field.help =
      "cls, mean, max, mean_sqrt_len_tokens, lasttoken, tokens (a vector per token) or "
      "passages (a vector per passage); else what the folder says, else mean";
  return field;
}

void add_options(CLI::App& verb, EmbedFlags& flags) {
  const OptionFields passages = fields(flags.passages);
  for (const OptionField& field : fields(flags.options)) {
    if (field.name == "batch_tokens") continue;
    add_fields(verb, {field.name == "pooling" ? pooling_field(field, flags.has_passages) : field});
    if (field.name == "pooling") add_fields(verb, only(passages, {"passage_tokens", "context"}));
  }
  verb.add_flag("--sparse", flags.sparse,
                "weights of entries of the vocabulary: SPLADE, a masked-LM head, or bge-m3");
  verb.add_flag("--multi", flags.multi,
                "a vector for each token: ColBERT, PyLate, MultiVectorEncoder or bge-m3")
      ->excludes("--sparse");
  add_fields(verb, fields(flags.kinds));
  verb.add_flag_callback(
          "--global-first-token",
          [&flags] { flags.options.global_attention = GlobalAttention::parse("cls"); },
          "the same as --global-attention cls")
      ->excludes(verb.get_option("--global-attention"));
  add_output(
      verb, flags.output,
      "write to this file instead of stdout; the form follows from .txt, .jsonl, .json, .csv, "
      ".tsv or .npy (ids of its rows stand in .ids.csv beside it)");
  add_choice(verb, "--format", flags.format, {"text", "json", "npy"},
             "text, json or npy; else by the name of --output, else text");
  verb.add_flag("--resume", flags.resume,
                "write .npy (with lines of JSON beside it) or .jsonl in groups that outlive the "
                "process, and leave out documents that are in them");
}

}  // namespace

void add_embed(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<EmbedFlags>();
  CLI::App& verb = add_verb(
      program,
      {.name = "embed",
       .description = "Turn documents into vectors.",
       .details = "A document that is longer than the model is an error unless --truncate "
                  "or --split is given.",
       .examples = "longformer embed MODEL --text \"one sentence\"\n"
                   "longformer embed MODEL novels/*.txt --split --output novels.npy\n"
                   "longformer embed MODEL articles.jsonl --text-field text --json\n"
                   "longformer embed MODEL corpus/*.jsonl --text-field text -o vectors-3.npy "
                   "--resume --shard 3/8\n"
                   "longformer embed SPLADE articles.jsonl --text-field text --sparse --json"});
  add_model(verb, flags->model);
  add_inputs(verb, flags->inputs);
  add_options(verb, *flags);
  add_json(verb, flags->model);
  add_compute(verb, flags->model);
  add_device(verb, flags->model);
  verb.callback([flags, &action] {
    check(*flags);
    action = [flags](Messages& messages) { EmbedRun(*flags, messages).run(); };
  });
}

}  // namespace longformer::cli
