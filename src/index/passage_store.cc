#include "index/passage_store.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>

#include "core/error.h"
#include "core/finite.h"
#include "core/hash.h"
#include "longformer/text.h"
#include "text/normalization.h"
#include "text/unicode.h"

namespace longformer::index {
namespace {

/// FTS5's BM25 has this k1, and gives this rarity to a word that half of the passages or more have.
constexpr double kSaturation = 1.2, kLeastRarity = 1e-6;

/// "lfix" in the header of the file.
constexpr std::int64_t kApplication = 0x6c666978;
constexpr std::int64_t kVersion = 4;
/// The last version whose words are those of a tokenizer of FTS5, and all else as it is now.
constexpr std::int64_t kVersionOfOtherWords = 3;

constexpr const char* kSchema = R"(
PRAGMA application_id = 1818651000;
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, hash TEXT NOT NULL,
  characters INTEGER NOT NULL, passages INTEGER NOT NULL, time TEXT NOT NULL, bytes INTEGER);
CREATE TABLE passages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, document INTEGER NOT NULL, begin INTEGER NOT NULL,
  end INTEGER NOT NULL, text TEXT NOT NULL);
CREATE INDEX passages_of ON passages (document);
-- Nothing reads the document of a code, which files of this version have.
CREATE TABLE codes (
  passage INTEGER PRIMARY KEY, document INTEGER NOT NULL, scale REAL NOT NULL, code BLOB NOT NULL);
CREATE TABLE vectors (passage INTEGER PRIMARY KEY, vector BLOB NOT NULL);
)";
static_assert(kApplication == 1818651000);

Index number_of(const Database& database, const char* sql) {
  Statement statement = database.prepare(sql);
  statement.step();
  return statement.integer(0);
}

bool has_table(const Database& database, std::string_view name) {
  return database.prepare("SELECT 1 FROM sqlite_schema WHERE name = ?").bind(1, name).step();
}

/// Bytes of texts, which programs of before did not count, documents by their texts, and places in
/// them: what files of this version may lack. Those programs go on with a file that has them.
void complete(const Database& database) {
  const auto lacks_bytes = [&] {
    return !database.prepare("SELECT 1 FROM pragma_table_info('documents') WHERE name = 'bytes'")
                .step();
  };
  const auto lacks_hashes = [&] {
    return !database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'documents_of'").step();
  };
  if (!lacks_bytes() && !lacks_hashes() && has_table(database, "places")) return;
  Transaction transaction(database);
  if (lacks_bytes()) database.run("ALTER TABLE documents ADD COLUMN bytes INTEGER");
  database.run("CREATE INDEX IF NOT EXISTS documents_of ON documents (hash)");
  // A program that knows no places removes documents without theirs: ids are used once.
  database.run(
      "CREATE TABLE IF NOT EXISTS places (document INTEGER, begin INTEGER, number INTEGER, "
      "unit TEXT NOT NULL, PRIMARY KEY (document, begin, number)) WITHOUT ROWID");
  transaction.commit();
}

/// Makes the full-text index, of the passages that there are.
void make_words(const Database& database, const std::string& language) {
  database.run(R"(
    DROP TABLE IF EXISTS words;
    DROP TABLE IF EXISTS made_words;
    CREATE TABLE made_words (version INTEGER NOT NULL, language TEXT NOT NULL);)");
  text::check_language(language);
  database.run(fmt::format("CREATE VIRTUAL TABLE words USING fts5 (text, content='passages', "
                           "content_rowid='id', tokenize='longformer {}')",
                           language)
                   .c_str());
  database.run("INSERT INTO words (words) VALUES ('rebuild')");
  database.prepare("INSERT INTO made_words VALUES (?, ?)")
      .bind(1, std::int64_t{kWordsVersion})
      .bind(2, language)
      .run();
  database.run(fmt::format("PRAGMA user_version = {}", kVersion).c_str());
}

/// The version and the language of the words.
std::pair<std::int64_t, std::string> made_words(const Database& database) {
  if (number_of(database, "PRAGMA user_version") == kVersionOfOtherWords) {
    return {0, kDefaultLanguage};
  }
  Statement row = database.prepare("SELECT version, language FROM made_words");
  if (!row.step()) return {0, kDefaultLanguage};
  return {row.integer(0), std::string(row.text(1))};
}

