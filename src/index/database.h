// SQLite with exceptions and lifetimes: https://www.sqlite.org/cintro.html
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace longformer::index {

/// A statement that may run many times: bind, step until there is no row, bind again. Places of
/// parameters count from 1, columns from 0.
class Statement {
 public:
  Statement& bind(int place, std::int64_t value);
  Statement& bind(int place, double value);
  /// Texts and bytes are copied.
  Statement& bind(int place, std::string_view text);
  Statement& bind(int place, std::span<const std::byte> bytes);

  /// Whether there is one more row; after the last one the statement can be bound anew.
  bool step();
  /// Runs a statement that has no rows, or to the end of those that are left.
  void run();
  /// Leaves the rows that are left; the statement can be bound anew.
  void reset();

  std::int64_t integer(int column) const;
  double real(int column) const;
  /// Valid until the next step.
  std::string_view text(int column) const;
  std::span<const std::byte> bytes(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  Statement(sqlite3_stmt* statement, std::string file)
      : statement_(statement), file_(std::move(file)) {}
  void check(int code) const;

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  std::string file_;
};

/// Throws the Error of a file whose parts do not belong together; `fault` says which, and may be
/// empty.
[[noreturn]] void fail_damaged(const std::string& file, std::string_view fault = {});

/// Whether a file is only read, or written where it exists, or also made where it is absent.
enum class Access { read, change, write };

class Database {
 public:
  /// An empty name is a database in memory. Throws Error for a file that cannot be opened or
  /// written; what is in it is looked at by the first statement. A lock of another process is
  /// waited for. What a killed process left half written is taken back, which needs a file that can
  /// be written.
  Database(const std::string& file, Access access);

  const std::string& file() const { return file_; }
  Statement prepare(std::string_view sql) const;
  /// Runs statements that have neither parameters nor rows.
  void run(const char* sql) const;
  /// The row that was inserted last.
  std::int64_t last_row() const;
  /// Rows that the last statement changed.
  std::int64_t changes() const;
  /// A number that changes whenever another connection has written.
  std::int64_t version() const;
  /// See index::fail_damaged().
  [[noreturn]] void fail_damaged() const;
  /// Reads something, so that a lock is held from here on where a Snapshot is open.
  void begin_reading() const;

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  std::string file_;
  Access access_;
  std::unique_ptr<sqlite3, Close> handle_;
};

/// All that is read in its scope is of one state, and the file is locked once for it, not for each
/// statement: 1,000 passages take a third of the time. Others wait with their changes meanwhile.
class Snapshot {
 public:
  explicit Snapshot(const Database& database);
  Snapshot(const Snapshot&) = delete;
  Snapshot& operator=(const Snapshot&) = delete;
  ~Snapshot();

 private:
  void release() const;

  const Database& database_;
};

/// Changes that are made together or, without commit(), not at all.
class Transaction {
 public:
  /// Waits until no other process writes.
  explicit Transaction(const Database& database);
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();
  void commit();

 private:
  const Database& database_;
  bool open_ = true;
};

}  // namespace longformer::index
