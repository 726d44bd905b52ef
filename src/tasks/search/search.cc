#include "longformer/search.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/threads.h"
#include "core/words.h"
#include "engine/run/model_implementation.h"
#include "formats/json.h"
#include "index/passage_store.h"
#include "index/word_tokenizer.h"
#include "tasks/search/asked_question.h"
#include "tasks/search/index_settings.h"
#include "text/search_words.h"

namespace longformer {

using index::Access;
using index::PassageStore;
using index::Settings;
using tasks::vectors_for;

std::vector<std::string> search_languages() {
  std::vector<std::string> languages = text::stem_languages();
  languages.emplace_back(text::kNoLanguage);
  return languages;
}

std::vector<std::string> search_filter(std::string_view json) {
  return index::expressions_of(json);
}

void check_filter(std::span<const std::string> filter) {
  for (const std::string& expression : filter) index::Condition{expression};
}

SearchOptions completed(const SearchOptions& options, const Embedder& embedder) {
  SearchOptions all = options;
  all.passages.context = options.passages.context.value_or(embedder.passage_context());
  all.similarity = options.similarity.value_or(embedder.similarity());
  all.passage_prompt =
      embedder.prompt(vectors_for(*all.similarity, options.passage_prompt, "document"));
  all.language = options.language.value_or(index::kDefaultLanguage);
  const VectorKinds made = embedder.kinds();
  all.vectors = options.vectors.value_or(made.dense ? VectorKinds{.dense = true} : made);
  return all;
}

SearchOptions with_mode(SearchOptions options, SearchMode mode, const Embedder& embedder) {
  const bool is_other = mode == SearchMode::sparse || mode == SearchMode::multi;
  if (options.vectors || !is_other) return options;
  options.vectors = completed(options, embedder).vectors;
  (mode == SearchMode::sparse ? options.vectors->sparse : options.vectors->multi) = true;
  return options;
}

struct SearchIndex::Contents {
  Contents(const std::string& file, Access access, const std::optional<std::string>& language)
      : store(file, access, language) {}

  /// Reads the settings, after they are set, and holds them to the model that there may be.
  void read_settings(const Embedder* embedder) {
    const Settings settings = store.settings();
    tasks::refuse_unknown(settings, store.file());
    const tasks::SettingsReader reader(settings, store.file());
    options = reader.options();
    if (embedder != nullptr) {
      threads = embedder->model().implementation().threads;
      // Words are the same for every model.
      if (options.vectors != VectorKinds()) {
        tasks::check_model(settings, *embedder, store.file());
      }
    }
    options.language = store.language();
    names_are_from_its_folder = reader.names_are_from_its_folder();
    model = reader.text("model");
    dtype = reader.text("dtype");
    width = reader.vector_size();
  }

  /// The vectors that are scanned, as the file has them now.
  const index::Codes& current_codes() const {
    const Index version = store.version();
    if (!codes || version != codes_version || codes_change == Change::other) {
      codes = store.codes(width);
    } else if (codes_change == Change::added) {
      store.add_new_codes(*codes);
    }
    codes_version = version;
    codes_change = Change::none;
    return *codes;
  }

  /// The vectors of tokens, as the file has them now.
  const index::TokenCodes& current_token_codes(Index multi_width) const {
    const Index version = store.version();
    if (!token_codes || version != token_codes_version || tokens_change == Change::other ||
        token_codes->vectors.width != multi_width) {
      token_codes = store.tokens().codes(multi_width);
    } else if (tokens_change == Change::added) {
      store.tokens().add_new_codes(*token_codes);
    } else {
      return *token_codes;
    }
    store.require_of_all_passages(std::ssize(token_codes->passages));
    token_codes_version = version;
    tokens_change = Change::none;
    return *token_codes;
  }

  /// The work of this object on the documents since the vectors were read, which version() does not
  /// tell: further ones are there, or others are gone.
  enum class Change { none, added, other };
  void note(Change change) const {
    codes_change = std::max(codes_change, change);
    tokens_change = std::max(tokens_change, change);
  }

  PassageStore store;
  SearchOptions options;
  std::string model, dtype;
  std::int64_t width = 0;
  /// Threads that compare vectors, where no embedder says so.
  int threads = 0;
  int used_threads() const { return threads == 0 ? available_threads() : threads; }
  bool names_are_from_its_folder = false;

