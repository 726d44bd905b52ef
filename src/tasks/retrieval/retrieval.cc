#include "tasks/retrieval/retrieval.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <unordered_set>
#include <utility>

#include "core/error.h"
#include "engine/frame/counters.h"
#include "engine/frame/evaluation_run.h"
#include "longformer/search.h"
#include "tasks/retrieval/retrieval_data.h"
#include "tasks/retrieval/retrieval_metrics.h"

namespace longformer {
namespace {

using engine::Json;
using tasks::CorpusDocument;
using tasks::JudgedQuery;
using tasks::Ranking;
using tasks::RetrievalData;

using IdSet = std::unordered_set<std::string>;

/// Result of a first pass over the corpus, before any encoding.
struct Corpus {
  IdSet ids;
  std::int64_t bytes = 0;
};

Corpus survey(const std::string& folder, const DataOptions& options) {
  Corpus corpus;
  engine::DataReport report;
  corpus.ids = tasks::read_corpus(folder, options, report, [&](const CorpusDocument& document) {
    corpus.bytes += std::ssize(document.text);
  });
  return corpus;
}

/// How the passages of a new index are made.
SearchOptions new_passages(const Embedder& embedder, const RetrievalEvaluation& options) {
  SearchOptions search;
  search.passages.context = options.context;
  search.passage_prompt = options.passage_prompt;
  search.vectors = options.vectors;
  search = completed(with_mode(search, options.mode, embedder), embedder);
  // An index keeps its own where none is asked for.
  search.language = options.language;
  if (options.passage_tokens) {
    search.passages.passage_tokens = *options.passage_tokens;
  } else if (search.passages.context == PassageContext::none) {
    const Encoding around = embedder.tokenizer().encode(*search.passage_prompt);
    search.passages.passage_tokens = embedder.max_length() - std::ssize(around.ids);
  }
  return search;
}

/// Prompt of every query.
EmbedOptions prompt_of(const RetrievalEvaluation& options) {
  EmbedOptions prompt;
  prompt.prompt = options.query_prompt;
  prompt.prompt_name = "query";
  return prompt;
}

/// Throws Error where the passages of an index file are not those that are asked for.
void check_passages(const SearchOptions& found, const RetrievalEvaluation& asked) {
  const std::int64_t tokens = found.passages.passage_tokens;
  require(asked.passage_tokens.value_or(tokens) == tokens,
          "{}: expected an index of passages of {} tokens, found one of {}", asked.index,
          asked.passage_tokens.value_or(0), tokens);
  require(!asked.context || asked.context == found.passages.context,
          "{}: expected an index of passages {} the context of their document, found the other",
          asked.index, asked.context == PassageContext::document ? "in" : "without");
  require(!asked.passage_prompt || asked.passage_prompt == found.passage_prompt,
          "{}: expected an index of passages behind the prompt that is asked for, found another",
          asked.index);
}

SearchIndex open_index(const Embedder& embedder, const RetrievalEvaluation& options,
                       const IdSet& corpus) {
  const SearchOptions search = new_passages(embedder, options);
  if (options.index.empty()) return SearchIndex(embedder, search);
  SearchIndex index = SearchIndex::edit(options.index, embedder, search);
  check_passages(index.options(), options);
  for (const IndexedDocument& document : index.list()) {
    require(corpus.contains(document.name),
            "{}: expected an index of this corpus alone, found the document '{}'", options.index,
            document.name);
  }
  return index;
}

/// Progress over documents and queries whose tokens become known one after another.
class Meter {
 public:
  Meter(const ProgressCallback& report, std::int64_t documents, std::int64_t bytes)
      : report_(report), bytes_(bytes) {
    progress_.documents_total = documents;
  }

  /// Callback that reports the document in work.
  ProgressCallback of_document() {
    if (!report_) return {};
    return [this](const Progress& document) { show(document.tokens_done); };
  }
  /// One more is done.
  void done(std::int64_t bytes) {
    ++progress_.documents_done;
    progress_.tokens_done += in_work_;
    in_work_ = 0;
    bytes_done_ += bytes;
    if (report_) show(0);
  }

