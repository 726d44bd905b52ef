// longformer search: questions answered by the best passages of whole documents, and the index that
// holds them.
#include "longformer/search.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>

#include "help.h"
#include "longformer/error.h"
#include "longformer/reranking.h"
#include "longformer/text.h"
#include "option_flags.h"
#include "output.h"
#include "results.h"
#include "search_documents.h"
#include "search_report.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

struct SearchFlags {
  ModelFlags model;
  SearchDocuments documents;
  std::vector<std::string> queries;
  SearchQuery query;
  std::string index, reranker;
  bool list = false, statistics = false;
  std::vector<std::string> removed;
  SearchOptions options;
  bool passage_tokens_given = false;

  bool manages() const { return list || statistics || !removed.empty(); }
};

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// The index of a run, and the model that made it; none for a search by words in a file.
struct OpenIndex {
  std::optional<Embedder> embedder;
  SearchIndex index;
};

OpenIndex open_index(const SearchFlags& flags, Messages& messages) {
  const std::optional<std::string> language = flags.options.language;
  if (flags.model.model.empty()) return {std::nullopt, SearchIndex::open(flags.index, language)};
  const IndexFile file = {.name = flags.index,
                          .reads_documents = !flags.documents.inputs.files.empty()};
  file.check();
  Embedder embedder =
      Embedder::load(flags.model.encoder_folder(), flags.model.load_options(messages));
  const SearchOptions options = with_mode(flags.options, flags.query.mode, embedder);
  SearchIndex index = file.open(embedder, options);
  return {std::move(embedder), std::move(index)};
}

/// Columns of a table, which has a row for each hit.
std::vector<std::string> columns_of_hits() {
  return {"query", "file",   "begin", "end",  "place",    "score", "similarity",
          "words", "sparse", "multi", "text", "metadata", "error"};
}

class SearchRun {
 public:
  SearchRun(const SearchFlags& flags, Messages& messages)
      : flags_(flags),
        messages_(messages),
        open_(open_index(flags, messages)),
        reranker_(loaded_reranker(flags.model, flags.reranker, messages)),
        names_(flags.index, open_.index),
        results_(flags.model, columns_of_hits()) {
    note_language();
    if (!open_.embedder) return;
    compare(index().options(), completed(flags.options, *open_.embedder));
  }

  void run() {
    const Stopwatch watch;
    tell_size_of_tokens();
    if (reads_documents()) {
      added_ = add_documents(flags_.documents, passages_with_vectors(*open_.embedder, index()),
                             index(), names_, messages_);
    }
    index_seconds_ = watch.seconds();
    print_summary();
    if (index().passages() == 0)
      throw Error("no document to search in: every input failed or was empty");
    filter_ = names_.stored(flags_.query.filter);
    index().check(filter_);
    tell_cost_of_tokens();
    for (const std::string& question : flags_.queries) answer(question);
    if (flags_.queries.empty()) answer_lines();
    results_.finish();
  }

 private:
  SearchIndex& index() { return open_.index; }
  bool reads_documents() const { return !flags_.documents.inputs.files.empty(); }

  /// Vectors of tokens are many: their place is told before the work on them.
  void tell_size_of_tokens() {
    if (!index().kinds().multi || !reads_documents()) return;
    messages_.note(fmt::format("multi: each token takes {} bytes in the index and in memory",
                               open_.embedder->multi_size() + 4));
  }

  void tell_cost_of_tokens() {
    const SearchMode mode = flags_.query.mode;
    if (!index().kinds().multi || (mode != SearchMode::multi && mode != SearchMode::hybrid)) return;
    const MultiVectorCost cost = index().multi_cost();
    messages_.note(
        fmt::format("multi: {}, {} in memory, about {:.3f} s for a question of 32 tokens",
                    counted(cost.vectors, "vector"), bytes_text(static_cast<double>(cost.bytes)),
                    cost.seconds));
  }

  /// Another language than that of an index makes its words again.
  void note_language() {
    const std::optional<std::string> former = index().former_language();
    if (!former) return;
    messages_.note(
        fmt::format("index '{}': its words had the language {}, and were made again for {}",
                    flags_.index, *former, *index().options().language));
  }

