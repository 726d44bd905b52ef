#include "health.h"

#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string_view>

#include "longformer/error.h"
#include "sockets.h"

namespace longformer::server {
namespace {

using HealthClock = std::chrono::steady_clock;

/// A server without a key answers those who name this machine.
constexpr std::string_view kQuestion =
    "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
constexpr std::size_t kLongestStatusLine = 1024;

[[noreturn]] void refuse(const std::string& where, const std::string& expected) {
  throw Error(ErrorParts{.subject = where, .reason = expected});
}

[[noreturn]] void refuse_call(const std::string& where, int code) {
  if (code == EAGAIN || code == EWOULDBLOCK || code == EINPROGRESS || code == ETIMEDOUT) {
    refuse(where, "expected an answer of a server in time, found none");
  }
  refuse(where, "expected a server that takes requests, found none: " + words_of(code));
}

/// Calls of the system on a socket last no longer than what is left until the end.
void limit_calls(const Descriptor& socket, HealthClock::time_point end, const std::string& where) {
  using std::chrono::microseconds;
  const auto left = std::chrono::duration_cast<microseconds>(end - HealthClock::now()).count();
  if (left <= 0) refuse_call(where, ETIMEDOUT);
  const timeval limit{.tv_sec = left / 1'000'000, .tv_usec = left % 1'000'000};
  setsockopt(socket.number(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  setsockopt(socket.number(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

/// The first line of the answer.
std::string status_line(const Descriptor& socket, HealthClock::time_point end,
                        const std::string& where) {
  limit_calls(socket, end, where);
  const ssize_t sent = send(socket.number(), kQuestion.data(), kQuestion.size(), MSG_NOSIGNAL);
  if (sent < 0) refuse_call(where, errno);
  std::string answer;
  std::array<char, 512> bytes{};
  while (answer.find("\r\n") == std::string::npos && answer.size() < kLongestStatusLine) {
    limit_calls(socket, end, where);
    const ssize_t count = recv(socket.number(), bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse_call(where, errno);
    if (count == 0) break;
    answer.append(bytes.data(), static_cast<std::size_t>(count));
  }
  return answer.substr(0, answer.find("\r\n"));
}

/// "200" of "HTTP/1.1 200 OK".
std::optional<std::string> status_of(std::string_view line) {
  constexpr std::string_view kBegin = "HTTP/1.1 ";
  constexpr std::size_t kDigits = 3;
  if (!line.starts_with(kBegin) || line.size() < kBegin.size() + kDigits) return std::nullopt;
  return std::string(line.substr(kBegin.size(), kDigits));
}

}  // namespace

std::string ask_health(const std::string& hostname, int port, std::chrono::milliseconds limit) {
  if (port < 1 || port > 65535) {
    throw Error(ErrorParts{
        .subject = "port",
        .reason = "expected the port of a server, 1 to 65535, found " + std::to_string(port),
        .option = "port"});
  }
  const HealthClock::time_point end = HealthClock::now() + limit;
  const Addresses addresses = addresses_of(hostname, port, Purpose::connect);
  int code = ECONNREFUSED;
  std::string where;
  for (const addrinfo* i = addresses.get(); i != nullptr; i = i->ai_next) {
    where = name_of(i->ai_addr, i->ai_addrlen);
    const Descriptor socket(::socket(i->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket.number() >= 0) limit_calls(socket, end, where);
    if (socket.number() < 0 || connect(socket.number(), i->ai_addr, i->ai_addrlen) != 0) {
      code = errno;
      continue;
    }
    const std::optional<std::string> status = status_of(status_line(socket, end, where));
    if (!status) refuse(where, "expected the answer of an HTTP server, found something else");
    if (*status != "200")
      refuse(where, "expected a server that takes requests, found status " + *status);
    return where;
  }
  refuse_call(where, code);
}

}  // namespace longformer::server
