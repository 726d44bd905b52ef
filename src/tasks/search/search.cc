#include "longformer/search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/threads.h"
#include "core/words.h"
#include "engine/run/model_implementation.h"
#include "formats/json.h"
#include "formats/unused_keys.h"
#include "index/passage_store.h"
#include "index/ranking.h"
#include "index/vector_scores.h"
#include "index/word_query.h"
#include "index/word_tokenizer.h"
#include "tasks/search/third_stage.h"
#include "text/search_words.h"

namespace longformer {
namespace {

using index::Access;
using index::PassageStore;
using index::Settings;

/// The best by int8 vectors that are looked at with the exact ones: with 8 bits the cosine of a
/// passage is off by up to 0.01, so that the 10th may be the 30th.
constexpr std::int64_t kRescored = 100;

/// The setting that older indexes do not have.
constexpr const char* kNames = "names";

/// All settings of an index: settings_of() writes them.
constexpr std::array kSettings = {
    "fingerprint",    "model",   "dtype",          "vector_size",
    "passage_tokens", "context", "overlap_tokens", "overlapping_passages",
    "passage_prompt", kNames,    "similarity"};

/// The options that make passage vectors and questions comparable.
EmbedOptions vectors_for(Similarity similarity, const std::optional<std::string>& prompt,
                         const char* prompt_name) {
  EmbedOptions options;
  if (similarity == Similarity::cosine) options.normalize = true;
  options.prompt = prompt;
  options.prompt_name = prompt_name;
  return options;
}

bool overlaps(const CharacterSpan& a, const CharacterSpan& b) {
  return a.begin < b.end && b.begin < a.end;
}

std::string dtype_of(const Embedder& embedder) {
  return std::string(name_of(embedder.model().implementation().dtype));
}

Settings settings_of(const Embedder& embedder, const SearchOptions& given) {
  const SearchOptions options = completed(given, embedder);
  const Embedder::PassageOptions& passages = options.passages;
  const bool in_document = passages.context == PassageContext::document;
  return {{"fingerprint", fmt::format("{:016x}", embedder.fingerprint())},
          {"model", embedder.model().info().model_type},
          {"dtype", dtype_of(embedder)},
          {"vector_size", std::to_string(embedder.embedding_size())},
          {"passage_tokens", std::to_string(passages.passage_tokens)},
          {"overlap_tokens", std::to_string(passages.overlap_tokens)},
          {"overlapping_passages", std::to_string(passages.overlapping_passages ? 1 : 0)},
          {"similarity", std::string(name_of(*options.similarity))},
          {"context", in_document ? "document" : "none"},
          {"passage_prompt", *options.passage_prompt},
          {kNames, "paths from the folder of the index"}};
}

/// A setting that nothing reads could change what the vectors of an index mean.
void refuse_unknown(const Settings& found, const std::string& file) {
  const nlohmann::ordered_json object(found);
  const formats::ConfigReader reader(object, fmt::format("{}: settings", file));
  for (const char* name : kSettings) reader.has(name);
  formats::refuse_unused_keys(reader);
}

/// Reads the settings of an index that are well-formed.
class SettingsReader {
 public:
  SettingsReader(const Settings& settings, const std::string& file)
      : settings_(settings), file_(file) {}

  bool has(const std::string& name) const { return settings_.contains(name); }

  const std::string& text(const std::string& name) const {
    const auto found = settings_.find(name);
    require(found != settings_.end(), "{}: expected a search index that says its {}, found none",
            file_, name);
    return found->second;
  }

  std::int64_t number(const std::string& name) const {
    const std::string& digits = text(name);
    const auto value = parsed_number<std::int64_t>(digits);
    require(value.has_value(), "{}: {}: expected a number, found {}", file_, name,
            formats::quote(digits));
    return *value;
  }

  SearchOptions options() const {
    SearchOptions options;
    options.passages.passage_tokens = number("passage_tokens");
    options.passages.overlap_tokens = number("overlap_tokens");
    options.passages.overlapping_passages = number("overlapping_passages") != 0;
    options.passages.context = passage_context(text("context"));
    options.passage_prompt = text("passage_prompt");
    // Indexes made before other similarities were known have vectors for the cosine.
    options.similarity = has("similarity") ? similarity(text("similarity")) : Similarity::cosine;
    return options;
  }

