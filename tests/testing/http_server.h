// A server with a handler whose answers the tests decide.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "http.h"

namespace longformer::server {

/// /now is answered with the request, /later by the test; /drop, /throw and /refused say their
/// name.
class TestHandler : public HttpHandler {
 public:
  std::optional<HttpResponse> refuse(const HttpRequest& head) override {
    if (head.path != "/refused") return std::nullopt;
    return text(401, "refused");
  }

  void handle(std::shared_ptr<HttpExchange> exchange) override {
    const HttpRequest& request = exchange->request();
    if (request.path == "/throw") throw std::runtime_error("thrown");
    if (request.path == "/drop") return;
    if (request.path == "/later") {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(exchange));
      changed_.notify_all();
      return;
    }
    if (request.path == "/empty") return exchange->respond({.status = 204});
    if (request.path == "/close") {
      HttpResponse response = text(200, "bye");
      response.closes = true;
      return exchange->respond(std::move(response));
    }
    std::string said = request.method + " " + request.path;
    for (const auto& [name, value] : request.query) said += " " + name + "=" + value;
    exchange->respond(text(200, said + "\n" + request.body));
  }

  HttpResponse failure(int status, std::string_view reason) override {
    return text(status, std::string(reason));
  }

  /// The next request for /later, or nothing when none comes in time.
  std::shared_ptr<HttpExchange> next() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(8), [&] { return !waiting_.empty(); })) {
      return nullptr;
    }
    std::shared_ptr<HttpExchange> exchange = std::move(waiting_.front());
    waiting_.pop_front();
    return exchange;
  }

  static HttpResponse text(int status, std::string body) {
    return {.status = status, .content_type = "text/plain", .body = std::move(body)};
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<HttpExchange>> waiting_;
};

inline HttpOptions test_options() {
  HttpOptions options;
  options.port = 0;
  return options;
}

/// A server on a free port, and its thread.
class TestServer {
 public:
  explicit TestServer(HttpOptions options = test_options(), bool starts = true)
      : server(std::move(options), handler) {
    if (starts) start();
  }
  ~TestServer() {
    if (thread_.joinable()) server.stop(std::chrono::milliseconds(0));
    wait();
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  void start() {
    thread_ = std::thread([this] { server.run(); });
  }
  /// Returns when run() has.
  void wait() {
    if (thread_.joinable()) thread_.join();
  }
  const std::string& address() const { return server.address(); }

  TestHandler handler;
  HttpServer server;

 private:
  std::thread thread_;
};

/// Waits until the condition holds; false when it does not within seconds.
template <typename Condition>
bool soon(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(8);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

/// Milliseconds that the action takes.
template <typename Action>
double milliseconds_of(Action action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - begin;
  return passed.count();
}

}  // namespace longformer::server
