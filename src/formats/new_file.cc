#include "formats/new_file.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace longformer::formats {

NewFile::NewFile(std::string path)
    : path_(std::move(path)),
      temporary_(fmt::format("{}.tmp{}", path_, ::getpid())),
      file_(std::fopen(temporary_.c_str(), "wb")) {
  require(file_ != nullptr, "{}: could not create the file: {}", path_, std::strerror(errno));
}

NewFile::~NewFile() {
  if (file_ != nullptr) std::fclose(file_);
  if (!temporary_.empty()) std::remove(temporary_.c_str());
}

void NewFile::write(const void* data, std::size_t bytes) {
  if (bytes > 0) good_ = good_ && std::fwrite(data, 1, bytes, file_) == bytes;
}

void NewFile::commit() {
  const int reason = errno;
  const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
  require(good_ && closed, "{}: could not write the file: {}", path_,
          std::strerror(good_ ? errno : reason));
  require(std::rename(temporary_.c_str(), path_.c_str()) == 0, "{}: could not write the file: {}",
          path_, std::strerror(errno));
  temporary_.clear();
}

}  // namespace longformer::formats