  /// Options for passages must equal those of the index; a difference of the folder is only
  /// reported.
  void compare(const SearchOptions& found, const SearchOptions& wanted) {
    const auto differ = [&](bool given, const std::string& has, const std::string& option,
                            const std::string& value) {
      if (given) {
        throw Error(
            fmt::format("index '{}' has passages {}, {} asks for {}: leave the option out "
                        "or use another file",
                        flags_.index, has, option, value));
      }
      // A search by words asks nothing of the folder.
      if (found.vectors == VectorKinds()) return;
      messages_.note(fmt::format("index '{}' has passages {}, and keeps to it; the folder says {}",
                                 flags_.index, has, value));
    };
    if (flags_.passage_tokens_given &&
        found.passages.passage_tokens != wanted.passages.passage_tokens) {
      differ(true, "of " + counted(found.passages.passage_tokens, "token"), "--passage-tokens",
             std::to_string(wanted.passages.passage_tokens));
    }
    if (found.passages.context != wanted.passages.context) {
      differ(flags_.options.passages.context.has_value(),
             fmt::format("with context {}", context_name(found)), "--context",
             context_name(wanted));
    }
    if (flags_.options.vectors && found.vectors != flags_.options.vectors) {
      differ(true, "with " + name_of(*found.vectors) + " vectors", "--vectors",
             name_of(*flags_.options.vectors));
    }
    if (found.similarity != wanted.similarity) {
      differ(flags_.options.similarity.has_value(),
             fmt::format("compared by {}", similarity_name(found)), "--similarity",
             similarity_name(wanted));
    }
    if (found.passage_prompt != wanted.passage_prompt) {
      differ(flags_.options.passage_prompt.has_value(),
             fmt::format("behind the prompt '{}'", on_one_line(found.passage_prompt.value_or(""))),
             "--passage-prompt", fmt::format("'{}'", on_one_line(*wanted.passage_prompt)));
    }
  }

  void print_summary() {
    if (results_.has_rows()) return;
    std::string text = fmt::format("{}, {}", counted(index().documents(), "document"),
                                   counted(index().passages(), "passage"));
    if (reads_documents()) {
      text += fmt::format("; {} read in {:.2f} s", counted(added_, "document"), index_seconds_);
    }
    results_.output().write(text + "\n");
    results_.flush();
  }

  void answer_lines() {
    const bool terminal = isatty(STDIN_FILENO) == 1;
    bool any = false;
    TextEncoding encoding = flags_.documents.inputs.encoding();
    encoding.note = encoding_note(messages_);
    TextLines lines("-", encoding);
    std::string question;
    while (true) {
      if (terminal) fmt::print(stderr, "question: ");
      if (!lines.next(question)) break;
      if (question.find_first_not_of(" \t") == std::string::npos) continue;
      any = true;
      answer(question);
    }
    // Documents that were read into an index are work enough.
    if (!any && !terminal && (flags_.index.empty() || !reads_documents())) {
      messages_.error(std::string(kStandardInput) +
                      ": expected a question on each line, found nothing");
    }
  }

  void answer(const std::string& question) {
    const Stopwatch watch;
    SearchAnswer answer = {.question = question, .hits = {}, .note = {}, .seconds = 0};
    SearchQuery query = flags_.query;
    query.question = question;
    if (reranker_) query.reranker = &*reranker_;
    query.note = [&](const std::string& note) { answer.note = note; };
    try {
      query.within = names_.within(flags_.query.within, index());
      query.filter = filter_;
      answer.hits = open_.embedder ? index().query(*open_.embedder, query) : index().query(query);
      ShownNames shown(names_);
      for (SearchHit& hit : answer.hits) hit.file = shown(hit.file);
    } catch (const Error& error) {
      tell_failure("query", question, error, messages_, results_);
      return;
    }
    answer.seconds = watch.seconds();
    if (!answer.note.empty()) {
      messages_.note(fmt::format("question {}: {}", in_quotes(question), answer.note));
    }
    if (results_.has_rows()) {
      const IndexState state = {index().documents(), index().passages(), index_seconds_};
      results_.add_list(answer_json(answer, state), "hits");
    } else {
      Output& output = results_.output();
      output.write_marked(
          answer_text(answer, similarity_name(index().options()), output.is_terminal()));
    }
    results_.flush();
  }

  const SearchFlags& flags_;
  Messages& messages_;
  OpenIndex open_;
  std::optional<Reranker> reranker_;
  IndexNames names_;
  Results results_;
  std::vector<std::string> filter_;
  std::int64_t added_ = 0;
  double index_seconds_ = 0;
};

std::int64_t remove(SearchIndex& index, const IndexNames& names, const std::string& name) {
  const std::vector<IndexedDocument> documents = index.list();
  if (!names.is_around(name)) return index.remove(names.stored_as(name, documents));
  std::int64_t removed = 0;
  for (const IndexedDocument& document : documents) {
    if (is_below(names.path(document.name), whole_path(name))) {
      removed += index.remove(document.name);
    }
  }
  return removed;
}

