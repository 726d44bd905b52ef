// longformer rerank: texts in the order of their relevance to a query.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "advice.h"
#include "document_stream.h"
#include "longformer/reranking.h"
#include "option_flags.h"
#include "verbs.h"

namespace longformer::cli {

namespace {

struct RerankFlags {
  ModelFlags model;
  InputOptions inputs;
  std::string query;
  bool returns_text = false;
  RerankOptions options;

  bool keeps_texts() const { return returns_text || options.relevant_spans > 0; }
};

class RerankRun {
 public:
  RerankRun(const RerankFlags& flags, Messages& messages)
      : flags_(flags),
        documents_(flags.inputs, flags.model, messages, columns(flags)),
        reranker_(
            Reranker::load(flags.model.encoder_folder(), flags.model.load_options(messages))) {}

  void run() {
    reranker_.score([this] { return next_pair(); },
                    [this](const RerankOutcome& outcome) { take(outcome); }, flags_.options);
    documents_.finish();
    std::ranges::stable_sort(scored_, std::ranges::greater(),
                             [](const Scored& one) { return one.ranked.outcome.logit; });
    const auto shown =
        std::min(scored_.size(),
                 static_cast<std::size_t>(flags_.options.top_n.value_or(std::ssize(scored_))));
    for (std::size_t i = 0; i < shown; ++i) {
      RankedText& ranked = scored_[i].ranked;
      if (flags_.options.relevant_spans > 0) {
        ranked.spans = reranker_.relevant_spans(flags_.query, scored_[i].text, flags_.options);
      }
      documents_.results().has_rows() ? write_json(scored_[i], i + 1) : write_text(scored_[i]);
    }
    documents_.results().finish();
  }

 private:
  static std::vector<std::string> columns(const RerankFlags& flags) {
    std::vector<std::string> names = {"rank", "score", "tokens", "truncated", "segments"};
    if (flags.options.relevant_spans > 0) names.emplace_back("relevant_spans");
    if (flags.returns_text) names.emplace_back("text");
    return names;
  }

  /// A text with its score.
  struct Scored {
    Document document;
    /// Empty unless RerankFlags::keeps_texts().
    std::string text = {};
    RankedText ranked = {};
  };

  /// Called on the thread of the tokenizer.
  std::optional<QueryText> next_pair() {
    auto document = documents_.next();
    if (!document) return std::nullopt;
    if (flags_.keeps_texts()) texts_.push(document->text, 0);
    return QueryText{.query = flags_.query, .text = std::move(document->text)};
  }

  void take(const RerankOutcome& outcome) {
    Scored scored = {.document = documents_.take()};
    if (flags_.keeps_texts()) {
      auto text = texts_.pop();
      if (!text) throw std::logic_error("an outcome without a text");
      scored.text = std::move(text->item);
    }
    if (outcome.error.empty()) {
      documents_.note_length(scored.document, outcome.tokens, outcome.truncated, outcome.segments);
      scored.ranked.outcome = outcome;
      scored_.push_back(std::move(scored));
    } else {
      documents_.fail(scored.document, advised(outcome.error, outcome.remedies));
    }
    documents_.done(outcome.tokens);
  }

  void write_json(const Scored& scored, std::size_t rank) {
    JsonLine json = scored.document.json();
    json.add("rank", static_cast<std::int64_t>(rank));
    json.add_members(to_json(scored.ranked, flags_.options.relevant_spans > 0));
    if (flags_.returns_text) json.add("text", scored.text);
    documents_.results().add(json);
  }

  void write_text(const Scored& scored) {
    std::string line =
        fmt::format("{}\t{:.4f}", scored.document.field(), scored.ranked.outcome.score);
    for (const RelevantSpan& one : scored.ranked.spans) {
      line += fmt::format("\t{}-{}\t{:.4f}", one.span.begin, one.span.end, one.score);
    }
    if (flags_.returns_text) line += "\t" + on_one_line(scored.text);
    documents_.output().write(line + "\n");
  }

  const RerankFlags& flags_;
  DocumentStream documents_;
  Reranker reranker_;
  Waiting<std::string> texts_;
  std::vector<Scored> scored_;
};

}  // namespace

void add_rerank(CLI::App& program, Action& action) {
  const auto flags = std::make_shared<RerankFlags>();
  CLI::App& verb = add_verb(
      program,
      {.name = "rerank",
       .description = "Put texts in the order of their relevance to a query.",
       .details =
           "The model is a cross-encoder: a sequence-classification head of one class, which "
           "reads query and text together. Scores equal those of sentence-transformers' "
           "CrossEncoder. A text that is too long for the model is read in segments, and "
           "the best one counts; --truncate cuts it, as the package does. Prints file and "
           "score of each text, best first, tab-separated.",
       .examples = "longformer rerank MODEL \"How did the dog die?\" chapters/*.txt --top-n 3\n"
                   "longformer rerank MODEL \"white rabbit\" passages.txt --lines --json\n"
                   "longformer rerank MODEL \"who was it?\" hits.jsonl --text-field body "
                   "--relevant-spans 2 --json"});
  add_model(verb, flags->model);
  verb.add_option("QUERY", flags->query, "what the texts should be relevant to")
      ->type_name("")
      ->required();
  add_inputs(verb, flags->inputs);
  add_fields(verb, fields(flags->options));
  verb.add_flag("--return-text", flags->returns_text, "print the texts too");
  add_results(verb, flags->model);
  add_compute(verb, flags->model);
  verb.callback([flags, &action] {
    action = [flags](Messages& messages) { RerankRun(*flags, messages).run(); };
  });
}

}  // namespace longformer::cli