/// Up to version 2 an index was a file of our own form.
const std::string& not_of_old_form(const std::string& file) {
  constexpr std::string_view kOldForm = "longformer-index-";
  std::string begin(kOldForm.size(), '\0');
  std::ifstream(file, std::ios::binary).read(begin.data(), std::ssize(begin));
  require(begin != kOldForm,
          "{}: expected a search index of version {}, found an older one; make it anew", file,
          kVersion);
  return file;
}

/// Appends characters from … to − 1, all of the gap begin … end − 1 between two passages.
void append_gap(std::string& text, const NewPassage& gap, Index from, Index to) {
  const bool is_single = gap.end - gap.begin == 1;
  for (Index i = from; i < to; ++i) {
    const bool is_at_end = i == gap.begin || i + 1 == gap.end;
    text += !is_single && is_at_end ? '\n' : ' ';
  }
}

/// Ids with their places, in the order of the ids: rows are read from front to back.
std::vector<std::pair<Index, Index>> ascending(std::span<const Index> ids) {
  std::vector<std::pair<Index, Index>> sorted;
  for (Index i = 0; i < std::ssize(ids); ++i) sorted.emplace_back(ids[at(i)], i);
  std::ranges::sort(sorted);
  return sorted;
}

}  // namespace

std::string text_hash(std::string_view text) { return fmt::format("{:016x}", fnv1a(text)); }

PassageStore::PassageStore(const std::string& file, Access access,
                           const std::optional<std::string>& language)
    : database_(not_of_old_form(file), access),
      tokens_(database_),
      metadata_(database_),
      words_(database_) {
  if (access == Access::write) {
    // Two processes that make the same index do it one behind the other.
    Transaction transaction(database_);
    if (number_of(database_, "PRAGMA application_id") == 0 &&
        number_of(database_, "SELECT count(*) FROM sqlite_schema") == 0) {
      database_.run(kSchema);
      make_words(database_, language.value_or(kDefaultLanguage));
    }
    transaction.commit();
  }
  require(number_of(database_, "PRAGMA application_id") == kApplication,
          "{}: expected a search index, found another kind of file", this->file());
  const std::int64_t version = number_of(database_, "PRAGMA user_version");
  require(version == kVersion || version == kVersionOfOtherWords,
          "{}: expected a search index of version {}, found one of version {}; make it anew",
          this->file(), kVersion, version);
  if (access != Access::read) {
    complete(database_);
    metadata_.make();
  }
  has_places_ = has_table(database_, "places");
  tokens_.find_tables();
  metadata_.find_tables();
  read_words(language, access != Access::read);
}

void PassageStore::read_words(const std::optional<std::string>& language, bool writes) {
  const auto is_as_wanted = [&](const auto& made) {
    return made.first == kWordsVersion && made.second == language.value_or(made.second);
  };
  auto made = made_words(database_);
  const std::string found = made.second;
  require(made.first <= kWordsVersion,
          "{}: expected a search index whose words have version {}, found version {} of a newer "
          "program; make it anew",
          file(), kWordsVersion, made.first);
  if (!is_as_wanted(made) && writes) {
    Transaction transaction(database_);
    made = made_words(database_);
    if (!is_as_wanted(made)) make_words(database_, language.value_or(made.second));
    transaction.commit();
  } else if (!is_as_wanted(made)) {
    try {
      PassageStore(file(), Access::change, language);
    } catch (const Error& error) {
      fail(
          "{}: its words are those of an older program or of another language, and cannot be made "
          "again: {}; make the file writable, or the index anew",
          file(), error.what());
    }
  }
  use_language(made_words(database_).second);
  if (language_ != found) former_language_ = found;
}

void PassageStore::use_language(const std::string& language) const {
  language_ = language;
  splitter_ = std::make_unique<text::WordSplitter>(language_);
  words_.use(*splitter_);
}

