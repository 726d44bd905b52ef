#include "sockets.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "longformer/error.h"

namespace longformer::server {

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

Addresses addresses_of(const std::string& hostname, int port, Purpose purpose) {
  std::string host = hostname;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (purpose == Purpose::listen ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int status = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  Addresses addresses(found, &freeaddrinfo);
  if (status != 0) {
    const int code = errno;
    throw Error(ErrorParts{.subject = "hostname",
                           .reason = "cannot find the address of '" + hostname + "': " +
                                     (status == EAI_SYSTEM ? words_of(code) : gai_strerror(status)),
                           .option = "hostname"});
  }
  return addresses;
}

std::string name_of(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (getnameinfo(address, size, host.data(), host.size(), port.data(), port.size(),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "unknown";
  }
  const std::string name = host.data();
  return (address->sa_family == AF_INET6 ? "[" + name + "]" : name) + ":" + port.data();
}

std::string words_of(int code) { return std::generic_category().message(code); }

}  // namespace longformer::server
