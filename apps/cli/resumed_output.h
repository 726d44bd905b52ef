// Results that grow group by group and can be gone on with, whatever ended the process: lines of
// JSON, an object for each document, and for vectors an array of NumPy beside them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "inputs.h"

namespace longformer::cli {

/// All that results depend on: an option or a fact of the model, and its value; empty: not given.
using RunSettings = std::vector<std::pair<std::string, std::string>>;

/// A file that is written in place. Throws WriteError that names it.
class PlacedFile {
 public:
  /// Opens or makes it.
  explicit PlacedFile(std::string path);
  ~PlacedFile();
  PlacedFile(const PlacedFile&) = delete;
  PlacedFile& operator=(const PlacedFile&) = delete;

  const std::string& path() const { return path_; }
  /// Whether no other process holds it; it is held until the end of this one. On a file system
  /// without locks nobody is refused.
  bool lock() const;
  std::int64_t size() const;
  /// The bytes of a place, as far as there are any.
  std::string read(std::int64_t begin, std::size_t bytes) const;
  void write(std::int64_t begin, std::string_view bytes) const;
  /// Cuts what is behind.
  void cut(std::int64_t size) const;
  /// Returns when the disk has it.
  void sync() const;

 private:
  [[noreturn]] void fail() const;

  std::string path_;
  int file_;
};

/// The files of a run: `vectors.npy` with `vectors.jsonl`, or lines alone, and
/// `vectors.settings.json` with what made them. A group of documents is committed in this order:
/// its rows behind those of the array and their way to the disk, the header of the array, its
/// lines. So a line that is whole has its rows, whatever ends the process; what lies behind the
/// last whole line is cut when another process goes on.
class ResumedOutput {
 public:
  /// `columns` are the elements of a row of the array; 0: there is no array. Throws Error for files
  /// that were not made so, that other settings made (with both), that are damaged, or that
  /// another process writes.
  ResumedOutput(const std::string& output, std::int64_t columns, const RunSettings& settings);

  /// Documents and rows of the array that were there before.
  std::int64_t documents() const { return documents_; }
  std::int64_t rows() const { return rows_; }
  /// Documents of them that have an error instead of a vector.
  std::int64_t failed_before() const { return failed_before_; }

  /// Whether a document was done before. One whose id has been met by this process gets an error.
  /// Called from one thread, which may be another one than that of the rest.
  bool is_done(Document& document);

  /// Adds a document: a JSON object on one line, and its rows.
  void add(std::string_view object, std::span<const float> rows);
  /// Commits the group so far, if that is due.
  void flush();
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  /// Two hashes of a name, which make one of 128 bits.
  struct Name {
    std::uint64_t first = 0, second = 0;
    bool operator==(const Name&) const = default;
  };
  struct FirstHash {
    std::size_t operator()(const Name& name) const { return name.first; }
  };

  static Name name_of(const Document& document);
  void check(const std::string& settings_file, const RunSettings& settings) const;
  void make(const std::string& settings_file, const RunSettings& settings) const;
  /// Reads the whole lines, and cuts what lies behind them.
  void recover();
  void recover_array();
  void commit();
  void write_group();

  std::string output_;
  std::int64_t columns_;
  std::optional<PlacedFile> array_, lines_;
  /// Whether this process has met a document that is done.
  std::unordered_map<Name, bool, FirstHash> met_;

  std::int64_t failed_before_ = 0;
  /// Committed so far.
  std::int64_t documents_ = 0, rows_ = 0, line_bytes_ = 0;
  /// The group.
  std::string group_lines_;
  std::vector<float> group_rows_;
  Clock::time_point committed_ = Clock::now();
  Clock::duration cost_ = {};
};

}  // namespace longformer::cli
