#include "tasks/retrieval/retrieval_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/words.h"
#include "formats/json.h"

namespace longformer::tasks {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWhitespace = " \t\n\v\f\r";

std::string_view stripped(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kWhitespace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kWhitespace) - begin + 1);
}

/// The parts of a line between tabs, or between any blanks.
std::vector<std::string_view> columns_of(std::string_view line, bool by_tabs) {
  std::vector<std::string_view> columns;
  while (true) {
    if (!by_tabs) line.remove_prefix(std::min(line.find_first_not_of(kWhitespace), line.size()));
    if (!by_tabs && line.empty()) return columns;
    const std::size_t end = by_tabs ? line.find('\t') : line.find_first_of(kWhitespace);
    columns.push_back(line.substr(0, end));
    if (end == std::string_view::npos) return columns;
    line.remove_prefix(end + 1);
  }
}

std::string file_of(const std::string& folder, const std::string& name) {
  require(fs::is_directory(folder),
          "{}: expected a folder with corpus.jsonl, queries.jsonl and qrels, found {}", folder,
          fs::exists(folder) ? "a file" : "none");
  std::string file = fs::path(folder) / name;
  require(fs::is_regular_file(file), "{}: expected the file {} in the folder, found none", folder,
          name);
  return file;
}

/// The names of the splits that have judgements, for messages.
std::string splits_of(const fs::path& folder) {
  std::vector<std::string> names;
  if (fs::is_directory(folder)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      const fs::path& file = entry.path();
      if (file.extension() == ".tsv" || file.extension() == ".txt") names.push_back(file.stem());
    }
  }
  if (names.empty()) return "none";
  std::sort(names.begin(), names.end());
  return fmt::format("those of {}", fmt::join(names, ", "));
}

std::string judgements_file(const std::string& folder, const std::string& split) {
  const fs::path qrels = fs::path(folder) / "qrels";
  for (const char* ending : {".tsv", ".txt"}) {
    const fs::path file = qrels / (split + ending);
    if (fs::is_regular_file(file)) return file;
  }
  fail("{}: expected judgements in qrels/{}.tsv, found {}", folder, split, splits_of(qrels));
}

std::string required_id(const Json& object) {
  const auto found = object.find("_id");
  require(found != object.end(), "expected an id in the member \"_id\", found no such member");
  std::string id = scalar_text(*found, "id");
  require(!id.empty(), "expected an id in the member \"_id\", found an empty text");
  return id;
}

/// The options for a file of JSON lines, whatever format the user names.
DataOptions as_lines(const DataOptions& options) {
  DataOptions lines = options;
  lines.format = "jsonl";
  return lines;
}

/// Query, document and relevance of a line.
struct Judgement {
  std::string query, document;
  std::int64_t relevance = 0;
};

/// None for the header.
std::optional<Judgement> judgement_of(const std::string& line, bool is_first) {
  std::vector<std::string_view> columns = columns_of(line, true);
  if (columns.size() == 3) {
    const auto relevance = parsed_number<std::int64_t>(columns[2]);
    if (!relevance && is_first) return std::nullopt;
    require(relevance.has_value() && !columns[0].empty() && !columns[1].empty(),
            "expected query, document and a whole number between tabs, found {}",
            formats::quote(line));
    return Judgement{std::string(columns[0]), std::string(columns[1]), *relevance};
  }
  columns = columns_of(line, false);
  const auto relevance =
      parsed_number<std::int64_t>(columns.size() == 4 ? columns[3] : std::string_view());
  require(relevance.has_value(),
          "expected query, document and relevance between tabs, or TREC's four columns, found {}",
          formats::quote(line));
  return Judgement{std::string(columns[0]), std::string(columns[2]), *relevance};
}

/// Adds the judgements of a file to the queries.
void read_judgements(const std::string& path, const DataOptions& options,
                     const std::unordered_map<std::string, std::size_t>& numbers,
                     std::vector<JudgedQuery>& queries, DataReport& report) {
  TextLines lines = lines_of(path, options);
  report.file = path;
  std::string line;
  bool is_first = true;
  while (lines.next(line)) {
    if (stripped(line).empty()) continue;
    read_record(fmt::format("{}:{}", path, lines.number()), options, report, [&] {
      const std::optional<Judgement> judgement = judgement_of(line, is_first);
      if (!judgement) return;
      const auto found = numbers.find(judgement->query);
      require(found != numbers.end(), "expected a query of queries.jsonl, found {}",
              formats::quote(judgement->query));
      const bool is_new = queries[found->second]
                              .relevance.emplace(judgement->document, judgement->relevance)
                              .second;
      require(is_new, "expected one judgement of query {} and document {}, found a second one",
              formats::quote(judgement->query), formats::quote(judgement->document));
    });
    is_first = false;
  }
}

}  // namespace

