// Common parts of the readers of data sets: formats, records with their place in the file, and the
// handling of a broken record.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "longformer/options.h"
#include "longformer/text.h"
#include "text/delimited.h"

namespace longformer::engine {

using Json = nlohmann::ordered_json;

/// Broken records that were left out of a file, and what was wrong with the first one.
struct SkippedOfFile {
  std::string file;
  std::int64_t count = 0;
  std::string first;
};

struct DataReport {
  std::int64_t examples = 0;
  /// Without text or tokens; they count as examples.
  std::int64_t empty = 0;
  /// Broken records that were left out, in all and for each file that has any.
  std::int64_t skipped = 0;
  std::vector<SkippedOfFile> skipped_of_files = {};
  /// The file, or the folder of documents, that is being read; may be empty where there is one.
  std::string file = {};
  /// How the data were understood, where they could be understood otherwise.
  std::vector<std::string> notes = {};

  /// Counts a broken record of the file that is being read.
  void skip(const std::string& message);
  /// Counts what another report of the same data has left out.
  void add_skipped(const DataReport& other);
  /// The fault of the first broken record; of several files, how many were left out of each,
  /// and the fault of its first one. Empty when there is none.
  std::string first_skipped() const;
};

/// Origin of an example.
struct Origin {
  /// Line, or number of the record where a file is one JSON value, from 1; 0 for a file by itself.
  std::int64_t line = 0;
  /// Its name in the data set; empty when it has none.
  std::string id = {};
  /// The name as JSON where it is no text: a number as it is written.
  std::string number = {};
  /// Number of the JSON object among those that begin on the line; 0: it is the first.
  std::int64_t record = 0;

