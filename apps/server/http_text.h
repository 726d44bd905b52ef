// Text of HTTP messages: addresses decoded, headers of responses written. No sockets.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "http.h"

namespace longformer::server {

/// ASCII letters are equal whatever their case.
bool equals_ignoring_case(std::string_view a, std::string_view b);

bool is_utf8(std::string_view text);

/// Text without its %XX, or nothing when a % is malformed, or when the result holds a NUL or is not
/// UTF-8.
std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_space);

/// Reads the address of a request line into path and query; a host in it replaces the Host header,
/// as RFC 9112 asks. False when it is malformed.
bool read_target(std::string_view target, HttpRequest& request);

/// Whether the value of a Host header names a host.
bool is_host(std::string_view value);

/// How a response is sent, apart from its own fields.
struct Framing {
  /// The length of the body; none: the body is a stream.
  std::optional<std::size_t> length;
  bool is_http10 = false;
  bool keeps_connection = true;
};

/// Status line and headers, with the empty line that ends them.
std::string head_text(const HttpResponse& response, const Framing& framing);

/// A chunk of a stream in the chunked transfer coding. Empty text would end the stream.
std::string chunk_text(std::string_view text);

}  // namespace longformer::server
