#include "event_stream.h"

#include <fmt/format.h>

namespace longformer::server {

void EventStream::begin() {
  if (has_begun_) return;
  has_begun_ = true;
  exchange_.begin_stream({.content_type = "text/event-stream",
                          .headers = {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}}});
}

void EventStream::send(std::string_view name, const std::string& data) {
  begin();
  exchange_.write(fmt::format("event: {}\ndata: {}\n\n", name, data));
}

void EventStream::ping() {
  begin();
  exchange_.write(": ping\n\n");
}

}  // namespace longformer::server
