// An answer that is a stream of events (text/event-stream).
#pragma once

#include <string>
#include <string_view>

#include "http.h"

namespace longformer::server {

/// The stream begins with begin() or the first event, so that what is refused before has a status
/// of its own. The exchange must outlive it.
class EventStream {
 public:
  explicit EventStream(HttpExchange& exchange) : exchange_(exchange) {}

  bool has_begun() const { return has_begun_; }
  void begin();
  /// `data` is one line.
  void send(std::string_view name, const std::string& data);
  /// A comment, which keeps a connection open.
  void ping();
  void end() { exchange_.end_stream(); }
  bool is_gone() const { return exchange_.is_gone(); }

 private:
  HttpExchange& exchange_;
  bool has_begun_ = false;
};

}  // namespace longformer::server