 private:
  void show(std::int64_t tokens) {
    in_work_ = tokens;
    Progress now = progress_;
    now.tokens_done += tokens;
    const auto share =
        static_cast<double>(bytes_) / static_cast<double>(std::max<std::int64_t>(bytes_done_, 1));
    now.tokens_total =
        std::max(now.tokens_done,
                 static_cast<std::int64_t>(share * static_cast<double>(progress_.tokens_done)));
    report_(now);
  }

  const ProgressCallback& report_;
  Progress progress_;
  std::int64_t bytes_, bytes_done_ = 0, in_work_ = 0;
};

constexpr Counter kUnjudgedQueries = {
    .name = "unjudged_queries",
    .meaning = "retrieval: queries without judgements, which are left out",
    .evaluation = {.one = "left out {n} of {examples+n|query|queries}, which has no judgements",
                   .many = "left out {n} of {examples+n|query|queries}, which have no judgements"},
    .scope = CountScope::data_set};
constexpr Counter kIrrelevantQueries = {
    .name = "irrelevant_queries",
    .meaning = "retrieval: queries with no judgement above 0, which count as 0",
    .evaluation = {.one = "{n} query has judgements but no relevant document, and counts as 0",
                   .many = "{n} queries have judgements but no relevant document, and count as 0"},
    .scope = CountScope::data_set};
constexpr Counter kUnknownDocuments = {
    .name = "unknown_documents",
    .meaning = "retrieval: judgements of documents that the corpus does not have",
    .evaluation = {.one = "{n} judgement is of a document that is not in the corpus; a relevant "
                          "one counts as not found",
                   .many = "{n} judgements are of documents that are not in the corpus; relevant "
                           "ones count as not found"},
    .scope = CountScope::data_set};
constexpr Counter kIdenticalIds = {
    .name = "identical_ids",
    .meaning = "retrieval: hits that were left out because they have the id of their query",
    .evaluation = {.one = "left out {n|hit that has the id|hits that have the id} of their query",
                   .many = "left out {n|hit that has the id|hits that have the id} of their query"},
    .option = "keep_identical_ids",
    .scope = CountScope::data_set};
constexpr std::array kOfQueries = {&kUnjudgedQueries, &kIrrelevantQueries, &kUnknownDocuments,
                                   &kIdenticalIds};
constexpr Counter kDocuments = {.name = "documents",
                                .meaning = "retrieval: documents that were searched",
                                .row = "documents",
                                .is_of_model = true};
constexpr Counter kPassages = {.name = "passages",
                               .meaning = "retrieval: passages that were searched",
                               .row = "passages",
                               .is_of_model = true};

constexpr Counter kRerankedPassages = {
    .name = "reranked_passages",
    .meaning = "retrieval with `--rerank`: passages that the reranker scored",
    .row = "reranked passages",
    .is_of_model = true};
constexpr Counter kRerankedTokens = {
    .name = "reranked_tokens",
    .meaning = "retrieval with `--rerank`: tokens of queries and passages that the reranker read",
    .row = "reranked tokens",
    .is_of_model = true};
constexpr Counter kRerankingMilliseconds = {
    .name = "reranking_milliseconds",
    .meaning = "retrieval with `--rerank`: time of the reranker, for all queries together",
    .row = "reranking, ms",
    .is_of_model = true};

/// Reports on the reading of queries and judgements.
void tell_queries(const RetrievalData& data, Evaluation& result) {
  result.task = kRetrieval;
  for (const Counter* counter : kOfQueries) result.counts[*counter] = 0;
  engine::tell(data.report, result);
  result.examples = std::ssize(data.queries);
  result.counts[kUnjudgedQueries] = data.unjudged;
  for (const JudgedQuery& query : data.queries) {
    const bool has_relevant = std::any_of(query.relevance.begin(), query.relevance.end(),
                                          [](const auto& judged) { return judged.second > 0; });
    result.counts[kIrrelevantQueries] += has_relevant ? 0 : 1;
  }
}

/// Takes the document out that has the id of the query; whether there was one.
bool drop_identical(const std::string& query, Ranking& ranking) {
  return std::erase_if(ranking, [&](const auto& one) { return one.id == query; }) > 0;
}

void predict(const JudgedQuery& query, const Ranking& ranking, const tasks::RetrievalScores& scores,
             const RetrievalEvaluation& options) {
  if (options.official_predictions) {
    options.official_predictions(tasks::run_lines(query.origin.id, ranking));
  }
  if (!options.predictions) return;
  Json prediction = engine::named_prediction(query.origin);
  for (const auto& [name, value] : scores.named()) prediction["metrics"][name] = value;
  Json& found = prediction["ranking"] = Json::array();
  for (const auto& [id, score] : ranking) found.push_back({{"id", id}, {"score", score}});
  options.predictions(engine::prediction_text(prediction, query.origin));
}

/// One evaluation.
class Retrieval {
 public:
  Retrieval(const Embedder& embedder, const std::string& folder, const RetrievalEvaluation& options)
      : embedder_(embedder),
        folder_(folder),
        options_(options),
        data_(tasks::read_retrieval(folder, options.data)),
        corpus_(survey(folder, options.data)),
        index_(open_index(embedder, options, corpus_.ids)),
        prompt_(embedder.prompt(prompt_of(options))),
        meter_(options.progress, std::ssize(corpus_.ids) + std::ssize(data_.queries),
               corpus_.bytes + bytes_of(data_)) {}

