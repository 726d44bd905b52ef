// Files that were not read, and why: a line for each of the first ones, and one for all.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "longformer/document_files.h"
#include "longformer/error.h"
#include "messages.h"

namespace longformer::cli {

/// A file without a text for those who asked.
struct UnreadFile {
  std::string name, error;
  FileKind kind = {};
  FileFault fault = FileFault::none;
};

class UnreadFiles {
 public:
  /// The messages must live as long.
  explicit UnreadFiles(Messages& messages) : messages_(messages) {}

  /// Whether a file of a folder is left out with a note: what has no text, or none that a program
  /// reads which is there. A document that is damaged or locked is an error, as it has a text.
  static bool is_left_out(const UnreadFile& file);
  /// A file that is an error, for which a line is told elsewhere. Gives the error to tell: the
  /// program that is missing is told once.
  std::string count(const UnreadFile& file);
  /// A file of a folder that is left out.
  void leave_out(const UnreadFile& file);
  /// Tells the sums. Files of folders whose names no pattern matches may hold a text all the same,
  /// so that nobody should think it was read: `others` are looked at for kinds that are known.
  void tell(const std::vector<std::string>& others);

 private:
  void tell_kinds();
  void tell_faults();

  Messages& messages_;
  std::int64_t noted_ = 0, not_noted_ = 0;
  std::map<FileFault, std::int64_t> faults_;
  /// Files that are no text, by what they are.
  std::map<std::string_view, std::vector<std::string>> of_kinds_;
};

}  // namespace longformer::cli
