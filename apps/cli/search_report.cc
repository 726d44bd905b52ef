#include "search_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "advice.h"
#include "control_characters.h"
#include "help.h"
#include "output.h"

namespace longformer::cli {
namespace {

constexpr std::size_t kTextWidth = 96;

/// Text of documents and questions, as a terminal may have it.
std::string shown(std::string_view text, bool terminal) {
  return terminal ? with_visible_controls(text) : std::string(text);
}

/// The text of a hit with marks around what matched: in bold on a terminal, else stars.
std::string marked(const SearchHit& hit, bool terminal) {
  const std::vector<std::size_t> starts = character_starts(hit.text);
  const auto part = [&](std::size_t begin, std::size_t end) {
    return shown(std::string_view(hit.text).substr(begin, end - begin), terminal);
  };
  std::string text;
  std::size_t done = 0;
  for (const CharacterSpan& span : hit.matched) {
    const std::size_t from = starts.at(static_cast<std::size_t>(span.begin));
    const std::size_t to = starts.at(static_cast<std::size_t>(span.end));
    text.append(part(done, from)).append(terminal ? "\x1b[1m" : "*");
    text.append(part(from, to)).append(terminal ? "\x1b[0m" : "*");
    done = to;
  }
  return text.append(part(done, hit.text.size()));
}

std::string scores_of(const SearchHit& hit, const std::string& similarity) {
  std::string text;
  if (hit.similarity) text += fmt::format("{} {:.3f}", similarity, *hit.similarity);
  const auto add = [&text](const char* name, const std::optional<float>& score) {
    if (score) text += fmt::format("{}{} {:.2f}", text.empty() ? "" : ", ", name, *score);
  };
  add("sparse", hit.sparse);
  add("multi", hit.multi);
  if (hit.words) text += fmt::format("{}words {:.2f}", text.empty() ? "" : ", ", *hit.words);
  return text;
}

}  // namespace

const char* context_name(const SearchOptions& options) {
  return options.passages.context == PassageContext::document ? "document" : "none";
}

std::string similarity_name(const SearchOptions& options) {
  return std::string(name_of(options.similarity.value_or(Similarity::cosine)));
}

std::string answer_text(const SearchAnswer& answer, const std::string& similarity, bool terminal) {
  std::string text =
      fmt::format("\n{}   ({:.1f} ms)\n", shown(answer.question, terminal), 1000 * answer.seconds);
  std::size_t number = 0;
  for (const SearchHit& hit : answer.hits) {
    const std::string place = hit.place ? described(*hit.place) + ", " : std::string();
    text += fmt::format("{:>3}. {:.3f}  {}  {}characters {}-{}  {}\n", ++number, hit.score,
                        shown(quoted_name(hit.file), terminal), place, hit.span.begin, hit.span.end,
                        scores_of(hit, similarity));
    text += wrapped(marked(hit, terminal), kTextWidth, "     ");
  }
  if (answer.hits.empty()) text += "     nothing found\n";
  return text;
}

JsonLine answer_json(const SearchAnswer& answer, const IndexState& state) {
  std::vector<JsonLine> objects;
  for (const SearchHit& hit : answer.hits) {
    objects.emplace_back().add_members(to_json(hit));
  }
  JsonLine json;
  json.add("query", answer.question).add_objects("hits", objects);
  if (!answer.note.empty()) json.add("note", answer.note);
  json.add("seconds", answer.seconds);
  json.add("index_seconds", state.seconds).add("documents", state.documents);
  return json.add("passages", state.passages);
}

void tell_failure(const char* name, const std::string& question, const Error& error,
                  Messages& messages, Results& results) {
  messages.error(fmt::format("question {}: {}", in_quotes(question), advised(error)));
  if (!results.has_rows()) return;
  results.add(JsonLine().add(name, question).add("error", advised(error)));
  results.flush();
}

std::string documents_text(const std::vector<IndexedDocument>& documents, bool json) {
  std::string text;
  for (const IndexedDocument& document : documents) {
    if (json) {
      text += to_json(document) + "\n";
    } else {
      text += fmt::format("{}\t{}\t{}\t{}\n", quoted_name(document.name),
                          counted(document.passages, "passage"),
                          counted(document.characters, "character"), document.time);
    }
  }
  return text;
}

std::string statistics_text(const SearchIndex& index, const std::string& file, bool json) {
  const SearchOptions& options = index.options();
  const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(file));
  if (json) {
    JsonLine line;
    line.add("index", file).add("documents", index.documents()).add("passages", index.passages());
    line.add("bytes", bytes).add("model", index.model()).add("dtype", index.dtype());
    line.add("vector_size", index.vector_size()).add("vectors", name_of(index.kinds()));
    line.add("passage_tokens", options.passages.passage_tokens);
    line.add("context", std::string(context_name(options))).add("language", *options.language);
    line.add("similarity", similarity_name(options));
    line.add("fields", std::span<const std::string>(index.fields()));
    return line.add("passage_prompt", options.passage_prompt.value_or("")).line();
  }
  std::string text;
  const auto row = [&text](std::string_view name, const std::string& value) {
    text += fmt::format("{:<16} {}\n", name, value);
  };
  row("documents", grouped(index.documents()));
  row("passages", grouped(index.passages()));
  row("bytes", grouped(bytes));
  row("model",
      fmt::format("{}, {}, vectors of {}", index.model(), index.dtype(), index.vector_size()));
  if (index.kinds() != VectorKinds{.dense = true}) row("vectors", name_of(index.kinds()));
  row("passages of", counted(options.passages.passage_tokens, "token"));
  row("context", context_name(options));
  row("language", *options.language);
  row("similarity", similarity_name(options));
  row("fields", fmt::format("{}", fmt::join(index.fields(), ", ")));
  const std::string prompt = options.passage_prompt.value_or("");
  if (!prompt.empty()) row("passage prompt", on_one_line(prompt));
  return text;
}

}  // namespace longformer::cli
