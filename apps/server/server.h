// The server: who may ask, how much at a time, and what every answer tells.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api.h"
#include "desks.h"
#include "http.h"

namespace longformer::server {

/// Whether only this machine reaches an address of this name.
bool is_loopback(std::string_view hostname);

struct ServerOptions {
  HttpOptions http;
  /// Empty: everybody may ask.
  std::string api_key;
  /// Names besides those of the loopback that Host may have; with an own hostname any.
  std::vector<std::string> allowed_hosts;
  /// The origins that pages may ask from besides the server's own; "*" for all.
  std::vector<std::string> allowed_origins;
  std::chrono::milliseconds grace{30'000};
  /// Called when nobody has asked for some seconds.
  std::function<void()> rest;
  /// Called for each request that is over with a line for the log: never bodies, keys or headers.
  std::function<void(const std::string& line)> log;
  bool log_is_json = false;
};

class Server final : public HttpHandler {
 public:
  /// Listens; serves with run(). Throws Error for an address that it cannot have.
  Server(Api& api, ServerOptions options);

  /// "127.0.0.1:8080"
  const std::string& address() const { return http_.address(); }
  void run();
  /// Refuses new requests, and ends when those under way are done, or soon after give_up(). Any
  /// thread.
  void stop();
  /// Requests under way are told that the server stops: the grace is over.
  void give_up() { ends_ = true; }

  std::optional<HttpResponse> refuse(const HttpRequest& head) override;
  void handle(std::shared_ptr<HttpExchange> exchange) override;
  HttpResponse failure(int status, std::string_view reason) override;

 private:
  struct Served;
  void check_origin(const HttpRequest& head) const;
  void check_key(const HttpRequest& head) const;
  void admit(const HttpRequest& request) const;
  void serve(const std::shared_ptr<HttpExchange>& exchange,
             std::chrono::steady_clock::time_point taken);
  HttpResponse answered(ApiCall& call, Served& served);
  void finish(const ApiCall& call, const Served& served, std::optional<HttpResponse> response);
  void add_cors(const HttpRequest& request, HttpResponse& response) const;
  MetricGauges gauges() const;
  void note(const HttpRequest& request, int status, double seconds, std::int64_t tokens) const;

  Api& api_;
  const ServerOptions options_;
  std::atomic<bool> stops_ = false, ends_ = false;
  std::atomic<std::int64_t> under_way_ = 0;
  std::atomic<std::uint64_t> last_id_ = 0;
  mutable std::mutex log_mutex_;
  HttpServer http_;
  Desks desks_;
};

}  // namespace longformer::server
