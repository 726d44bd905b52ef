// HTTP/1.1 as strings: a request in, a response out. Sockets, timeouts and limits lie behind it, in
// http_session.cc and http_reader.cc, which alone know the library.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace longformer::server {

/// Name and value, in the order of the message.
using Fields = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;
  /// Percent-decoded, valid UTF-8; query fields also, in which '+' is a space.
  std::string path;
  Fields query, headers;
  std::string body;
  /// Address and port of the client, as a log has it.
  std::string peer;
  /// The moment at which the header was whole.
  std::chrono::steady_clock::time_point arrival;

  /// The value of the first header of that name, whatever its case.
  std::optional<std::string_view> header(std::string_view name) const;
  std::optional<std::string_view> query_value(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = {};
  /// Besides Date, Content-Length, Transfer-Encoding and Connection, which the server adds.
  Fields headers = {};
  std::string body = {};
  /// The connection ends behind this response.
  bool closes = false;
};

/// A request and the way to answer it, exactly once: by respond(), or by begin_stream(), any number
/// of write() and end_stream(). Any thread; a client that is gone makes all of it do nothing. An
/// exchange that ends unanswered is answered with 500, and a stream that ends without end_stream()
/// is cut off, so that the client notices. For HEAD the server leaves the body out.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  virtual const HttpRequest& request() const = 0;
  virtual void respond(HttpResponse response) = 0;
  /// The headers now, then chunks; `body` is the first chunk.
  virtual void begin_stream(HttpResponse head) = 0;
  virtual void write(std::string chunk) = 0;
  virtual void end_stream() = 0;
  /// Whether the client closed the connection. A client that closes only its sending half looks the
  /// same, and so does one that lets more than most_unsent_bytes of a stream wait.
  virtual bool is_gone() const = 0;
  /// Called once, on the thread of the sockets, when the client closes the connection before
  /// respond() or end_stream(); soon if it did already. Must not block.
  virtual void when_gone(std::function<void()> call) = 0;
};

/// Questions of the server about requests; called on the thread of the sockets, so it must not
/// block.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  /// A response refuses the request before its body is read. The connection ends with it, unless
  /// the request has no body.
  virtual std::optional<HttpResponse> refuse(const HttpRequest& head) = 0;
  /// A whole request. It may be answered later, by another thread.
  virtual void handle(std::shared_ptr<HttpExchange> exchange) = 0;
  /// The response to what is no request, too slow or too large (400, 408, 413, 414, 417, 431), to
  /// one body too many (429), to a handler that failed (500), and to one connection too many (503).
  virtual HttpResponse failure(int status, std::string_view reason) = 0;
};

struct HttpOptions {
  std::string hostname = "127.0.0.1";
  /// 0 takes a free port.
  int port = 8080;
  /// Several processes listen to one port, and the system shares connections out.
  bool reuse_port = false;
  std::size_t most_header_bytes = 16 << 10, most_target_bytes = 8 << 10, most_body_bytes = 64 << 20,
              most_connections = 4096;
  /// Bodies of all requests that are read or under way; the next one is refused with 429.
  std::size_t most_held_bytes = std::size_t{1} << 30;
  /// Chunks of a stream that wait for a slow reader.
  std::size_t most_unsent_bytes = 16 << 20;
  /// For all of a header, all of a body, a write without progress, and between two requests.
  std::chrono::milliseconds header_timeout{10'000}, body_timeout{60'000}, write_timeout{30'000},
      idle_timeout{75'000};
  /// After the last answer of a connection the server reads on for this long: a socket that closes
  /// with unread bytes resets the connection, and the client might never see the answer.
  std::chrono::milliseconds linger_timeout{2'000};
};

/// Listens and serves on one thread, that of run(). All else is called from any thread.
class HttpServer {
 public:
  /// Listens at once: on the sockets that systemd passes (LISTEN_FDS) if it does, else on
  /// hostname:port. Throws Error when it cannot. The handler must outlive it.
  HttpServer(HttpOptions options, HttpHandler& handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// "127.0.0.1:8080", with the port that was taken.
  const std::string& address() const;
  /// Serves until stop() and until everything is answered.
  void run();
  /// Takes no further connections, closes idle ones, ends each other one after its answer, and
  /// after `grace` closes what is left. May be called again, with less grace.
  void stop(std::chrono::milliseconds grace);
  /// Open connections.
  std::int64_t connections() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace longformer::server
