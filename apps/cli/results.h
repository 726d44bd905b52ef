// Results of a verb: stdout, or the file of --output in the form that the ending of its name asks
// for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flags.h"
#include "inputs.h"
#include "longformer/report.h"
#include "output.h"
#include "record_file.h"

namespace longformer::cli {

enum class ResultForm {
  text,   ///< what people read
  rows,   ///< JSON objects: lines, or the list of a file that ends in .json
  table,  ///< CSV or TSV
  array,  ///< a NumPy array, for verbs that say so
};

/// The form by --output and --json. Throws UsageError for an ending that is none of them, for .npy
/// unless `has_array`, and for --json beside a form that is no JSON.
ResultForm form_of(const ModelFlags& flags, bool has_array = false);

/// Rows of documents: "file", "line" and "id", the columns of the verb, "record" and "error".
std::vector<std::string> columns_of_documents(const std::vector<std::string>& own);

/// Takes the results one by one. Throws UsageError as form_of, and what Output throws.
class Results {
 public:
  /// `columns` are those of a table; they may be named later, before the first row.
  explicit Results(const ModelFlags& flags, std::vector<std::string> columns = {},
                   bool has_array = false);

  ResultForm form() const { return form_; }
  /// Whether results are objects, as JSON or as rows of a table.
  bool has_rows() const { return form_ == ResultForm::rows || form_ == ResultForm::table; }
  bool is_table() const { return form_ == ResultForm::table; }
  void set_columns(std::vector<std::string> columns);

  /// Takes text, where there are no rows.
  Output& output() { return *output_; }
  void add(const JsonLine& row);
  /// An object with a list: in a table every element of it is a row, with the other members of the
  /// object.
  void add_list(const JsonLine& row, std::string_view list);
  void flush();
  /// Puts the file in its place.
  void finish();

 private:
  ResultForm form_;
  /// One of the two.
  std::optional<Output> output_;
  std::optional<RecordFile> table_;
};

/// Writes a report: text, or with --json or such a file lines of JSON objects. Members of objects
/// in them are columns of a table: "metrics.f1". Elements of the list are rows of it.
void write_report(const ModelFlags& flags, std::string_view text, std::string_view list = {});
/// The flags with --json where the file asks for objects.
ModelFlags with_form(ModelFlags flags);

/// The file of the ids that belong to the rows of an array: "vectors.ids.csv" for "vectors.npy". It
/// is written only if a document has an id.
class RowIds {
 public:
  explicit RowIds(const std::string& array);

  /// The next `rows` rows are those of the document.
  void add(const Document& document, std::int64_t rows);
  void finish();

 private:
  void write(std::string_view place, const std::string& id);

  std::string name_;
  std::int64_t rows_ = 0;
  /// Rows before the first id.
  std::vector<std::string> before_;
  std::optional<RecordFile> file_;
};

}  // namespace longformer::cli