  Evaluation run() {
    Evaluation result;
    tell_queries(data_, result);
    left_out_.add_skipped(data_.report);
    check_queries();
    add_documents(result);
    const auto is_unknown = [this](const auto& judged) {
      return !corpus_.ids.contains(judged.first);
    };
    tasks::RetrievalCounter counter;
    engine::DataReport report = {.file = data_.file};
    for (const JudgedQuery& query : data_.queries) {
      result.counts[kUnknownDocuments] +=
          std::count_if(query.relevance.begin(), query.relevance.end(), is_unknown);
      Ranking ranking;
      const std::int64_t before = report.examples;
      const std::string place = engine::place_of(data_.file, query.origin);
      engine::read_record(place, options_.data, report,
                          [&] { ranking = ranking_of(query, result); });
      meter_.done(std::ssize(query.text));
      if (report.examples == before) continue;  // It was left out.
      const tasks::RetrievalScores scores = tasks::retrieval_scores(ranking, query.relevance);
      counter.add(scores);
      predict(query, ranking, scores, options_);
    }
    result.examples = report.examples;
    count_skipped(report, result);
    require(result.examples > 0, "{}: expected a query that can be searched for, found none: {}",
            folder_, result.first_skipped);
    result.counts[kDocuments] = index_.documents();
    result.counts[kPassages] = index_.passages();
    result.metrics = counter.mean().named();
    if (options_.reranker != nullptr) {
      result.counts[kRerankedPassages] = cost_.texts;
      result.counts[kRerankedTokens] = cost_.tokens;
      result.counts[kRerankingMilliseconds] = std::llround(1000 * cost_.seconds);
    }
    return result;
  }

 private:
  void count_skipped(const engine::DataReport& report, Evaluation& result) {
    left_out_.add_skipped(report);
    result.counts[engine::kSkipped] = left_out_.skipped;
    result.first_skipped = left_out_.first_skipped();
  }

  void add(const RerankCost& cost) const {
    cost_.texts += cost.texts;
    cost_.tokens += cost.tokens;
    cost_.seconds += cost.seconds;
  }

  static std::int64_t bytes_of(const RetrievalData& data) {
    std::int64_t bytes = 0;
    for (const JudgedQuery& query : data.queries) bytes += std::ssize(query.text);
    return bytes;
  }

  /// Finds before the work on the corpus the errors that would end the evaluation after it.
  void check_queries() const {
    for (const JudgedQuery& query : data_.queries) {
      if (options_.official_predictions) tasks::check_run_id(query.origin.id);
      engine::DataReport unused;
      engine::read_record(engine::place_of(data_.file, query.origin), options_.data, unused, [&] {
        Evaluation counts;
        count(query, counts);
      });
    }
    if (!options_.official_predictions || data_.queries.empty()) return;
    for (const std::string& id : corpus_.ids) tasks::check_run_id(id);
  }

  /// Throws Error for passages that the model cannot take, which are no fault of a document.
  void check_passages() const { static_cast<void>(index_.prepare(embedder_, "")); }

  void add_documents(Evaluation& result) {
    check_passages();
    engine::DataReport report;
    tasks::read_corpus(folder_, options_.data, report, [&](const CorpusDocument& document) {
      if (!index_.contains(document.id, document.text)) {
        index_.add(embedder_, document.id, document.text, meter_.of_document());
      }
      meter_.done(std::ssize(document.text));
    });
    count_skipped(report, result);
    result.counts[engine::kEmpty] += report.empty;
    require(index_.passages() > 0, "{}: expected a document with text, found none", folder_);
  }

