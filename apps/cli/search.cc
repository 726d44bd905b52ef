// longformer search: questions answered by the best passages of whole documents.
#include "longformer/search.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "advice.h"
#include "help.h"
#include "longformer/error.h"
#include "output.h"
#include "progress.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

constexpr std::size_t kTextWidth = 96;

struct SearchFlags {
  ModelFlags model;
  InputOptions inputs;
  std::vector<std::string> queries;
  std::int64_t top_k = 3;
  std::string index;
  std::int64_t passage_tokens = 128;
  bool passage_tokens_given = false;
  std::string context;
  std::optional<std::string> passage_prompt;
  std::optional<std::string> query_prompt;

  SearchOptions options() const {
    SearchOptions options;
    options.passages.passage_tokens = passage_tokens;
    if (!context.empty()) options.passages.context = passage_context(context);
    options.passage_prompt = passage_prompt;
    return options;
  }
};

const char* context_name(const SearchOptions& options) {
  return options.passages.context == PassageContext::document ? "document" : "none";
}

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class SearchRun {
 public:
  SearchRun(const SearchFlags& flags, Messages& messages)
      : flags_(flags),
        messages_(messages),
        embedder_(Embedder::load(flags.model.encoder_folder(), flags.model.load_options(messages))),
        index_(open_index()) {}

  void run() {
    const Stopwatch watch;
    add_documents();
    index_seconds_ = watch.seconds();
    if (!flags_.index.empty() && added_ > 0) index_.save(flags_.index);
    print_summary();
    if (index_.passages() == 0)
      throw Error("no document to search in: every input failed or was empty");
    for (const std::string& question : flags_.queries) answer(question);
    if (flags_.queries.empty()) answer_lines();
    output_.finish();
  }

 private:
  SearchIndex open_index() {
    const SearchIndex fresh(embedder_, flags_.options());
    if (flags_.index.empty() || !std::filesystem::exists(flags_.index)) {
      if (!flags_.index.empty() && flags_.inputs.files.empty()) {
        throw Error(fmt::format("no index '{}', and no files to make it of", flags_.index));
      }
      return fresh;
    }
    SearchIndex index = SearchIndex::load(flags_.index, embedder_);
    compare(index.options(), fresh.options());
    return index;
  }

  /// What the command line says about passages must be what the index has; what the folder says
  /// otherwise is told.
  void compare(const SearchOptions& found, const SearchOptions& wanted) {
    const auto differ = [this](bool given, const std::string& has, const std::string& option,
                               const std::string& value) {
      if (given) {
        throw Error(
            fmt::format("index '{}' has passages {}, {} asks for {}: leave the option out "
                        "or use another file",
                        flags_.index, has, option, value));
      }
      messages_.note(fmt::format("index '{}' has passages {}, and keeps to it; the folder says {}",
                                 flags_.index, has, value));
    };
    if (flags_.passage_tokens_given &&
        found.passages.passage_tokens != wanted.passages.passage_tokens) {
      differ(true, fmt::format("of {} tokens", found.passages.passage_tokens), "--passage-tokens",
             std::to_string(wanted.passages.passage_tokens));
    }
    if (found.passages.context != wanted.passages.context) {
      differ(!flags_.context.empty(), fmt::format("with context {}", context_name(found)),
             "--context", context_name(wanted));
    }
    if (found.passage_prompt != wanted.passage_prompt) {
      differ(flags_.passage_prompt.has_value(),
             fmt::format("behind the prompt '{}'", on_one_line(found.passage_prompt.value_or(""))),
             "--passage-prompt", fmt::format("'{}'", on_one_line(*wanted.passage_prompt)));
    }
  }

  void add_documents() {
    if (flags_.inputs.files.empty()) return;
    Inputs inputs(flags_.inputs);
    ProgressLine progress(inputs.total_documents(), inputs.total_bytes());
    Document document;
    while (inputs.next(document)) {
      const auto bytes = static_cast<std::int64_t>(document.text.size());
      const ProgressCallback report = progress.unit(1, bytes);
      const std::string name = document.label();
      if (!document.error.empty()) {
        messages_.error(name + ": " + document.error);
        continue;
      }
      if (index_.contains(name, document.text)) continue;
      try {
        index_.add(embedder_, name, std::move(document.text), report);
        ++added_;
      } catch (const Error& error) {
        messages_.error(name + ": " + advised(error));
      }
    }
  }

  void print_summary() {
    if (flags_.model.json) return;
    std::string text = fmt::format("{} documents, {} passages", grouped(index_.documents()),
                                   grouped(index_.passages()));
    if (!flags_.inputs.files.empty()) {
      text += fmt::format("; {} documents read in {:.2f} s", grouped(added_), index_seconds_);
    }
    output_.write(text + "\n");
    output_.flush();
  }

  void answer_lines() {
    const bool terminal = isatty(STDIN_FILENO) == 1;
    std::string question;
    while (true) {
      if (terminal) fmt::print(stderr, "question: ");
      if (!std::getline(std::cin, question)) break;
      if (question.ends_with('\r')) question.pop_back();
      if (!question.empty()) answer(question);
    }
  }

  void answer(const std::string& question) {
    const Stopwatch watch;
    std::vector<SearchHit> hits;
    try {
      hits = index_.query(embedder_, question, flags_.top_k, flags_.query_prompt);
    } catch (const Error& error) {
      messages_.error(fmt::format("question '{}': {}", question, advised(error)));
      if (flags_.model.json) {
        output_.write(JsonLine().add("query", question).add("error", advised(error)).line());
      }
      return;
    }
    const double seconds = watch.seconds();
    if (flags_.model.json) {
      print_json(question, hits, seconds);
    } else {
      print_text(question, hits, seconds);
    }
    output_.flush();
  }

  void print_text(const std::string& question, const std::vector<SearchHit>& hits, double seconds) {
    output_.write(fmt::format("\n{}   ({:.1f} ms)\n", question, 1000 * seconds));
    for (std::size_t i = 0; i < hits.size(); ++i) {
      const SearchHit& hit = hits[i];
      output_.write(fmt::format("{:>3}. {:.3f}  {}  characters {}-{}\n", i + 1, hit.score, hit.file,
                                hit.span.begin, hit.span.end));
      output_.write(wrapped(hit.text, kTextWidth, "     "));
    }
  }

  void print_json(const std::string& question, const std::vector<SearchHit>& hits, double seconds) {
    std::vector<JsonLine> objects;
    for (const SearchHit& hit : hits) {
      JsonLine& object = objects.emplace_back();
      object.add("file", hit.file).add("begin", hit.span.begin).add("end", hit.span.end);
      object.add("score", hit.score);
      object.add("text", hit.text);
    }
    JsonLine json;
    json.add("query", question).add_objects("hits", objects).add("seconds", seconds);
    json.add("index_seconds", index_seconds_).add("documents", index_.documents());
    json.add("passages", index_.passages());
    output_.write(json.line());
  }

  const SearchFlags& flags_;
  Messages& messages_;
  Output output_;
  Embedder embedder_;
  SearchIndex index_;
  std::int64_t added_ = 0;
  double index_seconds_ = 0;
};

