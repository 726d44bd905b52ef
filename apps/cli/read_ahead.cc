#include "read_ahead.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace longformer::cli {

bool comes_in_slowly(const InputOptions& options) {
  const auto is_live = [](const std::string& file) {
    struct stat status = {};
    const bool known =
        file == "-" ? fstat(STDIN_FILENO, &status) == 0 : stat(file.c_str(), &status) == 0;
    return known && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
  };
  if (options.files.empty()) return options.texts.empty() && is_live("-");
  return std::ranges::any_of(options.files, is_live);
}

bool nothing_waits(const InputOptions& options) {
  if (!comes_in_slowly(options)) return false;
  const bool is_input =
      options.files.empty() || std::ranges::find(options.files, "-") != options.files.end();
  pollfd input = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  return !is_input || poll(&input, 1, 0) == 0;
}

ReadAhead::ReadAhead(Source source, const InputOptions& options, UnitLimits limits)
    : limits_(limits),
      takes_what_is_there_(comes_in_slowly(options)),
      thread_([this, source = std::move(source)] { read(source); }) {}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool ReadAhead::is_full() const {
  return documents_.size() >= limits_.documents || bytes_ >= limits_.bytes;
}

void ReadAhead::read(const Source& source) {
  std::exception_ptr error;
  try {
    Document document;
    while (source(document)) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return closed_ || !is_full(); });
      if (closed_) return;
      bytes_ += document.text.size();
      documents_.push_back(std::move(document));
      changed_.notify_all();
    }
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  finished_ = true;
  error_ = error;
  changed_.notify_all();
}

std::vector<Document> ReadAhead::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] {
    return finished_ || is_full() || (takes_what_is_there_ && !documents_.empty());
  });
  if (documents_.empty() && error_) std::rethrow_exception(error_);
  std::vector<Document> unit(std::make_move_iterator(documents_.begin()),
                             std::make_move_iterator(documents_.end()));
  documents_.clear();
  bytes_ = 0;
  changed_.notify_all();
  return unit;
}

}  // namespace longformer::cli