std::unique_ptr<Snapshot> PassageStore::snapshot() const {
  auto snapshot = std::make_unique<Snapshot>(database_);
  const auto [version, language] = made_words(database_);
  require(version == kWordsVersion,
          "{}: expected words of version {}, found version {}, which another program has made "
          "meanwhile; open it again",
          file(), kWordsVersion, version);
  if (language != language_) use_language(language);
  return snapshot;
}

Settings PassageStore::settings() const {
  Settings settings;
  Statement rows = database_.prepare("SELECT name, value FROM settings");
  while (rows.step()) settings.emplace(rows.text(0), rows.text(1));
  return settings;
}

void PassageStore::set(const Settings& settings) const {
  Transaction transaction(database_);
  Statement insert = database_.prepare("INSERT OR IGNORE INTO settings VALUES (?, ?)");
  for (const auto& [name, value] : settings) insert.bind(1, name).bind(2, value).run();
  transaction.commit();
}

const PassageStore::Counts& PassageStore::counts() const {
  const Index version = database_.version();
  if (!counts_ || version != counts_version_) {
    // Counting rows of passages would read all of their pages.
    Statement row = database_.prepare(
        "SELECT count(*), ifnull(sum(passages), 0), ifnull(min(passages), 0), "
        "(SELECT ifnull(max(id), 0) FROM passages) FROM documents");
    row.step();
    // Ids are used once.
    if (row.integer(2) < 0 || row.integer(1) > row.integer(3)) database_.fail_damaged();
    counts_ = {.documents = row.integer(0), .passages = row.integer(1)};
    counts_version_ = version;
  }
  return *counts_;
}

Index PassageStore::documents() const { return counts().documents; }
Index PassageStore::passages() const { return counts().passages; }

void PassageStore::each_name(const std::function<void(const std::string&)>& use) const {
  Statement rows = database_.prepare("SELECT name FROM documents ORDER BY name");
  while (rows.step()) use(std::string(rows.text(0)));
}

void PassageStore::together(const std::function<void()>& work) const {
  Transaction transaction(database_);
  is_together_ = true;
  try {
    work();
    transaction.commit();
  } catch (...) {
    is_together_ = false;
    bytes_.reset();
    throw;
  }
  is_together_ = false;
}

Statement PassageStore::document_rows(std::string_view condition) const {
  return database_.prepare(
      fmt::format("SELECT id, name, passages, characters, hash, time, {} FROM documents {}",
                  metadata_.has_tables() ? "metadata" : "NULL", condition));
}

DocumentRow PassageStore::document_of(const Statement& row) const {
  DocumentRow document = {.id = row.integer(0),
                          .name = std::string(row.text(1)),
                          .passages = row.integer(2),
                          .characters = row.integer(3),
                          .hash = std::string(row.text(4)),
                          .time = std::string(row.text(5)),
                          .metadata = std::string(row.text(6))};
  if (document.passages < 0 || document.characters < 0) database_.fail_damaged();
  return document;
}

std::vector<DocumentRow> PassageStore::list() const {
  std::vector<DocumentRow> documents;
  Statement rows = document_rows("ORDER BY name");
  while (rows.step()) documents.push_back(document_of(rows));
  return documents;
}

std::optional<DocumentRow> PassageStore::document(const std::string& name) const {
  Statement row = document_rows("WHERE name = ?");
  if (!row.bind(1, name).step()) return std::nullopt;
  return document_of(row);
}

std::optional<DocumentRow> PassageStore::with_hash(const std::string& hash) const {
  Statement row = document_rows("WHERE hash = ? LIMIT 1");
  if (!row.bind(1, hash).step()) return std::nullopt;
  return document_of(row);
}

Index PassageStore::text_bytes() const {
  const Index version = database_.version();
  if (!bytes_ || version != bytes_version_) {
    bytes_ = stored_bytes();
    bytes_version_ = version;
  }
  return *bytes_;
}

/// Counts the texts that nobody has counted.
Index PassageStore::stored_bytes() const {
  std::vector<DocumentRow> uncounted;
  {
    Statement rows = document_rows("WHERE bytes IS NULL");
    while (rows.step()) uncounted.push_back(document_of(rows));
  }
  if (!uncounted.empty()) {
    Transaction transaction(database_);
    Statement set = database_.prepare("UPDATE documents SET bytes = ? WHERE id = ?");
    for (const DocumentRow& row : uncounted) {
      set.bind(1, std::ssize(text(row, 0, row.characters))).bind(2, row.id).run();
    }
    transaction.commit();
  }
  return number_of(database_, "SELECT ifnull(sum(bytes), 0) FROM documents");
}

