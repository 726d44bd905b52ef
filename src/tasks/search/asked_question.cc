#include "tasks/search/asked_question.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/error.h"
#include "index/vector_scores.h"
#include "kernels/vector_scan.h"
#include "tasks/search/best_rows.h"
#include "tasks/search/third_stage.h"

namespace longformer::tasks {
namespace {

constexpr float kOutside = -std::numeric_limits<float>::infinity();

bool overlaps(const CharacterSpan& a, const CharacterSpan& b) {
  return a.begin < b.end && b.begin < a.end;
}

/// Bytes of a text as characters of it.
std::vector<CharacterSpan> characters_of(std::string_view text,
                                         const std::vector<index::ByteSpan>& spans) {
  std::vector<CharacterSpan> found;
  std::size_t byte = 0;
  std::int64_t characters = 0;
  const auto count_to = [&](std::size_t end) {
    // Bytes that continue a character are 10xxxxxx.
    for (; byte < end; ++byte) {
      characters += (static_cast<unsigned char>(text[byte]) & 0xc0) != 0x80 ? 1 : 0;
    }
    return characters;
  };
  for (const auto& [begin, end] : spans) {
    const std::int64_t first = count_to(begin);
    found.push_back({first, count_to(end)});
  }
  return found;
}

std::string note_of(const std::vector<std::string>& phrases) {
  std::string all;
  for (const std::string& phrase : phrases) {
    all += (all.empty() ? "" : " and ") + index::fts_string(phrase);
  }
  return fmt::format("no passage has the {} {}: the words are searched",
                     phrases.size() == 1 ? "phrase" : "phrases", all);
}

}  // namespace

VectorKinds kinds_of(SearchMode mode, const VectorKinds& has) {
  if (mode == SearchMode::hybrid) return has;
  return {.dense = mode == SearchMode::dense,
          .sparse = mode == SearchMode::sparse,
          .multi = mode == SearchMode::multi};
}

index::SparseVector index_vector(const SparseEmbedding& embedding) {
  index::SparseVector vector;
  for (const TokenWeight& one : embedding.weights) {
    vector.tokens.push_back(one.token);
    vector.weights.push_back(one.weight);
  }
  return vector;
}

MultiVectorCost cost_of(Index vectors, Index width, int threads) {
  constexpr Index kSample = 1 << 14, kQueryTokens = 32;
  MultiVectorCost cost = {.vectors = vectors};
  // A byte for each element, the scale of the vector, and its product with one of the question.
  cost.bytes = vectors * (width + 2 * static_cast<Index>(sizeof(float)));
  if (vectors == 0) return cost;
  kernels::ByteVectors sample;
  sample.width = width;
  const std::vector<std::int8_t> row(at(width), 1);
  for (Index i = 0; i < kSample; ++i) sample.append(row, 1.0f);
  const std::vector<float> query(at(width), 1.0f);
  std::vector<float> scores(at(kSample));
  kernels::scan(sample, query, scores, threads);
  const auto begin = std::chrono::steady_clock::now();
  kernels::scan(sample, query, scores, threads);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  cost.seconds =
      spent.count() * kQueryTokens * static_cast<double>(vectors) / static_cast<double>(kSample);
  return cost;
}

AskedQuestion::AskedQuestion(const index::PassageStore& store, SearchQuery query)
    : store_(store),
      snapshot_(store.snapshot()),
      query_(std::move(query)),
      words_(query_.question,
             query_.phrases ? index::QuotationMarks::phrases : index::QuotationMarks::ignored) {
  require(query_.top_k >= 1, OptionName("top_k", "top-k"), "expected at least 1, found {}",
          query_.top_k);
}

void AskedQuestion::add_vector(const index::Codes& codes, std::vector<float> vector,
                               Similarity similarity, int threads) {
  similarity_ = similarity;
  vector_ = std::move(vector);
  passages_ = codes.passages;
  has_passages_ = true;
  scales_ = codes.vectors.scales;
  scores_.similarities.resize(passages_.size());
  index::compare(similarity_, codes.vectors, vector_, scores_.similarities, threads);
}

void AskedQuestion::add_all_passages() {
  own_passages_ = store_.passage_ids();
  passages_ = own_passages_;
  has_passages_ = true;
}

void AskedQuestion::add_multi(const index::TokenCodes& codes, const Embedding& question,
                              int threads) {
  std::vector<float> sums(codes.passages.size());
  index::max_sim(codes, question.values, sums, threads);
  std::vector<index::PassageScore> found;
  for (std::size_t i = 0; i < sums.size(); ++i) found.emplace_back(codes.passages[i], sums[i]);
  scores_.multi = scattered(found);
}

void AskedQuestion::add_sparse(const SparseEmbedding& question) {
  scores_.sparse = scattered(store_.tokens().match(index_vector(question)));
}

/// If the words alone decide, passages below the best ones are left out.
void AskedQuestion::find_words(std::optional<Index> most) {
  known_ = store_.known(words_);
  const bool is_lexical = query_.mode == SearchMode::lexical;
  const bool is_restricted =
      !query_.within.empty() || !query_.filter.empty() || !words_.phrases().empty();
  if (is_lexical) has_passages_ = false;
  scores_.words = scattered(is_lexical && !is_restricted && most ? store_.best(known_.terms, *most)
                                                                 : store_.match(known_.terms));
}

/// Scores of the passages in question, 0 for those without. Where there are none so far, they are
/// those that have a score.
std::vector<float> AskedQuestion::scattered(std::span<const index::PassageScore> found) {
  if (!has_passages_) {
    own_passages_.clear();
    for (const auto& [id, score] : found) own_passages_.push_back(id);
    passages_ = own_passages_;
    has_passages_ = true;
  }
  std::vector<float> scores(passages_.size(), 0.0f);
  auto next = passages_.begin();
  for (const auto& [id, score] : found) {
    while (next != passages_.end() && *next < id) ++next;
    if (next == passages_.end()) break;
    // Passages that another process has added since the codes were read are not among them.
    if (*next != id) continue;
    scores[static_cast<std::size_t>(next - passages_.begin())] = static_cast<float>(score);
  }
  return scores;
}

std::vector<SearchHit> AskedQuestion::hits() {
  // If words alone decide, two of three may overlap one that is shown.
  constexpr std::int64_t kFurther = 100;
  rank_allowed(kFurther + 3 * std::min(passages_for_reranking(query_), store_.passages()));
  std::vector<SearchHit> hits = without_overlaps();
  snapshot_.reset();
  rerank(query_, hits);
  mark(hits);
  return hits;
}

std::vector<RankedDocument> AskedQuestion::documents() {
  rank_allowed(std::nullopt);
  std::vector<RankedDocument> ranked;
  std::vector<Index> best;
  std::set<std::string> seen;
  BestRows order = best_rows();
  // A document of a long text may have many of the best rows.
  constexpr std::int64_t kGrowth = 4;
  const std::int64_t all = std::ssize(passages_);
  for (std::int64_t count = std::min(query_.top_k, all); std::ssize(ranked) < query_.top_k;
       count = std::min(count * kGrowth, all)) {
    const std::vector<Index> rows = order.next(count);
    if (rows.empty()) break;
    std::vector<std::string> names = store_.document_names(passages_of(rows));
    for (std::size_t i = 0; i < rows.size() && std::ssize(ranked) < query_.top_k; ++i) {
      if (!seen.insert(names[i]).second) continue;
      ranked.push_back({.name = std::move(names[i]), .score = scores_.ranked[at(rows[i])]});
      best.push_back(rows[i]);
    }
  }
  if (query_.reranker != nullptr) {
    best.resize(std::min(best.size(), static_cast<std::size_t>(query_.rerank_depth)));
    const auto texts = texts_of(best);
    snapshot_.reset();
    rerank(query_, texts, ranked);
  }
  return ranked;
}

/// If no passage has the phrases, passages with words of them count.
void AskedQuestion::rank_allowed(std::optional<Index> most) {
  if (asks_for_words()) find_words(most);
  find_allowed();
  const bool is_any_allowed = std::find(allowed_.begin(), allowed_.end(), true) != allowed_.end();
  if (is_filtered_away()) {
    if (query_.note) query_.note("no document is as the filter asks");
  } else if (!is_any_allowed && !words_.phrases().empty()) {
    if (query_.note) query_.note(note_of(words_.phrases()));
    words_ = index::WordQuery(query_.question, index::QuotationMarks::ignored);
    if (asks_for_words()) find_words(most);
    find_allowed();
  }
  rank();
}

void AskedQuestion::find_allowed() {
  allowed_.assign(passages_.size(), true);
  if (!query_.within.empty()) allow_only(passages_within());
  if (!query_.filter.empty()) allow_only(store_.metadata().passages(query_.filter));
  if (!words_.phrases().empty()) allow_only(store_.matching(words_.required()));
}

bool AskedQuestion::is_filtered_away() const {
  return !query_.filter.empty() && store_.metadata().passages(query_.filter).empty();
}

/// In ascending order.
std::vector<Index> AskedQuestion::passages_within() const {
  std::vector<Index> passages;
  for (const std::string& name : query_.within) {
    const std::vector<Index> documents = store_.find(name);
    require(!documents.empty(), "{}: expected a document or folder '{}', found none of this name",
            store_.file(), name);
    for (const Index document : documents) {
      const std::vector<Index> more = store_.passages_of(document);
      passages.insert(passages.end(), more.begin(), more.end());
    }
  }
  std::sort(passages.begin(), passages.end());
  return passages;
}

/// Ids in ascending order.
void AskedQuestion::allow_only(const std::vector<Index>& passages) {
  auto next = passages.begin();
  for (std::size_t row = 0; row < allowed_.size(); ++row) {
    while (next != passages.end() && *next < passages_[row]) ++next;
    allowed_[row] = allowed_[row] && next != passages.end() && *next == passages_[row];
  }
}

void AskedQuestion::rank() {
  switch (query_.mode) {
    case SearchMode::dense:
      scores_.ranked = scores_.similarities;
      break;
    case SearchMode::multi:
      scores_.ranked = scores_.multi;
      break;
    case SearchMode::hybrid:
      fuse();
      break;
    case SearchMode::lexical:
    case SearchMode::sparse:
      scores_.ranked = query_.mode == SearchMode::lexical ? scores_.words : scores_.sparse;
      for (float& score : scores_.ranked) score = score > 0 ? score : kOutside;
      break;
  }
  for (std::size_t row = 0; row < allowed_.size(); ++row) {
    if (!allowed_[row]) scores_.ranked[row] = kOutside;
  }
}

void AskedQuestion::fuse() {
  std::vector<std::span<const float>> kinds;
  for (const std::vector<float>* one : {&scores_.similarities, &scores_.sparse, &scores_.multi}) {
    if (!one->empty()) kinds.emplace_back(*one);
  }
  fusion_ = index::Fusion(kinds, known_.reach);
  scores_.ranked.resize(passages_.size());
  for (Index row = 0; row < std::ssize(passages_); ++row) {
    scores_.ranked[at(row)] =
        fused(row, scores_.similarities.empty() ? 0 : scores_.similarities[at(row)]);
  }
}

/// Scores that those by the exact vectors do not exceed.
std::vector<float> AskedQuestion::bounds() const {
  if (vector_.empty()) return scores_.ranked;
  std::vector<float> bounds = scores_.ranked;
  const index::ErrorOfBytes error(similarity_, vector_);
  for (Index row = 0; row < std::ssize(bounds); ++row) {
    if (bounds[at(row)] == kOutside) continue;
    const float most = scores_.similarities[at(row)] + error.largest(scales_[at(row)]);
    bounds[at(row)] = score_with(row, most);
  }
  return bounds;
}

/// The score of a row that has this similarity.
float AskedQuestion::score_with(Index row, float similarity) const {
  return query_.mode == SearchMode::dense ? similarity : fused(row, similarity);
}

float AskedQuestion::fused(Index row, float similarity) const {
  std::array<float, 3> of_kinds = {similarity};
  std::size_t count = scores_.similarities.empty() ? 0 : 1;
  for (const std::vector<float>* one : {&scores_.sparse, &scores_.multi}) {
    if (!one->empty()) of_kinds[count++] = (*one)[at(row)];
  }
  return fusion_(std::span(of_kinds).first(count), scores_.words[at(row)]);
}

BestRows AskedQuestion::best_rows() {
  return BestRows(bounds(), [this](std::span<const Index> rows) { return exact_scores(rows); });
}

/// Those of the exact vectors, where the similarities are those of bytes.
std::vector<float> AskedQuestion::exact_scores(std::span<const Index> rows) {
  std::vector<float> vectors;
  if (!vector_.empty()) vectors = store_.vectors(passages_of(rows), std::ssize(vector_));
  std::span<const float> rest = vectors;
  std::vector<float> scores;
  for (const Index row : rows) {
    if (!vector_.empty()) {
      const float exact = index::compare(similarity_, vector_, rest.first(vector_.size()));
      rest = rest.subspan(vector_.size());
      scores_.similarities[at(row)] = exact;
      scores_.ranked[at(row)] = score_with(row, exact);
    }
    scores.push_back(scores_.ranked[at(row)]);
  }
  return scores;
}

std::vector<Index> AskedQuestion::passages_of(std::span<const Index> rows) const {
  std::vector<Index> passages;
  for (const Index row : rows) passages.push_back(passages_[at(row)]);
  return passages;
}

std::vector<std::string> AskedQuestion::texts_of(const std::vector<Index>& rows) const {
  std::vector<std::string> texts;
  for (index::PassageRow& passage : store_.passages(passages_of(rows))) {
    texts.push_back(std::move(passage.text));
  }
  return texts;
}

std::vector<SearchHit> AskedQuestion::without_overlaps() {
  const std::int64_t wanted = passages_for_reranking(query_);
  BestRows order = best_rows();
  std::vector<SearchHit> hits;
  std::map<std::string, std::vector<CharacterSpan>> spans_of;
  // Mostly none overlap, so as many rows as hits will do, and then a few.
  constexpr std::int64_t kLeast = 16;
  for (std::int64_t count = wanted; std::ssize(hits) < wanted;) {
    const std::vector<Index> rows = order.next(count);
    if (rows.empty()) break;
    std::vector<index::PassageRow> passages = store_.passages(passages_of(rows));
    for (std::size_t i = 0; i < rows.size() && std::ssize(hits) < wanted; ++i) {
      const CharacterSpan span = {passages[i].begin, passages[i].end};
      auto& others = spans_of[passages[i].document];
      const bool is_shown = std::any_of(others.begin(), others.end(),
                                        [&](const auto& other) { return overlaps(span, other); });
      if (is_shown) continue;
      others.push_back(span);
      hits.push_back(hit(rows[i], std::move(passages[i])));
    }
    count = std::max(kLeast, wanted - std::ssize(hits));
  }
  return hits;
}

SearchHit AskedQuestion::hit(Index row, index::PassageRow passage) const {
  SearchHit hit = {.file = std::move(passage.document),
                   .span = {passage.begin, passage.end},
                   .place = std::move(passage.place),
                   .score = scores_.ranked[at(row)],
                   .similarity = {},
                   .words = {},
                   .text = std::move(passage.text),
                   .matched = {},
                   .metadata = std::move(passage.metadata)};
  if (!scores_.similarities.empty()) hit.similarity = scores_.similarities[at(row)];
  if (!scores_.words.empty()) hit.words = scores_.words[at(row)];
  if (!scores_.sparse.empty()) hit.sparse = scores_.sparse[at(row)];
  if (!scores_.multi.empty()) hit.multi = scores_.multi[at(row)];
  return hit;
}

void AskedQuestion::mark(std::vector<SearchHit>& hits) const {
  if (known_.terms.empty()) return;
  const index::TermFinder finder = store_.finder(known_.terms);
  for (SearchHit& hit : hits) {
    hit.matched = characters_of(hit.text, finder.places_in(hit.text));
  }
}

}  // namespace longformer::tasks