bool is_retrieval_data(const std::string& path) {
  return fs::is_directory(fs::path(path) / "qrels");
}

RetrievalData read_retrieval(const std::string& folder, const DataOptions& options) {
  RetrievalData data;
  data.file = file_of(folder, "queries.jsonl");
  data.judgements = judgements_file(folder, options.retrieval.split);
  std::vector<JudgedQuery> queries;
  std::unordered_map<std::string, std::size_t> numbers;
  read_objects(
      data.file, as_lines(options), data.report, [&](const Json& object, const Record& record) {
        std::string id = required_id(object);
        const std::string& text = string_member(object, "text");
        require(numbers.emplace(id, queries.size()).second,
                "expected an id that no other query has, found {} again", formats::quote(id));
        queries.push_back({.origin = {.line = record.number,
                                      .id = std::move(id),
                                      .number = record.id_number,
                                      .record = record.record},
                           .text = text,
                           .relevance = {}});
      });
  read_judgements(data.judgements, options, numbers, queries, data.report);
  data.report.examples = 0;
  data.report.file = data.file;
  for (JudgedQuery& query : queries) {
    if (query.relevance.empty()) {
      ++data.unjudged;
      continue;
    }
    const std::string place = place_of(data.file, query.origin);
    read_record(place, options, data.report, [&] {
      require(!stripped(query.text).empty(), "expected a query, found an empty text");
      data.queries.push_back(std::move(query));
    });
  }
  require(!data.queries.empty(),
          "{}: expected judgements of a query, found none for {} queries{}{}", data.judgements,
          queries.size(), data.report.skipped > 0 ? ": " : "", data.report.first_skipped());
  return data;
}

std::unordered_set<std::string> read_corpus(
    const std::string& folder, const DataOptions& options, DataReport& report,
    const std::function<void(const CorpusDocument&)>& read) {
  const std::string file = file_of(folder, "corpus.jsonl");
  std::unordered_set<std::string> ids;
  read_objects(file, as_lines(options), report, [&](const Json& object, const Record&) {
    CorpusDocument document = {.id = required_id(object), .text = {}};
    const auto title = object.find("title");
    if (title != object.end() && !title->is_null()) {
      document.text = string_member(object, "title") + " ";
    }
    document.text += string_member(object, "text");
    document.text = std::string(stripped(document.text));
    require(ids.insert(document.id).second,
            "expected an id that no other document has, found {} again",
            formats::quote(document.id));
    report.empty += document.text.empty() ? 1 : 0;
    read(document);
  });
  require(!ids.empty(), "{}: expected at least one document, found none{}{}", file,
          report.skipped > 0 ? ": " : "", report.first_skipped());
  return ids;
}

void sort_as_trec_eval(Ranking& ranking) {
  std::sort(ranking.begin(), ranking.end(), [](const ScoredDocument& a, const ScoredDocument& b) {
    return a.score != b.score ? a.score > b.score : a.id > b.id;
  });
}

std::map<std::string, Ranking> read_run(const std::string& path) {
  constexpr std::size_t kColumns = 6;
  std::map<std::string, Ranking> run;
  std::unordered_map<std::string, std::unordered_set<std::string>> seen;
  TextLines lines(path);
  std::string line;
  while (lines.next(line)) {
    if (stripped(line).empty()) continue;
    const std::vector<std::string_view> columns = columns_of(line, false);
    const bool is_whole = columns.size() == kColumns;
    // Not a number where there is none, which no comparison holds for.
    const double score = parsed_number<double>(is_whole ? columns[4] : std::string_view())
                             .value_or(std::numeric_limits<double>::quiet_NaN());
    require(std::abs(score) <= std::numeric_limits<float>::max() || std::isinf(score),
            "{}:{}: expected query, Q0, document, rank, score and tag, found {}", path,
            lines.number(), formats::quote(line));
    const std::string query(columns[0]), document(columns[2]);
    require(seen[query].insert(document).second,
            "{}:{}: expected a document once for each query, found {} again for {}", path,
            lines.number(), formats::quote(document), formats::quote(query));
    run[query].push_back({.id = document, .score = static_cast<float>(score)});
  }
  for (auto& [query, ranking] : run) sort_as_trec_eval(ranking);
  return run;
}

void check_run_id(const std::string& id) {
  require(id.find_first_of(kWhitespace) == std::string::npos,
          "run: expected ids without blanks, which end them in files of TREC, found {}",
          formats::quote(id));
}

std::string run_lines(const std::string& query, const Ranking& ranking) {
  check_run_id(query);
  std::string lines;
  std::size_t rank = 0;
  for (const ScoredDocument& one : ranking) {
    check_run_id(one.id);
    lines += fmt::format("{} Q0 {} {} {} longformer\n", query, one.id, ++rank, one.score);
  }
  return lines;
}

}  // namespace longformer::tasks
