// Tables of documents: rows of CSV and TSV files, objects of JSON lines and of JSON lists, as
// trainings and evaluations read them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/error.h"
#include "longformer/options.h"

namespace longformer {

/// "csv", "tsv" or "jsonl" by the ending of a name, behind which that of an archive (.gz, .xz,
/// .zst) may stand; empty for all others.
std::string table_format_of(const std::string& file);

/// The form of a text that is a table under another name: "CSV with the columns a, b", "JSON
/// lines with the fields a, b"; empty for what is none. The first 64 KB are looked at.
std::string table_seen_in(std::string_view text);

/// A row.
struct TableDocument {
  /// First line in the file, from 1; number of the record where the file is one JSON value.
  std::int64_t line = 0;
  /// Number of the object among those that begin on the line; 0: it is the first.
  std::int64_t record = 0;
  /// About how many bytes of the file it took.
  std::int64_t bytes = 0;
  std::string text = {};
  std::string question = {};
  /// The field "title" where it is a string.
  std::string title = {};
  /// The id as JSON; empty: there is none.
  std::string id = {};
  /// The fields beside text and id as a JSON object, where they were asked for.
  std::string others = {};
  /// Why there is no text, and what would help; empty: there is one.
  std::string error = {};
  std::vector<Remedy> remedies = {};
};

/// Hands out the documents of a table one by one: a file may be larger than memory, and of a pipe
/// no more is read than a row needs. A JSON list is read whole.
class DocumentTable {
 public:
  /// These options count: format ("csv", "tsv", "jsonl", "json"; empty: by the ending, else by the
  /// first line), text_field, id_field, delimiter, columns, quotes and encoding.
  /// `question_field` is the field of a question; empty: there is none. `keeps_others` asks for
  /// TableDocument::others.
  /// Throws Error with the system's reason when the file cannot be read.
  DocumentTable(const std::string& path, const DataOptions& options,
                std::string question_field = {}, bool keeps_others = false);
  ~DocumentTable();
  DocumentTable(DocumentTable&&) noexcept;
  DocumentTable& operator=(DocumentTable&&) noexcept;

  /// Whether there was one more row. One that is broken is a document with an error: the rows
  /// behind it can be read. Throws Error for a table without the columns, and when reading fails;
  /// nothing comes behind that.
  bool next(TableDocument& document);
  /// Lines that were read so far; 0: the file is empty.
  std::int64_t lines() const;
  /// Whether the first of them was a header.
  bool has_header() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace longformer
