#include "unread_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "output.h"

namespace longformer::cli {
namespace {

/// So many files that are left out are told by name.
constexpr std::int64_t kToldByName = 10;
/// And so many of each kind that is known.
constexpr std::ptrdiff_t kShownOfAKind = 3;

FileKind kind_of(const std::string& file) {
  std::array<char, 4096> beginning;
  std::ifstream stream(file, std::ios::binary);
  stream.read(beginning.data(), std::ssize(beginning));
  const std::string_view read(beginning.data(), static_cast<std::size_t>(stream.gcount()));
  // An index in the folder of its documents is nothing that was left out.
  constexpr std::size_t kApplication = 68;
  const bool is_index = read.size() > kApplication && read.substr(kApplication).starts_with("lfix");
  return is_index ? FileKind() : file_kind(read);
}

std::string first_of(const std::vector<std::string>& names) {
  const auto shown = std::min(kShownOfAKind, std::ssize(names));
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  if (shown < std::ssize(names)) text += ", …";
  return text;
}

/// Words behind a number of files.
std::string_view words_of(FileFault fault) {
  switch (fault) {
    case FileFault::other_kind:
      return "of another kind than the name says";
    case FileFault::damaged:
      return "damaged";
    case FileFault::locked:
      return "locked";
    case FileFault::too_large:
      return "beyond the limits";
    case FileFault::no_text:
      return "without text";
    case FileFault::no_program:
      return "without a program that reads them";
    case FileFault::none:
      break;
  }
  return {};
}

}  // namespace

bool UnreadFiles::is_left_out(const UnreadFile& file) {
  return file.fault != FileFault::damaged && file.fault != FileFault::locked &&
         file.fault != FileFault::too_large;
}

std::string UnreadFiles::count(const UnreadFile& file) {
  if (file.fault == FileFault::none) return file.error;
  const bool is_told = ++faults_[file.fault] > 1 && file.fault == FileFault::no_program;
  return is_told ? "expected the program that reads it, found none" : file.error;
}

void UnreadFiles::leave_out(const UnreadFile& file) {
  if (!file.kind.may_be_text() && file.fault != FileFault::no_program &&
      file.fault != FileFault::no_text) {
    of_kinds_[file.kind.name].push_back(file.name);
    return;
  }
  static_cast<void>(count(file));
  if (file.fault == FileFault::no_program && faults_[file.fault] > 1) return;
  if (noted_ == kToldByName) {
    ++not_noted_;
    return;
  }
  ++noted_;
  messages_.note(fmt::format("{} is left out: {}", file.name, file.error));
}

void UnreadFiles::tell(const std::vector<std::string>& others) {
  if (not_noted_ > 0) {
    messages_.note(counted(not_noted_, "more file that is no text was left out",
                           "more files that are no text were left out"));
  }
  for (const std::string& file : others) {
    const FileKind kind = kind_of(file);
    if (!kind.may_be_text()) of_kinds_[kind.name].push_back(file);
  }
  tell_kinds();
  tell_faults();
}

void UnreadFiles::tell_kinds() {
  std::vector<std::string> parts;
  std::int64_t files = 0;
  for (const auto& [kind, names] : of_kinds_) {
    files += std::ssize(names);
    parts.push_back(names.size() == 1
                        ? fmt::format("{} ({})", kind, names.front())
                        : fmt::format("{} times {} ({})", names.size(), kind, first_of(names)));
  }
  if (files == 0) return;
  messages_.note(fmt::format("left out {}: {}",
                             counted(files, "file that is no text", "files that are no text"),
                             fmt::join(parts, ", ")));
}

/// One file has been told by its own line.
void UnreadFiles::tell_faults() {
  std::vector<std::string> parts;
  std::int64_t files = 0;
  for (const auto& [fault, count] : faults_) {
    files += count;
    parts.push_back(fmt::format("{} {}", count, words_of(fault)));
  }
  if (files < 2) return;
  messages_.note(fmt::format("{} not read: {}", counted(files, "document was", "documents were"),
                             fmt::join(parts, ", ")));
}

}  // namespace longformer::cli
