#include "text/lines.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "core/error.h"

namespace longformer::text {

LineReader::LineReader(std::string path, const TextEncoding& encoding)
    : path_(std::move(path)), decoder_(encoding, path_), decoded_(!decoder_.takes_lines()) {
  auto file = std::make_unique<std::ifstream>(path_, std::ios::binary);
  require(file->is_open(), "{}: expected a readable file, found: {}", path_, std::strerror(errno));
  require(!std::filesystem::is_directory(path_), "{}: expected a file, found a folder", path_);
  if (!decoded_) {
    stream_ = std::move(file);
    return;
  }
  std::string bytes{std::istreambuf_iterator<char>(*file), {}};
  require(!file->bad(), "{}: expected a readable file, found a read error", path_);
  stream_ = std::make_unique<std::istringstream>(decoder_.next(std::move(bytes)));
}

bool LineReader::next(std::string& line) {
  if (!std::getline(*stream_, line)) {
    require(!stream_->bad(), "{}: expected a readable file, found a read error", path_);
    return false;
  }
  ++number_;
  if (!decoded_) {
    // The break counts as a byte of the file.
    if (!stream_->eof()) line += '\n';
    line = decoder_.next(std::move(line));
    if (line.ends_with('\n')) line.pop_back();
  }
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

}  // namespace longformer::text