std::string PassageStore::text(const DocumentRow& document, Index begin, Index end) const {
  const Snapshot snapshot(database_);
  const std::vector<Index> ids = passages_of(document.id);
  Statement own = database_.prepare("SELECT passages FROM documents WHERE id = ?");
  if (own.bind(1, document.id).step() && own.integer(0) != std::ssize(ids)) {
    database_.fail_damaged();
  }
  Statement row = database_.prepare("SELECT end FROM passages WHERE id = ?");
  const auto end_of = [&](Index id) {
    const Index found = row.bind(1, id).step() ? row.integer(0) : 0;
    row.run();
    return found;
  };
  // Passages are in the order of the text, by their ends too.
  auto next =
      std::partition_point(ids.begin(), ids.end(), [&](Index id) { return end_of(id) <= begin; });
  Index covered = next == ids.begin() ? 0 : end_of(*std::prev(next));
  std::string text;
  Index position = std::max<Index>(begin, 0);
  end = std::min(end, document.characters);
  for (; position < end && next != ids.end(); ++next) {
    const PassageRow passage = passages({&*next, 1}).front();
    if (position < passage.begin) {
      const Index to = std::min(passage.begin, end);
      append_gap(text, {.begin = covered, .end = passage.begin, .text = {}}, position, to);
      position = to;
    }
    covered = std::max(covered, passage.end);
    const Index to = std::min(passage.end, end);
    if (position >= to) continue;
    const std::vector<std::size_t> starts = character_starts(passage.text);
    require(std::ssize(starts) == passage.end - passage.begin + 1,
            "{}: passage {}: expected {} characters, found {}; make the index anew", file(), *next,
            passage.end - passage.begin, std::ssize(starts) - 1);
    const auto byte = [&](Index at) {
      return starts[static_cast<std::size_t>(at - passage.begin)];
    };
    text.append(passage.text, byte(position), byte(to) - byte(position));
    position = to;
  }
  return text;
}

bool PassageStore::contains(const std::string& name, std::string_view text) const {
  Statement row = database_.prepare("SELECT 1 FROM documents WHERE name = ? AND hash = ?");
  return row.bind(1, name).bind(2, text_hash(text)).step();
}

std::vector<Index> PassageStore::find(const std::string& name) const {
  std::vector<Index> ids;
  Statement own = database_.prepare("SELECT id FROM documents WHERE name = ?");
  if (own.bind(1, name).step()) return {own.integer(0)};
  // The folder of all relative names is in none of them. '0' comes behind '/'.
  const bool is_working_folder = name == ".";
  Statement rows = database_.prepare(
      is_working_folder ? "SELECT id FROM documents WHERE name NOT LIKE '/%' AND name <> '..' "
                          "AND name NOT LIKE '../%' ORDER BY id"
                        : "SELECT id FROM documents WHERE name > rtrim(?1, '/') || '/' AND "
                          "name < rtrim(?1, '/') || '0' ORDER BY id");
  if (!is_working_folder) rows.bind(1, name);
  while (rows.step()) ids.push_back(rows.integer(0));
  if (ids.empty() && !text::is_ascii(name)) ids = find_equivalent(name);
  return ids;
}

std::vector<Index> PassageStore::find_equivalent(const std::string& name) const {
  const std::string wanted = text::composed(name);
  const std::string folder = wanted.ends_with('/') ? wanted : wanted + '/';
  std::vector<Index> ids;
  Statement rows = database_.prepare("SELECT id, name FROM documents ORDER BY id");
  while (rows.step()) {
    const std::string found = text::composed(rows.text(1));
    if (found == wanted || found.starts_with(folder)) ids.push_back(rows.integer(0));
  }
  return ids;
}

