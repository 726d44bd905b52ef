// Documents that are read on a thread of their own, so that a verb takes together what is there.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "inputs.h"

namespace longformer::cli {

/// Whether documents may come in while the program runs: standard input, or a file, that is a pipe,
/// a terminal or another device.
bool comes_in_slowly(const InputOptions& options);

/// Whether to wait for the next document would take time, as far as the program can tell.
bool nothing_waits(const InputOptions& options);

/// The most documents and bytes of text of one call of the library.
struct UnitLimits {
  std::size_t documents = 0;
  std::size_t bytes = 0;
};

/// Hands out the documents in units: full ones of files, and of a pipe what has come in.
class ReadAhead {
 public:
  /// Whether there was one more document; called on the thread of the reader.
  using Source = std::function<bool(Document&)>;

  ReadAhead(Source source, const InputOptions& options, UnitLimits limits);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// The next documents in order; none at the end. Rethrows what reading threw.
  std::vector<Document> next();

 private:
  void read(const Source& source);
  bool is_full() const;

  UnitLimits limits_;
  bool takes_what_is_there_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Document> documents_;
  std::size_t bytes_ = 0;
  bool finished_ = false, closed_ = false;
  std::exception_ptr error_;
  /// Last, so that the rest is there when it starts.
  std::thread thread_;
};

}  // namespace longformer::cli
