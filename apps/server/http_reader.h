// One request, out of the bytes of a connection.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http.h"

namespace longformer::server {

/// Why bytes are no request, as HttpHandler::failure() takes it; status 0: nothing is wrong so far.
struct BadRequest {
  int status = 0;
  std::string_view reason = {};
};

/// Refuses each request that two programs could understand differently: where a proxy sees one
/// request and we see two, the second one is an attacker's.
class RequestReader {
 public:
  /// The options must outlive it.
  explicit RequestReader(const HttpOptions& options);
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  /// Takes bytes off the front of `input`; has_head() says whether it was enough.
  BadRequest read_head(std::string& input);
  /// Takes bytes off the front of `input`; is_whole() says whether it was enough.
  BadRequest read_body(std::string& input);

  bool has_head() const;
  bool is_whole() const;
  HttpRequest& request();
  bool is_http10() const;
  /// Whether the client waits for 100 before it sends the body.
  bool wants_continue() const;
  /// These two once the head is there.
  bool keeps_connection() const;
  std::optional<std::uint64_t> content_length() const;

 private:
  class Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace longformer::server