std::vector<Index> PassageStore::passages_of(Index document) const {
  std::vector<Index> ids;
  Statement rows = database_.prepare("SELECT id FROM passages WHERE document = ? ORDER BY id");
  rows.bind(1, document);
  while (rows.step()) ids.push_back(rows.integer(0));
  return ids;
}

std::vector<std::string> PassageStore::document_names(std::span<const Index> passages) const {
  std::vector<std::string> names(passages.size());
  Statement row = database_.prepare(
      "SELECT name FROM documents WHERE id = (SELECT document FROM passages WHERE id = ?)");
  for (const auto& [id, i] : ascending(passages)) {
    require(row.bind(1, id).step(), "{}: expected passage {}, found none; make the index anew",
            file(), id);
    names[at(i)] = row.text(0);
    row.run();
  }
  return names;
}

bool PassageStore::describe(const std::string& name, const std::string& metadata) const {
  const std::optional<DocumentRow> row = document(name);
  if (!row || row->metadata == metadata) return false;
  std::optional<Transaction> transaction;
  if (!is_together_) transaction.emplace(database_);
  metadata_.remove(row->id);
  database_.prepare("UPDATE documents SET metadata = NULL WHERE id = ?").bind(1, row->id).run();
  metadata_.put(row->id, metadata);
  if (transaction) transaction->commit();
  return true;
}

void PassageStore::put_places(Index document, const DocumentPlaces& places) const {
  Statement insert = database_.prepare("INSERT INTO places VALUES (?, ?, ?, ?)");
  for (std::size_t i = 0; i < places.starts.size(); ++i) {
    insert.bind(1, document).bind(2, places.starts[i]);
    insert.bind(3, static_cast<std::int64_t>(i) + 1).bind(4, places.unit).run();
  }
}

Statement PassageStore::place_rows() const {
  return database_.prepare(
      "SELECT number, unit FROM places WHERE document = ? AND begin <= ? "
      "ORDER BY begin DESC, number DESC LIMIT 1");
}

std::optional<PlaceSpan> PassageStore::place_of(Statement& rows, Index document,
                                                CharacterSpan span) {
  PlaceSpan place;
  const auto find = [&](Index character) {
    const bool is_there = rows.bind(1, document).bind(2, character).step();
    if (is_there) {
      place.last = rows.integer(0);
      place.unit = rows.text(1);
    }
    rows.run();
    return is_there;
  };
  if (!find(span.begin)) return std::nullopt;
  place.first = place.last;
  find(std::max(span.begin, span.end - 1));
  return place;
}

DocumentPlaces PassageStore::places_of(Index document) const {
  DocumentPlaces places;
  if (!has_places_) return places;
  Statement rows =
      database_.prepare("SELECT begin, unit FROM places WHERE document = ? ORDER BY number");
  for (rows.bind(1, document); rows.step();) {
    places.starts.push_back(rows.integer(0));
    places.unit = rows.text(1);
  }
  return places;
}

bool PassageStore::put(const NewDocument& document, std::span<const NewPassage> passages,
                       const NewVectors& vectors) const {
  std::optional<Transaction> transaction;
  if (!is_together_) transaction.emplace(database_);
  counts_.reset();
  words_.forget_counts();
  Index more_bytes = std::ssize(document.text);
  Statement former = database_.prepare("SELECT id FROM documents WHERE name = ?");
  const bool replaces = former.bind(1, document.name).step();
  if (replaces) more_bytes -= remove_document(former.integer(0));
  Statement insert = database_.prepare(
      "INSERT INTO documents (name, hash, characters, passages, bytes, time) "
      "VALUES (?, ?, ?, ?, ?, datetime('now'))");
  const Index characters = passages.empty() ? 0 : passages.back().end;
  insert.bind(1, document.name).bind(2, text_hash(document.text)).bind(3, characters);
  insert.bind(4, std::ssize(passages)).bind(5, std::ssize(document.text)).run();
  const Index id = database_.last_row();
  metadata_.put(id, document.metadata);
  put_places(id, document.places);
  Statement passage =
      database_.prepare("INSERT INTO passages (document, begin, end, text) VALUES (?, ?, ?, ?)");
  Statement word = database_.prepare("INSERT INTO words (rowid, text) VALUES (?, ?)");
  Statement code = database_.prepare("INSERT INTO codes VALUES (?, ?, ?, ?)");
  Statement exact = database_.prepare("INSERT INTO vectors VALUES (?, ?)");
  const std::size_t width = passages.empty() ? 0 : vectors.dense.size() / passages.size();
  std::vector<std::int8_t> bytes(width);
  for (std::size_t i = 0; i < passages.size(); ++i) {
    const NewPassage& one = passages[i];
    passage.bind(1, id).bind(2, one.begin).bind(3, one.end).bind(4, one.text).run();
    const Index row = database_.last_row();
    word.bind(1, row).bind(2, one.text).run();
    if (!vectors.sparse.empty()) tokens_.put(row, vectors.sparse[i]);
    if (!vectors.multi.empty()) tokens_.put(row, vectors.multi[i], vectors.multi_width);
    if (width == 0) continue;
    const std::span<const float> vector = vectors.dense.subspan(i * width, width);
    const float scale = kernels::quantize(vector, bytes);
    code.bind(1, row).bind(2, id).bind(3, double{scale}).bind(4, std::as_bytes(std::span(bytes)));
    code.run();
    exact.bind(1, row).bind(2, std::as_bytes(vector)).run();
  }
  if (transaction) transaction->commit();
  if (bytes_) *bytes_ += more_bytes;
  return replaces;
}

