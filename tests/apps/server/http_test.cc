// The HTTP server on the wire: requests, answers, limits. Sockets and threads are real.
// Reruns: tsan
#include "http.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "http_client.h"
#include "http_server.h"
#include "http_text.h"

namespace longformer::server::http_test {

using std::chrono::milliseconds;

const std::string kGet = "GET /now HTTP/1.1\r\nHost: a\r\n\r\n";

std::string post(const std::string& path, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

TEST(Http, RequestsOfOneConnection) {
  TestServer server;
  HttpClient client(server.address());
  for (int i = 0; i < 3; ++i) {
    const Reply reply = client.ask(post("/now", "body " + std::to_string(i)));
    EXPECT_EQ(reply.body, "POST /now\nbody " + std::to_string(i));
    EXPECT_TRUE(reply.head.starts_with("HTTP/1.1 200 OK\r\nDate: ")) << reply.head;
    EXPECT_TRUE(reply.has(" GMT\r\nContent-Type: text/plain\r\nContent-Length: 16\r\n\r\n"))
        << reply.head;
  }
  EXPECT_EQ(server.server.connections(), 1);
  client.close();
  EXPECT_TRUE(soon([&] { return server.server.connections() == 0; }));
}

TEST(Http, Heads) {
  TestServer server;
  HttpClient client(server.address());
  const Reply get = client.ask(kGet);
  EXPECT_EQ(get.body, "GET /now\n");
  const Reply head = client.ask("HEAD /now HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(head.status, 200);
  EXPECT_TRUE(head.has("Content-Length: 10\r\n")) << head.head;
  // A body would stand before the next answer.
  EXPECT_EQ(client.ask(kGet).body, "GET /now\n");
  const Reply empty = client.ask("GET /empty HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(empty.status, 204);
  EXPECT_FALSE(empty.has("Content-Length")) << empty.head;
  EXPECT_EQ(client.ask("HEAD /refused HTTP/1.1\r\nHost: a\r\n\r\n").status, 401);
  EXPECT_EQ(client.ask(kGet).body, "GET /now\n");
}

TEST(Http, Http10) {
  TestServer server;
  {
    HttpClient client(server.address());
    const Reply reply = client.ask("GET /now HTTP/1.0\r\n\r\n");
    EXPECT_EQ(reply.body, "GET /now\n");
    EXPECT_TRUE(reply.has("\r\nConnection: close\r\n")) << reply.head;
    EXPECT_TRUE(client.ends());
  }
  HttpClient client(server.address());
  for (int i = 0; i < 2; ++i) {
    const Reply reply = client.ask("GET /now HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_EQ(reply.body, "GET /now\n");
    EXPECT_TRUE(reply.has("\r\nConnection: keep-alive\r\n")) << reply.head;
  }
}

TEST(Http, EndsWhenOneSideAsks) {
  TestServer server;
  for (const char* request : {"GET /close HTTP/1.1\r\nHost: a\r\n\r\n",
                              "GET /now HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"}) {
    HttpClient client(server.address());
    const Reply reply = client.ask(request);
    EXPECT_EQ(reply.status, 200);
    EXPECT_TRUE(reply.has("\r\nConnection: close\r\n")) << reply.head;
    EXPECT_TRUE(client.ends());
    EXPECT_EQ(client.received(), "");
  }
}

TEST(Http, PipelinedRequestsAreAnsweredInOrder) {
  TestServer server;
  HttpClient client(server.address());
  const std::string chunked =
      "POST /now?n=2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: 1\r\n\r\n";
  std::string all = "GET /later HTTP/1.1\r\nHost: a\r\n\r\n" + chunked;
  for (int i = 3; i < 200; ++i) {
    all += post("/now?n=" + std::to_string(i), std::string(static_cast<std::size_t>(i), 'x'));
  }
  ASSERT_TRUE(client.send(all));
  const std::shared_ptr<HttpExchange> first = server.handler.next();
  ASSERT_NE(first, nullptr);
  EXPECT_FALSE(first->is_gone());
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(first->is_gone());
  first->respond(TestHandler::text(200, "first"));
  EXPECT_EQ(client.reply().body, "first");
  EXPECT_EQ(client.reply().body, "POST /now n=2\nabcde");
  for (int i = 3; i < 200; ++i) {
    EXPECT_EQ(client.reply().body, "POST /now n=" + std::to_string(i) + "\n" +
                                       std::string(static_cast<std::size_t>(i), 'x'));
  }
}

TEST(Http, AnyPartitionOfTheBytes) {
  TestServer server;
  const std::vector<std::string> requests = {
      "\r\n" + kGet, post("/now", "0123456789"),
      "POST /now HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "POST /now HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n"
      "a\r\n0123456789\r\n0\r\nX: y\r\n\r\n"};
  const std::vector<std::string> answers = {"GET /now\n", "POST /now\n0123456789", "POST /now\n",
                                            "POST /now\n0123456789"};
  HttpClient client(server.address());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    for (const char byte : requests[i]) {
      client.send(std::string_view(&byte, 1));
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    EXPECT_EQ(client.reply().body, answers[i]) << i;
  }
}

TEST(Http, Expectations) {
  TestServer server;
  HttpClient client(server.address());
  const std::string head =
      "POST /now HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n";
  for (int i = 0; i < 2; ++i) {
    const Reply go_on = client.ask(head);
    EXPECT_EQ(go_on.head, "HTTP/1.1 100 Continue\r\n\r\n");
    EXPECT_EQ(client.ask("ab").body, "POST /now\nab");
  }
  // A body that has come already needs no permission.
  EXPECT_EQ(client.ask(head + "ab").status, 200);
  EXPECT_EQ(client
                .ask("POST /refused HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                     "Content-Length: 2\r\n\r\n")
                .status,
            401);
  EXPECT_TRUE(client.ends());
  HttpClient other(server.address());
  EXPECT_EQ(other.ask("POST /now HTTP/1.1\r\nHost: a\r\nExpect: a gift\r\n\r\n").status, 417);
}

TEST(Http, RefusalsBeforeTheBody) {
  HttpOptions options = test_options();
  options.linger_timeout = milliseconds(500);
  TestServer server(options);
  HttpClient client(server.address());
  // Without a body there is nothing to leave unread.
  EXPECT_EQ(client.ask("GET /refused HTTP/1.1\r\nHost: a\r\n\r\n").body, "refused");
  EXPECT_EQ(client.ask(kGet).status, 200);
  client.send("POST /refused HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n");
  // A client that sends 8 MB before it reads still sees the answer.
  EXPECT_TRUE(client.send(std::string(8 << 20, 'x')));
  const Reply reply = client.reply();
  EXPECT_EQ(reply.status, 401);
  EXPECT_EQ(reply.body, "refused");
  EXPECT_TRUE(reply.has("Connection: close\r\n"));
  EXPECT_TRUE(client.ends());
}

TEST(Http, LargeBodies) {
  HttpOptions options = test_options();
  options.most_body_bytes = 1 << 20;
  options.linger_timeout = milliseconds(300);
  TestServer server(options);
  const std::string most(1 << 20, 'x');
  const auto chunked = [](const std::string& body) {
    std::string text = "POST /now HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (std::size_t i = 0; i < body.size(); i += 1000) text += chunk_text(body.substr(i, 1000));
    return text + "0\r\n\r\n";
  };
  HttpClient client(server.address());
  EXPECT_EQ(client.ask(post("/now", most)).body, "POST /now\n" + most);
  EXPECT_EQ(client.ask(chunked(most)).body, "POST /now\n" + most);
  EXPECT_EQ(client.ask(chunked(most + "x")).status, 413);
  EXPECT_TRUE(client.ends());
  HttpClient announced(server.address());
  const Reply reply =
      announced.ask("POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n");
  EXPECT_EQ(reply.status, 413);
  EXPECT_EQ(reply.body, "the body is too large");
  HttpClient chunk(server.address());
  EXPECT_EQ(chunk
                .ask("POST /now HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                     "fffffffffffffff0\r\n")
                .status,
            413);
}

TEST(Http, LargeHeaders) {
  HttpOptions options = test_options();
  options.linger_timeout = milliseconds(300);
  TestServer server(options);
  const auto status = [&](const std::string& request) {
    HttpClient client(server.address());
    return client.ask(request).status;
  };
  const auto target = [](std::size_t size) {
    return "GET /" + std::string(size - 1, 'x') + " HTTP/1.1\r\nHost: a\r\n\r\n";
  };
  EXPECT_EQ(status(target(8 << 10)), 200);
  EXPECT_EQ(status(target((8 << 10) + 1)), 414);
  EXPECT_EQ(status(target(100'000)), 414);
  EXPECT_EQ(status("GET /" + std::string(20'000, 'x')), 414);
  const auto header = [](std::size_t size) {
    const std::string begin = "GET /now HTTP/1.1\r\nHost: a\r\nX: ";
    return begin + std::string(size - begin.size() - 4, 'x') + "\r\n\r\n";
  };
  EXPECT_EQ(status(header(16 << 10)), 200);
  EXPECT_EQ(status(header((16 << 10) + 1)), 431);
  EXPECT_EQ(status(header(200'000)), 431);
  std::string many = "GET /now HTTP/1.1\r\nHost: a\r\n";
  for (int i = 0; i < 20'000; ++i) many += "X: y\r\n";
  EXPECT_EQ(status(many + "\r\n"), 431);
  std::string trailer = "POST /now HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
  for (int i = 0; i < 20'000; ++i) trailer += "X: y\r\n";
  EXPECT_EQ(status(trailer), 431);
  const std::string extension =
      "POST /now HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1";
  EXPECT_EQ(status(extension + std::string(100'000, ';')), 431);
}

TEST(Http, MalformedRequests) {
  HttpOptions options = test_options();
  options.linger_timeout = milliseconds(100);
  TestServer server(options);
  const std::string get = "GET /now HTTP/1.1\r\nHost: a\r\n",
                    to = "POST /now HTTP/1.1\r\nHost: a\r\n";
  const std::string hidden = kGet;
  const std::vector<std::string> requests = {
      // Two opinions about the end of a body.
      to + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
      to + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + hidden,
      to + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab" + hidden,
      to + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nab" + hidden,
      to + "Content-Length: 2, 2\r\n\r\nab" + hidden, to + "Content-Length: +2\r\n\r\nab" + hidden,
      to + "Content-Length: -2\r\n\r\nab" + hidden, to + "Content-Length: 0x2\r\n\r\nab" + hidden,
      to + "Content-Length:\r\n\r\n" + hidden, to + "Content-Length: 2 2\r\n\r\nab" + hidden,
      to + "Content-Length: 18446744073709551618\r\n\r\nab" + hidden,
      to + "Content-Length : 2\r\n\r\nab" + hidden, to + "Transfer-Encoding: gzip\r\n\r\n" + hidden,
      to + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + hidden,
      to + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + hidden,
      to + "Transfer-Encoding: xchunked\r\n\r\n" + hidden,
      to + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
      to + "Transfer-Encoding:\x0b chunked\r\n\r\n0\r\n\r\n" + hidden,
      "POST /now HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
      // Line ends and characters.
      "GET /now HTTP/1.1\nHost: a\n\n" + hidden, get + "X: a\nY: b\r\n\r\n",
      get + "X: a\rb\r\n\r\n", get + "X: a" + std::string(1, '\0') + "b\r\n\r\n",
      get + "X: a\r\n folded\r\n\r\n", get + "X:\r\n\tfolded\r\n\r\n",
      "GET /now HTTP/1.1\r\n Host: a\r\n\r\n", get + "X\r\n\r\n", get + ": x\r\n\r\n",
      get + "a b: x\r\n\r\n",
      // Chunks.
      to + "Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
      to + "Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n",
      to + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
      to + "Transfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n",
      to + "Transfer-Encoding: chunked\r\n\r\n10000000000000003\r\nabc\r\n0\r\n\r\n",
      to + "Transfer-Encoding: chunked\r\n\r\n0\r\nContent-Length: 5\r\n\r\n",
      // The request line and the host.
      "GET /now HTTP/1.1\r\n\r\n", "GET /now HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
      "GET /now HTTP/1.1\r\nHost:\r\n\r\n", "GET /now HTTP/1.1\r\nHost: a/b@c\r\n\r\n",
      "GET  /now HTTP/1.1\r\nHost: a\r\n\r\n", "GET /now HTTP/2.0\r\nHost: a\r\n\r\n",
      "GET /now\r\nHost: a\r\n\r\n", "GET now HTTP/1.1\r\nHost: a\r\n\r\n",
      "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
      "G@T /now HTTP/1.1\r\nHost: a\r\n\r\n", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
      "\x16\x03\x01\x02 hello of TLS",
      // Addresses.
      "GET /% HTTP/1.1\r\nHost: a\r\n\r\n", "GET /%4 HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /%4g HTTP/1.1\r\nHost: a\r\n\r\n", "GET /%ff HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /%c0%af HTTP/1.1\r\nHost: a\r\n\r\n", "GET /%ed%a0%80 HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET /a%00b HTTP/1.1\r\nHost: a\r\n\r\n", "GET /a?b=%f HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET http:///now HTTP/1.1\r\nHost: a\r\n\r\n"};
  for (const std::string& request : requests) {
    HttpClient client(server.address());
    const Reply reply = client.ask(request);
    EXPECT_EQ(reply.status, 400) << request;
    EXPECT_TRUE(reply.is_whole && reply.has("Connection: close\r\n")) << request;
    EXPECT_FALSE(reply.body.empty()) << request;
    client.shut_down_sending();
    EXPECT_TRUE(client.ends()) << request;
    // One answer: nothing behind the first request was read as a second one.
    EXPECT_EQ(client.received(), "") << request;
  }
  HttpClient client(server.address());
  EXPECT_EQ(client.ask(kGet).status, 200);
}

TEST(Http, Addresses) {
  TestServer server;
  HttpClient client(server.address());
  const auto said = [&](const std::string& target, const std::string& method = "GET") {
    return client.ask(method + " " + target + " HTTP/1.1\r\nHost: a\r\n\r\n").body;
  };
  EXPECT_EQ(said("/a%20b+c/%C3%A4"), "GET /a b+c/ä\n");
  EXPECT_EQ(said("/x?a=1+2%2B3&b&&c=%3D=d%26"), "GET /x a=1 2+3 b= c===d&\n");
  EXPECT_EQ(said("/x?"), "GET /x\n");
  EXPECT_EQ(said("/%2e%2e/%2F"), "GET /..//\n");
  EXPECT_EQ(said("http://b:80/y?z=1"), "GET /y z=1\n");
  EXPECT_EQ(said("http://b"), "GET /\n");
  EXPECT_EQ(said("*", "OPTIONS"), "OPTIONS *\n");
  EXPECT_EQ(said("/now", "BREW"), "BREW /now\n");
}

TEST(Http, Requests) {
  TestServer server;
  HttpClient client(server.address());
  const auto before = std::chrono::steady_clock::now();
  client.send("GET http://other:9/later?a=1&A=2 HTTP/1.1\r\nHost: a\r\nX-Y:  z w \r\n\r\n");
  const std::shared_ptr<HttpExchange> exchange = server.handler.next();
  ASSERT_NE(exchange, nullptr);
  const HttpRequest& request = exchange->request();
  EXPECT_EQ(request.header("x-y"), "z w");
  EXPECT_EQ(request.header("HOST"), "other:9");
  EXPECT_EQ(request.header("none"), std::nullopt);
  EXPECT_EQ(request.query_value("A"), "2");
  EXPECT_EQ(request.query_value("b"), std::nullopt);
  EXPECT_TRUE(request.peer.starts_with("127.0.0.1:")) << request.peer;
  EXPECT_GE(request.arrival, before);
  EXPECT_LE(request.arrival, std::chrono::steady_clock::now());
  // A value of the client comes back on one line.
  HttpResponse response = TestHandler::text(200, "ok");
  response.headers = {{"x-request-id", "a\r\nSet-Cookie: b\x01"}};
  exchange->respond(response);
  exchange->respond(TestHandler::text(500, "a second answer"));
  EXPECT_TRUE(client.reply().has("x-request-id: a  Set-Cookie: b \r\n"));
  // A field behind a body is no header: what checks headers has run before.
  client.send(
      "POST /later HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
      "1\r\nx\r\n0\r\nX-Late: 1\r\n\r\n");
  const std::shared_ptr<HttpExchange> late = server.handler.next();
  ASSERT_NE(late, nullptr);
  EXPECT_EQ(late->request().headers.size(), 2u);
  EXPECT_EQ(late->request().header("x-late"), std::nullopt);
  late->respond(TestHandler::text(200, "ok"));
  EXPECT_EQ(client.reply().status, 200);
}

TEST(Http, HandlersThatFail) {
  TestServer server;
  HttpClient client(server.address());
  EXPECT_EQ(client.ask("GET /drop HTTP/1.1\r\nHost: a\r\n\r\n").body,
            "the request was not answered");
  EXPECT_EQ(client.ask(kGet).status, 200);
  client.send("GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
  server.handler.next();  // dropped by the thread of the test
  EXPECT_EQ(client.reply().status, 500);
  const Reply thrown = client.ask("GET /throw HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(thrown.status, 500);
  EXPECT_TRUE(thrown.has("Connection: close\r\n"));
  EXPECT_TRUE(client.ends());
  HttpClient other(server.address());
  EXPECT_EQ(other.ask(kGet).status, 200);
}

TEST(Http, SlowHeaders) {
  HttpOptions options = test_options();
  options.header_timeout = milliseconds(200);
  TestServer server(options);
  HttpClient silent(server.address());
  const double milliseconds_silent = milliseconds_of([&] { EXPECT_TRUE(silent.ends()); });
  EXPECT_EQ(silent.received(), "");
  EXPECT_GE(milliseconds_silent, 150);
  // Each byte comes in time, but the time is that of the whole header.
  HttpClient client(server.address());
  std::thread drip([&] {
    for (int i = 0; i < 100 && client.send("G"); ++i) std::this_thread::sleep_for(milliseconds(10));
  });
  Reply reply;
  const double passed = milliseconds_of([&] { reply = client.reply(); });
  drip.join();
  EXPECT_EQ(reply.status, 408);
  EXPECT_EQ(reply.body, "the header took too long");
  EXPECT_GE(passed, 150);
  EXPECT_LE(passed, 800);
}

TEST(Http, SlowBodies) {
  HttpOptions options = test_options();
  options.body_timeout = milliseconds(200);
  options.linger_timeout = milliseconds(300);
  TestServer server(options);
  HttpClient client(server.address());
  client.send("POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
  std::thread drip([&] {
    for (int i = 0; i < 50 && client.send("x"); ++i) std::this_thread::sleep_for(milliseconds(10));
  });
  Reply reply;
  const double passed = milliseconds_of([&] { reply = client.reply(); });
  EXPECT_EQ(reply.status, 408);
  EXPECT_GE(passed, 150);
  EXPECT_LE(passed, 800);
  drip.join();
}

TEST(Http, IdleConnections) {
  HttpOptions options = test_options();
  options.header_timeout = milliseconds(5'000);
  options.idle_timeout = milliseconds(200);
  TestServer server(options);
  HttpClient client(server.address());
  EXPECT_EQ(client.ask(kGet).status, 200);
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(client.ask(kGet).status, 200);
  const double passed = milliseconds_of([&] { EXPECT_TRUE(client.ends()); });
  EXPECT_EQ(client.received(), "");
  EXPECT_GE(passed, 150);
  EXPECT_LE(passed, 800);
  EXPECT_TRUE(soon([&] { return server.server.connections() == 0; }));
}

}  // namespace longformer::server::http_test