 private:
  const Settings& settings_;
  const std::string& file_;
};

void check_model(const Settings& found, const Embedder& embedder, const std::string& file) {
  const SettingsReader index(found, file);
  const Settings wanted = settings_of(embedder, {});
  require(index.text("fingerprint") == wanted.at("fingerprint") &&
              index.text("vector_size") == wanted.at("vector_size"),
          "{}: expected an index of this model, found one of other weights or windows (vectors of "
          "{}); make it anew",
          file, index.text("vector_size"));
  require(index.text("dtype") == wanted.at("dtype"),
          "{}: expected an index of vectors made in {}, found one made in {}; ask with --dtype {}",
          file, wanted.at("dtype"), index.text("dtype"), index.text("dtype"));
  const std::string_view own = name_of(*index.options().similarity);
  require(index.has("similarity") || own == wanted.at("similarity"),
          "{}: expected an index of vectors for the similarity {}, found one for {}; make it anew",
          file, wanted.at("similarity"), own);
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

std::vector<std::string> search_languages() {
  std::vector<std::string> languages = text::stem_languages();
  languages.emplace_back(text::kNoLanguage);
  return languages;
}

SearchOptions completed(const SearchOptions& options, const Embedder& embedder) {
  SearchOptions all = options;
  all.passages.context = options.passages.context.value_or(embedder.passage_context());
  all.similarity = options.similarity.value_or(embedder.similarity());
  all.passage_prompt =
      embedder.prompt(vectors_for(*all.similarity, options.passage_prompt, "document"));
  all.language = options.language.value_or(index::kDefaultLanguage);
  return all;
}

struct SearchIndex::Contents {
  Contents(const std::string& file, Access access, const std::optional<std::string>& language)
      : store(file, access, language) {}

  /// Reads the settings, after they are set, and holds them to the model that there may be.
  void read_settings(const Embedder* embedder) {
    const Settings settings = store.settings();
    refuse_unknown(settings, store.file());
    if (embedder != nullptr) {
      check_model(settings, *embedder, store.file());
      threads = embedder->model().implementation().threads;
    }
    const SettingsReader reader(settings, store.file());
    options = reader.options();
    options.language = store.language();
    names_are_from_its_folder = settings.contains(kNames);
    model = reader.text("model");
    dtype = reader.text("dtype");
    width = reader.number("vector_size");
    require(width > 0, "{}: expected vectors of some size, found {}", store.file(), width);
  }

  /// The vectors that are scanned, as the file has them now.
  const index::Codes& current_codes() const {
    const Index version = store.version();
    if (!codes || version != codes_version || changed) {
      codes = store.codes(width);
      codes_version = version;
      changed = false;
    }
    return *codes;
  }

  /// Codes that a search compares vectors with; null if it compares none.
  const index::Codes* codes_for(SearchMode mode) const {
    return mode == SearchMode::lexical ? nullptr : &current_codes();
  }

  PassageStore store;
  SearchOptions options;
  std::string model, dtype;
  std::int64_t width = 0;
  /// Threads that compare vectors, where no embedder says so.
  int threads = 0;
  bool names_are_from_its_folder = false;
  /// Whether this object has changed documents, which version() does not tell.
  mutable bool changed = false;

 private:
  mutable std::optional<index::Codes> codes;
  mutable Index codes_version = 0;
};

namespace {

/// The scores of passages for one question.
struct PassageScores {
  std::vector<float> similarities, words, ranked;
};

/// One question to an index.
class AskedQuestion {
 public:
  AskedQuestion(const PassageStore& store, const SearchQuery& query)
      : store_(store),
        query_(query),
        words_(query.question,
               query.phrases ? index::QuotationMarks::phrases : index::QuotationMarks::ignored) {
    require(query.top_k >= 1, OptionName("top_k", "top-k"), "expected at least 1, found {}",
            query.top_k);
  }

  /// Compares all passages with the vector of the question.
  void add_vector(const index::Codes& codes, std::vector<float> vector, Similarity similarity,
                  int threads) {
    similarity_ = similarity;
    vector_ = std::move(vector);
    passages_ = codes.passages;
    scores_.similarities.resize(passages_.size());
    index::compare(similarity_, codes.vectors, vector_, scores_.similarities, threads);
  }

  /// Without a vector before it, the passages are those that have words of the question.
  void add_words() {
    known_ = store_.known(words_);
    const index::WordScores found = store_.match(index::any_of(known_.terms));
    if (vector_.empty()) {
      matching_ = ids_of(found);
      passages_ = matching_;
    }
    scores_.words.assign(passages_.size(), 0.0f);
    auto next = passages_.begin();
    for (const auto& [id, score] : found) {
      next = std::lower_bound(next, passages_.end(), id);
      if (next == passages_.end()) return;
      // Passages that another process has added since the codes were read are not among them.
      if (*next != id) continue;
      scores_.words[static_cast<std::size_t>(next - passages_.begin())] = static_cast<float>(score);
    }
  }

  std::vector<SearchHit> hits() {
    rank_allowed();
    // Two of three may overlap one that is shown.
    std::vector<Index> rows = best_rows(kRescored + 3 * tasks::passages_for_reranking(query_));
    if (!vector_.empty()) rescore(rows);
    std::vector<SearchHit> hits = without_overlaps(rows);
    tasks::rerank(query_, hits);
    mark(hits);
    return hits;
  }

  std::vector<RankedDocument> documents() {
    rank_allowed();
    std::vector<Index> rows = rows_of_documents(kRescored + query_.top_k);
    if (!vector_.empty()) rescore(rows);
    std::vector<std::string> names = store_.document_names(passages_of(rows));
    std::vector<RankedDocument> ranked;
    std::vector<Index> best;
    std::set<std::string> seen;
    for (std::size_t i = 0; i < rows.size() && std::ssize(ranked) < query_.top_k; ++i) {
      if (!seen.insert(names[i]).second) continue;
      ranked.push_back({.name = std::move(names[i]), .score = scores_.ranked[at(rows[i])]});
      best.push_back(rows[i]);
    }
    if (query_.reranker != nullptr) {
      best.resize(std::min(best.size(), static_cast<std::size_t>(query_.rerank_depth)));
      tasks::rerank(query_, texts_of(best), ranked);
    }
    return ranked;
  }

 private:
  static constexpr float kOutside = -std::numeric_limits<float>::infinity();

  static std::size_t at(Index row) { return static_cast<std::size_t>(row); }

  static std::vector<Index> ids_of(const index::WordScores& found) {
    std::vector<Index> ids;
    for (const auto& [id, score] : found) ids.push_back(id);
    return ids;
  }

  /// If no passage has the phrases, passages with words of them count.
  void rank_allowed() {
    find_allowed();
    const bool is_any_allowed = std::find(allowed_.begin(), allowed_.end(), true) != allowed_.end();
    if (!is_any_allowed && !words_.phrases().empty()) {
      if (query_.note) query_.note(note_of(words_.phrases()));
      words_ = index::WordQuery(query_.question, index::QuotationMarks::ignored);
      if (query_.mode != SearchMode::dense) add_words();
      find_allowed();
    }
    rank();
  }

  void find_allowed() {
    allowed_.assign(passages_.size(), true);
    if (!query_.within.empty()) allow_only(passages_within());
    if (!words_.phrases().empty()) allow_only(ids_of(store_.match(words_.required())));
  }

  /// In ascending order.
  std::vector<Index> passages_within() const {
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
  void allow_only(const std::vector<Index>& passages) {
    auto next = passages.begin();
    for (std::size_t row = 0; row < allowed_.size(); ++row) {
      while (next != passages.end() && *next < passages_[row]) ++next;
      allowed_[row] = allowed_[row] && next != passages.end() && *next == passages_[row];
    }
  }

  void rank() {
    if (query_.mode == SearchMode::dense) {
      scores_.ranked = scores_.similarities;
    } else if (query_.mode == SearchMode::lexical) {
      scores_.ranked = scores_.words;
      for (float& score : scores_.ranked) score = score > 0 ? score : kOutside;
    } else {
      fusion_ = index::Fusion(scores_.similarities, known_.reach);
      scores_.ranked.resize(scores_.words.size());
      for (std::size_t row = 0; row < scores_.ranked.size(); ++row) {
        scores_.ranked[row] = fusion_(scores_.similarities[row], scores_.words[row]);
      }
    }
    for (std::size_t row = 0; row < allowed_.size(); ++row) {
      if (!allowed_[row]) scores_.ranked[row] = kOutside;
    }
  }

  /// The best so many rows, or all that are hits.
  std::vector<Index> best_rows(std::int64_t count) const {
    std::vector<Index> rows = kernels::best(scores_.ranked, count);
    std::erase_if(rows, [this](Index row) { return scores_.ranked[at(row)] == kOutside; });
    return rows;
  }

  /// The best rows, as many as so many documents have.
  std::vector<Index> rows_of_documents(std::int64_t wanted) const {
    // A document of a long text may have many of the best rows.
    constexpr std::int64_t kGrowth = 4;
    for (std::int64_t count = wanted;; count *= kGrowth) {
      std::vector<Index> rows = best_rows(count);
      if (std::ssize(rows) < count) return rows;
      const auto names = store_.document_names(passages_of(rows));
      const std::set<std::string> documents(names.begin(), names.end());
      if (std::ssize(documents) >= wanted) return rows;
    }
  }

  /// Exact similarities of some rows, and their order by them.
  void rescore(std::vector<Index>& rows) {
    const std::vector<float> vectors = store_.vectors(passages_of(rows), std::ssize(vector_));
    std::span<const float> rest = vectors;
    for (const Index row : rows) {
      const float exact = index::compare(similarity_, vector_, rest.first(vector_.size()));
      rest = rest.subspan(vector_.size());
      scores_.similarities[at(row)] = exact;
      scores_.ranked[at(row)] =
          query_.mode == SearchMode::dense ? exact : fusion_(exact, scores_.words[at(row)]);
    }
    std::stable_sort(rows.begin(), rows.end(), [this](Index a, Index b) {
      return scores_.ranked[at(a)] > scores_.ranked[at(b)];
    });
  }

  std::vector<Index> passages_of(const std::vector<Index>& rows) const {
    std::vector<Index> passages;
    for (const Index row : rows) passages.push_back(passages_[at(row)]);
    return passages;
  }

  std::vector<std::string> texts_of(const std::vector<Index>& rows) const {
    std::vector<std::string> texts;
    for (index::PassageRow& passage : store_.passages(passages_of(rows))) {
      texts.push_back(std::move(passage.text));
    }
    return texts;
  }

  std::vector<SearchHit> without_overlaps(const std::vector<Index>& rows) const {
    std::vector<index::PassageRow> passages = store_.passages(passages_of(rows));
    const std::int64_t wanted = tasks::passages_for_reranking(query_);
    std::vector<SearchHit> hits;
    std::map<std::string, std::vector<CharacterSpan>> spans_of;
    for (std::size_t i = 0; i < rows.size() && std::ssize(hits) < wanted; ++i) {
      const CharacterSpan span = {passages[i].begin, passages[i].end};
      auto& others = spans_of[passages[i].document];
      const bool is_shown = std::any_of(others.begin(), others.end(),
                                        [&](const auto& other) { return overlaps(span, other); });
      if (is_shown) continue;
      others.push_back(span);
      hits.push_back(hit(rows[i], std::move(passages[i])));
    }
    return hits;
  }

  SearchHit hit(Index row, index::PassageRow passage) const {
    SearchHit hit = {.file = std::move(passage.document),
                     .span = {passage.begin, passage.end},
                     .score = scores_.ranked[at(row)],
                     .similarity = {},
                     .words = {},
                     .text = std::move(passage.text),
                     .matched = {}};
    if (!scores_.similarities.empty()) hit.similarity = scores_.similarities[at(row)];
    if (!scores_.words.empty()) hit.words = scores_.words[at(row)];
    return hit;
  }

  void mark(std::vector<SearchHit>& hits) const {
    if (known_.terms.empty()) return;
    for (SearchHit& hit : hits) {
      hit.matched = characters_of(hit.text, store_.matches(hit.text, known_.terms));
    }
  }

  const PassageStore& store_;
  const SearchQuery& query_;
  index::WordQuery words_;
  index::KnownWords known_;
  index::Fusion fusion_;
  /// The ids of the passages in question, ascending; row i of the scores is passage i of them.
  std::span<const Index> passages_;
  std::vector<Index> matching_;
  std::vector<bool> allowed_;
  std::vector<float> vector_;
  Similarity similarity_ = Similarity::cosine;
  PassageScores scores_;
};

/// Vector of a question for an index that was made with these options.
std::vector<float> question_vector(const Embedder& embedder, const SearchQuery& query,
                                   const SearchOptions& made) {
  EmbedOptions options = vectors_for(*made.similarity, query.prompt, "query");
  options.too_long = query.too_long;
  return std::move(embedder.embed({&query.question, 1}, options)[0].values);
}

/// The question with its vector and its words, as its mode wants them; without codes it is lexical.
AskedQuestion asked(const PassageStore& store, const index::Codes* codes, const SearchQuery& query,
                    const SearchOptions& made, const Embedder* embedder) {
  AskedQuestion question(store, query);
  if (codes != nullptr) {
    question.add_vector(*codes, question_vector(*embedder, query, made), *made.similarity,
                        embedder->model().implementation().threads);
  }
  if (query.mode != SearchMode::dense) question.add_words();
  return question;
}

IndexedDocument indexed(index::DocumentRow row) {
  return {.name = std::move(row.name),
          .passages = row.passages,
          .characters = row.characters,
          .hash = std::move(row.hash),
          .time = std::move(row.time)};
}

index::DocumentRow needed(const PassageStore& store, const std::string& name) {
  std::optional<index::DocumentRow> row = store.document(name);
  require(row.has_value(), "{}: expected a document '{}', found none of this name", store.file(),
          name);
  return std::move(*row);
}

}  // namespace

SearchIndex::SearchIndex(std::unique_ptr<Contents> contents) : contents_(std::move(contents)) {}
SearchIndex::SearchIndex(SearchIndex&&) noexcept = default;
SearchIndex& SearchIndex::operator=(SearchIndex&&) noexcept = default;
SearchIndex::~SearchIndex() = default;

SearchIndex::SearchIndex(const Embedder& embedder, const SearchOptions& options)
    : SearchIndex(edit("", embedder, options)) {}

SearchIndex SearchIndex::open(const std::string& file, const std::optional<std::string>& language) {
  auto contents = std::make_unique<Contents>(file, Access::read, language);
  contents->read_settings(nullptr);
  return SearchIndex(std::move(contents));
}

SearchIndex SearchIndex::open(const std::string& file, const Embedder& embedder,
                              const std::optional<std::string>& language) {
  auto contents = std::make_unique<Contents>(file, Access::read, language);
  contents->read_settings(&embedder);
  return SearchIndex(std::move(contents));
}

SearchIndex SearchIndex::edit(const std::string& file, const Embedder& embedder,
                              const SearchOptions& options) {
  auto contents = std::make_unique<Contents>(file, Access::write, options.language);
  if (contents->store.settings().empty()) contents->store.set(settings_of(embedder, options));
  contents->read_settings(&embedder);
  return SearchIndex(std::move(contents));
}

SearchIndex SearchIndex::edit(const std::string& file, const std::optional<std::string>& language) {
  auto contents = std::make_unique<Contents>(file, Access::change, language);
  contents->read_settings(nullptr);
  return SearchIndex(std::move(contents));
}

Embedding SearchIndex::prepare(const Embedder& embedder, std::string_view text,
                               const ProgressCallback& progress, std::int64_t batch_tokens) const {
  EmbedOptions how = vectors_for(*options().similarity, options().passage_prompt, "document");
  how.batch_tokens = batch_tokens;
  return embedder.embed_passages(text, options().passages, how, progress);
}

void SearchIndex::add(const Embedder& embedder, const std::string& name, std::string_view text,
                      const ProgressCallback& progress) {
  put(name, text, prepare(embedder, text, progress));
}

void SearchIndex::put(const std::string& name, std::string_view text, const Embedding& passages) {
  const std::vector<std::size_t> starts = character_starts(text);
  std::vector<index::NewPassage> stored;
  for (const CharacterSpan& span : passages.spans) {
    const std::size_t begin = starts[static_cast<std::size_t>(span.begin)];
    const std::size_t end = starts[static_cast<std::size_t>(span.end)];
    stored.push_back({span.begin, span.end, text.substr(begin, end - begin)});
  }
  contents_->store.put(name, text, stored, passages.values);
  contents_->changed = true;
}

std::int64_t SearchIndex::remove(const std::string& name) {
  contents_->changed = true;
  return contents_->store.remove(name);
}

bool SearchIndex::contains(const std::string& name, std::string_view text) const {
  return contents_->store.contains(name, text);
}

std::optional<IndexedDocument> SearchIndex::document(const std::string& name) const {
  std::optional<index::DocumentRow> row = contents_->store.document(name);
  if (!row) return std::nullopt;
  return indexed(std::move(*row));
}

std::string SearchIndex::hash_of(std::string_view text) { return index::text_hash(text); }

std::string SearchIndex::text(const std::string& name, CharacterSpan span) const {
  return contents_->store.text(needed(contents_->store, name), span.begin, span.end);
}

Embedding SearchIndex::vectors(const std::string& name) const {
  const PassageStore& store = contents_->store;
  const std::vector<Index> ids = store.passages_of(needed(store, name).id);
  Embedding found;
  found.rows = std::ssize(ids);
  found.values = store.vectors(ids, contents_->width);
  for (const index::PassageRow& row : store.passages(ids)) {
    found.spans.push_back({row.begin, row.end});
  }
  return found;
}

DocumentComparison SearchIndex::compare(const std::string& a, const std::string& b) const {
  return compare_passages(vectors(a), vectors(b));
}

std::int64_t SearchIndex::documents() const { return contents_->store.documents(); }
std::int64_t SearchIndex::passages() const { return contents_->store.passages(); }
const SearchOptions& SearchIndex::options() const { return contents_->options; }
std::optional<std::string> SearchIndex::former_language() const {
  return contents_->store.former_language();
}
const std::string& SearchIndex::model() const { return contents_->model; }
const std::string& SearchIndex::dtype() const { return contents_->dtype; }
std::int64_t SearchIndex::vector_size() const { return contents_->width; }
bool SearchIndex::names_are_from_its_folder() const { return contents_->names_are_from_its_folder; }

std::vector<IndexedDocument> SearchIndex::list() const {
  std::vector<IndexedDocument> documents;
  for (index::DocumentRow& row : contents_->store.list()) {
    documents.push_back(indexed(std::move(row)));
  }
  return documents;
}

std::vector<SearchHit> SearchIndex::query(const Embedder& embedder,
                                          const SearchQuery& query) const {
  return asked(contents_->store, contents_->codes_for(query.mode), query, options(), &embedder)
      .hits();
}

std::vector<float> SearchIndex::vector_of(const Embedder& embedder,
                                          const SearchQuery& query) const {
  return question_vector(embedder, query, options());
}

std::vector<SearchHit> SearchIndex::query(const std::vector<float>& vector,
                                          const SearchQuery& query) const {
  AskedQuestion question(contents_->store, query);
  if (const index::Codes* codes = contents_->codes_for(query.mode)) {
    require(std::ssize(vector) == contents_->width,
            "vector of the question: expected {} numbers, found {}", contents_->width,
            vector.size());
    const int threads = contents_->threads == 0 ? available_threads() : contents_->threads;
    question.add_vector(*codes, vector, *options().similarity, threads);
  }
  if (query.mode != SearchMode::dense) question.add_words();
  return question.hits();
}

std::vector<SearchHit> SearchIndex::query(const SearchQuery& query) const {
  require(query.mode == SearchMode::lexical,
          "search without a model: expected mode lexical, found another");
  return asked(contents_->store, contents_->codes_for(query.mode), query, options(), nullptr)
      .hits();
}

std::vector<RankedDocument> SearchIndex::rank(const Embedder& embedder,
                                              const SearchQuery& query) const {
  return asked(contents_->store, contents_->codes_for(query.mode), query, options(), &embedder)
      .documents();
}

}  // namespace longformer
