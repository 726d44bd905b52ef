// One file on its way from the Hub into the cache.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "hub/cache.h"
#include "hub/checksum.h"
#include "hub/files.h"
#include "hub/web.h"

namespace longformer::hub {

/// Writes HASH.incomplete, goes on where an earlier process stopped, and makes a blob of it when
/// the hash is right. Whatever ends the process, the next one goes on from there.
class Download : public Transfer {
 public:
  using Clock = std::chrono::steady_clock;

  /// The repository must outlive it.
  Download(RemoteFile file, const Repository& repository, std::string address);

  const RemoteFile& file() const { return file_; }
  /// Bytes that are there.
  std::int64_t done() const { return done_; }
  bool is_whole() const { return done_ == file_.size; }

  /// Whether the blob is in its place, by whomsoever.
  bool is_in_place() const;
  /// Takes the file for this process and reads what is there. False while another process has it.
  /// Throws Error.
  bool open();
  bool is_open() const { return lock_.is_open(); }
  /// Lets others have it.
  void close();

  std::string address() const override { return address_; }
  std::int64_t first() const override { return done_; }
  /// Goes on behind what is there, or from the first byte if the server does. Throws Error.
  void begin(const AnswerHead& head) override;
  /// Throws Error for more bytes than the file has, and with the system's reason.
  void take(std::string_view bytes) override;

  /// Forgets what is there. Throws Error.
  void begin_anew();
  /// Puts the whole file in its place. False where what an earlier process left was wrong: it is
  /// forgotten. Throws Error where all came now and is wrong.
  bool finish();

  /// Plans another try, later each time that nothing came since the last one, or after the seconds
  /// that the server asks for. False after the fifth such time.
  bool try_again(std::optional<std::chrono::seconds> asked);
  bool is_due() const { return Clock::now() >= due_; }

 private:
  void read_partial();

  RemoteFile file_;
  const Repository& repository_;
  std::string address_;
  Descriptor lock_, partial_;
  Checksum sum_;
  std::int64_t done_ = 0;
  /// Bytes of earlier processes among them, and the most that were there at a try.
  std::int64_t inherited_ = 0, most_ = 0;
  int tries_ = 0;
  Clock::time_point due_ = {};
};

}  // namespace longformer::hub
