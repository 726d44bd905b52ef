#include "index/database.h"

#include <sqlite3.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <utility>

#include "core/error.h"
#include "core/file_kind.h"
#include "index/word_tokenizer.h"

namespace longformer::index {
namespace {

/// How long a process waits for others that write: a document of a book is written in under 1 s.
constexpr int kPatienceMilliseconds = 30000;

/// Throws Error where the file is of a known kind.
void require_no_known_kind(const std::string& path) {
  std::array<char, kKindBytes> bytes = {};
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), std::ssize(bytes));
  const auto count = static_cast<std::size_t>(file.gcount());
  if (count > 0) require_no_other_kind(path, "a search index", {bytes.data(), count}, "an SQLite");
}

/// Whether a file begins as databases do. SQLite says of one whose header is wrong behind that, as
/// of others, that it is no database.
bool begins_as_database(const std::string& path) {
  constexpr std::string_view kBeginning("SQLite format 3\0", 16);
  std::array<char, kBeginning.size()> bytes = {};
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), std::ssize(bytes));
  return std::string_view(bytes.data(), bytes.size()) == kBeginning;
}

[[noreturn]] void fail_with(const std::string& file, int code, const char* message) {
  switch (code & 0xff) {
    case SQLITE_NOTADB:
      if (begins_as_database(file)) fail_damaged(file);
      require_no_known_kind(file);
      fail("{}: expected a search index, found another kind of file", file);
    // Statements and values are ours, and fit the tables that we have made: those of this file are
    // other ones, or rows in them contradict each other.
    case SQLITE_ERROR:
    case SQLITE_SCHEMA:
    case SQLITE_MISMATCH:
    case SQLITE_CONSTRAINT:
    case SQLITE_CORRUPT:
    case SQLITE_FORMAT:
      fail_damaged(file);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      fail("{}: another process has been writing this index for {} s", file,
           kPatienceMilliseconds / 1000);
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      fail("{}: expected an index file that can be opened and written, found: {}", file, message);
    case SQLITE_FULL:
      fail("{}: no room left on the disk", file);
    default:
      fail("{}: {}", file, message);
  }
}

}  // namespace

void fail_damaged(const std::string& file, std::string_view fault) {
  fail("{}: expected a whole search index, found a damaged one{}{}; make it anew", file,
       fault.empty() ? "" : ": ", fault);
}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
void Database::Close::operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }

void Statement::check(int code) const {
  if (code == SQLITE_OK) return;
  fail_with(file_, code, sqlite3_errmsg(sqlite3_db_handle(statement_.get())));
}

Statement& Statement::bind(int place, std::int64_t value) {
  check(sqlite3_bind_int64(statement_.get(), place, value));
  return *this;
}

Statement& Statement::bind(int place, double value) {
  check(sqlite3_bind_double(statement_.get(), place, value));
  return *this;
}

Statement& Statement::bind(int place, std::string_view text) {
  // A null pointer would bind NULL instead of an empty text.
  const char* data = text.empty() ? "" : text.data();
  check(sqlite3_bind_text64(statement_.get(), place, data, text.size(), SQLITE_TRANSIENT,
                            SQLITE_UTF8));
  return *this;
}

Statement& Statement::bind(int place, std::span<const std::byte> bytes) {
  const void* data = bytes.empty() ? static_cast<const void*>("") : bytes.data();
  check(sqlite3_bind_blob64(statement_.get(), place, data, bytes.size(), SQLITE_TRANSIENT));
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  const int reset = sqlite3_reset(statement_.get());
  check(code == SQLITE_DONE ? reset : code);
  return false;
}

void Statement::run() {
  while (step()) {
  }
}

void Statement::reset() { sqlite3_reset(statement_.get()); }

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

double Statement::real(int column) const { return sqlite3_column_double(statement_.get(), column); }

std::string_view Statement::text(int column) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  if (data == nullptr) return {};
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

std::span<const std::byte> Statement::bytes(int column) const {
  const auto* data = static_cast<const std::byte*>(sqlite3_column_blob(statement_.get(), column));
  if (data == nullptr) return {};
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

Database::Database(const std::string& file, Access access)
    : file_(file.empty() ? "index in memory" : file), access_(access) {
  require(!std::filesystem::is_directory(file), "{}: expected a search index, found a folder",
          file);
  const int mode = access == Access::read     ? SQLITE_OPEN_READONLY
                   : access == Access::change ? SQLITE_OPEN_READWRITE
                                              : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(file.empty() ? ":memory:" : file.c_str(), &handle,
                                   mode | SQLITE_OPEN_NOMUTEX, nullptr);
  handle_.reset(handle);
  if (code != SQLITE_OK) fail_with(file_, code, sqlite3_errmsg(handle));
  sqlite3_busy_timeout(handle, kPatienceMilliseconds);
  // An index has no triggers. SQLite calls itself without end where a file has some on its tables
  // of words.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  register_tokenizer(handle);
  if (access == Access::read) begin_reading();
}

Statement Database::prepare(std::string_view sql) const {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(handle_.get(), sql.data(), static_cast<int>(sql.size()),
                                      &statement, nullptr);
  if (code != SQLITE_OK) fail_with(file_, code, sqlite3_errmsg(handle_.get()));
  return {statement, file_};
}

void Database::fail_damaged() const { index::fail_damaged(file_); }

void Database::begin_reading() const {
  constexpr const char* kRead = "PRAGMA data_version";
  const auto read = [&] { return sqlite3_exec(handle_.get(), kRead, nullptr, nullptr, nullptr); };
  // A reader may not take back what a killed writer left, so a connection that may does it.
  if (access_ == Access::read && (read() & 0xff) == SQLITE_READONLY) {
    Database(file_, Access::change).run(kRead);
  }
  const int code = read();
  if (code != SQLITE_OK) fail_with(file_, code, sqlite3_errmsg(handle_.get()));
}

void Database::run(const char* sql) const {
  const int code = sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail_with(file_, code, sqlite3_errmsg(handle_.get()));
}

std::int64_t Database::last_row() const { return sqlite3_last_insert_rowid(handle_.get()); }
std::int64_t Database::changes() const { return sqlite3_changes64(handle_.get()); }

std::int64_t Database::version() const {
  Statement statement = prepare("PRAGMA data_version");
  statement.step();
  return statement.integer(0);
}

Snapshot::Snapshot(const Database& database) : database_(database) {
  // Unlike BEGIN it may stand in a transaction.
  database_.run("SAVEPOINT snapshot");
  try {
    database_.begin_reading();
  } catch (...) {
    release();
    throw;
  }
}

Snapshot::~Snapshot() { release(); }

void Snapshot::release() const {
  try {
    database_.run("RELEASE snapshot");
  } catch (const Error&) {
    // Nothing was changed, so nothing is lost.
  }
}

Transaction::Transaction(const Database& database) : database_(database) {
  database_.run("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  if (!open_) return;
  try {
    database_.run("ROLLBACK");
  } catch (const Error&) {
    // SQLite has rolled back by itself, as it does when the disk is full.
  }
}

void Transaction::commit() {
  database_.run("COMMIT");
  open_ = false;
}

}  // namespace longformer::index
