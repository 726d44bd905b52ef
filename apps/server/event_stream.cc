#include "event_stream.h"

namespace longformer::server {

void EventStream::begin() {
  if (has_begun_) return;
  has_begun_ = true;
  last_ = std::chrono::steady_clock::now();
  exchange_.begin_stream({.content_type = "text/event-stream",
                          .headers = {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}}});
}

void EventStream::send(std::string_view name, const std::string& data) {
  begin();
  write("event: " + std::string(name) + "\ndata: " + data + "\n\n");
}

void EventStream::keep_alive() {
  if (has_begun_ && std::chrono::steady_clock::now() - last_ >= patience_) write(": ping\n\n");
}

void EventStream::write(std::string text) {
  last_ = std::chrono::steady_clock::now();
  exchange_.write(std::move(text));
}

}  // namespace longformer::server