void check(SearchFlags& flags) {
  const InputOptions& inputs = flags.inputs;
  if (inputs.files.empty() && flags.index.empty()) {
    throw UsageError("nothing to search in: name files, or an index with --index");
  }
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
       .details = "Each passage becomes a vector as a text of its own, or with --context document "
                  "in the context of everything that the model can see around it. Without --query "
                  "each line of stdin is a question.",
       .examples = "longformer search MODEL novels/*.txt --query \"How did the dog die?\"\n"
                   "longformer search MODEL novels/*.txt --index novels.index --query \"…\"\n"
                   "longformer search MODEL --index novels.index --json < questions.txt"});
  add_model(verb, flags->model);
  verb.add_option("FILES", flags->inputs.files, "each file is a document; - is stdin")
      ->type_name("");
  add_repeatable(verb, "--query", flags->queries, "a question; may be repeated");
  verb.add_flag("--lines", flags->inputs.lines, "each line of the files is a document");
  verb.add_option("--field", flags->inputs.field,
                  "each line is a JSON object that holds the document in this field")
      ->type_name("NAME");
  add_number(verb, "--top-k", flags->top_k, {.least = 1, .most = 1 << 20},
             "passages per question (3)");
  verb.add_option("--index", flags->index,
                  "keep the vectors in this file; documents that are in it are not read again")
      ->type_name("FILE");
  CLI::Option* passage = add_number(verb, "--passage-tokens", flags->passage_tokens,
                                    {.least = 1, .most = 1 << 24}, "length of a passage (128)");
  add_context(verb, flags->context);
  verb.add_option("--passage-prompt", flags->passage_prompt,
                  "put this text before every passage; else the prompt 'document' of the folder")
      ->type_name("TEXT");
  verb.add_option("--query-prompt", flags->query_prompt,
                  "put this text before every question; else the prompt 'query' of the folder")
      ->type_name("TEXT");
  add_json(verb, flags->model);
  add_compute(verb, flags->model);
  verb.callback([flags, passage, &action] {
    flags->passage_tokens_given = passage->count() > 0;
    check(*flags);
    action = [flags](Messages& messages) { SearchRun(*flags, messages).run(); };
  });
}

}  // namespace longformer::cli
