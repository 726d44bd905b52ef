// Files of words in columns with a label each, as of the CoNLL shared tasks: a word on a line, an
// empty line behind a sentence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/frame/data_file.h"
#include "engine/frame/labels.h"
#include "tasks/engine_names.h"

namespace longformer::tasks {

struct ColumnSentence {
  /// Line of its first word; `place` is "file:line" of it, or of the line that is broken.
  std::int64_t line = 0;
  std::string place = {};
  std::vector<std::string> words = {}, labels = {};
  /// Fault of the line; empty for a good one.
  std::string error = {};
};

struct ColumnFile {
  std::vector<ColumnSentence> sentences;
  /// Which columns were read; empty for a word and its label alone.
  std::string note;
};

/// Reads a whole file in one way, which is found out from all of its lines:
/// - Columns are between tabs where most lines have one, else between white space. A line with
///   another number of columns than most is broken.
/// - A line that begins with "#" before the first word of a sentence is a comment unless it has as
///   many columns as words have, and a tag where all of them have tags. "# key = value" and "#begin
///   document" always are. Lines that begin with -DOCSTART- are no words.
/// - A first column of numbers that count the words of each sentence is no word (CoNLL-U, .iob2);
///   its ranges (1-2) and empty nodes (1.1) are left out.
/// - Labels are in the last column that has those of the model, else tags (O, B-, I-, …), else in
///   the fourth one of CoNLL-U, else in the last one. Words are in the first column that is left.
///   Numbers of columns in the options, from 1, count more.
/// Throws Error that names the file for one in which no column can have labels.
ColumnFile read_column_file(const std::string& path, const DataOptions& options,
                            const std::optional<LabelSet>& known);

}  // namespace longformer::tasks
