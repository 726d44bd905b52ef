// A client of HTTP on plain sockets, which sends any bytes and reads exact ones.
#pragma once

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace longformer {

struct Reply {
  /// 0: the connection ended, or nothing came in time.
  int status = 0;
  std::string head, body;
  /// Whether the body has the length or the end that its headers promise.
  bool is_whole = false;

  bool has(std::string_view text) const { return head.find(text) != std::string::npos; }
};

class HttpClient {
 public:
  /// Connects to "127.0.0.1:80" or "[::1]:80".
  explicit HttpClient(const std::string& address, int receive_buffer = 0) {
    const std::size_t colon = address.rfind(':');
    std::string host = address.substr(0, colon);
    if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICHOST;
    addrinfo* found = nullptr;
    if (getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found) != 0) {
      throw std::runtime_error("no address: " + address);
    }
    socket_ = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_buffer != 0) {
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    const int status = connect(socket_, found->ai_addr, found->ai_addrlen);
    const int code = errno;
    freeaddrinfo(found);
    if (status != 0) {
      ::close(socket_);
      throw std::runtime_error("cannot connect to " + address + ": " + std::to_string(code));
    }
  }
  HttpClient(HttpClient&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), received_(std::move(other.received_)) {}
  HttpClient& operator=(HttpClient&&) = delete;
  ~HttpClient() { close(); }

  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  /// Closes so that the other side gets a reset.
  void reset() {
    const linger at_once{1, 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }
  void shut_down_sending() { shutdown(socket_, SHUT_WR); }

  /// False when the server has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  /// One response, whose body is read unless it answers HEAD.
  Reply reply(bool answers_head = false) {
    Reply reply;
    while (received_.find("\r\n\r\n") == std::string::npos) {
      if (!receive()) return reply;
    }
    const std::size_t end = received_.find("\r\n\r\n") + 4;
    reply.head = received_.substr(0, end);
    received_.erase(0, end);
    reply.status = std::atoi(reply.head.c_str() + 9);
    const std::size_t length = reply.head.find("Content-Length: ");
    if (answers_head || reply.status < 200 || reply.status == 204) {
      reply.is_whole = true;
    } else if (reply.has("Transfer-Encoding: chunked")) {
      reply.is_whole = take_chunks(reply.body);
    } else if (length != std::string::npos) {
      const auto size = static_cast<std::size_t>(std::atoll(reply.head.c_str() + length + 16));
      while (received_.size() < size && receive()) {
      }
      reply.body = received_.substr(0, size);
      received_.erase(0, reply.body.size());
      reply.is_whole = reply.body.size() == size;
    } else {
      reply.is_whole = ends();
      reply.body = std::exchange(received_, {});
    }
    return reply;
  }

  Reply ask(std::string_view request) {
    send(request);
    return reply(request.starts_with("HEAD"));
  }

  /// Reads what comes until the server closes; false when it did not, or by a reset.
  bool ends() {
    while (receive()) {
    }
    return has_ended_;
  }
  /// Reads some bytes; false at the end, after a reset and when none come in time.
  bool receive(std::size_t most = 64 << 10) {
    pollfd waiting{socket_, POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(patience.count())) != 1) return false;
    std::string bytes(most, '\0');
    const ssize_t size = recv(socket_, bytes.data(), bytes.size(), 0);
    has_ended_ = size == 0;
    if (size > 0) received_.append(bytes, 0, static_cast<std::size_t>(size));
    return size > 0;
  }
  const std::string& received() const { return received_; }
  int socket() const { return socket_; }

  std::chrono::milliseconds patience{8'000};

 private:
  bool take_chunks(std::string& body) {
    while (true) {
      while (received_.find("\r\n") == std::string::npos) {
        if (!receive()) return false;
      }
      const std::size_t size = std::strtoul(received_.c_str(), nullptr, 16);
      const std::size_t begin = received_.find("\r\n") + 2;
      while (received_.size() < begin + size + 2) {
        if (!receive()) return false;
      }
      if (received_.compare(begin + size, 2, "\r\n") != 0) return false;
      body.append(received_, begin, size);
      received_.erase(0, begin + size + 2);
      if (size == 0) return true;
    }
  }

  int socket_ = -1;
  std::string received_;
  bool has_ended_ = false;
};

}  // namespace longformer
