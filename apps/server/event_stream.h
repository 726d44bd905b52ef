// An answer that is a stream of events (text/event-stream).
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "http.h"

namespace longformer::server {

/// The stream begins with begin() or the first event, so that what is refused before has a status
/// of its own. The exchange must outlive it.
class EventStream {
 public:
  explicit EventStream(HttpExchange& exchange,
                       std::chrono::milliseconds patience = std::chrono::seconds(15))
      : exchange_(exchange), patience_(patience) {}

  bool has_begun() const { return has_begun_; }
  void begin();
  /// `data` is one line.
  void send(std::string_view name, const std::string& data);
  /// A comment where nothing was sent for 15 s: it keeps the connection open.
  void keep_alive();
  void end() { exchange_.end_stream(); }
  bool is_gone() const { return exchange_.is_gone(); }

 private:
  void write(std::string text);

  HttpExchange& exchange_;
  const std::chrono::milliseconds patience_;
  bool has_begun_ = false;
  std::chrono::steady_clock::time_point last_;
};

/// While it lives, a hook of the request keeps the stream alive.
class KeptAlive {
 public:
  KeptAlive(std::function<void()>& hook, EventStream& events) : hook_(hook) {
    hook_ = [&events] { events.keep_alive(); };
  }
  ~KeptAlive() { hook_ = nullptr; }
  KeptAlive(const KeptAlive&) = delete;
  KeptAlive& operator=(const KeptAlive&) = delete;

 private:
  std::function<void()>& hook_;
};

}  // namespace longformer::server
