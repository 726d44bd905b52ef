// Descriptors and addresses of sockets, for those that listen and those that connect.
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>

namespace longformer::server {

/// A descriptor that closes with it.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();

  int number() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

enum class Purpose { listen, connect };

/// The addresses of a hostname, at least one. Throws Error about the option hostname.
Addresses addresses_of(const std::string& hostname, int port, Purpose purpose);

/// "127.0.0.1:8080", "[::1]:8080".
std::string name_of(const sockaddr* address, socklen_t size);

/// A code of the system in words.
std::string words_of(int code);

}  // namespace longformer::server
