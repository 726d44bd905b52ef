// Files of JSON objects, in the form that the ending of their name asks for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "output.h"

namespace longformer::cli {

/// Throws UsageError, which names the option, unless a file of records may have such a name: .jsonl
/// or .ndjson (an object on each line), .json (a list of objects), .csv or .tsv (a table with a
/// column for each key), or none of an ending, for lines. An empty name passes.
void check_record_file(const std::string& option, const std::string& file);

/// A field of a table, in quotation marks where it needs them (RFC 4180).
std::string table_field(const std::string& text, char separator);

class RecordFile {
 public:
  /// The name must have passed check_record_file.
  explicit RecordFile(const std::string& file);

  /// The columns of a table, before its first row: rows are then written as they come, and other
  /// members of objects are left out.
  void set_columns(std::vector<std::string> columns);

  /// Takes a JSON object without a line break.
  void add(std::string_view object);
  /// Writes what is missing, and puts the file in its place.
  void finish();

 private:
  void write_table();
  void write_header();
  void write_row(std::string_view object);

  Output output_;
  /// The character between the columns of a table; 0 for none.
  char separator_ = 0;
  /// Objects of a table, a line each: only the last one tells which columns there are.
  std::string kept_;
  std::vector<std::string> columns_;
  bool has_header_ = false;
};

}  // namespace longformer::cli
