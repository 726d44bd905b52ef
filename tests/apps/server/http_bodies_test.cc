// Bodies that the server holds at a time, and streams that nothing is sent to.
// Reruns: tsan
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "event_stream.h"
#include "http.h"
#include "http_client.h"
#include "http_server.h"

namespace longformer::server::http_bodies_test {

using std::chrono::milliseconds;

HttpOptions small_options() {
  HttpOptions options = test_options();
  options.most_held_bytes = 100;
  return options;
}

std::string post(const std::string& path, std::size_t size) {
  return "POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(size) +
         "\r\n\r\n";
}

TEST(HttpBodies, OneTooManyIsRefusedBeforeItIsRead) {
  TestServer server(small_options());
  HttpClient first(server.address());
  first.send(post("/later", 60) + std::string(60, 'a'));
  std::shared_ptr<HttpExchange> exchange = server.handler.next();
  ASSERT_NE(exchange, nullptr);
  HttpClient second(server.address());
  second.send(post("/now", 50));
  EXPECT_EQ(second.reply().status, 429);
  HttpClient third(server.address());
  third.send(post("/now", 40) + std::string(40, 'b'));
  EXPECT_EQ(third.reply().status, 200);
  exchange->respond(TestHandler::text(200, "done"));
  EXPECT_EQ(first.reply().body, "done");
  exchange.reset();
  EXPECT_TRUE(soon([&] {
    HttpClient again(server.address());
    again.send(post("/now", 100) + std::string(100, 'c'));
    return again.reply().status == 200;
  }));
}

TEST(HttpBodies, TwoThatAreStillReadCountTogether) {
  TestServer server(small_options());
  HttpClient first(server.address());
  first.send(post("/now", 60) + std::string(50, 'a'));
  std::this_thread::sleep_for(milliseconds(50));
  HttpClient second(server.address());
  second.send(post("/now", 60) + "b");
  EXPECT_EQ(second.reply().status, 429);
  first.close();
  EXPECT_TRUE(soon([&] {
    HttpClient again(server.address());
    again.send(post("/now", 60) + std::string(60, 'c'));
    return again.reply().status == 200;
  }));
}

TEST(HttpBodies, AnAnnouncedLengthTakesNoRoom) {
  TestServer server(small_options());
  HttpClient silent(server.address());
  silent.send(post("/now", 100));
  std::this_thread::sleep_for(milliseconds(50));
  HttpClient other(server.address());
  other.send(post("/now", 100) + std::string(100, 'a'));
  EXPECT_EQ(other.reply().status, 200);
}

TEST(HttpBodies, ChunksCountAsTheyCome) {
  TestServer server(small_options());
  HttpClient client(server.address());
  client.send("POST /now HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 3; ++i) client.send("28\r\n" + std::string(40, 'a') + "\r\n");
  EXPECT_EQ(client.reply().status, 429);
}

/// Keeps what is written.
class Written final : public HttpExchange {
 public:
  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse) override {}
  void begin_stream(HttpResponse) override {}
  void write(std::string chunk) override { chunks.push_back(std::move(chunk)); }
  void end_stream() override {}
  bool is_gone() const override { return false; }
  void when_gone(std::function<void()>) override {}

  std::vector<std::string> chunks;

 private:
  HttpRequest request_;
};

TEST(EventStream, IsKeptAliveAfterASilence) {
  Written exchange;
  EventStream events(exchange, milliseconds(50));
  std::function<void()> hook;
  {
    const KeptAlive alive(hook, events);
    std::this_thread::sleep_for(milliseconds(60));
    hook();
    EXPECT_TRUE(exchange.chunks.empty()) << "before it begins";
    events.send("progress", "{}");
    hook();
    EXPECT_EQ(exchange.chunks.size(), 1u);
    std::this_thread::sleep_for(milliseconds(60));
    hook();
    hook();
    ASSERT_EQ(exchange.chunks.size(), 2u);
    EXPECT_EQ(exchange.chunks[1], ": ping\n\n");
  }
  EXPECT_FALSE(hook);
}

}  // namespace longformer::server::http_bodies_test
