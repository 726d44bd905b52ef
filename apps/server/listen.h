// Sockets that listen, by the calls of the system, whose error codes make exact messages.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "http.h"

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

struct Listener {
  Descriptor socket;
  bool is_ipv6;
  /// "127.0.0.1:8080", "[::1]:8080".
  std::string address;
};

/// The sockets that systemd passes, else one for each address of the hostname. At least one; throws
/// Error.
std::vector<Listener> open_listeners(const HttpOptions& options);

/// Raises the limit of open descriptors as far as the system allows without more rights.
void raise_descriptor_limit();

}  // namespace longformer::server
