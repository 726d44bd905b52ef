#include "listen.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "longformer/error.h"

namespace longformer::server {

namespace {

/// Connections that wait to be accepted; the system caps it (net.core.somaxconn).
constexpr int kBacklog = 1024;

constexpr int kFirstPassed = 3;

[[noreturn]] void fail(std::string subject, std::string reason, std::string option) {
  throw Error(ErrorParts{
      .subject = std::move(subject), .reason = std::move(reason), .option = std::move(option)});
}

[[noreturn]] void fail_to_listen(const std::string& where, int port, int code) {
  if (code == EADDRINUSE) fail(where, "expected a free port, found that it is in use", "port");
  if (code == EACCES && port < 1024) {
    fail(where, "ports below 1024 need more rights: " + words_of(code), "port");
  }
  if (code == EADDRNOTAVAIL) {
    fail(where, "expected an address of this machine: " + words_of(code), "hostname");
  }
  fail(where, "cannot listen: " + words_of(code), "hostname");
}

/// The address that a socket is bound to, or nothing when it is not one of IP.
std::optional<Listener> as_listener(Descriptor socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  const auto address = reinterpret_cast<sockaddr*>(&storage);
  if (getsockname(socket.number(), address, &size) != 0) return std::nullopt;
  if (address->sa_family != AF_INET && address->sa_family != AF_INET6) return std::nullopt;
  return Listener{std::move(socket), address->sa_family == AF_INET6, name_of(address, size)};
}

int number_in_environment(const char* name) {
  const char* value = std::getenv(name);
  int number = 0;
  if (value == nullptr) return number;
  const std::string_view text = value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

/// The protocol of sd_listen_fds(3): descriptors from 3 on, meant for the process LISTEN_PID.
std::vector<Listener> passed_listeners() {
  std::vector<Listener> listeners;
  if (number_in_environment("LISTEN_PID") != getpid()) return listeners;
  const int count = number_in_environment("LISTEN_FDS");
  for (int number = kFirstPassed; number < kFirstPassed + count; ++number) {
    int accepts = 0;
    socklen_t size = sizeof accepts;
    if (getsockopt(number, SOL_SOCKET, SO_ACCEPTCONN, &accepts, &size) != 0 || accepts == 0) {
      throw Error("LISTEN_FDS: expected that descriptor " + std::to_string(number) +
                  " is a listening socket, found something else");
    }
    fcntl(number, F_SETFD, FD_CLOEXEC);
    std::optional<Listener> listener = as_listener(Descriptor(number));
    if (!listener) {
      throw Error("LISTEN_FDS: expected that descriptor " + std::to_string(number) +
                  " is a socket of TCP, found another kind");
    }
    listeners.push_back(std::move(*listener));
  }
  return listeners;
}

struct Attempt {
  std::optional<Listener> listener;
  int code = 0;
};

/// A socket that listens on one address, on `port` where that is not 0.
Attempt listen_on(const addrinfo& address, int port, bool is_alone, bool reuse_port) {
  Descriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (socket.number() < 0) return {std::nullopt, errno};
  const int on = 1;
  setsockopt(socket.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (reuse_port) setsockopt(socket.number(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  sockaddr_storage storage{};
  const auto name = reinterpret_cast<sockaddr*>(&storage);
  std::copy_n(reinterpret_cast<const char*>(address.ai_addr), address.ai_addrlen,
              reinterpret_cast<char*>(&storage));
  if (address.ai_family == AF_INET6) {
    // "::" alone takes IPv4 as well; beside 0.0.0.0 the two would claim the same port.
    const int only = is_alone ? 0 : 1;
    setsockopt(socket.number(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
    if (port != 0) reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
  } else if (port != 0) {
    reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
  }
  if (bind(socket.number(), name, address.ai_addrlen) != 0) return {std::nullopt, errno};
  if (listen(socket.number(), kBacklog) != 0) return {std::nullopt, errno};
  Attempt attempt;
  attempt.listener = as_listener(std::move(socket));
  return attempt;
}

int port_of(const Listener& listener) {
  return std::atoi(listener.address.c_str() + listener.address.rfind(':') + 1);
}

}  // namespace

std::vector<Listener> open_listeners(const HttpOptions& options) {
  std::vector<Listener> listeners = passed_listeners();
  if (!listeners.empty()) return listeners;
  if (options.port < 0 || options.port > 65535) {
    fail("port", "expected 0 to 65535, found " + std::to_string(options.port), "port");
  }
  const Addresses addresses = addresses_of(options.hostname, options.port, Purpose::listen);
  const bool is_alone = addresses->ai_next == nullptr;
  int port = options.port, code = 0;
  for (const addrinfo* i = addresses.get(); i != nullptr; i = i->ai_next) {
    Attempt attempt = listen_on(*i, port, is_alone, options.reuse_port);
    if (!attempt.listener) {
      code = attempt.code;
      // A name may have an address of IPv6 on a machine without it.
      if (code == EADDRNOTAVAIL || code == EAFNOSUPPORT) continue;
      fail_to_listen(name_of(i->ai_addr, i->ai_addrlen), port, code);
    }
    // Further addresses of the name listen on the port that the first one got.
    if (port == 0) port = port_of(*attempt.listener);
    listeners.push_back(std::move(*attempt.listener));
  }
  if (listeners.empty()) {
    fail_to_listen(options.hostname + ":" + std::to_string(options.port), port, code);
  }
  return listeners;
}

void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace longformer::server
