// Connections: coroutines of Asio on one thread.
//
// Each connection is a coroutine that waits in pause() for a change: bytes that came, bytes that
// left, an answer, or a deadline. Callbacks record the change and call notify(). All of it runs on
// the thread of run(), so a condition that was checked before pause() cannot change unseen.
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>
#include <unordered_set>

#include "http.h"
#include "http_exchange.h"
#include "http_reader.h"
#include "http_text.h"
#include "listen.h"

namespace longformer::server {

namespace {

namespace net = boost::asio;
using net::ip::tcp;
using ErrorCode = boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kReadBytes = 64 << 10;
/// Connections beyond most_connections that are told so at the same time.
constexpr std::int64_t kMostTurnedAway = 64;
/// Buffers of one system call.
constexpr std::size_t kMostBuffers = 16;
constexpr std::chrono::milliseconds kAcceptPause{100};
/// A stopping server waits so long for the request of a client that has connected already.
constexpr std::chrono::milliseconds kFirstRequest{1'000};

constexpr std::string_view kOverloaded = "Model is overloaded";

/// A BadRequest without an answer: the client is gone, or no longer worth one.
constexpr int kClosed = -1;

class Loop;

/// The gate to the context of the sockets.
class ContextGate final : public Gate {
 public:
  explicit ContextGate(net::io_context& context) : context_(context) {}

 private:
  void pass(std::function<void()> call) override { net::post(context_, std::move(call)); }

  net::io_context& context_;
};

class Connection final : public Answering, public std::enable_shared_from_this<Connection> {
 public:
  Connection(Loop& loop, tcp::socket socket);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  net::awaitable<void> serve();
  net::awaitable<void> turn_away();

  void notify() override { changed_.cancel(); }

  void respond(Job& job, HttpResponse response) override;
  void begin_stream(Job& job, HttpResponse head) override;
  void write(Job& job, std::string chunk) override;
  void end_stream(Job& job) override;
  void fail(Job& job) override;
  void cut_off(Job& job) override;

 private:
  struct Piece {
    std::string bytes;
    /// Bytes of it that Job::unsent counts.
    std::size_t counted = 0;
  };

  net::awaitable<void> pause(Clock::time_point until);
  net::awaitable<bool> exchange();
  net::awaitable<BadRequest> read_head(RequestReader& reader);
  net::awaitable<BadRequest> read_body(RequestReader& reader, HeldBytes& bytes);
  net::awaitable<bool> answer(HttpRequest request, HeldBytes bytes);
  net::awaitable<bool> finish(bool keeps);
  net::awaitable<void> linger();

  std::optional<HttpResponse> refusal(RequestReader& reader, HeldBytes& bytes);
  HttpResponse failure(int status, std::string_view reason);
  void hand_over(const std::shared_ptr<Job>& job);
  bool is_present(const Job& job) const { return job_.get() == &job && !job.is_answered; }
  bool is_lost(const Job& job);
  void leave(Job& job);
  bool may_stay_idle(Clock::time_point& deadline);
  void await_input();
  void take_input(ErrorCode error);
  void send(std::string bytes, std::size_t counted = 0);
  void send_response(HttpResponse response);
  void write_some();
  void written(const ErrorCode& error, std::size_t size);
  int unconfirmed();
  void note_progress();
  bool is_stalled();
  Clock::time_point write_deadline() const;
  void close();

  Loop& loop_;
  tcp::socket socket_;
  net::steady_timer changed_;
  std::string peer_, input_;
  std::deque<Piece> output_;
  /// Bytes of the first piece that the system has taken.
  std::size_t sent_ = 0;
  Clock::time_point last_progress_;
  /// Bytes that the client had not confirmed at that time.
  int unconfirmed_ = 0;
  std::shared_ptr<Job> job_;
  std::size_t requests_ = 0;
  bool awaits_input_ = false, is_writing_ = false;
  /// The client sends no more; nothing can be sent to it.
  bool is_ended_ = false, is_broken_ = false;
  /// About the present request.
  bool is_http10_ = false, is_head_ = false, keeps_ = false;
};

/// Acceptors, connections, and the thread's context.
class Loop {
 public:
  Loop(HttpOptions options, HttpHandler& handler);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void run();
  /// On the thread of the sockets, as all that follows.
  void stop(std::chrono::milliseconds grace);
  void enter(Connection* connection);
  void left(Connection* connection);

  const HttpOptions options;
  HttpHandler& handler;
  std::string address;
  std::atomic<std::int64_t> count = 0;
  /// Bytes of bodies; requests may outlive the loop.
  const std::shared_ptr<std::atomic<std::size_t>> held =
      std::make_shared<std::atomic<std::size_t>>(0);
  bool is_stopping = false, is_over = false;
  Clock::time_point stop_time;
  /// One thread reads, so all connections read into the same bytes, and idle ones have no buffer.
  std::vector<char> bytes = std::vector<char>(kReadBytes);

 private:
  net::awaitable<void> accept_from(tcp::acceptor& acceptor);
  void admit(tcp::socket socket);
  void end_now();
  void settle();

  std::unordered_set<Connection*> connections_;
  std::size_t listening_ = 0;
  Clock::time_point end_ = Clock::time_point::max();

 public:
  // Members above are destroyed after the context, whose destructor ends waiting coroutines.
  net::io_context context;
  const std::shared_ptr<ContextGate> gate = std::make_shared<ContextGate>(context);

 private:
  std::vector<tcp::acceptor> acceptors_;
  net::steady_timer grace_{context};
};

Connection::Connection(Loop& loop, tcp::socket socket)
    : loop_(loop), socket_(std::move(socket)), changed_(loop.context) {
  ErrorCode error;
  const tcp::endpoint peer = socket_.remote_endpoint(error);
  const std::string host = error ? "" : peer.address().to_string();
  peer_ = (peer.address().is_v6() ? "[" + host + "]" : host) + ":" + std::to_string(peer.port());
  loop_.enter(this);
}

Connection::~Connection() { close(); }

void Connection::close() {
  if (!socket_.is_open()) return;
  ErrorCode error;
  socket_.close(error);
  loop_.left(this);
}

net::awaitable<void> Connection::serve() {
  try {
    bool keeps = true;
    while (keeps) keeps = co_await exchange();
  } catch (const std::exception&) {
    // No memory: this connection ends, the others go on.
  }
  if (job_ != nullptr) leave(*job_);
  close();
}

net::awaitable<void> Connection::turn_away() {
  send_response(failure(503, "too many connections"));
  co_await finish(false);
  close();
}

/// Returns after notify(), or at the deadline.
net::awaitable<void> Connection::pause(Clock::time_point until) {
  ErrorCode cancelled;
  changed_.expires_at(until);
  co_await changed_.async_wait(net::redirect_error(net::use_awaitable, cancelled));
}

/// One request and its answer; false when the connection is to close.
net::awaitable<bool> Connection::exchange() {
  is_http10_ = is_head_ = keeps_ = false;
  RequestReader reader(loop_.options);
  reader.request().peer = peer_;
  const BadRequest head = co_await read_head(reader);
  if (head.status == kClosed) co_return false;
  is_http10_ = reader.is_http10();
  is_head_ = reader.request().method == "HEAD";
  if (head.status != 0) {
    send_response(failure(head.status, head.reason));
    co_return co_await finish(false);
  }
  ++requests_;
  keeps_ = reader.keeps_connection();
  HeldBytes bytes(loop_.held);
  std::optional<HttpResponse> refused = refusal(reader, bytes);
  if (refused) {
    keeps_ = keeps_ && reader.is_whole();
    send_response(std::move(*refused));
    co_return co_await finish(keeps_);
  }
  if (!reader.is_whole()) {
    if (reader.wants_continue() && input_.empty()) send("HTTP/1.1 100 Continue\r\n\r\n");
    const BadRequest body = co_await read_body(reader, bytes);
    if (body.status == kClosed) co_return false;
    if (body.status != 0) {
      keeps_ = false;
      send_response(failure(body.status, body.reason));
      co_return co_await finish(false);
    }
  }
  co_return co_await answer(std::move(reader.request()), std::move(bytes));
}

net::awaitable<BadRequest> Connection::read_head(RequestReader& reader) {
  const HttpOptions& options = loop_.options;
  if (input_.empty()) input_ = std::string();  // gives the memory of a large body back
  bool has_begun = false;
  // The time for a first request begins with the connection: a silent client gains nothing.
  Clock::time_point deadline =
      Clock::now() + (requests_ == 0 ? options.header_timeout : options.idle_timeout);
  while (true) {
    if (!input_.empty()) {
      if (!has_begun && requests_ > 0) deadline = Clock::now() + options.header_timeout;
      has_begun = true;
      const BadRequest failure = reader.read_head(input_);
      if (failure.status != 0 || reader.has_head()) co_return failure;
    }
    if (is_ended_ || is_broken_ || loop_.is_over) co_return BadRequest{kClosed, ""};
    if (!has_begun && !may_stay_idle(deadline)) co_return BadRequest{kClosed, ""};
    if (Clock::now() >= deadline) {
      co_return BadRequest{has_begun ? 408 : kClosed, "the header took too long"};
    }
    await_input();
    co_await pause(deadline);
  }
}

/// A stopping server closes idle connections, but for those whose request may lie in the system.
bool Connection::may_stay_idle(Clock::time_point& deadline) {
  if (!loop_.is_stopping) return true;
  ErrorCode error;
  if (socket_.available(error) > 0) return true;
  if (requests_ > 0) return false;
  deadline = std::min(deadline, loop_.stop_time + kFirstRequest);
  return true;
}

net::awaitable<BadRequest> Connection::read_body(RequestReader& reader, HeldBytes& bytes) {
  const Clock::time_point deadline = Clock::now() + loop_.options.body_timeout;
  while (true) {
    const BadRequest failure = reader.read_body(input_);
    // Bytes count as they come: an announced length costs its sender nothing.
    if (!bytes.grow_to(reader.request().body.size(), loop_.options.most_held_bytes)) {
      co_return BadRequest{429, kOverloaded};
    }
    if (failure.status != 0 || reader.is_whole()) co_return failure;
    if (is_ended_ || is_broken_ || loop_.is_over) co_return BadRequest{kClosed, ""};
    if (Clock::now() >= deadline) co_return BadRequest{408, "the body took too long"};
    await_input();
    co_await pause(deadline);
  }
}

HttpResponse Connection::failure(int status, std::string_view reason) {
  HttpResponse response;
  try {
    response = loop_.handler.failure(status, reason);
  } catch (const std::exception&) {
    response.status = status;
  }
  return response;
}

std::optional<HttpResponse> Connection::refusal(RequestReader& reader, HeldBytes& bytes) {
  std::optional<HttpResponse> response;
  try {
    response = loop_.handler.refuse(reader.request());
  } catch (const std::exception&) {
    response = failure(500, "the request failed");
    response->closes = true;
  }
  const std::optional<std::uint64_t> length = reader.content_length();
  if (!response && length && *length > loop_.options.most_body_bytes) {
    response = failure(413, "the body is too large");
  } else if (!response) {
    const std::size_t most = loop_.options.most_held_bytes;
    const bool fits = (!length || bytes.has_room(*length, most)) &&
                      bytes.grow_to(reader.request().body.size(), most);
    if (!fits) response = failure(429, kOverloaded);
  }
  return response;
}

void Connection::hand_over(const std::shared_ptr<Job>& job) {
  const auto exchange = std::make_shared<Exchange>(loop_.gate, weak_from_this(), job,
                                                   loop_.options.most_unsent_bytes);
  try {
    loop_.handler.handle(exchange);
  } catch (const std::exception&) {
    HttpResponse response = failure(500, "the request failed");
    response.closes = true;
    exchange->respond(std::move(response));
  }
}

/// Meanwhile the socket is read, since only a read tells that the client is gone.
net::awaitable<bool> Connection::answer(HttpRequest request, HeldBytes bytes) {
  const auto job = std::make_shared<Job>(std::move(request), std::move(bytes));
  job_ = job;
  hand_over(job);
  while (!job->is_answered && !is_lost(*job)) {
    await_input();
    co_await pause(write_deadline());
  }
  job_.reset();
  if (!job->is_answered) {
    leave(*job);
    co_return false;
  }
  job->when_gone.clear();
  co_return co_await finish(keeps_);
}

bool Connection::is_lost(const Job& job) {
  return is_ended_ || is_broken_ || job.is_gone || loop_.is_over || is_stalled();
}

void Connection::leave(Job& job) {
  job.is_gone = true;
  const std::vector<std::function<void()>> calls = std::exchange(job.when_gone, {});
  for (const std::function<void()>& call : calls) {
    try {
      call();
    } catch (const std::exception&) {
      // The client is gone, and the other calls are due.
    }
  }
}

/// Waits until everything is sent; ends the connection unless it goes on.
net::awaitable<bool> Connection::finish(bool keeps) {
  while (!output_.empty() && !is_broken_ && !is_stalled() && !loop_.is_over) {
    co_await pause(write_deadline());
  }
  if (!output_.empty() || is_broken_) co_return false;
  if (!keeps) co_await linger();
  co_return keeps;
}

net::awaitable<void> Connection::linger() {
  ErrorCode error;
  socket_.shutdown(tcp::socket::shutdown_send, error);
  const Clock::time_point deadline = Clock::now() + loop_.options.linger_timeout;
  while (!is_ended_ && !loop_.is_over && Clock::now() < deadline) {
    input_.clear();
    await_input();
    co_await pause(deadline);
  }
}

/// Calls notify() when bytes have come or the client is gone.
void Connection::await_input() {
  // A client that sends this much ahead of its turn waits, and is not seen leaving meanwhile.
  const std::size_t most = std::max(kReadBytes, loop_.options.most_header_bytes + 1);
  if (awaits_input_ || is_ended_ || input_.size() >= most) return;
  awaits_input_ = true;
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](const ErrorCode& error) {
    self->take_input(error);
  });
}

void Connection::take_input(ErrorCode error) {
  awaits_input_ = false;
  if (!error) {
    const std::size_t size = socket_.read_some(net::buffer(loop_.bytes), error);
    if (!error) input_.append(loop_.bytes.data(), size);
  }
  if (error && error != net::error::would_block && error != net::error::interrupted) {
    is_ended_ = true;
  }
  notify();
}

void Connection::send(std::string bytes, std::size_t counted) {
  if (is_broken_) return;
  if (output_.empty()) note_progress();
  output_.push_back({std::move(bytes), counted});
  write_some();
}

void Connection::send_response(HttpResponse response) {
  keeps_ = keeps_ && !response.closes && !loop_.is_stopping;
  std::string text = head_text(response, {response.body.size(), is_http10_, keeps_});
  const bool has_body = !is_head_ && response.status != 204 && response.status != 304;
  constexpr std::size_t kSmall = 16 << 10;
  if (has_body && response.body.size() <= kSmall) {
    send(text.append(response.body));
  } else {
    send(std::move(text));
    if (has_body) send(std::move(response.body));
  }
}

void Connection::write_some() {
  if (is_writing_ || output_.empty()) return;
  is_writing_ = true;
  std::vector<net::const_buffer> buffers;
  for (const Piece& piece : output_) {
    buffers.push_back(net::buffer(piece.bytes));
    if (buffers.size() == kMostBuffers) break;
  }
  buffers.front() += sent_;
  socket_.async_write_some(buffers,
                           [self = shared_from_this()](const ErrorCode& error, std::size_t size) {
                             self->written(error, size);
                           });
}

void Connection::written(const ErrorCode& error, std::size_t size) {
  is_writing_ = false;
  if (error) {
    is_broken_ = true;
    output_.clear();
  } else {
    note_progress();
    sent_ += size;
    while (!output_.empty() && sent_ >= output_.front().bytes.size()) {
      sent_ -= output_.front().bytes.size();
      if (job_ != nullptr) job_->unsent -= output_.front().counted;
      output_.pop_front();
    }
    write_some();
  }
  notify();
}

Clock::time_point Connection::write_deadline() const {
  return output_.empty() ? Clock::time_point::max() : last_progress_ + loop_.options.write_timeout;
}

int Connection::unconfirmed() {
  int size = 0;
  return ioctl(socket_.native_handle(), SIOCOUTQ, &size) == 0 ? size : 0;
}

void Connection::note_progress() {
  last_progress_ = Clock::now();
  unconfirmed_ = unconfirmed();
}

/// A full buffer of the system, of up to 4 MB, takes more only when a third of it is free. A slow
/// client reads for a minute until then, so the bytes that it confirms count as well.
bool Connection::is_stalled() {
  if (Clock::now() < write_deadline()) return false;
  if (unconfirmed() >= unconfirmed_) return true;
  note_progress();
  return false;
}

void Connection::respond(Job& job, HttpResponse response) {
  if (!is_present(job)) return;
  job.is_answered = true;
  send_response(std::move(response));
  notify();
}

void Connection::begin_stream(Job& job, HttpResponse head) {
  if (!is_present(job)) return;
  keeps_ = keeps_ && !head.closes && !loop_.is_stopping && !is_http10_;
  send(head_text(head, {std::nullopt, is_http10_, keeps_}));
  job.unsent += head.body.size();
  write(job, std::move(head.body));
}

void Connection::write(Job& job, std::string chunk) {
  if (!is_present(job) || chunk.empty()) return;
  const std::size_t size = chunk.size();
  if (is_head_ || is_broken_) {
    job.unsent -= size;
  } else {
    send(is_http10_ ? std::move(chunk) : chunk_text(chunk), size);
  }
}

void Connection::end_stream(Job& job) {
  if (!is_present(job)) return;
  job.is_answered = true;
  if (!is_http10_ && !is_head_) send("0\r\n\r\n");
  notify();
}

void Connection::fail(Job& job) {
  if (is_present(job)) respond(job, failure(500, "the request was not answered"));
}

/// A client tells a stream that failed from a whole one by the missing end.
void Connection::cut_off(Job& job) {
  if (!is_present(job)) return;
  is_broken_ = true;
  notify();
}

Loop::Loop(HttpOptions given, HttpHandler& whose) : options(std::move(given)), handler(whose) {
  raise_descriptor_limit();
  for (Listener& listener : open_listeners(options)) {
    if (address.empty()) address = listener.address;
    acceptors_.emplace_back(context);
    acceptors_.back().assign(listener.is_ipv6 ? tcp::v6() : tcp::v4(), listener.socket.release());
    acceptors_.back().non_blocking(true);
  }
}

Loop::~Loop() {
  gate->close();
  // Connections that are still there leave when the timer no longer exists.
  is_stopping = false;
}

void Loop::run() {
  listening_ = acceptors_.size();
  for (tcp::acceptor& acceptor : acceptors_) {
    net::co_spawn(context, accept_from(acceptor), net::detached);
  }
  context.run();
  gate->close();
}

net::awaitable<void> Loop::accept_from(tcp::acceptor& acceptor) {
  while (!is_stopping) {
    ErrorCode error;
    tcp::socket socket(context);
    co_await acceptor.async_accept(socket, net::redirect_error(net::use_awaitable, error));
    if (!error) {
      admit(std::move(socket));
    } else if (error != net::error::operation_aborted) {
      // Without descriptors or memory the same error would come again at once.
      net::steady_timer timer(context, kAcceptPause);
      co_await timer.async_wait(net::redirect_error(net::use_awaitable, error));
    }
  }
  // A connection that the system holds for a listener that closes is reset.
  ErrorCode error;
  while (!is_over && !error) {
    tcp::socket socket(context);
    acceptor.accept(socket, error);
    if (!error) admit(std::move(socket));
  }
  acceptor.close(error);
  --listening_;
  settle();
}

/// One connection too many gets an answer rather than none: a client or a balancer can go elsewhere
/// at once, while an unaccepted connection looks like a server that hangs.
void Loop::admit(tcp::socket socket) {
  const auto most = static_cast<std::int64_t>(options.most_connections);
  if (count >= most + kMostTurnedAway) return;
  ErrorCode error;
  socket.non_blocking(true, error);
  socket.set_option(tcp::no_delay(true), error);
  const bool is_one_too_many = count >= most;
  const auto connection = std::make_shared<Connection>(*this, std::move(socket));
  const auto serve = [connection, is_one_too_many] {
    return is_one_too_many ? connection->turn_away() : connection->serve();
  };
  net::co_spawn(context, serve, net::detached);
}

void Loop::enter(Connection* connection) {
  connections_.insert(connection);
  ++count;
}

void Loop::left(Connection* connection) {
  connections_.erase(connection);
  --count;
  settle();
}

void Loop::stop(std::chrono::milliseconds grace) {
  const Clock::time_point now = Clock::now();
  if (!is_stopping) {
    is_stopping = true;
    stop_time = now;
    for (tcp::acceptor& acceptor : acceptors_) {
      ErrorCode error;
      acceptor.cancel(error);
    }
  }
  for (Connection* connection : connections_) connection->notify();
  const Clock::time_point end = now + grace;
  if (end < end_) {
    end_ = end;
    grace_.expires_at(end);
    grace_.async_wait([this](const ErrorCode& error) {
      if (!error) end_now();
    });
  }
  settle();
}

void Loop::end_now() {
  is_over = true;
  for (Connection* connection : connections_) connection->notify();
}

/// The last one to leave stops the timer, so that run() ends.
void Loop::settle() {
  if (is_stopping && listening_ == 0 && connections_.empty()) grace_.cancel();
}

}  // namespace

struct HttpServer::Implementation {
  Implementation(HttpOptions options, HttpHandler& handler) : loop(std::move(options), handler) {}
  Loop loop;
};

HttpServer::HttpServer(HttpOptions options, HttpHandler& handler)
    : implementation_(std::make_unique<Implementation>(std::move(options), handler)) {}

HttpServer::~HttpServer() = default;

const std::string& HttpServer::address() const { return implementation_->loop.address; }

void HttpServer::run() { implementation_->loop.run(); }

void HttpServer::stop(std::chrono::milliseconds grace) {
  Loop& loop = implementation_->loop;
  loop.gate->post([&loop, grace] { loop.stop(grace); });
}

std::int64_t HttpServer::connections() const { return implementation_->loop.count; }

}  // namespace longformer::server
