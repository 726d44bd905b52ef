// Sockets that listen, by the calls of the system, whose error codes make exact messages.
#pragma once

#include <string>
#include <vector>

#include "http.h"
#include "sockets.h"

namespace longformer::server {

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
