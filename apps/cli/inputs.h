// The documents that a verb works on: files, stdin, lines of them, or texts of the command line.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "longformer/document_files.h"
#include "longformer/error.h"
#include "longformer/options.h"
#include "longformer/search_files.h"
#include "longformer/tables.h"
#include "longformer/text.h"
#include "messages.h"
#include "output.h"
#include "shard.h"
#include "unread_files.h"

namespace longformer::cli {

struct Document {
  /// The file as it was named, "-" for stdin, "--text" for a text of the command line.
  std::string file;
  /// Counts from 1 where a file holds many documents, or among the texts; else 0. Of a row of a
  /// table it is its first line.
  std::int64_t line = 0;
  /// Number of the JSON object among those that begin on the line; 0: it is the first.
  std::int64_t record = 0;
  std::string text;
  /// Pages, paragraphs or chapters of the text, where the file has them.
  DocumentPlaces places = {};
  /// Bytes of the file, the line or the text that was read for it.
  std::int64_t bytes = 0;
  /// Question about the text; empty unless InputOptions::question_field is given.
  std::string question;
  /// Answers to choose from; only in the verb `choose`.
  std::vector<std::string> choices = {};
  /// The field "title" of a row, where it is a string.
  std::string title = {};
  /// The id of a row as JSON; empty when there is none.
  std::string id;
  /// The other fields of a row as a JSON object; only with InputOptions::keeps_fields.
  std::string metadata = {};
  /// Why there is no text; empty when there is one.
  std::string error;
  /// The file could be read, but there is no text in it.
  bool is_no_text = false;
  /// The kind of such a file, where its first bytes tell it.
  FileKind kind = {};
  /// Why the text of such a file cannot be had, where it is a document.
  FileFault fault = FileFault::none;
  /// Another document of the input has the same id, and counts.
  bool is_repeated = false;
  /// Documents and bytes that were read before this one and left out.
  std::int64_t left_out = 0, left_out_bytes = 0;

  /// "file", "file:line" or "file:line:record"; what messages about the document begin with.
  std::string label() const;
  /// The name that tells it from others: its id, else file and line. As JSON.
  std::string name() const;
  /// Whether there is an id that is neither null nor an empty text, which many rows may have.
  bool has_id() const;
  /// Place of the document as one field of a line.
  std::string field() const;
  /// {"file": …, "line": …}, with null for line 0, and "record" and "id" where there is one; what
  /// JSON lines about the document begin with.
  JsonLine json() const;
};

struct InputOptions {
  std::vector<std::string> files = {};
  std::vector<std::string> texts = {};
  /// Each line is a document.
  bool lines = false;
  /// Lines are JSON, or another stream of JSON objects and lists, each of which is a document.
  bool are_json = false;
  /// Fields and form of tables. The encoding is that of all inputs, which are tables if their names
  /// say so.
  DataOptions table = {};
  /// All inputs are tables: their fields or columns were named.
  bool are_tables = false;
  /// No input is a table, whatever its name.
  bool has_no_tables = false;
  /// The field of a row that holds a question; empty for none.
  std::string question_field = {};
  /// Rows come with their other fields.
  bool keeps_fields = false;
  /// Format of a file that is one document: a name of longformer::DocumentFormat, or auto to tell
  /// by its name. Empty: its bytes are the text. PDF, Word and others are known by their bytes.
  std::string format = {};
  /// Those of the files that were found in folders, and what else is in these.
  std::set<std::string> from_folders = {};
  std::vector<std::string> others = {};
  /// The part of the documents that is handed out.
  Shard shard = {};

  /// Encoding of the files and stdin. Its notes go to the messages.
  TextEncoding& encoding() { return table.encoding; }
  const TextEncoding& encoding() const { return table.encoding; }
  /// Whether the rows of a file are documents.
  bool is_table(const std::string& file) const;
};

/// Tells the notes of an encoding, those of each text once.
std::function<void(const std::string&)> encoding_note(Messages& messages);

/// Hands out documents one by one, so that a file of a million lines is never held whole.
class Inputs {
 public:
  /// Without files and texts the document is stdin. Throws UsageError when that is a terminal. The
  /// messages must live as long.
  Inputs(const InputOptions& options, Messages& messages);

  /// Whether there was one more. A file that cannot be read is a document with an error; what has
  /// no text in a folder is left out with a note.
  bool next(Document& document);

  /// 0 when unknown.
  std::int64_t total_documents() const { return total_documents_; }
  std::int64_t total_bytes() const { return total_bytes_; }

 private:
  /// Begins with the lines or rows of a file; false leaves the reason in the document.
  bool open(Document& document);
  bool next_line(Document& document);
  bool next_value(Document& document);
  bool next_row(Document& document);
  /// The end of a file that holds many documents: whether it is an error, which the document says.
  bool is_wrong_end(Document& document, const char* nothing);
  /// Puts the documents of folders in the place of the folders.
  void look_into_folders();
  void read_whole(Document& document);
  /// Whether the document is one of a folder that has no text, which is told and left out.
  bool is_left_out(Document& document);
  /// Tells of the first text that is a table by another name.
  void note_table(const Document& document);
  /// Whether it is in the part of this process; a file that cannot be read is in all.
  bool is_ours(const Document& document) const;

  InputOptions options_;
  Messages& messages_;
  std::size_t next_text_ = 0;
  std::size_t next_file_ = 0;
  std::optional<TextLines> lines_;
  std::optional<JsonValues> values_;
  std::optional<DocumentTable> table_;
  bool has_documents_ = false;  ///< The file whose lines, values or rows are read.
  bool has_noted_ = false;
  std::int64_t total_documents_ = 0;
  std::int64_t total_bytes_ = 0;
  UnreadFiles unread_;
  bool has_told_ = false;
  std::int64_t left_out_ = 0, left_out_bytes_ = 0;
};

}  // namespace longformer::cli
