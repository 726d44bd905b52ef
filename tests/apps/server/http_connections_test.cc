// Clients that leave, streams, crowds, the end of the server, and its sockets.
// Reruns: tsan
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "http.h"
#include "http_client.h"
#include "http_server.h"
#include "longformer/error.h"

namespace longformer::server::http_connections_test {

using std::chrono::milliseconds;

const std::string kGet = "GET /now HTTP/1.1\r\nHost: a\r\n\r\n";
const std::string kLater = "GET /later HTTP/1.1\r\nHost: a\r\n\r\n";

HttpResponse event_stream(std::string first) {
  return {.content_type = "text/event-stream", .body = std::move(first)};
}

TEST(HttpGone, ClosedResetAndHalfClosed) {
  TestServer server;
  for (int way = 0; way < 3; ++way) {
    HttpClient client(server.address());
    client.send(kLater);
    const std::shared_ptr<HttpExchange> exchange = server.handler.next();
    ASSERT_NE(exchange, nullptr);
    std::atomic<int> calls = 0;
    exchange->when_gone([&] { ++calls; });
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_FALSE(exchange->is_gone()) << way;
    EXPECT_EQ(calls, 0);
    if (way == 0) client.close();
    if (way == 1) client.reset();
    if (way == 2) client.shut_down_sending();
    EXPECT_TRUE(soon([&] { return calls == 1; })) << way;
    EXPECT_TRUE(exchange->is_gone());
    exchange->when_gone([&] { ++calls; });
    EXPECT_TRUE(soon([&] { return calls == 2; })) << way;
    exchange->respond(TestHandler::text(200, "too late"));
    EXPECT_TRUE(soon([&] { return server.server.connections() == 0; }));
    EXPECT_EQ(calls, 2);
  }
}

TEST(HttpGone, NotBySilenceNorByFurtherRequests) {
  HttpOptions options = test_options();
  options.header_timeout = options.body_timeout = options.idle_timeout = options.write_timeout =
      milliseconds(50);
  TestServer server(options);
  HttpClient client(server.address());
  client.send(kLater);
  const std::shared_ptr<HttpExchange> exchange = server.handler.next();
  ASSERT_NE(exchange, nullptr);
  std::atomic<int> calls = 0;
  exchange->when_gone([&] { ++calls; });
  client.send(kGet);
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_FALSE(exchange->is_gone());
  exchange->respond(TestHandler::text(200, "slow"));
  EXPECT_EQ(client.reply().body, "slow");
  EXPECT_EQ(client.reply().body, "GET /now\n");
  client.close();
  EXPECT_TRUE(soon([&] { return server.server.connections() == 0; }));
  EXPECT_EQ(calls, 0);
}

TEST(HttpGone, AfterFurtherRequestsAsWell) {
  TestServer server;
  HttpClient client(server.address());
  client.send(kLater + kGet + kGet);
  const std::shared_ptr<HttpExchange> exchange = server.handler.next();
  ASSERT_NE(exchange, nullptr);
  client.close();
  EXPECT_TRUE(soon([&] { return exchange->is_gone(); }));
}

TEST(HttpStream, Bytes) {
  TestServer server;
  HttpClient client(server.address());
  client.send(kLater + kGet);
  std::shared_ptr<HttpExchange> exchange = server.handler.next();
  ASSERT_NE(exchange, nullptr);
  exchange->begin_stream(event_stream("data: 0\n\n"));
  while (client.received().find("data: 0\n\n\r\n") == std::string::npos) {
    ASSERT_TRUE(client.receive());
  }
  exchange->write("");  // would be the end
  exchange->write(std::string(300, 'x'));
  exchange->write("end");
  exchange->end_stream();
  exchange->write("too late");
  exchange->respond(TestHandler::text(200, "too late"));
  const std::string chunks =
      "\r\n\r\n9\r\ndata: 0\n\n\r\n12c\r\n" + std::string(300, 'x') + "\r\n3\r\nend\r\n0\r\n\r\n";
  while (client.received().find("GET /now\n") == std::string::npos) ASSERT_TRUE(client.receive());
  EXPECT_NE(client.received().find("Transfer-Encoding: chunked" + chunks + "HTTP/1.1 200 OK\r\n"),
            std::string::npos)
      << client.received();
  EXPECT_EQ(client.reply().body, "data: 0\n\n" + std::string(300, 'x') + "end");
  EXPECT_EQ(client.reply().body, "GET /now\n");
}

TEST(HttpStream, FromAnotherThread) {
  TestServer server;
  HttpClient client(server.address());
  client.send(kLater);
  std::shared_ptr<HttpExchange> exchange = server.handler.next();
  ASSERT_NE(exchange, nullptr);
  exchange->begin_stream(event_stream(""));
  std::string expected;
  for (int i = 0; i < 2'000; ++i) expected += std::to_string(i) + "\n";
  std::thread writer([exchange] {
    for (int i = 0; i < 2'000; ++i) exchange->write(std::to_string(i) + "\n");
    exchange->end_stream();
  });
  const Reply reply = client.reply();
  writer.join();
  EXPECT_TRUE(reply.is_whole);
  EXPECT_EQ(reply.body, expected);
  EXPECT_EQ(client.ask(kGet).status, 200);
}

TEST(HttpStream, Http10AndHead) {
  TestServer server;
  HttpClient old(server.address());
  old.send("GET /later HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  std::shared_ptr<HttpExchange> exchange = server.handler.next();
  ASSERT_NE(exchange, nullptr);
  exchange->begin_stream(event_stream("one "));
  exchange->write("two");
  exchange->end_stream();
  const Reply reply = old.reply();
  EXPECT_EQ(reply.body, "one two");
  EXPECT_FALSE(reply.has("Transfer-Encoding"));
  EXPECT_TRUE(reply.is_whole && reply.has("Connection: close\r\n"));

  HttpClient client(server.address());
  client.send("HEAD /later HTTP/1.1\r\nHost: a\r\n\r\n");
  exchange = server.handler.next();
  ASSERT_NE(exchange, nullptr);
  exchange->begin_stream(event_stream("one"));
  exchange->write("two");
  exchange->end_stream();
  EXPECT_TRUE(client.reply(true).has("Transfer-Encoding: chunked\r\n"));
  EXPECT_EQ(client.ask(kGet).body, "GET /now\n");
}

TEST(HttpStream, CutOffWithoutItsEnd) {
  TestServer server;
  HttpClient client(server.address());
  client.send(kLater);
  std::shared_ptr<HttpExchange> exchange = server.handler.next();
  ASSERT_NE(exchange, nullptr);
  exchange->begin_stream(event_stream("one"));
  exchange.reset();
  const Reply reply = client.reply();
  EXPECT_EQ(reply.body, "one");
  EXPECT_FALSE(reply.is_whole);
}

TEST(HttpStream, ReaderThatNeverReads) {
  HttpOptions options = test_options();
  options.most_unsent_bytes = 1 << 20;
  TestServer server(options);
  HttpClient client(server.address(), 4096);
  client.send(kLater);
  std::shared_ptr<HttpExchange> exchange = server.handler.next();
  ASSERT_NE(exchange, nullptr);
  std::atomic<int> calls = 0;
  exchange->when_gone([&] { ++calls; });
  exchange->begin_stream(event_stream(""));
  std::size_t written = 0;
  const std::string chunk(64 << 10, 'x');
  while (!exchange->is_gone() && written < (256u << 20)) {
    exchange->write(chunk);
    written += chunk.size();
    std::this_thread::sleep_for(milliseconds(1));
  }
  // The system takes some megabytes, and we keep one.
  EXPECT_GE(written, 1u << 20);
  EXPECT_LE(written, 16u << 20);
  EXPECT_TRUE(soon([&] { return calls == 1 && server.server.connections() == 0; }));
}

TEST(HttpStream, WriteWithoutProgress) {
  HttpOptions options = test_options();
  options.write_timeout = milliseconds(200);
  TestServer server(options);
  HttpClient streamed(server.address(), 4096), whole(server.address(), 4096);
  streamed.send(kLater);
  std::shared_ptr<HttpExchange> exchange = server.handler.next();
  ASSERT_NE(exchange, nullptr);
  whole.send(kLater);
  const std::shared_ptr<HttpExchange> other = server.handler.next();
  ASSERT_NE(other, nullptr);
  std::atomic<int> calls = 0;
  exchange->when_gone([&] { ++calls; });
  const double passed = milliseconds_of([&] {
    exchange->begin_stream(event_stream(""));
    for (int i = 0; i < 15; ++i) exchange->write(std::string(1 << 20, 'x'));
    other->respond(TestHandler::text(200, std::string(30 << 20, 'x')));
    EXPECT_TRUE(soon([&] { return server.server.connections() == 0; }));
  });
  EXPECT_EQ(calls, 1);
  EXPECT_GE(passed, 200);
  EXPECT_LE(passed, 5'000);
}

TEST(HttpStream, SlowReaderThatReads) {
  HttpOptions options = test_options();
  options.write_timeout = milliseconds(150);
  TestServer server(options);
  HttpClient client(server.address(), 32 << 10);
  client.send(kLater);
  std::shared_ptr<HttpExchange> exchange = server.handler.next();
  ASSERT_NE(exchange, nullptr);
  const std::size_t size = 16 << 20;
  exchange->respond(TestHandler::text(200, std::string(size, 'x')));
  // The buffer of the system takes more only after a megabyte or so, which lasts longer than the
  // timeout.
  for (int i = 0; i < 120; ++i) {
    ASSERT_TRUE(client.receive(8 << 10));
    std::this_thread::sleep_for(milliseconds(5));
  }
  const Reply reply = client.reply();
  EXPECT_TRUE(reply.is_whole);
  EXPECT_EQ(reply.body.size(), size);
}

TEST(HttpStream, ResetWhileWeWrite) {
  TestServer server;
  HttpClient client(server.address());
  client.send(kLater);
  std::shared_ptr<HttpExchange> exchange = server.handler.next();
  ASSERT_NE(exchange, nullptr);
  exchange->begin_stream(event_stream("one"));
  ASSERT_TRUE(client.receive());
  client.reset();
  // A signal SIGPIPE would end this program.
  for (int i = 0; i < 50 && !exchange->is_gone(); ++i) {
    exchange->write("more");
    std::this_thread::sleep_for(milliseconds(2));
  }
  EXPECT_TRUE(exchange->is_gone());
  HttpClient other(server.address());
  EXPECT_EQ(other.ask(kGet).status, 200);
}

TEST(HttpCrowd, SlowClientsDelayNobody) {
  HttpOptions options = test_options();
  options.header_timeout = milliseconds(2'500);
  TestServer server(options);
  constexpr std::size_t kClients = 1'200;
  std::vector<HttpClient> slow;
  for (std::size_t i = 0; i < kClients; ++i) slow.emplace_back(server.address());
  const auto drip = [&](std::string_view text) {
    for (HttpClient& client : slow) client.send(text);
  };
  drip("GET /now HTTP/1.1\r\n");
  EXPECT_TRUE(soon([&] { return server.server.connections() == kClients; }));
  HttpClient quick(server.address());
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) {
    if (i % 50 == 0) drip("X: y\r\n");
    times.push_back(milliseconds_of([&] { EXPECT_EQ(quick.ask(kGet).status, 200); }));
  }
  std::sort(times.begin(), times.end());
  EXPECT_LE(times[190], 200) << "milliseconds beside slow clients";
  std::size_t told = 0;
  for (HttpClient& client : slow) told += client.reply().status == 408 ? 1 : 0;
  EXPECT_EQ(told, kClients);
}

TEST(HttpCrowd, OneConnectionTooMany) {
  HttpOptions options = test_options();
  options.most_connections = 2;
  TestServer server(options);
  HttpClient first(server.address());
  {
    HttpClient second(server.address()), third(server.address());
    EXPECT_EQ(first.ask(kGet).status, 200);
    EXPECT_EQ(second.ask(kGet).status, 200);
    const Reply reply = third.ask(kGet);
    EXPECT_EQ(reply.status, 503);
    EXPECT_EQ(reply.body, "too many connections");
    EXPECT_TRUE(third.ends());
  }
  EXPECT_TRUE(soon([&] { return server.server.connections() == 1; }));
  HttpClient fourth(server.address());
  EXPECT_EQ(fourth.ask(kGet).status, 200);
  EXPECT_EQ(first.ask(kGet).status, 200);
}

TEST(HttpCrowd, WithoutDescriptors) {
  HttpOptions options = test_options();
  options.idle_timeout = milliseconds(400);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  TestServer server(options, false);
  rlimit raised{};
  getrlimit(RLIMIT_NOFILE, &raised);
  EXPECT_EQ(raised.rlim_cur, before.rlim_max);
  std::vector<HttpClient> clients;
  for (int i = 0; i < 40; ++i) clients.emplace_back(server.address());
  const int next = dup(0);
  ASSERT_GT(next, 40);
  close(next);
  // The server can accept ten of them at a time.
  rlimit few = raised;
  few.rlim_cur = static_cast<rlim_t>(next) + 10;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  for (HttpClient& client : clients) client.send(kGet);
  const std::clock_t begin = std::clock();
  server.start();
  std::this_thread::sleep_for(milliseconds(300));
  const double seconds = double(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_LE(server.server.connections(), 10);
  EXPECT_LE(seconds, 0.15) << "processor time of a server that cannot accept";
  std::size_t answered = 0;
  for (HttpClient& client : clients) {
    answered += client.reply().status == 200 ? 1 : 0;
    client.close();
  }
  setrlimit(RLIMIT_NOFILE, &raised);
  EXPECT_EQ(answered, 40u);
}

TEST(HttpStop, IdleBusyAndNewConnections) {
  TestServer server;
  HttpClient idle(server.address()), busy(server.address()), begun(server.address());
  EXPECT_EQ(idle.ask(kGet).status, 200);
  busy.send(kLater + kGet);
  begun.send("GET /now HTTP/1.1\r\n");
  const std::shared_ptr<HttpExchange> exchange = server.handler.next();
  ASSERT_NE(exchange, nullptr);
  EXPECT_TRUE(soon([&] { return server.server.connections() == 3; }));
  std::this_thread::sleep_for(milliseconds(20));
  server.server.stop(std::chrono::seconds(20));
  EXPECT_TRUE(idle.ends());
  EXPECT_EQ(idle.received(), "");
  EXPECT_THROW(HttpClient{server.address()}, std::runtime_error);
  begun.send("Host: a\r\n\r\n");
  const Reply last = begun.reply();
  EXPECT_EQ(last.body, "GET /now\n");
  EXPECT_TRUE(last.has("Connection: close\r\n"));
  EXPECT_FALSE(exchange->is_gone());
  exchange->respond(TestHandler::text(200, "done"));
  const Reply reply = busy.reply();
  EXPECT_EQ(reply.body, "done");
  EXPECT_TRUE(reply.has("Connection: close\r\n"));
  EXPECT_TRUE(busy.ends());
  EXPECT_EQ(busy.received(), "");
  busy.close();
  begun.close();
  EXPECT_LE(milliseconds_of([&] { server.wait(); }), 1'500);
  EXPECT_EQ(server.server.connections(), 0);
}

TEST(HttpStop, WaitingConnectionsAreAnswered) {
  TestServer server(test_options(), false);
  std::vector<HttpClient> clients;
  for (int i = 0; i < 60; ++i) {
    clients.emplace_back(server.address());
    if (i < 50) clients.back().send(kGet);
  }
  server.server.stop(std::chrono::seconds(20));
  server.start();
  for (std::size_t i = 0; i < 60; ++i) {
    // The last ten send only now, and soon enough.
    if (i >= 50) clients[i].send(kGet);
    const Reply reply = clients[i].reply();
    EXPECT_EQ(reply.status, 200) << i;
    EXPECT_TRUE(reply.has("Connection: close\r\n"));
    clients[i].close();
  }
  EXPECT_LE(milliseconds_of([&] { server.wait(); }), 1'500);
}

TEST(HttpStop, AfterTheGrace) {
  std::shared_ptr<HttpExchange> exchange;
  std::atomic<int> calls = 0;
  {
    TestServer server;
    HttpClient client(server.address());
    client.send(kLater);
    exchange = server.handler.next();
    ASSERT_NE(exchange, nullptr);
    exchange->when_gone([&] { ++calls; });
    server.server.stop(milliseconds(150));
    const double passed = milliseconds_of([&] { server.wait(); });
    EXPECT_GE(passed, 100);
    EXPECT_LE(passed, 1'500);
    client.ends();
    EXPECT_EQ(client.received(), "");
    EXPECT_EQ(calls, 1);
    EXPECT_TRUE(exchange->is_gone());
    exchange->respond(TestHandler::text(200, "too late"));
  }
  // The server is gone, the exchange is not.
  exchange->when_gone([&] { ++calls; });
  EXPECT_EQ(exchange->request().path, "/later");
  exchange.reset();
  EXPECT_EQ(calls, 1);
}

TEST(HttpStop, TwiceIsAtOnce) {
  TestServer server;
  HttpClient client(server.address());
  client.send(kLater);
  const std::shared_ptr<HttpExchange> exchange = server.handler.next();
  ASSERT_NE(exchange, nullptr);
  server.server.stop(std::chrono::seconds(100));
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(exchange->is_gone());
  server.server.stop(milliseconds(0));
  EXPECT_LE(milliseconds_of([&] { server.wait(); }), 1'000);
  EXPECT_TRUE(exchange->is_gone());
}

TEST(HttpStop, ExchangesOutliveTheServer) {
  std::shared_ptr<HttpExchange> exchange;
  {
    TestServer server;
    HttpClient client(server.address());
    client.send(kLater);
    exchange = server.handler.next();
    ASSERT_NE(exchange, nullptr);
    exchange->begin_stream(event_stream("one"));
    // A cycle, if the server kept what nobody will call.
    exchange->when_gone([exchange] { exchange->write("gone"); });
  }
  EXPECT_TRUE(exchange->is_gone());
  exchange->write("two");
  exchange->end_stream();
}

Error error_of(const HttpOptions& options) {
  TestHandler handler;
  try {
    const HttpServer server(options, handler);
  } catch (const Error& error) {
    return error;
  }
  return Error("no error");
}

TEST(HttpListen, Errors) {
  TestServer server;
  HttpOptions options = test_options();
  options.port = std::atoi(server.address().c_str() + server.address().rfind(':') + 1);
  Error error = error_of(options);
  EXPECT_EQ(error.what(), server.address() + ": expected a free port, found that it is in use");
  EXPECT_EQ(error.option(), "port");
  options.port = 65536;
  EXPECT_STREQ(error_of(options).what(), "port: expected 0 to 65535, found 65536");
  options = test_options();
  options.hostname = "no-such-host.invalid";
  error = error_of(options);
  EXPECT_TRUE(std::string_view(error.what())
                  .starts_with("hostname: cannot find the address of 'no-such-host.invalid': "))
      << error.what();
  EXPECT_EQ(error.option(), "hostname");
  options.hostname = "192.0.2.1";
  EXPECT_TRUE(std::string_view(error_of(options).what())
                  .starts_with("192.0.2.1:0: expected an address of this machine: "))
      << error_of(options).what();
}

TEST(HttpListen, NamesAndIpv6) {
  HttpOptions options = test_options();
  options.hostname = "localhost";
  {
    TestServer server(options);
    HttpClient client("127.0.0.1" + server.address().substr(server.address().rfind(':')));
    EXPECT_EQ(client.ask(kGet).status, 200);
  }
  options.hostname = "[::1]";
  const Error error = error_of(options);
  if (std::string_view(error.what()) != "no error") {
    // A machine without IPv6.
    EXPECT_EQ(error.option(), "hostname") << error.what();
    return;
  }
  TestServer server(options);
  EXPECT_TRUE(server.address().starts_with("[::1]:")) << server.address();
  HttpClient client(server.address());
  EXPECT_EQ(client.ask(kGet).status, 200);
}

TEST(HttpListen, SeveralServersShareAPort) {
  HttpOptions options = test_options();
  options.reuse_port = true;
  TestServer first(options);
  options.port = std::atoi(first.address().c_str() + first.address().rfind(':') + 1);
  TestServer second(options);
  EXPECT_EQ(first.address(), second.address());
  std::vector<HttpClient> clients;
  for (int i = 0; i < 40; ++i) {
    clients.emplace_back(first.address());
    EXPECT_EQ(clients.back().ask(kGet).status, 200);
  }
  EXPECT_GT(first.server.connections(), 0);
  EXPECT_GT(second.server.connections(), 0);
  EXPECT_EQ(first.server.connections() + second.server.connections(), 40);
}

TEST(HttpListen, SocketsOfSystemd) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof name;
  ASSERT_EQ(bind(socket, reinterpret_cast<sockaddr*>(&name), size), 0);
  ASSERT_EQ(listen(socket, 5), 0);
  ASSERT_EQ(getsockname(socket, reinterpret_cast<sockaddr*>(&name), &size), 0);
  const std::string address = "127.0.0.1:" + std::to_string(ntohs(name.sin_port));
  // Waits for the child, which takes what has come, and stops.
  HttpClient client(address);
  client.send(kGet);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    client.close();
    dup2(socket, 3);
    setenv("LISTEN_FDS", "1", 1);
    setenv("LISTEN_PID", std::to_string(getpid()).c_str(), 1);
    TestHandler handler;
    HttpOptions options;
    options.port = 1;  // not looked at
    HttpServer server(options, handler);
    if (server.address() != address) _exit(1);
    server.stop(std::chrono::seconds(20));
    server.run();
    _exit(0);
  }
  EXPECT_EQ(client.reply().body, "GET /now\n");
  client.close();
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(socket);
  // Variables that are meant for another process are not ours.
  setenv("LISTEN_FDS", "1", 1);
  setenv("LISTEN_PID", "1", 1);
  EXPECT_STREQ(error_of(test_options()).what(), "no error");
  setenv("LISTEN_PID", std::to_string(getpid()).c_str(), 1);
  setenv("LISTEN_FDS", "1000", 1);
  EXPECT_NE(std::string(error_of(test_options()).what()).find("is a listening socket"),
            std::string::npos);
  unsetenv("LISTEN_FDS");
  unsetenv("LISTEN_PID");
}

}  // namespace longformer::server::http_connections_test