 private:
  mutable Change codes_change = Change::none, tokens_change = Change::none;
  mutable std::optional<index::Codes> codes;
  mutable std::optional<index::TokenCodes> token_codes;
  mutable Index codes_version = 0, token_codes_version = 0;
};

namespace {

/// The vectors of a question of a mode, for an index that was made with these options.
QuestionVectors question_vectors(const Embedder& embedder, const SearchQuery& query,
                                 const SearchOptions& made) {
  const VectorKinds kinds = tasks::kinds_of(query.mode, *made.vectors);
  EmbedOptions options = vectors_for(*made.similarity, query.prompt, "query");
  options.too_long = query.too_long;
  QuestionVectors vectors;
  if (kinds.dense) {
    vectors.dense = std::move(embedder.embed({&query.question, 1}, options)[0].values);
  }
  const EmbedInput input = {.text = query.question};
  KindOptions how = {.role = TextRole::query, .text = options};
  how.text.normalize.reset();
  if (kinds.sparse) {
    how.kinds = {.sparse = true};
    vectors.sparse = std::move(embedder.vectors({&input, 1}, how)[0].sparse);
  }
  if (kinds.multi) {
    how.kinds = {.multi = true};
    // Such models read so many tokens of a question, and no more.
    if (query.too_long == TooLong::refuse) how.text.too_long = TooLong::truncate;
    vectors.multi = std::move(embedder.vectors({&input, 1}, how)[0].multi);
  }
  return vectors;
}

/// Throws Error for a search by vectors that the index has not.
void require_mode(SearchMode mode, const VectorKinds& kinds, const std::string& file) {
  const auto check = [&](SearchMode one, bool is_there, const char* name) {
    require(mode != one || is_there,
            "{}: expected an index with {} vectors for this mode, found one with {}; make it anew "
            "with them",
            file, name, name_of(kinds));
  };
  check(SearchMode::dense, kinds.dense, "dense");
  check(SearchMode::sparse, kinds.sparse, "sparse");
  check(SearchMode::multi, kinds.multi, "multi");
}

/// Metadata as an index has them.
std::string kept(const std::string& metadata) {
  if (metadata.empty()) return {};
  std::string normal = index::normal_metadata(metadata);
  return normal == "{}" ? std::string() : normal;
}

std::vector<index::Condition> conditions_of(std::span<const std::string> filter) {
  return {filter.begin(), filter.end()};
}

IndexedDocument indexed(index::DocumentRow row) {
  return {.name = std::move(row.name),
          .passages = row.passages,
          .characters = row.characters,
          .hash = std::move(row.hash),
          .time = std::move(row.time),
          .metadata = std::move(row.metadata)};
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
  if (contents->store.settings().empty()) {
    const VectorKinds kinds = *completed(options, embedder).vectors;
    contents->store.make_token_tables(kinds.sparse, kinds.multi);
    contents->store.set(tasks::settings_of(embedder, options));
  }
  contents->read_settings(&embedder);
  return SearchIndex(std::move(contents));
}

SearchIndex SearchIndex::edit(const std::string& file, const Tokenizer& tokenizer,
                              const SearchOptions& options) {
  auto contents = std::make_unique<Contents>(file, Access::write, options.language);
  if (contents->store.settings().empty()) {
    contents->store.set(tasks::settings_of(tokenizer, options));
  }
  contents->read_settings(nullptr);
  const VectorKinds kinds = *contents->options.vectors;
  require(kinds == VectorKinds(),
          "{}: expected an index of words alone, found one with {} vectors, which only their model "
          "adds to",
          file, name_of(kinds));
  return SearchIndex(std::move(contents));
}

SearchIndex SearchIndex::edit(const std::string& file, const std::optional<std::string>& language) {
  auto contents = std::make_unique<Contents>(file, Access::change, language);
  contents->read_settings(nullptr);
  return SearchIndex(std::move(contents));
}

KindOptions SearchIndex::passage_options(std::int64_t batch_tokens) const {
  KindOptions how = {.kinds = kinds()};
  how.text = vectors_for(*options().similarity, options().passage_prompt, "document");
  how.text.batch_tokens = batch_tokens;
  return how;
}

PassageVectors SearchIndex::prepare(const Embedder& embedder, std::string_view text,
                                    const ProgressCallback& progress,
                                    std::int64_t batch_tokens) const {
  if (kinds() == VectorKinds()) return prepare(embedder.tokenizer(), text);
  return embedder.passage_vectors(text, options().passages, passage_options(batch_tokens),
                                  progress);
}

std::vector<PassagesOutcome> SearchIndex::prepare_each(const Embedder& embedder,
                                                       std::span<const std::string_view> texts,
                                                       const ProgressCallback& progress,
                                                       std::int64_t batch_tokens) const {
  if (kinds() == VectorKinds()) return prepare_each(embedder.tokenizer(), texts);
  return embedder.passage_vectors_each(texts, options().passages, passage_options(batch_tokens),
                                       progress);
}

PassageVectors SearchIndex::prepare(const Tokenizer& tokenizer, std::string_view text) const {
  return tasks::passages_of_words(tokenizer, text, options().passages);
}

std::vector<PassagesOutcome> SearchIndex::prepare_each(
    const Tokenizer& tokenizer, std::span<const std::string_view> texts) const {
  std::vector<PassagesOutcome> passages(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    passages[i].vectors = prepare(tokenizer, texts[i]);
  }
  return passages;
}

void SearchIndex::add(const Embedder& embedder, const std::string& name, std::string_view text,
                      const ProgressCallback& progress, const std::string& metadata) {
  put_one({.name = name,
           .text = text,
           .passages = prepare(embedder, text, progress),
           .metadata = metadata});
}

void SearchIndex::put(const std::string& name, std::string_view text, const Embedding& passages) {
  put_one({.name = name, .text = text, .passages = {.dense = passages}});
}

void SearchIndex::put(const std::string& name, std::string_view text,
                      const PassageVectors& passages, const DocumentPlaces& places) {
  put_one({.name = name, .text = text, .passages = passages, .places = places});
}

void SearchIndex::put_one(const PreparedDocument& document) {
  const PassageVectors& passages = document.passages;
  const std::string_view text = document.text;
  const std::vector<std::size_t> starts = character_starts(text);
  std::vector<index::NewPassage> stored;
  for (const CharacterSpan& span : passages.dense.spans) {
    const std::size_t begin = starts[static_cast<std::size_t>(span.begin)];
    const std::size_t end = starts[static_cast<std::size_t>(span.end)];
    stored.push_back({span.begin, span.end, text.substr(begin, end - begin)});
  }
  const VectorKinds wanted = kinds();
  const auto count = std::ssize(stored);
  const bool has_all = (!wanted.dense || count == 0 || !passages.dense.values.empty()) &&
                       (!wanted.sparse || std::ssize(passages.sparse) == count) &&
                       (!wanted.multi || std::ssize(passages.multi) == count);
  require(has_all, "{}: expected {} vectors of every passage of '{}', found some missing",
          contents_->store.file(), name_of(wanted), document.name);
  std::vector<index::SparseVector> sparse;
  for (const SparseEmbedding& one : passages.sparse) sparse.push_back(tasks::index_vector(one));
  std::vector<std::span<const float>> multi;
  Index width = 1;
  for (const Embedding& one : passages.multi) {
    multi.emplace_back(one.values);
    if (one.rows > 0) width = std::ssize(one.values) / one.rows;
  }
  const bool replaces = contents_->store.put(
      {.name = document.name,
       .text = text,
       .metadata = kept(document.metadata),
       .places = document.places},
      stored,
      {.dense = passages.dense.values, .sparse = sparse, .multi = multi, .multi_width = width});
  contents_->note(replaces ? Contents::Change::other : Contents::Change::added);
}

void SearchIndex::put(std::span<const PreparedDocument> documents) {
  contents_->store.together([&] {
    for (const PreparedDocument& one : documents) put_one(one);
  });
}

std::int64_t SearchIndex::describe(const std::map<std::string, std::string>& metadata) {
  const PassageStore& store = contents_->store;
  std::map<std::string, std::string> others;
  for (const auto& [name, one] : metadata) {
    const std::optional<index::DocumentRow> row = store.document(name);
    std::string normal = kept(one);
    if (row && row->metadata != normal) others.emplace(name, std::move(normal));
  }
  // Most often nothing has changed, and nobody has to wait for the file.
  if (others.empty()) return 0;
  store.together([&] {
    for (const auto& [name, one] : others) store.describe(name, one);
  });
  return std::ssize(others);
}

std::int64_t SearchIndex::remove(const std::string& name) {
  contents_->note(Contents::Change::other);
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

std::optional<IndexedDocument> SearchIndex::document_of(const std::string& hash) const {
  std::optional<index::DocumentRow> row = contents_->store.with_hash(hash);
  if (!row) return std::nullopt;
  return indexed(std::move(*row));
}

std::int64_t SearchIndex::text_bytes() const { return contents_->store.text_bytes(); }

std::string SearchIndex::text(const std::string& name, CharacterSpan span) const {
  return contents_->store.text(needed(contents_->store, name), span.begin, span.end);
}

DocumentPlaces SearchIndex::places(const std::string& name) const {
  return contents_->store.places_of(needed(contents_->store, name).id);
}

Embedding SearchIndex::vectors(const std::string& name) const {
  require(kinds().dense, "{}: expected an index of dense vectors, found one of {} alone",
          contents_->store.file(), name_of(kinds()));
  const PassageStore& store = contents_->store;
  const auto snapshot = store.snapshot();
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
VectorKinds SearchIndex::kinds() const { return *contents_->options.vectors; }

MultiVectorCost SearchIndex::multi_cost() const {
  const index::TokenStore& tokens = contents_->store.tokens();
  return tasks::cost_of(tokens.token_vectors(), tokens.width(), contents_->used_threads());
}

bool SearchIndex::names_are_from_its_folder() const { return contents_->names_are_from_its_folder; }

std::vector<IndexedDocument> SearchIndex::list(std::span<const std::string> filter) const {
  const PassageStore& store = contents_->store;
  std::vector<Index> wanted;
  if (!filter.empty()) wanted = store.metadata().documents(conditions_of(filter));
  std::vector<IndexedDocument> documents;
  for (index::DocumentRow& row : store.list()) {
    const bool is_wanted = filter.empty() || std::ranges::binary_search(wanted, row.id);
    if (is_wanted) documents.push_back(indexed(std::move(row)));
  }
  return documents;
}

std::vector<std::string> SearchIndex::fields() const {
  return contents_->store.metadata().fields();
}

void SearchIndex::check(std::span<const std::string> filter) const {
  contents_->store.metadata().check(conditions_of(filter));
}

void SearchIndex::each_name(const std::function<void(const std::string&)>& use) const {
  contents_->store.each_name(use);
}

tasks::AskedQuestion SearchIndex::asked(const QuestionVectors& vectors,
                                        const SearchQuery& given) const {
  const Contents& contents = *contents_;
  SearchQuery query = given;
  const bool has_words_alone = kinds() == VectorKinds();
  if (query.mode == SearchMode::hybrid && has_words_alone) query.mode = SearchMode::lexical;
  tasks::AskedQuestion question(contents.store, query);
  const VectorKinds used = tasks::kinds_of(query.mode, kinds());
  const int threads = contents.used_threads();
  if (used.dense) {
    require(std::ssize(vectors.dense) == contents.width,
            "vector of the question: expected {} numbers, found {}", contents.width,
            vectors.dense.size());
    question.add_vector(contents.current_codes(), vectors.dense, *options().similarity, threads);
  } else if (query.mode == SearchMode::hybrid) {
    question.add_all_passages();
  }
  if (used.multi && vectors.multi.rows > 0) {
    const Index width = std::ssize(vectors.multi.values) / vectors.multi.rows;
    question.add_multi(contents.current_token_codes(width), vectors.multi, threads);
  }
  if (used.sparse) question.add_sparse(vectors.sparse);
  return question;
}

std::vector<SearchHit> SearchIndex::query(const Embedder& embedder,
                                          const SearchQuery& query) const {
  return asked(vectors_of(embedder, query), query).hits();
}

QuestionVectors SearchIndex::vectors_of(const Embedder& embedder, const SearchQuery& query) const {
  require_mode(query.mode, kinds(), contents_->store.file());
  return question_vectors(embedder, query, options());
}

std::vector<SearchHit> SearchIndex::query(const QuestionVectors& vectors,
                                          const SearchQuery& query) const {
  require_mode(query.mode, kinds(), contents_->store.file());
  return asked(vectors, query).hits();
}

std::vector<SearchHit> SearchIndex::query(const SearchQuery& query) const {
  require(query.mode == SearchMode::lexical,
          "search without a model: expected mode lexical, found another");
  return asked({}, query).hits();
}

std::vector<RankedDocument> SearchIndex::rank(const Embedder& embedder,
                                              const SearchQuery& query) const {
  return asked(vectors_of(embedder, query), query).documents();
}

}  // namespace longformer