  /// Counts the tokens of a query, of which the model may see the first ones alone.
  void count(const JudgedQuery& query, Evaluation& result) const {
    const std::int64_t tokens = std::ssize(embedder_.tokenizer().encode(prompt_ + query.text).ids);
    const std::int64_t most = embedder_.max_length();
    result.tokens += tokens;
    if (options_.mode == SearchMode::lexical || tokens <= most) return;
    require(options_.too_long != TooLong::refuse, {Remedy::truncate},
            "expected a query of at most {} tokens, found {}", most, tokens);
    if (options_.too_long != TooLong::truncate) return;
    ++result.counts[engine::kTruncatedExamples];
    result.counts[engine::kTruncatedTokens] += tokens - most;
  }

  Ranking ranking_of(const JudgedQuery& query, Evaluation& result) const {
    count(query, result);
    const bool keeps = options_.data.retrieval.keep_identical_ids;
    const SearchQuery search = {.question = query.text,
                                .top_k = options_.top_k + (keeps ? 0 : 1),
                                .mode = options_.mode,
                                .within = {},
                                .prompt = options_.query_prompt,
                                .phrases = false,
                                .too_long = options_.too_long,
                                .reranker = options_.reranker,
                                .rerank_depth = options_.rerank_depth,
                                .reranked = [this](const RerankCost& cost) { add(cost); }};
    Ranking ranking;
    for (RankedDocument& one : index_.rank(embedder_, search)) {
      ranking.push_back({.id = std::move(one.name), .score = one.score});
    }
    tasks::sort_as_trec_eval(ranking);
    if (!keeps && drop_identical(query.origin.id, ranking)) ++result.counts[kIdenticalIds];
    ranking.resize(std::min(ranking.size(), static_cast<std::size_t>(options_.top_k)));
    return ranking;
  }

  const Embedder& embedder_;
  const std::string& folder_;
  const RetrievalEvaluation& options_;
  RetrievalData data_;
  Corpus corpus_;
  SearchIndex index_;
  std::string prompt_;
  Meter meter_;
  mutable RerankCost cost_;
  /// Broken records of queries, judgements and documents.
  engine::DataReport left_out_ = {};
};

}  // namespace

std::vector<const Counter*> tasks::retrieval_counters() {
  std::vector<const Counter*> all = {&engine::kSkipped, &engine::kEmpty};
  all.insert(all.end(), kOfQueries.begin(), kOfQueries.end());
  all.insert(all.end(), {&kDocuments, &kPassages, &kRerankedPassages, &kRerankedTokens,
                         &kRerankingMilliseconds});
  return all;
}

Evaluation evaluate_retrieval(const Embedder& embedder, const std::string& folder,
                              const RetrievalEvaluation& options) {
  const auto begin = std::chrono::steady_clock::now();
  require(options.top_k >= 1, OptionName("top_k", "top-k"), "expected at least 1, found {}",
          options.top_k);
  Evaluation result = Retrieval(embedder, folder, options).run();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  result.seconds = seconds.count();
  return result;
}

Evaluation score_run(const std::string& run, const std::string& folder,
                     const DataOptions& options) {
  const RetrievalData data = tasks::read_retrieval(folder, options);
  auto rankings = tasks::read_run(run);
  const auto missing = std::ranges::count_if(
      data.queries, [&](const JudgedQuery& query) { return !rankings.contains(query.origin.id); });
  require(missing < std::ssize(data.queries), "{}: expected rankings of queries of {}, found none",
          run, folder);
  Evaluation result;
  result.counts[engine::kSkipped] = 0;
  if (missing > 0) result.counts[engine::kMissing] = missing;
  tell_queries(data, result);
  tasks::RetrievalCounter counter;
  for (const JudgedQuery& query : data.queries) {
    Ranking ranking = std::move(rankings[query.origin.id]);
    if (!options.retrieval.keep_identical_ids && drop_identical(query.origin.id, ranking)) {
      ++result.counts[kIdenticalIds];
    }
    counter.add(tasks::retrieval_scores(ranking, query.relevance));
  }
  result.metrics = counter.mean().named();
  return result;
}

}  // namespace longformer