  /// The name as JSON; null when it has none.
  std::string id_json() const;
};

/// "file:line: id" or "file:line:record: id", for messages, as far as they are known.
std::string place_of(const std::string& path, const Origin& origin);

/// The record that is being read.
struct Record {
  std::int64_t number = 0;
  /// "file:line", "file:line:record" for a further object on a line, or "file: record 3", for
  /// messages.
  std::string place;
  /// The JSON of the id where it is no text; empty for all others.
  std::string id_number = {};
  /// Number of the object among those that begin on the line; 0: it is the first.
  std::int64_t record = 0;
};

/// The object that was read last, of a file of this name.
Record record_at(const JsonValues& values, const std::string& path);

/// Reads one record, or throws Error that says what is wrong with it: then Error at `place`, or one
/// more skipped record.
void read_record(const std::string& place, const DataOptions& options, DataReport& report,
                 const std::function<void()>& read);

/// The file of a table, and the option that names a column of it.
struct ColumnOption {
  std::string_view path;
  std::optional<Remedy> remedy = std::nullopt;
};

/// Names of columns, as messages list them.
std::string listed_columns(const std::vector<std::string>& names);

/// The column that an option names; `what` is in it. Throws Error that lists the columns and has
/// the remedy where there is none of the name, and where there are two.
std::size_t known_column(const std::vector<std::string>& columns, const std::string& name,
                         std::string_view what, const ColumnOption& option);

/// Reads the rows of a CSV or TSV file behind its header, whose names `columns` takes: those of the
/// options, or of the first row. The separator is that of the options, of a line "sep=;" before the
/// header, or one that the first line shows.
text::DelimitedReader open_table(TextLines lines, const DataOptions& options,
                                 std::vector<std::string>& columns);

/// Calls `read` with every object of a file of JSON lines, of another stream of objects (as
/// JsonValues has them) or of one JSON list (perhaps the member "data" of an object), as a record.
/// Throws Error for a file that cannot be read.
void read_objects(const std::string& path, const DataOptions& options, DataReport& report,
                  const std::function<void(const Json&, const Record&)>& read);

/// Calls `read` with every row of a CSV or TSV file, as many fields as there are columns. `begin`
/// takes the columns first: those of the options, or of the file's first row. Throws Error for a
/// file that cannot be read.
void read_rows(const std::string& path, const DataOptions& options, DataReport& report,
               const std::function<void(const std::vector<std::string>& columns)>& begin,
               const std::function<void(std::vector<std::string>& fields, const Record&)>& read);

/// Index of a column; the number of columns if there is no such column.
std::size_t column_of(const std::vector<std::string>& columns, const std::string& name);
/// The column of the id: that of the options, else "id" or "_id".
std::size_t id_column(const std::vector<std::string>& columns, const DataOptions& options);

/// Throws Error for a data set without examples, which tells of those that were left out.
void check_any(const std::string& path, std::size_t examples, const DataReport& report,
               std::string_view what = "example");

/// Whether a JSON value is an object with a list "data" of records. One with a text is a record.
template <typename AnyJson>
bool holds_list(const AnyJson& value, const std::string& text_field) {
  return value.is_object() && value.contains("data") && value["data"].is_array() &&
         !value.contains(text_field);
}
/// Whether a text begins an object, perhaps behind blanks.
bool begins_object(std::string_view text);

/// The value of a whole JSON file of a data set.
Json read_whole_json(const std::string& path, const DataOptions& options);
/// read_whole_json; null for a text that is not one JSON value, such as a stream of objects.
Json json_if_whole(const std::string& path, const DataOptions& options);

/// The text of a whole file of a data set.
std::string read_whole_text(const std::string& path, const DataOptions& options);

/// The text of a file that is one document: of PDF, Word, OpenDocument, EPUB, Markdown and HTML as
/// longformer/document_files.h has it. Throws Error.
std::string read_one_document(const std::string& path, const DataOptions& options);

/// The files that stand for a file or a folder: the documents in it and below. Other files are told
/// in the report.
std::vector<std::string> document_files_of(const std::string& path, DataReport& report);
/// Tells in the report of files that are left out.
void note_left_out(const std::vector<std::string>& files, DataReport& report);

/// The lines of a file of a data set.
TextLines lines_of(const std::string& path, const DataOptions& options);

/// The text that a file of a data set begins with, of at most so many bytes.
std::string read_beginning(const std::string& path, const DataOptions& options, std::size_t most);

/// The options with a place for what can be read once.
DataOptions with_inputs(DataOptions options);

/// read_objects, and of CSV and TSV files, whose rows become objects of strings by the names of the
/// columns, without those that are empty.
void read_records(const std::string& path, const DataOptions& options, DataReport& report,
                  const std::function<void(const Json&, const Record&)>& read);

/// Calls `read` with every paragraph of SQuAD's articles, {"paragraphs": [{"context", "qas":
/// […]}]}, an object each. An Error names file and article.
void read_squad(const Json& articles, const std::string& path,
                const std::function<void(const Json& paragraph)>& read);

/// The format of a file for a task whose plain lines are in the format `lines` ("fasttext",
/// "conll"; empty for none). Throws Error when it cannot be told.
std::string detect_format(const std::string& path, const DataOptions& options,
                          const std::string& lines);

/// The string member of an object. Throws Error.
const std::string& string_member(const Json& object, std::string_view key);
/// The text of an object, in the member that the options name. Throws Error.
const std::string& text_member(const Json& object, const DataOptions& options);
/// The list member of an object. Throws Error.
const Json& list_member(const Json& object, std::string_view key);
/// A value as a label or an id: a string as it is, a number or truth value as written. Throws Error
/// for other values.
std::string scalar_text(const Json& value, std::string_view what);
/// Whether a value stands for none: null, or NaN as Python writes it.
bool is_none(const Json& value);
/// The member "id" or "_id" of an object as text; empty when there is none.
std::string id_of(const Json& object);
/// The JSON of an object's id, as it stands in the text of the object, where it is a number or
/// truth value; empty for others.
std::string id_number(const Json& object, std::string_view text, const DataOptions& options = {});
/// Number and id of a record that holds an object.
Origin origin_of(const Json& object, const Record& record);

}  // namespace longformer::engine
