// longformer classify: the classes of documents.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "longformer/classification.h"
#include "longformer/error.h"
#include "output.h"
#include "progress.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

struct ClassifyFlags {
  ModelFlags model;
  InputOptions inputs;
  std::int64_t top_k = 1;
  std::string function;
  bool truncate = false;
  std::optional<std::int64_t> stride;
  std::string merge = "mean";
  std::string global_attention;
  std::int64_t batch_tokens = ClassifyOptions().batch_tokens;

  ClassifyOptions options() const {
    ClassifyOptions options;
    if (function == "softmax") options.function = ScoreFunction::softmax;
    if (function == "sigmoid") options.function = ScoreFunction::sigmoid;
    if (function == "none") options.function = ScoreFunction::none;
    if (truncate) options.too_long = TooLong::truncate;
    if (stride) {
      options.too_long = TooLong::split;
      options.stride = *stride;
    }
    options.merge = merge == "max" ? SegmentMerge::max : SegmentMerge::mean;
    options.global_attention = cli::global_attention(global_attention);
    options.batch_tokens = batch_tokens;
    return options;
  }
};

/// Documents that have been read and not yet been answered, in order.
class Waiting {
 public:
  void push(Document document, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    documents_.emplace_back(std::move(document), bytes);
  }
  /// The next document and the size of its text; absent when none waits.
  std::optional<std::pair<Document, std::size_t>> pop() {
    const std::lock_guard lock(mutex_);
    if (documents_.empty()) return std::nullopt;
    auto document = std::move(documents_.front());
    documents_.pop_front();
    return document;
  }

 private:
  std::mutex mutex_;
  std::deque<std::pair<Document, std::size_t>> documents_;
};

class ClassifyRun {
 public:
  ClassifyRun(const ClassifyFlags& flags, Messages& messages)
      : flags_(flags),
        messages_(messages),
        inputs_(flags.inputs),
        classifier_(Classifier::load(flags.model.folder(), flags.model.load_options())),
        progress_(inputs_.total_documents(), inputs_.total_bytes()) {}

  void run() {
    classifier_.classify([this] { return next_text(); },
                         [this](const ClassifyOutcome& outcome) { take(outcome); },
                         flags_.options());
    while (const auto unread = waiting_.pop()) fail(unread->first, unread->first.error);
  }

 private:
  /// The text of the next document that can be read; called on the thread of the tokenizer.
  std::optional<std::string> next_text() {
    Document document;
    while (inputs_.next(document)) {
      const bool readable = document.error.empty();
      std::string text = std::move(document.text);
      document.text.clear();
      waiting_.push(std::move(document), text.size());
      if (readable) return text;
    }
    return std::nullopt;
  }

  void take(const ClassifyOutcome& outcome) {
    while (const auto next = waiting_.pop()) {
      const auto& [document, bytes] = *next;
      if (!document.error.empty()) {
        fail(document, document.error);
        continue;
      }
      const ProgressCallback report = progress_.unit(1, static_cast<std::int64_t>(bytes));
      if (outcome.error.empty()) {
        accept(document, outcome.classification);
      } else {
        fail(document, outcome.error);
      }
      const std::int64_t tokens = outcome.classification.tokens;
      if (report) report({1, 1, tokens, tokens});
      output_.flush();
      return;
    }
  }

  void accept(const Document& document, const Classification& result) {
    if (result.truncated > 0) {
      messages_.note(fmt::format("{}: {} tokens, kept the first {}", document.label(),
                                 result.tokens, result.tokens - result.truncated));
    } else if (result.segments > 1) {
      messages_.note(fmt::format("{}: {} tokens, read in {} segments", document.label(),
                                 result.tokens, result.segments));
    }
    std::span<const ClassScore> best = result.scores;
    if (flags_.top_k > 0) {
      best = best.first(std::min(static_cast<std::size_t>(flags_.top_k), best.size()));
    }
    if (!flags_.model.json) {
      std::string line = document.label();
      for (const ClassScore& one : best) line += fmt::format("\t{}\t{:.4f}", one.label, one.score);
      output_.write(line + '\n');
      return;
    }
    JsonLine json = document.json();
    json.add("tokens", result.tokens).add("truncated", result.truncated);
    json.add("segments", result.segments);
    std::vector<JsonLine> rows;
    for (const ClassScore& one : best) {
      rows.emplace_back().add("label", one.label).add("score", one.score);
    }
    output_.write(json.add_objects("labels", rows).line());
  }

  void fail(const Document& document, const std::string& reason) {
    messages_.error(document.label() + ": " + reason);
    if (flags_.model.json) output_.write(document.json().add("error", reason).line());
  }

  const ClassifyFlags& flags_;
  Messages& messages_;
  Inputs inputs_;
  Classifier classifier_;
  Waiting waiting_;
  Output output_;
  ProgressLine progress_;
};

void add_options(CLI::App& verb, ClassifyFlags& flags) {
  add_number(verb, "--top-k", flags.top_k, {.least = 0, .most = 1 << 20},
             "classes per document, best first; 0 prints all (1)");
  add_choice(verb, "--function-to-apply", flags.function, {"softmax", "sigmoid", "none"},
             "softmax, sigmoid or none; else what the problem type of the model asks for");
  CLI::Option* truncate = verb.add_flag("--truncate", flags.truncate,
                                        "of a document that is too long for the model, keep the "
                                        "first tokens");
  verb.add_option_function<std::int64_t>(
          "--stride", [&flags](std::int64_t tokens) { flags.stride = tokens; },
          "read a document that is too long for the model in segments that overlap by N tokens")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30))
      ->type_name("N")
      ->excludes(truncate);
  add_choice(verb, "--merge", flags.merge, {"mean", "max"},
             "logits of a document: mean or max over its segments (mean)");
  add_global_attention(verb, flags.global_attention);
  add_number(verb, "--batch-tokens", flags.batch_tokens, {.least = 1},
             fmt::format("tokens of one forward pass ({})", flags.batch_tokens));
}

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
                   "longformer classify MODEL articles.jsonl --field text --top-k 3 --json"});
  add_model(verb, flags->model);
  add_inputs(verb, flags->inputs);
  add_options(verb, *flags);
  add_json(verb, flags->model);
  add_compute(verb, flags->model);
  verb.callback([flags, &action] {
    static_cast<void>(flags->options());
    action = [flags](Messages& messages) { ClassifyRun(*flags, messages).run(); };
  });
}

}  // namespace longformer::cli
