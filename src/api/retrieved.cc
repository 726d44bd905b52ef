#include "longformer/retrieved.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/error.h"
#include "longformer/report.h"
#include "text/unicode.h"

namespace longformer {
namespace {

bool is_blank(char byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

/// Cuts a word at an end of the text that is not an end of the document.
void keep_whole_words(RetrievedPart& part, CharacterSpan passage, std::int64_t characters) {
  const std::vector<std::size_t> starts = character_starts(part.text);
  const auto byte = [&](std::int64_t place) {
    return starts.at(static_cast<std::size_t>(place - part.span.begin));
  };
  const auto is_blank_at = [&](std::int64_t place) { return is_blank(part.text[byte(place)]); };
  std::int64_t begin = part.span.begin, end = part.span.end;
  if (begin > 0) {
    while (begin < passage.begin && !is_blank_at(begin)) ++begin;
  }
  while (begin < passage.begin && is_blank_at(begin)) ++begin;
  if (end < characters) {
    while (end > passage.end && !is_blank_at(end - 1)) --end;
  }
  while (end > passage.end && is_blank_at(end - 1)) --end;
  part.text = part.text.substr(byte(begin), byte(end) - byte(begin));
  part.span = {begin, end};
}

/// The share of the best score by which another one falls behind it.
double share_behind(float best, float score) {
  constexpr float kLeast = 1e-6f;
  return double{best - score} / double{std::max(std::abs(best), kLeast)};
}

/// A passage with the characters that are read around it.
struct Widened {
  CharacterSpan passage, span;
  float score = 0;
  std::string metadata;
};

}  // namespace

OptionFields fields(RetrieveOptions& options) {
  return {
      {.name = "retrieve",
       .value = &options.retrieve,
       .help = "search first, and read the best N passages alone ({})",
       .type = "N",
       .least = 1,
       .most = 1 << 16},
      {.name = "around",
       .value = &options.around,
       .help = "characters of the document that are read before and behind a passage ({})",
       .type = "N",
       .least = 0},
      {.name = "search_weight",
       .value = &options.search_weight,
       .help = "an answer loses this times the share by which its passage falls behind the best "
               "one in the search ({})",
       .type = "W",
       .least = 0,
       .most = 1e9}};
}

std::string to_json(const RetrievedPart& part) {
  JsonLine json;
  json.add("file", part.file).add("begin", part.span.begin).add("end", part.span.end);
  if (const auto place = place_of(part.places, part.span)) {
    json.add_json("place", to_json(*place));
  }
  json.add("score", part.score);
  if (!part.metadata.empty()) json.add_json("metadata", part.metadata);
  return json.object();
}

std::vector<RetrievedPart> parts_around(std::vector<SearchHit> passages,
                                        const PassageDocuments& documents,
                                        const RetrieveOptions& options) {
  std::map<std::string, std::vector<Widened>> by_document;
  for (SearchHit& hit : passages) {
    const CharacterSpan span = {std::max<std::int64_t>(0, hit.span.begin - options.around),
                                hit.span.end + options.around};
    by_document[hit.file].push_back({hit.span, span, hit.score, std::move(hit.metadata)});
  }
  std::vector<RetrievedPart> parts;
  for (auto& [file, all] : by_document) {
    const std::optional<std::int64_t> characters = documents.characters(file);
    if (!characters) continue;
    const DocumentPlaces places = documents.places(file);
    std::ranges::sort(all, {}, [](const Widened& one) { return one.span.begin; });
    for (auto next = all.begin(); next != all.end();) {
      Widened joined = *next;
      for (++next; next != all.end() && next->span.begin <= joined.span.end; ++next) {
        joined.span.end = std::max(joined.span.end, next->span.end);
        joined.passage.end = std::max(joined.passage.end, next->passage.end);
        joined.score = std::max(joined.score, next->score);
      }
      joined.span.end = std::min(joined.span.end, *characters);
      RetrievedPart& part = parts.emplace_back();
      part = {.file = file,
              .span = joined.span,
              .score = joined.score,
              .text = documents.text(file, joined.span),
              .metadata = std::move(joined.metadata),
              .places = places};
      keep_whole_words(part, joined.passage, *characters);
    }
  }
  std::ranges::stable_sort(parts, std::ranges::greater(), &RetrievedPart::score);
  return parts;
}

std::vector<RetrievedPart> retrieved_parts(const SearchIndex& index, const Embedder* embedder,
                                           SearchQuery query, const RetrieveOptions& options) {
  query.top_k = options.retrieve;
  const PassageDocuments documents = {
      .characters = [&](const std::string& file) -> std::optional<std::int64_t> {
        const std::optional<IndexedDocument> document = index.document(file);
        if (!document) return std::nullopt;
        return document->characters;
      },
      .text = [&](const std::string& file, CharacterSpan span) { return index.text(file, span); },
      .places = [&](const std::string& file) { return index.places(file); }};
  return parts_around(embedder == nullptr ? index.query(query) : index.query(*embedder, query),
                      documents, options);
}

RetrievedAnswers answers_in(const std::vector<RetrievedPart>& parts, const std::string& question,
                            const QuestionAnswerer& answerer, const AnswerOptions& answers,
                            const RetrieveOptions& options) {
  RetrievedAnswers found;
  std::size_t asked = 0, answered = 0;
  const auto source = [&]() -> std::optional<Question> {
    if (asked == parts.size()) return std::nullopt;
    return Question{question, parts[asked++].text};
  };
  const auto sink = [&](const AnswerOutcome& outcome) {
    require(outcome.error.empty(), outcome.remedies, FileName{parts[answered].file}, "{}",
            outcome.error);
    const RetrievedPart& part = parts[answered];
    const double behind = share_behind(parts.front().score, part.score);
    for (Answer answer : outcome.answers) {
      answer.span = {answer.span.begin + part.span.begin, answer.span.end + part.span.begin};
      answer.place = place_of(part.places, answer.span);
      const auto rank = static_cast<float>(answer.logit - options.search_weight * behind);
      found.answers.push_back({answered, std::move(answer), rank});
    }
    found.tokens += outcome.tokens;
    found.truncated += outcome.truncated;
    found.segments += outcome.segments;
    ++answered;
  };
  answerer.answer(source, sink, answers);
  std::ranges::stable_sort(found.answers, std::ranges::greater(), &RetrievedAnswer::rank);
  const auto most = static_cast<std::size_t>(answers.top_k);
  if (found.answers.size() > most) {
    found.answers.erase(found.answers.begin() + answers.top_k, found.answers.end());
  }
  return found;
}

std::string joined_text(const std::vector<RetrievedPart>& parts) {
  std::vector<std::string> files;
  std::map<std::string, std::vector<const RetrievedPart*>> by_document;
  for (const RetrievedPart& part : parts) {
    std::vector<const RetrievedPart*>& own = by_document[part.file];
    if (own.empty()) files.push_back(part.file);
    own.push_back(&part);
  }
  std::string text;
  for (const std::string& file : files) {
    std::vector<const RetrievedPart*>& own = by_document[file];
    std::ranges::sort(own, {}, [](const RetrievedPart* part) { return part->span.begin; });
    for (const RetrievedPart* part : own) {
      text.append(text.empty() ? "" : "\n\n").append(part->text);
    }
  }
  return text;
}

}  // namespace longformer