void PassageStore::make_token_tables(bool sparse, bool multi) {
  Transaction transaction(database_);
  tokens_.make(sparse, multi);
  transaction.commit();
}

std::vector<Index> PassageStore::passage_ids() const {
  std::vector<Index> ids;
  Statement rows = database_.prepare("SELECT id FROM passages ORDER BY id");
  while (rows.step()) ids.push_back(rows.integer(0));
  return ids;
}

Index PassageStore::remove(const std::string& name) const {
  Transaction transaction(database_);
  counts_.reset();
  words_.forget_counts();
  const std::vector<Index> documents = find(name);
  Index bytes = 0;
  for (const Index id : documents) bytes += remove_document(id);
  transaction.commit();
  if (bytes_) *bytes_ -= bytes;
  return std::ssize(documents);
}

Index PassageStore::remove_document(Index id) const {
  constexpr std::array kStatements = {
      R"(INSERT INTO words (words, rowid, text)
         SELECT 'delete', id, text FROM passages WHERE document = ?)",
      "DELETE FROM vectors WHERE passage IN (SELECT id FROM passages WHERE document = ?)",
      "DELETE FROM codes WHERE passage IN (SELECT id FROM passages WHERE document = ?)",
      "DELETE FROM passages WHERE document = ?",
      "DELETE FROM places WHERE document = ?",
      "DELETE FROM documents WHERE id = ?",
  };
  Statement size = database_.prepare("SELECT bytes FROM documents WHERE id = ?");
  const Index bytes = size.bind(1, id).step() ? size.integer(0) : 0;
  size.run();
  tokens_.remove_document(id);
  metadata_.remove(id);
  for (const char* sql : kStatements) {
    database_.prepare(sql).bind(1, id).run();
  }
  return bytes;
}

Index PassageStore::version() const { return database_.version(); }

Codes PassageStore::codes(Index width) const {
  const Snapshot snapshot(database_);
  Codes codes;
  codes.vectors.width = width;
  codes.vectors.reserve(passages());
  codes.passages.reserve(at(passages()));
  add_new_codes(codes);
  return codes;
}

void PassageStore::add_new_codes(Codes& codes) const {
  const Index width = codes.vectors.width;
  const Index last = codes.passages.empty() ? 0 : codes.passages.back();
  Statement count = database_.prepare("SELECT count(*) FROM codes WHERE passage > ?");
  count.bind(1, last).step();
  codes.vectors.make_room(count.integer(0));
  Statement rows = database_.prepare(
      "SELECT passage, scale, code FROM codes WHERE passage > ? ORDER BY passage");
  rows.bind(1, last);
  std::vector<std::int8_t> bytes(static_cast<std::size_t>(width));
  while (rows.step()) {
    const std::span<const std::byte> code = rows.bytes(2);
    require(code.size() == bytes.size(),
            "{}: passage {}: expected a vector of {} bytes, found {}; make the index anew", file(),
            rows.integer(0), width, code.size());
    std::memcpy(bytes.data(), code.data(), code.size());
    codes.passages.push_back(rows.integer(0));
    codes.vectors.append(bytes, static_cast<float>(rows.real(1)));
  }
  require_of_all_passages(std::ssize(codes.passages));
}

