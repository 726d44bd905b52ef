#include "text/lines.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/error.h"

namespace longformer::text {

LineReader::LineReader(std::string path) : path_(std::move(path)), file_(path_, std::ios::binary) {
  require(file_.is_open(), "{}: expected a readable file, found: {}", path_, std::strerror(errno));
  require(!std::filesystem::is_directory(path_), "{}: expected a file, found a folder", path_);
}

bool LineReader::next(std::string& line) {
  if (!std::getline(file_, line)) {
    require(!file_.bad(), "{}: expected a readable file, found a read error", path_);
    return false;
  }
  if (++number_ == 1 && line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

}  // namespace longformer::text