/// --remove, --list and --stats, which need no model.
void manage(const SearchFlags& flags, Messages& messages) {
  SearchIndex index =
      flags.removed.empty() ? SearchIndex::open(flags.index) : SearchIndex::edit(flags.index);
  const IndexNames names(flags.index, index);
  for (const std::string& name : flags.removed) {
    if (remove(index, names, name) == 0) {
      messages.error(
          fmt::format("{}: no document or folder {} in the index", flags.index, in_quotes(name)));
    }
  }
  const bool is_json = with_form(flags.model).json;
  std::string text;
  if (flags.list) {
    std::vector<IndexedDocument> documents = index.list(names.stored(flags.query.filter));
    ShownNames shown(names);
    for (IndexedDocument& document : documents) document.name = shown(document.name);
    text += documents_text(documents, is_json);
  }
  if (flags.statistics) text += statistics_text(index, flags.index, is_json);
  write_report(flags.model, text);
}

void check(SearchFlags& flags) {
  static_cast<void>(form_of(flags.model));
  const InputOptions& inputs = flags.documents.inputs;
  if (flags.manages()) {
    if (flags.index.empty()) throw UsageError("--list, --stats and --remove need --index");
    if (!flags.model.model.empty() || !flags.queries.empty()) {
      throw UsageError("--list, --stats and --remove take neither a model nor questions");
    }
    if (!flags.query.filter.empty() && !flags.list) {
      throw UsageError("--filter", "expected questions or --list beside it");
    }
    return;
  }
  if (flags.model.model.empty() &&
      (flags.index.empty() || flags.query.mode != SearchMode::lexical)) {
    throw UsageError(
        "no model: only --index with --mode lexical, --list, --stats or --remove "
        "does without; see longformer search --help");
  }
  if (inputs.files.empty() && flags.index.empty()) {
    throw UsageError("nothing to search in: name files, or an index with --index");
  }
  check(flags.documents);
  const bool reads_stdin =
      std::find(inputs.files.begin(), inputs.files.end(), "-") != inputs.files.end();
  if (reads_stdin && flags.queries.empty()) {
    throw UsageError("stdin holds a document, so the questions must come with --query");
  }
}

}  // namespace

void add_search(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<SearchFlags>();
  CLI::App& verb = add_verb(
      program,
      {.name = "search",
       .description = "Find the passages of whole documents that answer a question.",
       .details =
           "Passages are ranked by the words of the question (BM25) and by its meaning: each "
           "passage becomes a vector as a text of its own, or with --context document in the "
           "context of everything that the model can see around it. What stands in "
           "quotation marks in a question must be in a passage, where any has it. Without --query "
           "each line of stdin is a question.",
       .examples =
           "longformer search MODEL novels/*.txt --query \"How did the dog die?\"\n"
           "longformer search MODEL notes --exclude drafts/ --index notes.index --query \"…\"\n"
           "longformer search MODEL --index notes.index --rerank RERANKER --query \"…\"\n"
           "longformer search MODEL --index notes.index --within notes/2024 --json < "
           "questions.txt\n"
           "longformer search MODEL papers.csv --text-field abstract --filter \"year>=2020\" "
           "--query \"…\"\n"
           "longformer search MODEL --index notes.index --filter \"path=*.md\" --filter "
           "\"date>=2024-05\" --query \"…\"\n"
           "longformer search --index notes.index --list"});
  add_model(verb, flags->model)->required(false);
  add_search_documents(verb, flags->documents);
  add_repeatable(verb, "--query", flags->queries, "a question; may be repeated");
  const OptionFields query = fields(flags->query), options = fields(flags->options);
  add_fields(verb, only(query, {"top_k"}));
  verb.add_option("--index", flags->index,
                  "keep passages and vectors in this SQLite file; documents that are in it are "
                  "not read again")
      ->type_name("FILE");
  verb.add_flag("--list", flags->list, "print the documents of the index");
  verb.add_flag("--stats", flags->statistics, "print what the index holds and what made it");
  add_repeatable(verb, "--remove", flags->removed,
                 "take a document out of the index, or all of a folder; may be "
                 "repeated");
  add_fields(verb, only(query, {"mode", "within", "filter"}));
  add_fields(verb, only(options, {"passage_tokens", "context", "language", "similarity",
                                  "passage_prompt", "vectors"}));
  add_fields(verb, only(query, {"query_prompt"}));
  CLI::Option* reranker =
      verb.add_option("--rerank", flags->reranker,
                      "a third stage: this cross-encoder scores the best passages again")
          ->type_name("MODEL");
  add_fields(verb, only(query, {"rerank_depth"}));
  verb.get_option("--rerank-depth")->needs(reranker);
  add_results(verb, flags->model);
  add_compute(verb, flags->model);
  add_device(verb, flags->model);
  const CLI::Option* passage = verb.get_option("--passage-tokens");
  verb.callback([flags, passage, &action] {
    flags->passage_tokens_given = passage->count() > 0;
    check(*flags);
    action = [flags](Messages& messages) {
      check_filter(flags->query.filter);
      if (flags->manages()) return manage(*flags, messages);
      SearchRun(*flags, messages).run();
    };
  });
}

}  // namespace longformer::cli