void PassageStore::require_of_all_passages(Index count) const {
  if (count == passages()) return;
  fail_damaged(file(), fmt::format("{} passages with {} vectors", passages(), count));
}

std::vector<PassageRow> PassageStore::passages(std::span<const Index> ids) const {
  std::vector<PassageRow> passages(ids.size());
  const Snapshot snapshot(database_);
  std::optional<Statement> places;
  if (has_places_) places = place_rows();
  Statement row = database_.prepare(
      fmt::format("SELECT documents.name, begin, end, text, document, {} FROM passages JOIN "
                  "documents ON documents.id = passages.document WHERE passages.id = ?",
                  metadata_.has_tables() ? "documents.metadata" : "NULL"));
  for (const auto& [id, i] : ascending(ids)) {
    require(row.bind(1, id).step(), "{}: expected passage {}, found none; make the index anew",
            file(), id);
    PassageRow& passage = passages[at(i)];
    passage = {.document = std::string(row.text(0)),
               .begin = row.integer(1),
               .end = row.integer(2),
               .text = std::string(row.text(3)),
               .metadata = std::string(row.text(5))};
    if (passage.begin < 0 || passage.end < passage.begin) database_.fail_damaged();
    if (places) {
      passage.place = place_of(*places, row.integer(4), {passage.begin, passage.end});
    }
    row.run();
  }
  return passages;
}

std::vector<float> PassageStore::vectors(std::span<const Index> ids, Index width) const {
  const std::size_t size = static_cast<std::size_t>(width) * sizeof(float);
  std::vector<float> vectors(ids.size() * static_cast<std::size_t>(width));
  const Snapshot snapshot(database_);
  Statement row = database_.prepare("SELECT vector FROM vectors WHERE passage = ?");
  for (const auto& [id, i] : ascending(ids)) {
    const bool found = row.bind(1, id).step();
    const auto bytes = found ? row.bytes(0) : std::span<const std::byte>();
    require(bytes.size() == size,
            "{}: passage {}: expected a vector of {} numbers, found {} bytes; make the index anew",
            file(), id, width, bytes.size());
    std::memcpy(vectors.data() + i * width, bytes.data(), size);
    row.run();
  }
  require(all_finite(vectors), "{}: expected finite vectors, found others; make the index anew",
          file());
  return vectors;
}

KnownWords PassageStore::known(const WordQuery& words) const {
  KnownWords known;
  const auto all = static_cast<double>(passages());
  const auto is_phrase = [&](const std::string& term) {
    const auto& phrases = words.phrases();
    return std::find(phrases.begin(), phrases.end(), term) != phrases.end();
  };
  const std::vector<Index> counts = words_.count(words.terms());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::string& term = words.terms()[i];
    if (counts[i] > passages()) database_.fail_damaged();
    const auto having = static_cast<double>(counts[i]);
    const double rarity = std::log((all - having + 0.5) / (having + 0.5));
    known.reach += (kSaturation + 1) * std::max(rarity, kLeastRarity);
    if (having > 0 && (rarity > 0 || is_phrase(term))) known.terms.push_back(term);
  }
  // In an index of few passages every word is in most of them.
  if (known.terms.empty()) known.terms = words.terms();
  return known;
}

WordScores PassageStore::match(std::span<const std::string> terms) const {
  return words_.match(terms);
}

WordScores PassageStore::best(std::span<const std::string> terms, Index most) const {
  return words_.best(terms, most);
}

std::vector<Index> PassageStore::matching(const std::string& query) const {
  std::vector<Index> ids;
  Statement rows = database_.prepare("SELECT rowid FROM words WHERE words MATCH ?");
  for (rows.bind(1, query); rows.step();) ids.push_back(rows.integer(0));
  return ids;
}

}  // namespace longformer::index
